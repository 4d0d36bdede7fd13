"""Replay of recorded attempts: whether they reproduce the recorded result, or the result with a change.

Each attempt is read before its turn, by the history reader, and replayed in a thread, for a limited time: a report that
stops early contains where to continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from api.auth.permissions import Permissions, Visibility
from api.http.problems import unprocessable
from api.live.backend import Backend
from api.models import ReplayReport, ReplayRequest, ReplaySelection
from api.services.simulation import collect_edited_clusters
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
from fleet.history import Columns, History, HistoryAttempt, ReplayInputs
from fleet.model.timestamps import parse_timestamp
from fleet.scheduler.profiles.frameworks import CompiledProfiles
from fleet.scheduler.profiles.recorded import find_recorded_profile

_SECONDS: Final = 20.0
_MAX_TIME: Final = 2**62
"""Databases hold no larger numbers: in nanoseconds that is the year 2116."""
_NOT_KEPT: Final = "the inputs are not kept"


@dataclass
class _Results:
    attempts: int = 0
    same: int = 0
    different: list[Replayed] = field(default_factory=list)
    changed: list[Moved] = field(default_factory=list)
    skipped: list[SkippedAttempt] = field(default_factory=list)
    not_kept: list[SkippedAttempt] = field(default_factory=list)
    tallies: list[DiffSummary] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _RecordedAttempt:
    attempt: HistoryAttempt
    inputs: ReplayInputs | None
    columns: Columns | None


async def replay_attempts(backend: Backend, permissions: Permissions, request: ReplayRequest) -> ReplayReport:
    edits = None if request.change is None else request.change.edits
    await permissions.require_clusters(collect_edited_clusters(edits or ()))
    selected = await backend.history.call(_select_attempts, backend.history.require(), request.select)
    results = _Results()
    last = await _replay_in_time(backend, permissions.caller.name, selected, edits, results)
    visibility = await permissions.load_visibility(backend.live.caches.clusters, _collect_names(results))
    visible = await permissions.filter_placements({attempt.key for attempt in selected})
    placements = {attempt.id: attempt.key for attempt in selected if attempt.key in visible}
    results.changed = [
        msgspec.structs.replace(moved, placement=placements.get(moved.key, "")) for moved in results.changed
    ]
    is_cut_off = bool(selected) and last is not selected[-1]
    is_full = request.select.ids is None and len(selected) == request.select.limit
    following = last.seq if last is not None and (is_cut_off or is_full) else None
    return _build_report(results, visibility, following, with_change=edits is not None)


# --- steps ------------------------------------------------------------------------------------------------------------


def _select_attempts(history: History, select: ReplaySelection) -> Sequence[HistoryAttempt]:
    if select.ids is not None:
        return [_get_attempt(history, attempt_id, position) for position, attempt_id in enumerate(select.ids)]
    try:
        started = parse_timestamp(select.since) if select.since else 0
    except TimestampError as error:
        raise InputError(error.message, field="select.since", value=select.since) from error
    started = min(max(started, -_MAX_TIME), _MAX_TIME)
    return history.started_since(started, limit=select.limit, after=min(select.after, _MAX_TIME))


def _get_attempt(history: History, attempt_id: str, position: int) -> HistoryAttempt:
    attempt = history.attempt(attempt_id)
    if attempt is None:
        raise unprocessable(
            f"select.ids[{position}]", attempt_id, f"attempt {attempt_id} is not on record", "leave it out"
        )
    return attempt


async def _replay_in_time(
    backend: Backend, caller: str, selected: Sequence[HistoryAttempt], edits: Sequence[Edit] | None, results: _Results
) -> HistoryAttempt | None:
    """Returns the last attempt that was replayed. The first one waits for its turn as long as the request may."""
    clock, evaluator = backend.live.clock, backend.evaluator
    lane = evaluator.lane(is_large=True)  # of any attempts
    deadline = clock.monotonic() + _SECONDS
    last: HistoryAttempt | None = None
    async with evaluator.admit(caller):
        for attempt in selected:
            waiting = asyncio.timeout(None if last is None else max(deadline - clock.monotonic(), 0))
            try:
                async with waiting:
                    recorded = await backend.history.call(
                        _read_attempt, backend.history.require(), attempt, with_columns=edits is None
                    )
                    async with lane.turn(requeue=True):
                        waiting.reschedule(None)
                        last = attempt
                        await lane.thread.run(_replay_attempt, results, recorded, evaluator.profiles, edits)
            except TimeoutError:
                if not waiting.expired():
                    raise
                break
    return last


def _read_attempt(history: History, attempt: HistoryAttempt, *, with_columns: bool) -> _RecordedAttempt:
    inputs = history.inputs(attempt.id)
    columns = history.columns(attempt.id) if with_columns and inputs is not None else None
    return _RecordedAttempt(attempt, inputs, columns)


def _replay_attempt(
    results: _Results, recorded: _RecordedAttempt, profiles: CompiledProfiles, edits: Sequence[Edit] | None
) -> None:
    results.attempts += 1
    attempt, inputs = recorded.attempt, recorded.inputs
    if inputs is None:
        results.not_kept.append(SkippedAttempt(attempt.id, f"{_NOT_KEPT}: {attempt.inputs}"))
        return
    profile = find_recorded_profile(profiles, inputs)
    if edits is not None:
        _add_rehearsal(results, rehearse([(build_evidence(attempt), inputs)], profile, edits=edits))
        return
    replayed = replay(inputs, build_evidence(attempt, recorded.columns), profile)
    if replayed.same:
        results.same += 1
    else:
        results.different.append(replayed)


def _add_rehearsal(results: _Results, rehearsal: Rehearsal) -> None:
    results.same += rehearsal.same
    results.changed += rehearsal.changed
    results.skipped += rehearsal.skipped
    results.tallies.append(rehearsal.summary)


# --- the report -------------------------------------------------------------------------------------------------------


def _collect_names(results: _Results) -> set[str]:
    names = {name for moved in results.changed for name in (*moved.before, *moved.after)}
    differences = (replayed.difference for replayed in results.different)
    return names | {difference.cluster for difference in differences if difference and difference.cluster}


def _build_report(
    results: _Results, visibility: Visibility, following: int | None, *, with_change: bool
) -> ReplayReport:
    rehearsal = Rehearsal(
        attempts=results.attempts,
        same=results.same,
        changed=tuple(results.changed),
        skipped=tuple(results.skipped),
        summary=_add_tallies(results.tallies),
    )
    different = tuple(results.different)
    if not visibility.is_whole:
        rehearsal = redact_rehearsal(rehearsal, visibility.hides)
        different = tuple(redact_replay(replayed, visibility.hides) for replayed in different)
    return ReplayReport(
        attempts=rehearsal.attempts,
        same=rehearsal.same,
        different=different,
        changed=rehearsal.changed,
        skipped=(*results.not_kept, *rehearsal.skipped),
        summary=rehearsal.summary if with_change else None,
        next=following,
    )


def _add_tallies(tallies: Sequence[DiffSummary]) -> DiffSummary:
    clusters: dict[str, list[int]] = {}
    outcomes: dict[str, list[int]] = {}
    for tally in tallies:
        for movement in tally.clusters:
            counts = clusters.setdefault(movement.cluster, [0, 0])
            counts[0] += movement.gained
            counts[1] += movement.lost
        for ending in tally.outcomes:
            counts = outcomes.setdefault(ending.outcome, [0, 0])
            counts[0] += ending.before
            counts[1] += ending.after
    order = sorted(clusters, key=lambda name: (-sum(clusters[name]), name))
    return DiffSummary(
        clusters=tuple(ClusterTally(name, *clusters[name]) for name in order),
        outcomes=tuple(OutcomeTally(name, *counts) for name, counts in sorted(outcomes.items())),
    )
