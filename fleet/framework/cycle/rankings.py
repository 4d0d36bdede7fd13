"""Rankings that placements with equal requests share: of a burst of them, the first is ranked for all.

Requests are equal if all plugins sign them alike (`sign`). Their ranking is valid as long as no cluster changes beyond
a heartbeat, and as the filters that do not sign, such as one that reads the time, judge as before. The decision is the
one that all hooks would have led to.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from fleet.framework.context import Warning
from fleet.framework.cycle.rounds import Picked
from fleet.framework.cycle.runner import JudgedFilter, Runner
from fleet.framework.types import Verdict
from fleet.snapshot.columns.bitset import as_bits, to_rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.table import differ_beyond_heartbeat

_MOST_SIGNATURES: Final = 8
_MOST_CHANGED: Final = 64
"""Clusters that are compared. Where more have changed, all are ranked anew."""


class _Kept(NamedTuple):
    frame: Frame
    """The latest in which the ranking was valid."""
    ranking: Picked
    skipped: Mapping[str, tuple[str, ...]]
    notes: Mapping[str, Mapping[str, Any]]
    warnings: Mapping[tuple[str, str], Warning]
    judged: tuple[JudgedFilter, ...]


class Rankings:
    """The latest of one profile. Threads may ask side by side: what is kept never changes."""

    def __init__(self) -> None:
        self._kept: Mapping[Hashable, _Kept] = {}

    def find(self, runner: Runner, frame: Frame) -> Picked | None:
        """As if the hooks had run."""
        signature = _sign(runner, frame)
        kept = None if signature is None else self._kept.get(signature)
        if kept is None or not _is_same_fleet(kept.frame, frame):
            return None
        if not all(_judges_alike(runner, frame, judged) for judged in kept.judged):
            return None
        self._put(signature, kept._replace(frame=frame))
        runner.ctx.notes.update({plugin: dict(notes) for plugin, notes in kept.notes.items()})
        runner.ctx.warnings.update(kept.warnings)
        runner.skipped = {hook: list(names) for hook, names in kept.skipped.items()}
        rounds, targets, count = kept.ranking
        rebound = [replace(each, verdicts=each.verdicts.rebind(frame, runner.req)) for each in rounds]
        return rebound, list(targets), count

    def keep(self, runner: Runner, frame: Frame, ranking: Picked) -> None:
        signature = _sign(runner, frame)
        if signature is None:
            return
        kept = _Kept(
            frame=frame,
            ranking=ranking,
            skipped={hook: tuple(names) for hook, names in runner.skipped.items()},
            notes={plugin: dict(notes) for plugin, notes in runner.ctx.notes.items()},
            warnings=dict(runner.ctx.warnings),
            judged=tuple(runner.judged.values()),
        )
        self._put(signature, kept)

    def _put(self, signature: Hashable, kept: _Kept) -> None:
        """Those that can no longer be compared with the fleet go."""
        log = kept.frame.log_position.log
        others = [(key, each) for key, each in self._kept.items() if each.frame.log_position.log is log]
        latest = [(key, each) for key, each in others if key != signature][-_MOST_SIGNATURES + 1 :]
        self._kept = dict([*latest, (signature, kept)])


def _sign(runner: Runner, frame: Frame) -> Hashable | None:
    """None if more may count than clusters and what is signed."""
    ctx = runner.ctx
    if runner.is_measured or ctx.bindings.holders or ctx.nominated or frame.nominations or frame.excluded:
        return None
    return runner.sign_request()


def _is_same_fleet(before: Frame, frame: Frame) -> bool:
    """But for heartbeats and for what is on clusters."""
    if frame is before:
        return True
    changed = frame.find_changed(before.log_position)
    if changed is None or len(changed) > _MOST_CHANGED:
        return False
    clusters = ((before.clusters[row], frame.clusters[row]) for row in changed.tolist())
    return not any(old is not new and differ_beyond_heartbeat(old, new) for old, new in clusters)


def _judges_alike(runner: Runner, frame: Frame, judged: JudgedFilter) -> bool:
    entry, alive, before = judged
    verdict = runner.run_one_filter(entry, frame, alive)
    rejected = alive & ~as_bits(before.ok, alive)
    return (
        rejected == alive & ~as_bits(verdict.ok, alive)
        and before.retained == verdict.retained
        and (not rejected or np.array_equal(*(_read_reasons(each, rejected, frame) for each in (before, verdict))))
    )


def _read_reasons(verdict: Verdict, rejected: int, frame: Frame) -> Any:
    return verdict.reason if isinstance(verdict.reason, int) else verdict.reason[to_rows(rejected, frame.size)]
