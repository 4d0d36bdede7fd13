"""The attempt in an answer: what ran, what it said of which clusters, and what was picked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal

from fleet.explain.answer.parts import (
    AttemptPart,
    ClusterRow,
    DomainPart,
    GroupPart,
    HookStatus,
    PostFilterPart,
    RoundPart,
    Skipped,
    State,
    WarningPart,
)
from fleet.explain.answer.rows import Rows
from fleet.explain.facts.cluster_outcome import Standings
from fleet.explain.facts.full_domains import FullDomain, Unusable, full_domains
from fleet.explain.facts.nearness import in_name_order
from fleet.explain.facts.phrases import lacking
from fleet.explain.facts.redaction import STAND_IN, Veil
from fleet.explain.facts.rejection_groups import NAMES_SHOWN, Closest, closest_row
from fleet.explain.facts.rejections import Gathered, first_refusal, gathered
from fleet.framework.context import (
    MISSING_PREVIOUS_STATE,
    MISSING_TOPOLOGY_KEY,
    NAMESPACE_UNCONFIRMED,
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

_ABOUT_POLICY: Final = frozenset({MISSING_TOPOLOGY_KEY, NAMESPACE_UNCONFIRMED, UNREADABLE_PROPERTY})
_ABOUT_BINDINGS: Final = frozenset({MISSING_PREVIOUS_STATE, SURPLUS_BINDING, UNKNOWN_BINDING_STATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the one who asks knows beside the decision."""

    state: State | None = None
    """Where the placement is now, if that is not what the decision says."""
    since: str = ""
    scheduler_name: str = ""
    attempt_id: str = ""
    number: int | None = None
    duration_ms: float | None = None
    evaluated_on: Literal["recorded", "current"] = "recorded"
    fixes_evaluated_on: Literal["recorded", "current"] | None = None
    """None: on what the decision was made on."""
    history_unavailable_since: str = ""
    effects: Mapping[str, tuple[HookStatus, ...]] = field(default_factory=dict)
    """What effect hooks said: reserve, permit, preBind, bind."""


UNKNOWN: Final = Circumstances()


# --- attempt --------------------------------------------------------------------------------------------------------


def attempt_part(
    inp: DecisionInput,
    decision: Decision,
    rows: Rows,
    veil: Veil,
    circumstances: Circumstances,
    *,
    shown: tuple[ClusterRow, ...],
    following: str,
) -> AttemptPart:
    verdicts, effects = decision.verdicts, circumstances.effects
    scored = any(one.scores.columns for one in decision.rounds)
    blocked = full_domains(decision, among=~veil.rows, most=NAMES_SHOWN)
    told = tuple(islice(_domains(blocked, decision, veil), NAMES_SHOWN))
    return AttemptPart(
        n=circumstances.number,
        id=circumstances.attempt_id,
        profile=inp.profile.scheduler_name,
        config_hash=decision.config_hash,
        frame_generation=decision.frame.generation,
        evaluated_on=circumstances.evaluated_on,
        at=format_timestamp(decision.now),
        duration_ms=circumstances.duration_ms,
        digest=decision.digest,
        rounds=decision.round_count,
        round_detail=tuple(_rounds(inp, decision, veil)),
        examined=0 if verdicts is None or verdicts.fill is not None else verdicts.examined.bit_count(),
        ranking=inp.profile.ranking,
        tie_break=decision.tie_break,
        scores_from="recorded" if scored else None,
        skipped=_skipped(decision),
        groups=_groups(decision, veil),
        clusters=shown,
        next_cursor=following,
        strangers=tuple(rows.strangers()),
        full_domains=told,
        full_domains_left_out=len(blocked) - len(told),
        pre_filter=tuple(_pre_filter(inp, decision)),
        pre_score=tuple(_pre_score(inp, decision)),
        post_filter=_post_filter(inp, decision, veil),
        reserve=effects.get("reserve", ()),
        permit=effects.get("permit", ()),
        pre_bind=effects.get("preBind", ()),
        bind=effects.get("bind", ()),
        notes=veil.value({plugin: dict(notes) for plugin, notes in decision.notes.items()}),
        warnings=tuple(_warnings(inp, decision, veil)),
    )


def _groups(decision: Decision, veil: Veil) -> tuple[GroupPart, ...]:
    standings = Standings(decision)
    found = (_group(standings, one, veil) for one in gathered(standings))
    return tuple(sorted(found, key=lambda one: (-one.count, one.plugin, one.reason)))


def _group(standings: Standings, one: Gathered, veil: Veil) -> GroupPart:
    frame, named = standings.frame, one.rows & ~veil.rows
    in_order = in_name_order(frame, named)
    return GroupPart(
        plugin=one.plugin,
        reason=one.reason,
        code=str(_code(standings, one)),
        count=one.rows.bit_count(),
        clusters=tuple(frame.name(row) for row in in_order[:NAMES_SHOWN]),
        more=max(len(in_order) - NAMES_SHOWN, 0),
        hidden=(one.rows & veil.rows).bit_count(),
        closest=_closest(standings, one._replace(rows=named), veil) if named else None,
    )


def _closest(standings: Standings, one: Gathered, veil: Veil) -> Closest:
    row = closest_row(standings, one)
    refused = first_refusal(standings, row)
    assert refused is not None
    return Closest(standings.frame.name(row), lacking(veil.refusal(refused)))


def _code(standings: Standings, one: Gathered) -> Code:
    verdicts = standings.decision.verdicts
    assert verdicts is not None
    status = verdicts.status((one.rows & -one.rows).bit_length() - 1)
    return Code.UNSCHEDULABLE_AND_UNRESOLVABLE if status is None else status.code


def _rounds(inp: DecisionInput, decision: Decision, veil: Veil) -> Iterator[RoundPart]:
    if decision.round_count < 2:
        return
    wanted = (decision.request.wanted or 0) - decision.bindings.present
    limit = Cycle(inp, NULL_PROBE, CycleState()).runner.run_post_batch(decision.frame, wanted)
    picked: dict[int, list[str]] = {}
    for target in decision.targets:
        picked.setdefault(target.step, []).append(target.cluster)
    for step in range(1, decision.round_count + 1):
        names = picked.get(step, [])
        visible = veil.visible(names)
        yield RoundPart(step, limit, visible, len(names) - len(visible))


def _skipped(decision: Decision) -> tuple[Skipped, ...]:
    """Per plugin the hooks at which it had nothing to do."""
    hooks: dict[str, list[str]] = {}
    for hook, names in decision.skipped.items():
        for name in names:
            hooks.setdefault(name, []).append(hook)
    return tuple(Skipped(plugin, ",".join(found)) for plugin, found in hooks.items())


def _pre_filter(inp: DecisionInput, decision: Decision) -> Iterator[HookStatus]:
    if decision.verdicts is None or decision.fixed_verdicts is not None:
        return
    refused = {one.plugin: one for one in decision.verdicts.refusals}
    off = decision.skipped.get("filter", ())
    for one in inp.profile.pre_filter:
        status = refused.get(one.name)
        code = str(status.code) if status else "Skip" if one.name in off else "Success"
        yield HookStatus(plugin=one.name, code=code, message=message_of(status))
        if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return


def _pre_score(inp: DecisionInput, decision: Decision) -> Iterator[HookStatus]:
    if decision.round is None or not len(decision.round.scores.rows) or decision.request.wanted is None:
        return
    off = decision.skipped.get("score", ())
    for one in inp.profile.pre_score:
        yield HookStatus(plugin=one.name, code="Skip" if one.name in off else "Success")


def _post_filter(inp: DecisionInput, decision: Decision, veil: Veil) -> PostFilterPart | None:
    """None where it was not tried."""
    least = decision.request.min_targets or 1
    if not inp.profile.post_filter or not decision.rounds or decision.request.wanted is None:
        return None
    if decision.bindings.present + len(decision.targets) >= least and not decision.nomination:
        return None
    return PostFilterPart(tuple(one.name for one in inp.profile.post_filter), veil.visible(decision.nomination))


def _warnings(inp: DecisionInput, decision: Decision, veil: Veil) -> Iterator[WarningPart]:
    for one in decision.warnings:
        names = tuple(decision.frame.name(row) for row in in_name_order(decision.frame, one.rows & ~veil.rows))
        yield WarningPart(one.kind, _subject(one, inp, veil), names[:NAMES_SHOWN], (one.rows & veil.rows).bit_count())


def _subject(one: Odd, inp: DecisionInput, veil: Veil) -> str:
    """The name of a binding contains the name of its cluster; words of a policy come back as they were sent."""
    if one.kind in _ABOUT_BINDINGS:
        hidden = (binding.metadata.name for binding in inp.bindings if veil.hides(binding.spec.target_cluster))
        return STAND_IN if one.subject in hidden else one.subject
    return one.subject if one.kind in _ABOUT_POLICY else veil.text(one.subject)


def _domains(found: Iterable[FullDomain], decision: Decision, veil: Veil) -> Iterator[DomainPart]:
    for one in found:
        if not veil.shows_domain(one.key, one.domain):
            continue
        members = decision.frame.labels(one.key).eq(one.domain)
        hidden = (members & veil.rows).bit_count()
        yield DomainPart(
            key=one.key,
            domain=one.domain,
            count=one.count,
            max_skew=one.max_skew,
            clusters=tuple(_unusable(each, veil) for each in one.clusters),
            more=members.bit_count() - hidden - len(one.clusters),
            hidden=hidden,
        )


def _unusable(one: Unusable, veil: Veil) -> Unusable:
    return one if one.refusal is None else Unusable(one.cluster, veil.refusal(one.refusal))
