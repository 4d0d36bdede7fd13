"""However many attempts there are, recording them takes no more memory than it was given, and leaves nothing behind.

Attempts are a scheduler's: placements come, are decided on again and again while clusters change, and go.
"""

from __future__ import annotations

import gc
import re
import sys
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final, cast

import msgspec
import pytest

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.request import compile_request
from fleet.history import AttemptSource, History, RetentionLimits
from fleet.model.placement_key import PlacementKey
from fleet.model.views import MemberCluster, Observed
from fleet.recorder.recorder import HistoryRecorder
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.dispatch.binding_calls import WriteResult
from fleet.settings import Settings
from fleet.snapshot import Frame, Table
from tests.bench.fleets import NOW, clusters
from tests.builders import a_policy
from tests.databases import SOON, recording
from tests.fake_clock import FakeClock
from tests.faults.test_history_unavailable import locked, until_unavailable
from tests.unit.history.sources import an_attempt
from tests.vectors.engine import profile_for

pytestmark = [pytest.mark.alone, pytest.mark.servers]  # as many records as a busy hub makes in hours

FILE: Final = "history.sqlite"
MILLION: Final = 1_000_000
KIB: Final = 1024
MIB: Final = 1024 * KIB
FLEET: Final = 100
"""Clusters; as members of the fleet."""
ALIVE: Final = 50
"""Placements at any time."""
SLACK: Final = 256 * KIB
"""For what there is once: the newest fleet, of which the oldest attempt that waits has none of the parts."""
TOGETHER: Final = 200
PORTION: Final = 2_000
"""Attempts between two looks at the memory. It comes and goes a little; what is left behind shows in every portion."""
FEW: Final = RetentionLimits(max_attempts=1_000, per_placement=10, columns_per_placement=2)
TURNS: Final = 40
"""Different fleets that are decided on, over and over."""


class Load:
    """Each turn is an attempt of every living placement, on a fleet in which some clusters changed."""

    def __init__(self, *, changing: int, loud_every: int = 1, lifetime: int = 20) -> None:
        """Of the `lifetime` attempts of a placement, every so many change something, and the last finds it gone."""
        self._table = Table(clusters(FLEET))
        self._changing = changing
        self._loud_every = loud_every
        self._lifetime = lifetime
        self._decided: list[AttemptRecord] = []

    def attempts(self, count: int, *, start: int = 0) -> Iterator[AttemptRecord]:
        self._decided = self._decided or [self.decided(turn) for turn in range(TURNS)]
        for number in range(start, start + count):
            turn, place = divmod(number, ALIVE)
            generation, age = divmod(turn, self._lifetime)
            key, repeats = f"web-{place}-{generation}", age % self._loud_every
            decided = self._decided[(turn - repeats) % TURNS]
            if age == self._lifetime - 1:
                yield AttemptRecord(key=PlacementKey.parse(key), started=NOW + number, result=AttemptResult.GONE)
            elif repeats:
                yield replace(
                    decided, key=PlacementKey.parse(key), started=NOW + number, writes=(), status_written=False
                )
            else:
                yield replace(decided, key=PlacementKey.parse(key), started=NOW + number)

    def decided(self, turn: int) -> AttemptRecord:
        """An attempt that placed something, on a fleet that is not the one before."""
        for row in range(self._changing):
            self._table.put(_renewed(self._frame.cluster((turn * self._changing + row) % FLEET), turn))
        snapshot = a_policy().pick_n(10).snapshot()
        asked = DecisionInput(
            frame=self._frame,
            request=compile_request(snapshot, placement_uid="uid"),
            bindings=(),
            profile=profile_for(()),
            now=NOW,
        )
        decision = decide(asked)
        return AttemptRecord(
            key=PlacementKey.parse("web"),
            started=NOW,
            snapshot=Observed(snapshot, b"{}"),
            inputs=asked,
            decision=decision,
            writes=[WriteResult(operation) for operation in decision.operations],
            status_written=True,
        )

    @property
    def _frame(self) -> Frame:
        return self._table.freeze()


def _renewed(cluster: MemberCluster, turn: int) -> MemberCluster:
    """Another object, as out of a watch, with another label."""
    labels = {**(cluster.metadata.labels or {}), "turn": str(turn)}
    metadata = msgspec.structs.replace(cluster.metadata, labels=labels)
    changed = msgspec.structs.replace(cluster, metadata=metadata)
    return msgspec.json.decode(msgspec.json.encode(changed), type=MemberCluster)


def resident(field: str = "VmRSS") -> int:
    """Bytes of this process."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * KIB


@contextmanager
def traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def traced_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def blocks() -> int:
    """Pieces of memory that Python holds."""
    gc.collect()
    return sys.getallocatedblocks()


@contextmanager
def stuck(folder: Path, *, memory_mib: int) -> Iterator[History]:
    """Its writer has something that it cannot write, so all that comes after it waits."""
    with recording(f"sqlite:///{folder / FILE}", memory_mib=memory_mib) as history, locked(folder / FILE):
        history.offer(an_attempt("first"))
        until_unavailable(history)
        yield history
        history.close(seconds=0)
        history._writer._thread.join(SOON)  # before the file can be written


@contextmanager
def writing(folder: Path) -> Iterator[History]:
    """It keeps little, and lives at the time of the attempts."""
    with recording(f"sqlite:///{folder / FILE}", limits=FEW, clock=FakeClock(NOW)) as history:
        yield history


def taken(records: Iterable[AttemptRecord]) -> list[AttemptSource]:
    """As they are offered to a history."""

    class Desk:
        def __init__(self) -> None:
            self.offered: list[AttemptSource] = []

        def offer(self, source: AttemptSource) -> None:
            self.offered.append(source)

    desk = Desk()
    recorder = HistoryRecorder(cast("History", desk), Settings())
    for record in records:
        recorder.record(record)
    return desk.offered


def offer_all(history: History, sources: Sequence[AttemptSource], *, times: int) -> None:
    for _ in range(times):
        for source in sources:
            history.offer(source)


def write_all(history: History, recorder: HistoryRecorder, records: Iterable[AttemptRecord]) -> None:
    for number, record in enumerate(records, 1):
        recorder.record(record)
        if number % TOGETHER == 0:
            assert history.flush(seconds=SOON)
        if number % (5 * TOGETHER) == 0:
            history.run_retention()


@pytest.mark.parametrize("changing", [0, 20], ids=["a fleet that stays", "a fleet that drifts"])
def test_W_09_what_waits_takes_no_more_memory_than_it_was_given(tmp_path: Path, changing: int) -> None:
    with stuck(tmp_path, memory_mib=1) as history, traced():
        recorder, load = HistoryRecorder(history, Settings()), Load(changing=changing)
        for turn in range(FLEET // 20):
            recorder.record(load.decided(turn))
        before = traced_bytes()
        for turn in range(400):
            recorder.record(replace(load.decided(turn), key=PlacementKey.parse(f"web-{turn}")))
        grown = traced_bytes() - before
        counts = history.counts()
    assert counts.offered == counts.waiting + counts.shed_attempts
    assert counts.shed_attempts > 0
    assert MIB / 2 < grown < MIB + SLACK


def test_W_09_a_million_attempts_leave_nothing_behind_while_the_database_is_stuck(tmp_path: Path) -> None:
    with stuck(tmp_path, memory_mib=1) as history:
        sources = taken(Load(changing=3, loud_every=100, lifetime=100).attempts(ALIVE * 100))
        offer_all(history, sources, times=10)
        before = blocks()
        offer_all(history, sources, times=MILLION // len(sources) - 10)
        grown = blocks() - before
        counts = history.counts()
    assert counts.offered == MILLION + 1
    assert counts.waiting + counts.shed_attempts == counts.offered
    assert grown < MILLION / 1_000


def test_W_09_attempts_that_are_written_leave_nothing_behind(tmp_path: Path) -> None:
    with writing(tmp_path) as history, traced():
        recorder, load = HistoryRecorder(history, Settings()), Load(changing=3, loud_every=2)
        sizes = []
        for start in range(0, 5 * PORTION, PORTION):
            write_all(history, recorder, load.attempts(PORTION, start=start))
            sizes.append(traced_bytes())
        counts = history.counts()
        assert len(history.since(0, limit=PORTION)) == FEW.max_attempts
    assert counts.written + counts.folded == counts.offered == 5 * PORTION
    grown = [later - earlier for earlier, later in pairwise(sizes)]
    assert min(grown) < PORTION * 8, grown


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_W_09_a_million_attempts_are_written_within_the_budget(tmp_path: Path) -> None:
    with writing(tmp_path) as history:
        recorder, load = HistoryRecorder(history, Settings()), Load(changing=3, loud_every=2)
        write_all(history, recorder, load.attempts(10 * PORTION))
        before, held = resident(), blocks()
        write_all(history, recorder, load.attempts(MILLION - 10 * PORTION, start=10 * PORTION))
        counts = history.counts()
        assert counts.written + counts.folded == counts.offered == MILLION
        assert blocks() - held < MILLION / 100
        assert resident() - before < 16 * MIB
        assert len(history.since(0, limit=PORTION)) == FEW.max_attempts
    assert (tmp_path / FILE).stat().st_size < 32 * MIB
