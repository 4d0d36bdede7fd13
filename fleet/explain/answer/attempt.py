"""The attempt in an answer: hooks, rejections by plugin and reason, rounds, warnings and rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal

from fleet.explain.answer.parts import (
    AttemptPart,
    Closest,
    ClusterRow,
    DomainPart,
    GroupPart,
    HookStatus,
    PastUse,
    PostFilterPart,
    ProblemPart,
    RoundPart,
    SkippedPlugin,
    State,
    StatusNote,
    WarningPart,
    WritePart,
)
from fleet.explain.answer.rows import Rows
from fleet.explain.facts.outcomes import ClusterOutcomes
from fleet.explain.facts.redaction import STAND_IN, Redaction
from fleet.explain.facts.rejections import (
    NAMES_SHOWN,
    FullDomain,
    RejectionGroup,
    Unusable,
    describe_lack,
    describe_reason,
    find_closest_row,
    find_first_rejection,
    find_full_domains,
    group_rejections,
)
from fleet.explain.remarks.remark import Remark
from fleet.framework.context import (
    MISSING_PREVIOUS_STATE,
    MISSING_TOPOLOGY_KEY,
    NAMESPACE_UNCONFIRMED,
    RESOURCE_UNKNOWN,
    SURPLUS_BINDING,
    UNKNOWN_BINDING_STATE,
    UNREADABLE_PROPERTY,
)
from fleet.framework.context import Warning as Odd
from fleet.framework.cycle.cycle import Cycle, DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.cycle.runner import NULL_PROBE
from fleet.framework.state import CycleState
from fleet.framework.status import Code, message_of
from fleet.model.timestamps import format_timestamp

_ABOUT_POLICY: Final = frozenset({MISSING_TOPOLOGY_KEY, NAMESPACE_UNCONFIRMED, RESOURCE_UNKNOWN, UNREADABLE_PROPERTY})
_ABOUT_BINDINGS: Final = frozenset({MISSING_PREVIOUS_STATE, SURPLUS_BINDING, UNKNOWN_BINDING_STATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContext:
    """Facts from the caller, in addition to the decision."""

    state: State | None = None
    """Where the placement is now, if it differs from the one the decision implies."""
    headline: str = ""
    """What keeps the decision from being carried out, and what the summary is about then."""
    since: str = ""
    scheduler_name: str = ""
    attempt_id: str = ""
    number: int | None = None
    duration_ms: float | None = None
    evaluated_on: Literal["recorded", "current"] = "recorded"
    fixes_evaluated_on: Literal["recorded", "current"] | None = None
    """None: on the inputs of the decision."""
    history_unavailable_since: str = ""
    remarks: tuple[Remark, ...] = ()
    """About what the placement selects, which no decision reads."""
    effects: Mapping[str, tuple[HookStatus, ...]] = field(default_factory=dict)
    """Statuses of the effect hooks that ran: reserve, permit, preBind, bind."""
    writes: tuple[WritePart, ...] = ()
    problems: tuple[ProblemPart, ...] = ()
    """In the placement, beside those of its policy."""
    status_notes: tuple[StatusNote, ...] = ()
    given_up: tuple[PastUse, ...] = ()


UNKNOWN: Final = AnswerContext()


# --- attempt --------------------------------------------------------------------------------------------------------


def build_attempt(
    inp: DecisionInput,
    decision: Decision,
    rows: Rows,
    redaction: Redaction,
    context: AnswerContext,
    *,
    considered: Decision,
    shown: tuple[ClusterRow, ...],
    following: str,
) -> AttemptPart:
    """`considered` is the decision with the verdicts on newcomers, where it has none of its own."""
    verdicts, effects = decision.verdicts, context.effects
    blocked = find_full_domains(decision, among=~redaction.rows, most=NAMES_SHOWN)
    shown_domains = tuple(islice(_build_domains(blocked, decision, redaction), NAMES_SHOWN))
    return AttemptPart(
        n=context.number,
        id=context.attempt_id,
        profile=inp.profile.scheduler_name,
        config_hash=decision.config_hash,
        frame_generation=decision.frame.generation,
        evaluated_on=context.evaluated_on,
        at=format_timestamp(decision.now),
        duration_ms=context.duration_ms,
        digest=decision.digest,
        rounds=decision.round_count,
        round_detail=tuple(_build_rounds(inp, decision, redaction)),
        examined=0 if verdicts is None or verdicts.fill is not None else verdicts.examined.bit_count(),
        ranking=inp.profile.ranking,
        tie_break=decision.tie_break,
        scores_from="recorded" if _is_scored(decision) else "explain" if _is_scored(considered) else None,
        skipped=_build_skipped(decision),
        newcomers=considered is not decision,
        groups=_build_groups(inp, considered, redaction),
        clusters=shown,
        next_cursor=following,
        strangers=tuple(rows.build_strangers()),
        full_domains=shown_domains,
        full_domains_left_out=len(blocked) - len(shown_domains),
        pre_filter=tuple(_build_pre_filter(inp, decision)),
        pre_score=tuple(_build_pre_score(inp, decision)),
        post_filter=_build_post_filter(inp, decision, redaction),
        reserve=effects.get("reserve", ()),
        permit=effects.get("permit", ()),
        pre_bind=effects.get("preBind", ()),
        bind=effects.get("bind", ()),
        writes=context.writes,
        notes=redaction.redact_value({plugin: dict(notes) for plugin, notes in decision.notes.items()}),
        warnings=tuple(_build_warnings(inp, decision, redaction)),
    )


def _is_scored(decision: Decision) -> bool:
    return any(scored_round.scores.columns for scored_round in decision.rounds)


def _build_groups(inp: DecisionInput, decision: Decision, redaction: Redaction) -> tuple[GroupPart, ...]:
    outcomes = ClusterOutcomes(decision)
    groups = (_build_group(inp, outcomes, group, redaction) for group in group_rejections(outcomes))
    return tuple(sorted(groups, key=lambda part: (-part.count, part.plugin, part.reason)))


def _build_group(
    inp: DecisionInput, outcomes: ClusterOutcomes, group: RejectionGroup, redaction: Redaction
) -> GroupPart:
    frame, named = outcomes.frame, group.rows & ~redaction.rows
    in_order = frame.sort_by_name(named)
    return GroupPart(
        plugin=group.plugin,
        reason=group.reason,
        code=str(_find_code(outcomes, group)),
        count=group.rows.bit_count(),
        clusters=tuple(frame.name(row) for row in in_order[:NAMES_SHOWN]),
        more=max(len(in_order) - NAMES_SHOWN, 0),
        hidden=(group.rows & redaction.rows).bit_count(),
        closest=_find_closest(inp, outcomes, group._replace(rows=named), redaction) if named else None,
    )


def _find_closest(
    inp: DecisionInput, outcomes: ClusterOutcomes, group: RejectionGroup, redaction: Redaction
) -> Closest:
    row = find_closest_row(outcomes, inp, group)
    rejection = find_first_rejection(outcomes, row)
    assert rejection is not None
    return Closest(outcomes.frame.name(row), describe_lack(redaction.redact_rejection(rejection)))


def _find_code(outcomes: ClusterOutcomes, group: RejectionGroup) -> Code:
    verdicts = outcomes.decision.verdicts
    assert verdicts is not None
    status = verdicts.status((group.rows & -group.rows).bit_length() - 1)
    return Code.UNSCHEDULABLE_AND_UNRESOLVABLE if status is None else status.code


def _build_rounds(inp: DecisionInput, decision: Decision, redaction: Redaction) -> Iterator[RoundPart]:
    if decision.round_count < 2:
        return
    wanted = (decision.request.wanted or 0) - decision.bindings.present
    limit = Cycle(inp, NULL_PROBE, CycleState()).runner.run_post_batch(decision.frame, wanted)
    picked: dict[int, list[str]] = {}
    for target in decision.targets:
        picked.setdefault(target.step, []).append(target.cluster)
    for step in range(1, decision.round_count + 1):
        names = picked.get(step, [])
        visible = redaction.select_visible(names)
        yield RoundPart(step, limit, visible, len(names) - len(visible))


def _build_skipped(decision: Decision) -> tuple[SkippedPlugin, ...]:
    """Per plugin the hooks that it skipped."""
    hooks: dict[str, list[str]] = {}
    for hook, names in decision.skipped.items():
        for name in names:
            hooks.setdefault(name, []).append(hook)
    return tuple(SkippedPlugin(plugin, ",".join(names)) for plugin, names in hooks.items())


def _build_pre_filter(inp: DecisionInput, decision: Decision) -> Iterator[HookStatus]:
    if decision.verdicts is None or decision.fixed_verdicts is not None:
        return
    rejection = {status.plugin: status for status in decision.verdicts.refusals}
    off = decision.skipped.get("filter", ())
    for plugin in inp.profile.pre_filter:
        status = rejection.get(plugin.name)
        code = str(status.code) if status else "Skip" if plugin.name in off else "Success"
        yield HookStatus(plugin=plugin.name, code=code, message=message_of(status))
        if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return


def _build_pre_score(inp: DecisionInput, decision: Decision) -> Iterator[HookStatus]:
    if decision.round is None or not len(decision.round.scores.rows) or decision.request.wanted is None:
        return
    off = decision.skipped.get("score", ())
    for plugin in inp.profile.pre_score:
        yield HookStatus(plugin=plugin.name, code="Skip" if plugin.name in off else "Success")


def _build_post_filter(inp: DecisionInput, decision: Decision, redaction: Redaction) -> PostFilterPart | None:
    """None where it did not run."""
    least = decision.request.min_targets or 1
    if not inp.profile.post_filter or not decision.rounds or decision.request.wanted is None:
        return None
    if decision.bindings.present + len(decision.targets) >= least and not decision.nomination:
        return None
    return PostFilterPart(
        tuple(plugin.name for plugin in inp.profile.post_filter), redaction.select_visible(decision.nomination)
    )


def _build_warnings(inp: DecisionInput, decision: Decision, redaction: Redaction) -> Iterator[WarningPart]:
    for warning in decision.warnings:
        names = tuple(decision.frame.name(row) for row in decision.frame.sort_by_name(warning.rows & ~redaction.rows))
        yield WarningPart(
            warning.kind,
            _redact_subject(warning, inp, redaction),
            names[:NAMES_SHOWN],
            (warning.rows & redaction.rows).bit_count(),
        )


def _redact_subject(warning: Odd, inp: DecisionInput, redaction: Redaction) -> str:
    """The name of a binding contains the name of its cluster; words of a policy are returned as they were sent."""
    if warning.kind in _ABOUT_BINDINGS:
        hidden = (binding.metadata.name for binding in inp.bindings if redaction.hides(binding.spec.target_cluster))
        return STAND_IN if warning.subject in hidden else warning.subject
    return warning.subject if warning.kind in _ABOUT_POLICY else redaction.redact_text(warning.subject)


def _build_domains(domains: Iterable[FullDomain], decision: Decision, redaction: Redaction) -> Iterator[DomainPart]:
    for domain in domains:
        if not redaction.shows_domain(domain.key, domain.domain):
            continue
        members = decision.frame.labels(domain.key).eq(domain.domain)
        hidden = (members & redaction.rows).bit_count()
        yield DomainPart(
            key=domain.key,
            domain=domain.domain,
            count=domain.count,
            max_skew=domain.max_skew,
            clusters=tuple(_redact_unusable(each, redaction) for each in domain.clusters),
            more=members.bit_count() - hidden - len(domain.clusters),
            hidden=hidden,
        )


def _redact_unusable(cluster: Unusable, redaction: Redaction) -> Unusable:
    if cluster.refusal is None:
        return cluster
    shown = redaction.redact_rejection(cluster.refusal)
    return Unusable(cluster.cluster, shown, describe_reason(shown))
