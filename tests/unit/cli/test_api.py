"""`fleet api` as a process: how it ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from fastapi import FastAPI
from structlog.testing import capture_logs

from api.app import create_app
from fleet.cli.commands.serve import api
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
    monkeypatch.setattr(api, "start_watchdog", lambda seconds: None)  # this process does not end
    monkeypatch.setattr("fleet.manager.logs.configure", lambda *_: None)
    monkeypatch.setattr(api, "leave_out_present_objects", lambda: None)
    with capture_logs() as said:
        yield said


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


@pytest.fixture
def usual_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("logged", "usual_interval")
def test_threads_that_compute_give_the_event_loop_its_turn_several_times_in_a_millisecond() -> None:
    assert api.run_api(api.ApiOptions(address="127.0.0.1:0")) == api.FINE

    assert sys.getswitchinterval() <= 0.0001


@pytest.mark.usefixtures("logged")
def test_with_a_certificate_sessions_of_browsers_outlive_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    issued = trustme.CA().issue_cert("fleet.example")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    apps: list[FastAPI] = []

    def keep_app(*arguments: Any, **options: Any) -> FastAPI:
        apps.append(create_app(*arguments, **options))
        return apps[-1]

    monkeypatch.setattr(api, "create_app", keep_app)
    for _ in range(2):
        options = api.ApiOptions(address="127.0.0.1:0", tls_cert=certificate, tls_key=key)
        assert api.run_api(options) == api.FINE

    before, after = (app.state.shared.sessions for app in apps)
    cookie, _ = before.open("rosa", "rosas-token")
    assert after.find(cookie).token == "rosas-token"
