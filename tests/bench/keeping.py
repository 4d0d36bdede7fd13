"""What is kept of a decision and of the clusters it was made on: bytes in SQLite, and processor time of the writer.

Decisions are made before and offered as a busy scheduler does it; while they are written this process does nothing
else. Bytes are counted as retention counts them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.request import compile_request
from fleet.history import History
from fleet.history.history import WriterTiming
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Observed, PolicySnapshot
from fleet.recorder.recorder import HistoryRecorder
from fleet.scheduler.attempt_record import AttemptRecord
from fleet.scheduler.dispatch.binding_calls import WriteResult
from fleet.settings import Settings
from fleet.snapshot import Frame, Table
from tests.bench.fleets import NODE_COUNT, NOW, as_watched, cluster_document, clusters
from tests.bench.policies import policy_snapshot
from tests.bench.stopwatch import undisturbed
from tests.vectors.engine import profile_for

Json = dict[str, Any]

SOON: Final = 120.0
_TOGETHER: Final = 30
"""Attempts in a batch: what comes within a quarter of a second at more than a hundred placements per second."""


@dataclass(frozen=True, slots=True)
class Kept:
    decision: float
    """Bytes of one, without its clusters."""
    columns: float
    """Bytes of its verdicts and scores."""
    cpu_seconds: float
    """Of one."""


@dataclass(frozen=True, slots=True)
class Journalled:
    known: float
    """Bytes of a cluster as it is written at the start of a session."""
    changed: float
    """Bytes of a cluster that changed since the attempt before."""


def keep_decisions(frame: Frame, policies: Sequence[Json], *, count: int) -> Kept:
    """`policies` are taken in turns, each time by another placement."""
    records = [_decided(frame, policies[number % len(policies)], number) for number in range(count)]
    with _recording() as (history, recorder):
        recorder.record(records[0])
        assert history.flush(seconds=SOON)
        before = history.size()
        with undisturbed():
            begun = time.process_time()
            for start in range(1, count, _TOGETHER):
                for record in records[start : start + _TOGETHER]:
                    recorder.record(record)
                assert history.flush(seconds=SOON)
            spent = time.process_time() - begun
        size = history.size() - before
        assert history.counts().written == count
        looked_at = [_packed_columns(history, number) for number in range(2, min(count, len(policies) + 1) + 1)]
    return Kept(size / (count - 1), sum(looked_at) / len(looked_at), spent / (count - 1))


def keep_clusters(size: int, *, rounds: int) -> Journalled:
    """Between two attempts every cluster reports another node count and other available resources."""
    table, policy = Table(clusters(size)), {"placementType": "PickN", "numberOfClusters": 1}
    with _recording() as (history, recorder):
        sizes = [0, *(_written(history, recorder, _drifted(table, size, turn), policy, turn) for turn in range(rounds))]
        decision = keep_decisions(table.freeze(), [policy], count=3).decision
    grown = sizes[-1] - sizes[1] - decision * (rounds - 1)
    return Journalled(known=(sizes[1] - decision) / size, changed=grown / size / (rounds - 1))


def _drifted(table: Table, size: int, turn: int) -> Frame:
    for number in range(size) if turn else ():
        document = cluster_document(number)
        document["status"]["properties"][NODE_COUNT]["value"] = str((number + turn) % 100)
        available = {"cpu": str(4 + (number + 13 * turn) % 96), "memory": f"{4 + (number + 17 * turn) % 253}Gi"}
        document["status"]["resourceUsage"]["available"] = available
        table.put(as_watched(document))
    return table.freeze()


def _written(history: History, recorder: HistoryRecorder, frame: Frame, policy: Json, number: int) -> int:
    recorder.record(_decided(frame, policy, number))
    assert history.flush(seconds=SOON)
    return history.size()


def _packed_columns(history: History, number: int) -> int:
    from fleet.history.storage.encoding import pack_columns

    columns = history.columns(history.since(number - 1, limit=1)[0].id)
    assert columns is not None
    return len(pack_columns(columns))


@contextmanager
def _recording() -> Iterator[tuple[History, HistoryRecorder]]:
    with tempfile.TemporaryDirectory(prefix="fleet-bench-history-") as folder:
        history = History.open(f"sqlite:///{folder}/history.sqlite", pace=WriterTiming(linger=0.0, burst=0.0))
        history.start()
        try:
            yield history, HistoryRecorder(history, Settings())
        finally:
            history.close()


def _decided(frame: Frame, policy: Json, number: int) -> AttemptRecord:
    """As an attempt that placed something new."""
    name = f"placement-{number:05d}"
    snapshot = msgspec.convert(policy_snapshot(name, policy), PolicySnapshot)
    request = compile_request(snapshot, placement_uid=f"{name}-uid")
    asked = DecisionInput(frame=frame, request=request, bindings=(), profile=profile_for(()), now=NOW + number)
    decision = decide(asked)
    assert decision.published is not None
    return AttemptRecord(
        key=PlacementKey.parse(name),
        triggers=("ClusterSchedulingPolicySnapshot/Add",),
        number=number,
        started=NOW + number,
        snapshot=Observed(snapshot, b"{}"),
        inputs=asked,
        decision=decision,
        writes=[WriteResult(operation) for operation in decision.operations],
        status_written=True,
        seconds={"read": 0.0001, "decide": 0.0005, "write": 0.01, "publish": 0.005},
    )
