"""Differences between two decisions: targets, first rejections, scores and inputs.

Clusters are compared by name, because the two may be about different fleets, by the plugin that rejects them first. A
cluster that one of the two decisions did not evaluate has nothing to compare and is only counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fleet.explain.facts.outcomes import TARGETS_SHOWN, ClusterOutcomes, list_clusters_in_use, name_outcome
from fleet.explain.facts.redaction import Hidden, Redaction
from fleet.explain.facts.rejections import NAMES_SHOWN, describe_lack, find_first_rejection, group_rejections
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Target
from fleet.framework.policy.terms import Preference
from fleet.framework.request import PlacementRequest
from fleet.model.views import Toleration
from fleet.snapshot.columns.bitset import each_row
from fleet.snapshot.frame import Frame

FITS: Final = "fits"
ABSENT: Final = "absent"
NOT_EVALUATED: Final = "not evaluated"
LEAST_MOVEMENT: Final = 2
"""Points: smaller changes of a score are noise."""


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Side(_Part, frozen=True):
    """One of the two decisions."""

    outcome: str
    digest: str
    snapshot: str
    generation: int | None
    config_hash: str
    frame_generation: int
    clusters: int
    selected: int
    """Clusters in use."""
    targets: tuple[str, ...]
    """The first of them: newly chosen ones in the order of choice, others by name."""


class ClusterChange(_Part, frozen=True):
    """The facts behind a change, in a few words."""

    cluster: str
    before: str
    after: str


class Transition(_Part, frozen=True):
    """Clusters whose first rejection changed in the same way."""

    before: str
    """The plugin; `fits`, or `absent` for a cluster outside the fleet."""
    after: str
    count: int
    clusters: tuple[ClusterChange, ...]
    more: int


class ScoreMovement(_Part, frozen=True):
    """Of a cluster selected by both: topology, affinity and bonus for the binding it had."""

    cluster: str
    before: tuple[int, int, int]
    after: tuple[int, int, int]


class InputChange(_Part, frozen=True):
    """An input of the two decisions that differs."""

    what: str
    before: Any
    after: Any


class DecisionComparison(_Part, frozen=True):
    same: bool
    """Whether both decide the same, to the last binding and rejection."""
    before: Side
    after: Side
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    transitions: tuple[Transition, ...]
    not_compared: int
    """Clusters that one of the two did not evaluate."""
    scores: tuple[ScoreMovement, ...]
    changes: tuple[InputChange, ...]


def compare(before: Decision, after: Decision, *, redact: Hidden | None = None) -> DecisionComparison:
    """Without the names of hidden clusters; numbers stay as they are. Each side has a redaction of its own, because
    the two may be about different fleets."""
    redactions = (Redaction(before.frame, redact), Redaction(after.frame, redact))
    used_before, used_after = list_clusters_in_use(before), list_clusters_in_use(after)
    transitions, unknown = _build_transitions(before, after, redactions)
    comparison = DecisionComparison(
        same=before.digest == after.digest,
        before=_build_side(before, used_before),
        after=_build_side(after, used_after),
        gained=_subtract(used_after, used_before),
        lost=_subtract(used_before, used_after),
        transitions=transitions,
        not_compared=unknown,
        scores=tuple(_compare_scores(before, after)),
        changes=tuple(compare_inputs(before, after)),
    )
    return comparison if redact is None else _redact(comparison, *redactions)


def find_first_rejectors(decision: Decision) -> dict[str, str]:
    """By cluster: the plugin that rejected it first, `fits`, or `not evaluated`."""
    outcomes = ClusterOutcomes(decision)
    frame = decision.frame
    rejectors = dict.fromkeys(frame.names.ordered, NOT_EVALUATED)
    for group in group_rejections(outcomes):
        rejectors.update(dict.fromkeys(_list_names(frame, group.rows), group.plugin))
    rejectors.update(dict.fromkeys(_list_names(frame, outcomes.in_use | outcomes.fit), FITS))
    return rejectors


def _list_names(frame: Frame, rows: int) -> list[str]:
    return [frame.name(row) for row in each_row(rows)]


def _build_side(decision: Decision, targets: list[str]) -> Side:
    request = decision.request
    return Side(
        outcome=name_outcome(decision),
        digest=decision.digest,
        snapshot=request.snapshot,
        generation=request.generation,
        config_hash=decision.config_hash,
        frame_generation=decision.frame.generation,
        clusters=decision.frame.count,
        selected=len(targets),
        targets=tuple(targets[:TARGETS_SHOWN]),
    )


def _subtract(names: list[str], others: list[str]) -> tuple[str, ...]:
    known = set(others)
    return tuple(name for name in names if name not in known)


# --- rejections -------------------------------------------------------------------------------------------------------


def _build_transitions(
    before: Decision, after: Decision, redactions: tuple[Redaction, Redaction]
) -> tuple[tuple[Transition, ...], int]:
    first_before, first_after = find_first_rejectors(before), find_first_rejectors(after)
    unknown, by_change = 0, dict[tuple[str, str], list[str]]()
    for name in sorted({*first_before, *first_after}):
        change = (first_before.get(name, ABSENT), first_after.get(name, ABSENT))
        if NOT_EVALUATED in change:
            unknown += change[0] != change[1]
        elif change[0] != change[1]:
            by_change.setdefault(change, []).append(name)
    words = (_Phrases(before, redactions[0]), _Phrases(after, redactions[1]))
    ordered = sorted(by_change, key=lambda change: (-len(by_change[change]), change))
    return tuple(_build_transition(change, by_change[change], *words) for change in ordered), unknown


def _build_transition(change: tuple[str, str], names: list[str], before: _Phrases, after: _Phrases) -> Transition:
    shown = tuple(ClusterChange(name, before.describe(name), after.describe(name)) for name in names[:NAMES_SHOWN])
    return Transition(*change, len(names), shown, max(len(names) - NAMES_SHOWN, 0))


class _Phrases:
    """The reasons that keep clusters out of a decision, with their values."""

    def __init__(self, decision: Decision, redaction: Redaction) -> None:
        self._outcomes, self._frame, self._redaction = ClusterOutcomes(decision), decision.frame, redaction

    def describe(self, name: str) -> str:
        row = self._frame.row_of(name)
        if row is None:
            return ABSENT
        rejection = find_first_rejection(self._outcomes, row)
        return FITS if rejection is None else describe_lack(self._redaction.redact_rejection(rejection))


# --- scores and inputs ----------------------------------------------------------------------------------------------


def _compare_scores(before: Decision, after: Decision) -> Iterator[ScoreMovement]:
    known = {target.cluster: _read_key(target) for target in before.targets}
    for target in after.targets:
        key_before, key_after = known.get(target.cluster), _read_key(target)
        if key_before is not None and key_after is not None:
            moved = max(abs(new - old) for new, old in zip(key_after, key_before, strict=True))
            if moved >= LEAST_MOVEMENT:
                yield ScoreMovement(target.cluster, key_before, key_after)


def _read_key(target: Target) -> tuple[int, int, int] | None:
    scores = target.scores
    return None if scores is None else (scores.topology, scores.affinity, target.obsolete)


def compare_inputs(before: Decision, after: Decision) -> Iterator[InputChange]:
    inputs_before, inputs_after = _collect_inputs(before), _collect_inputs(after)
    for what, value in inputs_before.items():
        if value != inputs_after[what]:
            yield InputChange(what, value, inputs_after[what])


def _collect_inputs(decision: Decision) -> Mapping[str, Any]:
    request = decision.request
    return {
        "configHash": decision.config_hash,
        "generation": request.generation,
        "snapshot": request.snapshot,
        "placementType": request.placement_type,
        "wanted": request.wanted,
        "clusterNames": request.cluster_names,
        "required": _describe_affinity(request)[0],
        "preferred": _describe_affinity(request)[1],
        "spread": tuple(
            f"{constraint.key} max skew {constraint.max_skew}{'' if constraint.hard else ', soft'}"
            for constraint in request.constraints
        ),
        "tolerations": tuple(map(_describe_toleration, request.tolerations)),
    }


def _describe_affinity(request: PlacementRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    required = tuple(" and ".join(map(str, (*term.labels, *term.properties))) for term in request.required)
    preferred = tuple(_describe_preference(preference) for preference in request.preferred)
    return required, preferred


def _describe_preference(preference: Preference) -> str:
    labels = " and ".join(map(str, preference.labels or ()))
    order = (
        ""
        if preference.sorter is None
        else f"{'low' if preference.sorter.ascending else 'high'} {preference.sorter.ref.name}"
    )
    return f"{preference.weight}: {' '.join(part for part in (labels, order) if part)}"


def _describe_toleration(toleration: Toleration) -> str:
    value = f"={toleration.value}" if toleration.value else " exists" if toleration.operator == "Exists" else ""
    return f"{toleration.key or 'every taint'}{value}{f':{toleration.effect}' if toleration.effect else ''}"


# --- hidden clusters --------------------------------------------------------------------------------------------------


def _redact(comparison: DecisionComparison, before: Redaction, after: Redaction) -> DecisionComparison:
    transitions = tuple(
        msgspec.structs.replace(
            transition,
            clusters=tuple(each for each in transition.clusters if not after.hides(each.cluster)),
            more=transition.more + sum(after.hides(each.cluster) for each in transition.clusters),
        )
        for transition in comparison.transitions
    )
    return msgspec.structs.replace(
        comparison,
        before=msgspec.structs.replace(comparison.before, targets=before.select_visible(comparison.before.targets)),
        after=msgspec.structs.replace(comparison.after, targets=after.select_visible(comparison.after.targets)),
        gained=after.select_visible(comparison.gained),
        lost=before.select_visible(comparison.lost),
        transitions=transitions,
        scores=tuple(movement for movement in comparison.scores if not after.hides(movement.cluster)),
        changes=tuple(change for change in comparison.changes if change.what != "clusterNames"),
    )
