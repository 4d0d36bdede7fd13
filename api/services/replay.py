"""Recorded attempts, decided again: that they come out the same, or what a change would have made of them.

Attempt by attempt, each in a thread, and only for so long: a report that ends early says where to go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from api.auth.access import Sight
from api.http.problems import unprocessable
from api.http.request_context import Asked
from api.models import ReplayReport, ReplayRequest
from api.services.simulation import named_by, require_named
from fleet.errors import InputError, TimestampError
from fleet.explain.replay.replay import (
    Rehearsal,
    Replayed,
    SkippedAttempt,
    build_evidence,
    redact_rehearsal,
    redact_replay,
    rehearse,
    replay,
)
from fleet.explain.whatif.diff import ClusterTally, DiffSummary, Moved, OutcomeTally
from fleet.explain.whatif.edits import Edit
from fleet.framework.profiles.profile import CompiledProfile
from fleet.history import History, HistoryAttempt
from fleet.model.timestamps import parse_timestamp

_SECONDS: Final = 20.0
_FARTHEST: Final = 2**62
"""Databases hold no larger numbers: in nanoseconds that is the year 2116."""
_NOT_KEPT: Final = "the inputs are not kept"


@dataclass
class _Report:
    attempts: int = 0
    same: int = 0
    different: list[Replayed] = field(default_factory=list)
    changed: list[Moved] = field(default_factory=list)
    skipped: list[SkippedAttempt] = field(default_factory=list)
    gone: list[SkippedAttempt] = field(default_factory=list)
    """Whose inputs are not kept."""
    tallies: list[DiffSummary] = field(default_factory=list)


async def replayed(asked: Asked, request: ReplayRequest) -> ReplayReport:
    await require_named(asked, named_by(() if request.change is None else request.change.edits))
    selected = await asked.remembered(lambda history: _selected(history, request))
    clock, profile = asked.live.clock, asked.serving.recollections.profile
    deadline = clock.elapsed() + _SECONDS
    edits = None if request.change is None else request.change.edits
    report = _Report()
    last: HistoryAttempt | None = None
    async with asked.serving.evaluations.one():
        for attempt in selected:
            waiting = asyncio.timeout(None if last is None else max(deadline - clock.elapsed(), 0))
            try:
                async with waiting, asked.serving.evaluations.turn(anew=True):
                    waiting.reschedule(None)
                    last = attempt
                    await asyncio.to_thread(_one, report, attempt, asked.history(), profile, edits)
            except TimeoutError:
                if not waiting.expired():
                    raise
                break
    sight = await asked.sight(_named(report))
    seen = await asked.placements_seen({one.key for one in selected})
    report.changed = _with_placements(report.changed, {one.id: one.key for one in selected if one.key in seen})
    stopped = last is not selected[-1] if selected else False
    full = request.select.ids is None and len(selected) == request.select.limit
    return _made(
        report, sight, last.seq if last is not None and (stopped or full) else None, rehearsed=edits is not None
    )


def _selected(history: History, request: ReplayRequest) -> Sequence[HistoryAttempt]:
    select = request.select
    if select.ids is not None:
        return [_identified(history, one, position) for position, one in enumerate(select.ids)]
    try:
        started = parse_timestamp(select.since) if select.since else 0
    except TimestampError as error:
        raise InputError(error.message, field="select.since", value=select.since) from error
    started = min(max(started, -_FARTHEST), _FARTHEST)
    return history.started_since(started, limit=select.limit, after=min(select.after, _FARTHEST))


def _identified(history: History, attempt_id: str, position: int) -> HistoryAttempt:
    found = history.attempt(attempt_id)
    if found is None:
        raise unprocessable(
            f"select.ids[{position}]", attempt_id, f"attempt {attempt_id} is not on record", "leave it out"
        )
    return found


def _one(
    report: _Report, attempt: HistoryAttempt, history: History, profile: CompiledProfile, edits: Sequence[Edit] | None
) -> None:
    report.attempts += 1
    recorded = history.inputs(attempt.id)
    if recorded is None:
        report.gone.append(SkippedAttempt(attempt.id, f"{_NOT_KEPT}: {attempt.inputs}"))
        return
    if edits is not None:
        _rehearsed(report, rehearse([(build_evidence(attempt), recorded)], profile, edits=edits))
        return
    found = replay(recorded, build_evidence(attempt, history.columns(attempt.id)), profile)
    if found.same:
        report.same += 1
    else:
        report.different.append(found)


def _rehearsed(report: _Report, found: Rehearsal) -> None:
    report.same += found.same
    report.changed += found.changed
    report.skipped += found.skipped
    report.tallies.append(found.summary)


def _with_placements(changed: Sequence[Moved], known: Mapping[str, str]) -> list[Moved]:
    return [msgspec.structs.replace(one, placement=known.get(one.key, "")) for one in changed]


def _named(report: _Report) -> set[str]:
    moved = {name for one in report.changed for name in (*one.before, *one.after)}
    return moved | {one.difference.cluster for one in report.different if one.difference and one.difference.cluster}


def _made(report: _Report, sight: Sight, following: int | None, *, rehearsed: bool) -> ReplayReport:
    found = Rehearsal(
        attempts=report.attempts,
        same=report.same,
        changed=tuple(report.changed),
        skipped=tuple(report.skipped),
        summary=_summed(report.tallies),
    )
    different = tuple(report.different)
    if not sight.is_whole:
        found = redact_rehearsal(found, sight.hides)
        different = tuple(redact_replay(one, sight.hides) for one in different)
    return ReplayReport(
        attempts=found.attempts,
        same=found.same,
        different=different,
        changed=found.changed,
        skipped=(*report.gone, *found.skipped),
        summary=found.summary if rehearsed else None,
        next=following,
    )


def _summed(tallies: Sequence[DiffSummary]) -> DiffSummary:
    """Of single attempts, one of all."""
    clusters: dict[str, list[int]] = {}
    outcomes: dict[str, list[int]] = {}
    for tally in tallies:
        for one in tally.clusters:
            both = clusters.setdefault(one.cluster, [0, 0])
            both[0] += one.gained
            both[1] += one.lost
        for ending in tally.outcomes:
            counts = outcomes.setdefault(ending.outcome, [0, 0])
            counts[0] += ending.before
            counts[1] += ending.after
    order = sorted(clusters, key=lambda name: (-sum(clusters[name]), name))
    return DiffSummary(
        clusters=tuple(ClusterTally(name, *clusters[name]) for name in order),
        outcomes=tuple(OutcomeTally(name, *counts) for name, counts in sorted(outcomes.items())),
    )
