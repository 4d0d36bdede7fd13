"""What the history keeps of the attempts of a running controller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from fleet.explain.replay.replay import InMemoryInputs, build_evidence, replay
from fleet.history import History
from fleet.recorder.attempt_summary import summarize_attempt
from fleet.recorder.recorder import HistoryRecorder
from fleet.scheduler.attempt_record import AttemptRecord
from tests.databases import fill
from tests.faults.acting import Running


def read_recorded(site: Running, records: Iterable[AttemptRecord], folder: Path) -> Iterator[InMemoryInputs]:
    """The inputs of attempts that decided."""
    history = History.open(fill(f"sqlite:///{folder}/history.sqlite"))
    recorder = HistoryRecorder(history, site.controller.settings)
    for record in records:
        recorded = recorder._build_entry(record)
        inputs = recorded.inputs()
        assert inputs is not None
        yield InMemoryInputs(
            clusters=[body for _, body in recorded.clusters(anew=True) if body is not None],
            request=inputs.request,
            placement_uid=inputs.placement_uid,
            bindings=inputs.bindings,
            previous=inputs.previous,
            now=inputs.now,
            cursor=inputs.cursor,
            nominated=inputs.nominated,
            set_aside=inputs.set_aside,
        )


def replays(site: Running, record: AttemptRecord, folder: Path) -> bool:
    (inputs,) = read_recorded(site, [record], folder)
    assert record.inputs is not None
    return replay(inputs, build_evidence(summarize_attempt(record, "a-1")), record.inputs.profile).same
