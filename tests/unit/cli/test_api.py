"""`fleet api` as a process: how it ends."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from fleet.cli.commands import api
from fleet.kube.api import Api
from plugins.taint_toleration import TaintToleration
from tests.faults.hub_api import a_hub


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Of a process that somebody ends as soon as it says that it answers; its hub is in memory."""

    @asynccontextmanager
    async def connected() -> AsyncIterator[Api]:
        yield a_hub()

    async def connect(*_: Any, **__: Any) -> Any:
        return connected()

    monkeypatch.setattr(api, "connect", connect)
    monkeypatch.setattr(api, "_announce", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr("fleet.manager.logs.configure", lambda *_: None)
    with capture_logs() as said:
        yield said
    gc.unfreeze()


@pytest.mark.usefixtures("logged")
def test_F3_119_the_plugins_of_an_api_are_closed_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr(TaintToleration, "close", lambda plugin: closed.append(plugin.name()), raising=False)

    assert api.run_api(api.ApiOptions(address="127.0.0.1:0")) == api.FINE
    assert closed == ["TaintToleration"]


def test_F3_119_a_plugin_that_cannot_be_closed_is_logged_and_the_api_ends_as_it_would(
    logged: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(_: TaintToleration) -> None:
        raise OSError("the socket is gone")

    monkeypatch.setattr(TaintToleration, "close", close, raising=False)

    assert api.run_api(api.ApiOptions(address="127.0.0.1:0")) == api.FINE
    assert [one["event"] for one in logged if one["log_level"] == "error"] == ["plugins could not be closed"]
