"""What tests of whole controllers need around them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from fleet.manager import manager as controller
from tests.control_plane.fixtures import programs, pytest_collection_finish, pytest_runtest_makereport

__all__ = ["programs", "pytest_collection_finish", "pytest_runtest_makereport"]


@pytest.fixture(autouse=True)
def unfrozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A controller freezes what it has read, for as long as its process lives. Here many live in one process."""
    monkeypatch.setattr(controller, "leave_out_present_objects", lambda **_: None)
    yield
    gc.collect(0)


@pytest.fixture(autouse=True)
def no_surprises() -> Iterator[None]:
    """Faults are warned of. An error in the log is something that nobody has thought of, and fails the test."""
    with structlog.testing.capture_logs() as entries:
        yield
    surprises: list[Any] = [entry for entry in entries if entry["log_level"] in ("error", "critical")]
    assert surprises == []
