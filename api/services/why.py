"""Answers of `why`: from live state and history to the explained decision, step by step."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import msgspec

from api.auth.access import AccessRequest
from api.auth.permissions import Permissions, Visibility
from api.group_models import GroupModel
from api.http.problems import refusal
from api.live.backend import Backend
from api.live.evaluation import EvaluatedDecision
from api.live.live import LivePlacement, LiveState
from api.live.placement_status import find_selector_problems, list_status_notes, read_published_state
from api.live.queue_status import (
    QueuePlace,
    build_queue_model,
    compute_present_state,
    find_queue_place,
    list_quota_events,
    list_resident_events,
    list_wake_events,
    name_end,
    name_undecided,
)
from api.live.warnings import WarningEvent
from api.services.decisions.attempts import (
    PlacementRecord,
    build_decision_model,
    build_past_attempt,
    collect_cluster_names,
    format_path,
    group_effects,
    list_writes,
    load_attempt,
    load_record,
)
from api.services.decisions.departures import find_departed, list_given_up
from api.services.decisions.foreign_decisions import compare_with_bound
from api.services.held.groups import find_group_of
from api.services.held.headlines import (
    describe_foreign,
    describe_gated,
    describe_grouped,
    describe_preempted,
    describe_waited,
    note_foreign,
)
from api.services.held.waiting import (
    describe_gate,
    describe_preempting,
    describe_waiting,
    list_answerable,
    list_clearable,
    list_denials,
    list_preemptions,
)
from api.waiting_models import DenialModel, GateModel, PreemptingModel, WaitingModel
from api.why_models import QueueModel, Waker, WhyAnswer
from fleet.errors import HistoryUnavailable
from fleet.explain.answer.answer import AnswerContext, build_answer, state_of
from fleet.explain.answer.parts import ProblemPart, State, StatusNote
from fleet.explain.answer.sentences import format_moment
from fleet.explain.facts.changes import judge_fleet
from fleet.explain.facts.outcomes import UNDECIDED, rate_outcome
from fleet.explain.fixes.fixes import Fixes, find_fixes, find_fixes_for_cluster, is_improvable
from fleet.framework.status import REJECTIONS
from fleet.history import HistoryAttempt
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.keys import AFFINITY
from fleet.model.timestamps import format_timestamp
from fleet.scheduler.attempt_record import AttemptResult

FixMode = Literal["none", "fast", "deep"]

EDIT_CLUSTERS: Final = AccessRequest(verb="update", group=MEMBER_CLUSTERS.group, resource=MEMBER_CLUSTERS.plural)
_OTHER_CONFIGURATION: Final = "OtherConfiguration"
_STATUS_IS_OLDER: Final = "StatusIsOlder"
_REFUSALS: Final = frozenset(map(str, REJECTIONS))
_DELETED: Final = frozenset({AttemptResult.CLEANED_UP.value, AttemptResult.GONE.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyQuery:
    key: str
    attempt: str | None = None
    """A number or an id; None for the present state."""
    cluster: str | None = None
    everything: bool = False
    fixes: FixMode = "fast"
    limit: int = 20
    cursor: str = ""
    for_cluster: bool = False
    """Search fixes that bring in `cluster`."""


class _Rights(NamedTuple):
    answerable: Collection[str] = ()
    """Approval rules."""
    clearable: tuple[str, ...] = ()
    """Gates."""
    readable: Collection[str] = ()
    """Victims of the placement."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What people keep the placement from, or may."""

    gate: GateModel | None = None
    waiting: WaitingModel | None = None
    preempting: PreemptingModel | None = None
    group: GroupModel | None = None
    denials: tuple[DenialModel, ...] = ()
    is_bound: bool = False

    @property
    def headline(self) -> str:
        if self.gate is not None:
            return describe_gated(self.gate)
        if self.preempting is not None:
            return describe_preempted(self.preempting)
        if self.waiting is not None:
            return describe_waited(self.waiting)
        return "" if self.group is None or self.is_bound else describe_grouped(self.group)

    @property
    def state(self) -> State | None:
        if self.gate is not None:
            return "Gated"
        if self.preempting is not None:
            return "Preempting"
        if self.waiting is None:
            return None
        return "Waiting" if self.waiting.waiting or self.waiting.redacted else "Binding"


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Everything that an answer is built from."""

    query: WhyQuery
    record: PlacementRecord
    evaluated: EvaluatedDecision
    visibility: Visibility
    may_edit_clusters: bool
    present_fixes: Fixes | None
    queue: QueueModel | None
    held: _Held
    context: AnswerContext


@dataclass(frozen=True, slots=True)
class Explanation:
    """An answer, and what it was made from: `answers` compares all of it before it serves the answer again."""

    answer: WhyAnswer
    record: PlacementRecord
    visibility: Visibility
    may_edit_clusters: bool
    queue_version: Hashable
    present: EvaluatedDecision | None
    """The decision on the present fleet, if the answer has anything of it."""
    is_large: bool
    """Whether to write it down may take long."""


async def explain_placement(backend: Backend, permissions: Permissions, query: WhyQuery) -> Explanation:
    backend.live.require_synced()  # what was not read yet would look deleted
    # A caller who may not read all clusters costs a review of each: that takes no slot from others.
    reviewed = frozenset(backend.live.caches.clusters)
    visibility = await permissions.load_visibility(reviewed)
    may_edit_clusters = await permissions.allow(EDIT_CLUSTERS)
    asked = backend.live.find_placement(query.key, with_bindings=False)
    rights = _Rights() if asked is None else await _load_rights(backend, permissions, asked)
    group = None if asked is None else await find_group_of(backend, permissions, asked, visibility)
    async with backend.evaluator.admit(permissions.caller.name):
        if query.attempt is None:
            record = await load_record(backend, query.key)
        else:
            record = await load_attempt(backend, query.key, query.attempt)
        evaluated, present = await evaluate_record(backend, query.key, record, is_past=query.attempt is not None)
        recorded_names = () if record.explaining is None else collect_cluster_names([record.explaining])
        visibility = await permissions.extend_visibility(
            visibility, reviewed, evaluated.decision.frame.names.ordered, recorded_names
        )
        departed = await find_departed(backend, record.searched)
        is_other = await _is_of_other_configuration(backend, record)
        present_fixes = await _search_present_fixes(query, evaluated, present)
        async with evaluated.turn():
            wakers = await evaluated.run(_list_wakers, backend.live, record, visibility)
            place = find_queue_place(backend.live, query.key) if query.attempt is None else None
            queue = None if place is None else _build_queue(backend, record, place, visibility, wakers)
            held = _find_what_holds(backend, query, record, visibility, queue, rights, group)
            context = _build_context(
                backend,
                query,
                record,
                evaluated,
                present,
                visibility,
                held,
                held.state or _compute_state(query, record, queue),
                departed,
                fixes_are_present=present_fixes is not None,
                is_of_other_configuration=is_other,
            )
            inputs = _Inputs(
                query, record, evaluated, visibility, may_edit_clusters, present_fixes, queue, held, context
            )
            answer = await evaluated.lane.thread.run(_build_answer, inputs)
        version = None if place is None else place.version
        if backend.explains_other and record.placement is not None and evaluated.attempt is None:
            evaluation = await compare_with_bound(backend, record.placement, evaluated, visibility)
            answer = msgspec.structs.replace(answer, evaluation=evaluation)
        return Explanation(answer, record, visibility, may_edit_clusters, version, present, evaluated.is_large)


async def _load_rights(backend: Backend, permissions: Permissions, placement: LivePlacement) -> _Rights:
    answerable = await list_answerable(backend, permissions, placement)
    victims = {victim for each in list_preemptions(placement) for victim in each.victims}
    readable = await permissions.filter_placements(victims) if victims else ()
    return _Rights(answerable, await list_clearable(permissions, placement), readable)


# --- steps ------------------------------------------------------------------------------------------------------------


async def evaluate_record(
    backend: Backend, key: str, record: PlacementRecord, *, is_past: bool
) -> tuple[EvaluatedDecision, EvaluatedDecision | None]:
    """The decision of the explaining attempt, evaluated again, as long as it describes the present; else the present
    one. The second is the present one, unless the question is about a past attempt."""
    recorded = None
    if record.explaining is not None and (is_past or record.is_current):
        try:
            recorded = await backend.evaluator.evaluate_attempt(record.explaining)
        except HistoryUnavailable:
            recorded = None
    if recorded is not None and (is_past or record.placement is None):
        return recorded, None
    if record.placement is None:
        raise refusal(
            410,
            f"placement {key} is gone, and what its last decision was made of is not kept any more",
            object=f"placement {key}",
            next=f"GET /v1/placements/{format_path(key)}/history lists the recorded attempts",
        )
    present = await backend.evaluator.evaluate_live(record.placement)
    if recorded is None or not await _describes_present(recorded, present):
        return present, present
    return recorded, present


async def _describes_present(recorded: EvaluatedDecision, present: EvaluatedDecision) -> bool:
    """Whether the clusters, their use and the judgements on them are still those of the record. A decision that only
    confirmed evaluated nothing that could be shown in place of the present."""
    if not recorded.decision.rounds and recorded.decision.fixed_verdicts is None:
        return False
    if present.decision.error is not None or present.decision.pending_query is not None:
        return False
    async with (recorded if recorded.lane.is_large else present).turn():
        now = await present.run(judge_fleet, present.decision, present.scenario.question)
        then = await recorded.run(judge_fleet, recorded.decision, recorded.scenario.question)
    return then == now


async def _is_of_other_configuration(backend: Backend, record: PlacementRecord) -> bool:
    """Whether the attempt was decided by plugins that this process does not have: another package, or version of it."""
    attempt = record.explaining
    if attempt is None or backend.evaluator.profiles.find_equal(attempt.config_hash) is not None:
        return False
    try:
        recorded = await backend.evaluator.evaluate_attempt(attempt)
    except HistoryUnavailable:
        return False
    return recorded is not None and recorded.decision.config_hash != attempt.config_hash


async def _search_present_fixes(
    query: WhyQuery, evaluated: EvaluatedDecision, present: EvaluatedDecision | None
) -> Fixes | None:
    """Fixes to the present fleet and bindings, to which a user applies them, for an answer from a record. None if
    `evaluated` is itself the present state, or the query is about an earlier attempt."""
    is_needed = query.fixes != "none" and (query.for_cluster or is_improvable(evaluated.decision))
    if present is None or present is evaluated or not is_needed:
        return None
    async with present.turn():
        return await present.lane.thread.run(_search_fixes, query, present, explained=evaluated)


def _search_fixes(
    query: WhyQuery, evaluated: EvaluatedDecision, *, explained: EvaluatedDecision | None = None
) -> Fixes | None:
    if query.fixes == "none":
        return None
    if not query.for_cluster or query.cluster is None:
        return find_fixes(evaluated.scenario, evaluated.decision, mode=query.fixes)
    earlier = None if explained is None else (explained.scenario, explained.decision)
    return find_fixes_for_cluster(
        evaluated.scenario, evaluated.decision, query.cluster, mode=query.fixes, earlier=earlier
    )


def _list_wakers(live: LiveState, record: PlacementRecord, visibility: Visibility) -> tuple[Waker, ...]:
    if record.placement is None:
        return ()
    snapshot = None if record.placement.snapshot is None else record.placement.snapshot.view
    metadata = record.placement.placement.view.metadata
    profile = live.frameworks.choose(live.companions.scheduler_name_of(metadata)).profile
    names_others = bool(live.companions.annotations_of(metadata).get(AFFINITY))
    others = (
        *(list_resident_events(profile) if names_others else ()),
        *(list_quota_events(profile) if record.placement.quotas else ()),
    )
    return list_wake_events(
        snapshot, record.placement.key, profile.event_sources, others=others, hides=visibility.hides
    )


def _build_queue(
    backend: Backend, record: PlacementRecord, place: QueuePlace, visibility: Visibility, wakers: tuple[Waker, ...]
) -> QueueModel | None:
    if record.placement is None or backend.explains_other or backend.live.is_foreign(record.placement):
        return None
    settings = backend.effective.settings.queue
    return build_queue_model(backend.live, place, settings, wakers, hides=visibility.redact)


def read_queue_version(live: LiveState, query: WhyQuery) -> Hashable:
    """Equal as long as the queue says the same; past attempts have no place in it."""
    return find_queue_place(live, query.key).version if query.attempt is None else None


def _build_answer(inputs: _Inputs) -> WhyAnswer:
    query, record, evaluated = inputs.query, inputs.record, inputs.evaluated
    explained = build_answer(
        evaluated.scenario.question,
        evaluated.decision,
        cluster=query.cluster,
        everything=query.everything,
        limit=query.limit,
        cursor=query.cursor,
        redact=inputs.visibility.redact,
        context=inputs.context,
        fixes=_search_fixes(query, evaluated) if inputs.present_fixes is None else inputs.present_fixes,
        may_edit_clusters=inputs.may_edit_clusters,
    )
    parts = {name: getattr(explained, name) for name in explained.__struct_fields__}
    return WhyAnswer(
        **parts,
        queue=inputs.queue,
        recorded=None if record.explaining is None else build_decision_model(record.explaining, inputs.visibility),
        history=tuple(map(build_past_attempt, record.recent)),
        links=_build_links(query.key, evaluated),
        gate=inputs.held.gate,
        waiting=inputs.held.waiting,
        preempting=inputs.held.preempting,
        group=inputs.held.group,
        denials=inputs.held.denials,
    )


# --- parts of the answer ----------------------------------------------------------------------------------------------


def _build_context(
    backend: Backend,
    query: WhyQuery,
    record: PlacementRecord,
    evaluated: EvaluatedDecision,
    present: EvaluatedDecision | None,
    visibility: Visibility,
    held: _Held,
    state: State | None,
    departed: frozenset[str],
    *,
    fixes_are_present: bool,
    is_of_other_configuration: bool,
) -> AnswerContext:
    attempt, placement = evaluated.attempt or record.explaining, record.placement
    is_about_now = present is not None and placement is not None
    problems: tuple[ProblemPart, ...] = ()
    notes: list[StatusNote] = []
    if is_of_other_configuration and record.explaining is not None:
        notes.append(_describe_configuration(backend, record.explaining))
    headline = held.headline or _describe_end(query, record, visibility)
    is_foreign = is_about_now and placement is not None and backend.live.is_foreign(placement)
    if placement is not None and is_about_now:
        refused = find_selector_problems(placement.placement)
        problems = tuple(
            ProblemPart(problem.field, problem.value, problem.message)
            for problem in refused
            if problem not in evaluated.decision.request.problems
        )
        notes += list(list_status_notes(placement.placement, shows_messages=visibility.is_whole))
        notes += map(_describe_warning, record.warnings if visibility.is_whole else ())
        published = read_published_state(placement.placement, placement.snapshot)
        if is_foreign:
            state = "ForeignScheduler"
            name = backend.live.companions.scheduler_name_of(placement.placement.view.metadata)
            notes.insert(0, note_foreign(backend.live.frameworks, name))
            headline = describe_foreign(backend.live.frameworks, name)
        elif refused:
            state = "InputError"
        elif state is None and rate_outcome(evaluated.decision) != UNDECIDED:
            state = published or name_undecided(record.newest)
            notes += _describe_lag(state, evaluated, attempt)
    return AnswerContext(
        state=state,
        headline=headline,
        since=_format_start(_find_last_attempt(record, attempt) if query.attempt is None else attempt),
        attempt_id=attempt.id if attempt else "",
        number=attempt.number if attempt else None,
        duration_ms=round(sum(attempt.phases.values()) * 1000, 3) if attempt else None,
        evaluated_on="current" if evaluated.attempt is None else "recorded",
        effects={} if attempt is None else group_effects(attempt, visibility),
        writes=() if attempt is None else tuple(list_writes(attempt, visibility)),
        problems=problems,
        status_notes=tuple(notes),
        given_up=tuple(list_given_up(placement, record.searched, departed)) if is_about_now else (),
        history_unavailable_since=record.unavailable_since,
        fixes_evaluated_on="current" if fixes_are_present else None,
    )


def _describe_configuration(backend: Backend, attempt: HistoryAttempt) -> StatusNote:
    here = ", ".join(dict.fromkeys(backend.live.frameworks.list_packages())) or "none"
    message = (
        f"attempt {attempt.number} was decided by configuration {attempt.config_hash}, which cannot be built here: its "
        f"plugins, their packages or values from Secrets are others. Packages of plugins here: {here}. What follows is "
        "how the configuration here would have decided"
    )
    return StatusNote(reason=_OTHER_CONFIGURATION, message=message)


def _describe_warning(event: WarningEvent) -> StatusNote:
    return StatusNote(reason=event.reason, message=event.message, at=event.at)


def _describe_lag(state: State, evaluated: EvaluatedDecision, attempt: HistoryAttempt | None) -> Iterator[StatusNote]:
    """Silence has no event: the scheduler learns of it when something else makes it decide."""
    now = state_of(evaluated.decision)
    if evaluated.attempt is None and now != state and state in ("Scheduled", "Partial", "Unschedulable"):
        since = f", of {format_moment(format_timestamp(attempt.started))}" if attempt else ""
        message = f"the hub shows the last decision{since}: {state}. The next one, after any event, would be: {now}"
        refusing = () if attempt is None else [each.plugin for each in attempt.effects if each.code in _REFUSALS]
        if refusing:
            message += f", unless {', '.join(dict.fromkeys(refusing))} refuses again"
        yield StatusNote(reason=_STATUS_IS_OLDER, message=message)


def _find_what_holds(
    backend: Backend,
    query: WhyQuery,
    record: PlacementRecord,
    visibility: Visibility,
    queue: QueueModel | None,
    rights: _Rights,
    group: GroupModel | None,
) -> _Held:
    """Of the present state."""
    placement = record.placement
    if query.attempt is not None or placement is None or queue is None:
        return _Held()
    waiting = describe_waiting(backend, placement, visibility, rights.answerable)
    preempting = describe_preempting(backend.live, placement, visibility, rights.readable)
    denials = tuple(list_denials(backend, placement, visibility))
    gate = describe_gate(backend, placement, queue, visibility, rights.clearable)
    return _Held(gate, waiting, preempting, group, denials, is_bound=bool(placement.list_live_bindings()))


def _compute_state(query: WhyQuery, record: PlacementRecord, queue: QueueModel | None) -> State | None:
    if query.attempt is not None:
        return None if record.explaining is None else name_end(record.explaining)
    if record.placement is None:
        return "Deleted"
    return compute_present_state(queue, record.newest, was_decided=record.was_decided)


def _describe_end(query: WhyQuery, record: PlacementRecord, visibility: Visibility) -> str:
    """Of a past attempt whose decision was not carried out."""
    attempt = record.explaining
    if query.attempt is None or attempt is None or name_end(attempt) is None:
        return ""
    _, _, message = attempt.error.partition(": ")  # after the kind of the error
    return message if message and visibility.is_whole else f"it ended as {attempt.ending}"


def _find_last_attempt(record: PlacementRecord, attempt: HistoryAttempt | None) -> HistoryAttempt | None:
    """Of a deleted placement the attempt that noticed the deletion."""
    is_over = record.placement is None and record.newest is not None and record.newest.ending in _DELETED
    return record.newest if is_over else attempt


def _format_start(attempt: HistoryAttempt | None) -> str:
    return format_timestamp(attempt.started) if attempt else ""


def _build_links(key: str, evaluated: EvaluatedDecision) -> dict[str, str]:
    base = f"/v1/placements/{format_path(key)}"
    links = {"placement": base, "history": f"{base}/history", "simulate": "/v1/simulate"}
    return links | ({"attempt": f"{base}/why?attempt={evaluated.attempt.id}"} if evaluated.attempt else {})
