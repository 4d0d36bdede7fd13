from __future__ import annotations

import asyncio
import selectors
from collections.abc import Iterator

import pytest

from fleet.hub.hub import FIRST_NAMESPACES, Hub
from fleet.hub.kinds.builtin import NAMESPACES
from fleet.hub.wire.options import WriteOptions
from tests.unit.hub.asking import DEFINITIONS, NOON, TOKENS, Asker, a_definition


class HurriedLoop(asyncio.SelectorEventLoop):
    """Instead of waiting for a timer, moves the clock to it; nothing else does. Only for tests without sockets."""

    def __init__(self) -> None:
        self._ahead = 0.0
        super().__init__(_NoWaiting(self))

    def time(self) -> float:
        return self._ahead

    def hurry(self, seconds: float) -> None:
        self._ahead += seconds


class _NoWaiting(selectors.DefaultSelector):
    def __init__(self, loop: HurriedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if timeout and not found:
            self._loop.hurry(timeout)
        return found


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=HurriedLoop) as runner:
        yield runner


@pytest.fixture
def ask(runner: asyncio.Runner) -> Asker:
    """A hub with its first namespaces and no definitions, which take their time."""
    hub = Hub(TOKENS, clock=lambda: NOON)
    namespaces = hub.registry.find("", "v1", NAMESPACES)
    assert namespaces is not None
    for name in FIRST_NAMESPACES:
        hub.objects.create(namespaces, "", {"metadata": {"name": name}}, WriteOptions(manager="tests"))
    return Asker(hub, runner)


@pytest.fixture
def things(ask: Asker) -> Asker:
    """The same with a definition of things."""
    assert ask("POST", DEFINITIONS, a_definition()).code == 201
    return ask
