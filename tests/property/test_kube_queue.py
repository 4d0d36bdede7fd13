"""Any sequence of calls keeps the queue's promises, compared with a model that is too slow to be wrong."""

from __future__ import annotations

import asyncio

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fleet.errors import QueueClosed
from fleet.kube.workqueue import WorkQueue
from tests.faults.virtual import VirtualClock, VirtualLoop

keys = st.sampled_from("abcde")
seconds = st.integers(0, 20)


class QueueMachine(RuleBasedStateMachine):
    """Workers are modelled by the keys they have; time passes only by rule."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.runner.run(self._begin())
        self.wanted: set[str] = set()
        """Keys that must come out, sooner or later."""
        self.due: dict[str, float] = {}
        self.in_work: set[str] = set()
        self.now = 0.0
        self.closed = False

    async def _begin(self) -> None:
        self.queue: WorkQueue[str] = WorkQueue(clock=VirtualClock())

    def teardown(self) -> None:
        self.runner.close()

    @rule(key=keys)
    def add(self, key: str) -> None:
        self._call(lambda: self.queue.add(key))
        self._plan(key, self.now)

    @rule(key=keys, seconds=seconds)
    def add_after(self, key: str, seconds: int) -> None:
        self._call(lambda: self.queue.add_after(key, seconds))
        self._plan(key, self.now + seconds)

    def _plan(self, key: str, due: float) -> None:
        if not self.closed:
            self.due[key] = min(due, self.due.get(key, due))

    @rule(seconds=seconds)
    def time_passes(self, seconds: int) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds + 0.5)

        self.runner.run(wait())
        self.now += seconds + 0.5

    def ready(self) -> set[str]:
        return {key for key, due in self.due.items() if due <= self.now} - self.in_work

    @precondition(lambda self: self.ready())
    @rule()
    def take(self) -> None:
        key = self.runner.run(self.queue.get())
        assert key in self.ready()
        del self.due[key]
        self.in_work.add(key)

    @precondition(lambda self: self.in_work)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.in_work)))
        self._call(lambda: self.queue.finish(key))
        self.in_work.discard(key)

    @rule()
    @precondition(lambda self: not self.closed and self.now > 30)
    def close(self) -> None:
        self._call(self.queue.close)
        self.closed = True
        self.due.clear()

    @invariant()
    def as_many_can_be_taken_as_are_due_and_not_in_work(self) -> None:
        assert len(self.queue) == len(self.ready())

    @invariant()
    def what_is_in_work_is_known(self) -> None:
        assert self.queue.in_flight == self.in_work

    @invariant()
    def a_closed_queue_gives_nothing(self) -> None:
        if not self.closed:
            return
        try:
            self.runner.run(self.queue.get())
        except QueueClosed:
            return
        raise AssertionError("a closed queue gave a key")

    def _call(self, function: object) -> None:
        async def run() -> None:
            assert callable(function)
            function()

        self.runner.run(run())


TestQueue = QueueMachine.TestCase
