"""The lock of shared states, and the state's own ways to take it.

Whether a thread waits is seen from the lock telling that it begins to wait, never from time passing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import pytest

from fleet.framework.runtime.locks import ReadWriteLock
from fleet.framework.state import CycleState, StateKey
from tests.unit.framework.plugin_fakes import Counter

KEY = StateKey("reserve/Example")
PATIENCE = 90  # seconds until a thread that should have come counts as lost


class Watched(threading.Condition):
    """A condition that tells when somebody finds it closed and begins to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Semaphore(0)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        if not predicate():
            self.waiting.release()
        return super().wait_for(predicate, timeout)

    def somebody_waits(self) -> bool:
        return self.waiting.acquire(timeout=PATIENCE)


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def state(watched: Watched) -> CycleState:
    def new_lock() -> ReadWriteLock:
        lock = ReadWriteLock()
        lock._changed = watched
        return lock

    return CycleState(new_lock=new_lock)


@pytest.fixture
def often_interrupted() -> Iterator[None]:
    """Threads take turns as often as the interpreter allows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@contextmanager
def running(*bodies: Callable[[], None]) -> Iterator[None]:
    """Each body on a thread of its own; errors in one are errors of the test."""
    errors: list[BaseException] = []

    def guarded(body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(timeout=PATIENCE)
        assert not thread.is_alive()
    assert errors == []


# --- exclusion --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("often_interrupted")
def test_F3_026_eight_threads_count_exactly() -> None:
    state = CycleState(new_lock=ReadWriteLock)
    state.write(KEY, Counter())

    def count() -> None:
        for _ in range(500):
            with state.lock():
                before = state.peek(KEY).value
                state.poke(KEY, Counter(before + 1))

    with running(*[count] * 8):
        pass
    assert state.peek(KEY).value == 4_000


def test_F3_026_a_second_writer_waits(state: CycleState, watched: Watched) -> None:
    order: list[str] = []

    def write() -> None:
        with state.lock():
            order.append("second")

    with state.lock(), running(write):
        assert watched.somebody_waits()
        order.append("first")
        state.unlock()
    assert order == ["first", "second"]


def test_F3_028_eight_readers_enter_together(state: CycleState) -> None:
    inside = threading.Barrier(8)

    def read() -> None:
        with state.rlock():
            inside.wait(timeout=PATIENCE)

    with running(*[read] * 8):
        pass
    assert not inside.broken


def test_F3_028_a_writer_waits_for_all_readers(state: CycleState, watched: Watched) -> None:
    inside, leave = threading.Barrier(9), threading.Event()
    order: list[str] = []

    def read() -> None:
        with state.rlock():
            inside.wait(timeout=PATIENCE)
            assert leave.wait(timeout=PATIENCE)
            order.append("reader")

    def write() -> None:
        with state.lock():
            order.append("writer")

    with running(*[read] * 8):
        inside.wait(timeout=PATIENCE)
        with running(write):
            assert watched.somebody_waits()
            leave.set()
    assert order == ["reader"] * 8 + ["writer"]


def test_F3_028_a_reader_waits_for_the_writer(state: CycleState, watched: Watched) -> None:
    seen: list[int] = []

    def read() -> None:
        with state.rlock():
            seen.append(state.peek(KEY).value)

    with state.lock(), running(read):
        assert watched.somebody_waits()
        state.poke(KEY, Counter(7))
        state.unlock()
    assert seen == [7]


def test_F3_028_new_readers_do_not_overtake_a_waiting_writer(state: CycleState, watched: Watched) -> None:
    order: list[str] = []

    def write() -> None:
        with state.lock():
            order.append("writer")

    def read() -> None:
        with state.rlock():
            order.append("reader")

    with state.rlock(), running(write):
        assert watched.somebody_waits()
        with running(read):
            assert watched.somebody_waits()
            state.unlock()
    assert order == ["writer", "reader"]


@pytest.mark.parametrize("take", [CycleState.lock, CycleState.rlock])
@pytest.mark.parametrize("again", [CycleState.lock, CycleState.rlock])
def test_F3_028_taking_it_twice_is_told_instead_of_waited_for(
    state: CycleState,
    take: Callable[[CycleState], AbstractContextManager[None]],
    again: Callable[[CycleState], AbstractContextManager[None]],
) -> None:
    with take(state), pytest.raises(RuntimeError, match="locked the state already"), again(state):
        raise AssertionError("unreachable")


def test_F3_028_reading_inside_a_block_is_told_to_peek(state: CycleState) -> None:
    with state.lock(), pytest.raises(RuntimeError, match="use peek and poke"):
        state.read(KEY)


# --- release ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("take", [CycleState.lock, CycleState.rlock], ids=["F3_027_writing", "F3_029_reading"])
def test_F3_027_F3_029_leaving_the_block_releases(
    state: CycleState, take: Callable[[CycleState], AbstractContextManager[None]]
) -> None:
    with take(state):
        pass
    with state.lock():
        state.poke(KEY, Counter(1))
    assert state.peek(KEY).value == 1


@pytest.mark.parametrize("take", [CycleState.lock, CycleState.rlock], ids=["F3_027_writing", "F3_029_reading"])
def test_F3_027_F3_029_an_exception_releases(
    state: CycleState, take: Callable[[CycleState], AbstractContextManager[None]]
) -> None:
    with pytest.raises(ZeroDivisionError), take(state):
        raise ZeroDivisionError
    with state.lock():
        state.poke(KEY, Counter(1))
    assert state.peek(KEY).value == 1


@pytest.mark.parametrize("take", [CycleState.lock, CycleState.rlock], ids=["F3_027_writing", "F3_029_reading"])
def test_F3_027_F3_029_unlocking_twice_raises(
    state: CycleState, take: Callable[[CycleState], AbstractContextManager[None]]
) -> None:
    with take(state):
        state.unlock()
        with pytest.raises(RuntimeError, match="has not locked"):
            state.unlock()


@pytest.mark.parametrize("state", [CycleState(), CycleState(new_lock=ReadWriteLock)], ids=["single thread", "shared"])
def test_F3_027_unlocking_without_holding_raises(state: CycleState) -> None:
    with pytest.raises(RuntimeError, match="unlock of a state"):
        state.unlock()


def test_F3_027_a_thread_cannot_unlock_for_another(state: CycleState) -> None:
    refused: list[str] = []

    def meddle() -> None:
        try:
            state.unlock()
        except RuntimeError as error:
            refused.append(str(error))

    with state.lock(), running(meddle):
        pass
    assert refused == ["unlock of a state that this thread has not locked"]


def test_F3_027_who_unlocked_early_does_not_release_the_next_holder(state: CycleState, watched: Watched) -> None:
    """The block of the first thread ends while the second holds the lock; the third must still wait."""
    holding, leave = threading.Event(), threading.Event()
    order: list[str] = []

    def second() -> None:
        with state.lock():
            holding.set()
            assert leave.wait(timeout=PATIENCE)
            order.append("second")

    def third() -> None:
        with state.lock():
            order.append("third")

    with ExitStack() as threads:
        with state.lock():
            state.unlock()
            threads.enter_context(running(second))
            assert holding.wait(timeout=PATIENCE)
        threads.enter_context(running(third))
        assert watched.somebody_waits()
        leave.set()
    assert order == ["second", "third"]


def test_F3_029_who_stopped_reading_early_does_not_end_the_hold_of_another(state: CycleState, watched: Watched) -> None:
    inside, leave = threading.Event(), threading.Event()
    order: list[str] = []

    def other_reader() -> None:
        with state.rlock():
            inside.set()
            assert leave.wait(timeout=PATIENCE)
            order.append("reader")

    def write() -> None:
        with state.lock():
            order.append("writer")

    with running(other_reader):
        with state.rlock():
            assert inside.wait(timeout=PATIENCE)
            state.unlock()
        with running(write):
            assert watched.somebody_waits()
            leave.set()
    assert order == ["reader", "writer"]
