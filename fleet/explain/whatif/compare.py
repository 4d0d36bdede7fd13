"""What is different between two decisions: targets, first refusals, scores, and what they were decided with.

Clusters are compared by name, because the two may stand in different fleets. What is told of a cluster is who refuses
it first; a cluster that one of the two decisions never looked at has nothing to compare and is only counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fleet.explain.facts.cluster_outcome import Standings
from fleet.explain.facts.phrases import lacking
from fleet.explain.facts.placement_outcome import TARGETS_SHOWN, in_use, level_name
from fleet.explain.facts.redaction import Hidden, Veil
from fleet.explain.facts.rejection_groups import NAMES_SHOWN
from fleet.explain.facts.rejections import first_refusal, gathered
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Target
from fleet.framework.request import Constraint, PlacementRequest
from fleet.framework.terms import Preference
from fleet.model.views import Toleration
from fleet.snapshot.columns.bitset import each_row
from fleet.snapshot.frame import Frame

FITS: Final = "fits"
ABSENT: Final = "absent"
NOT_EVALUATED: Final = "not evaluated"
LEAST_MOVEMENT: Final = 2
"""Points: smaller movements of a score are noise."""


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


class Number(_Part, frozen=True):
    """The facts behind a change, in a few words."""

    cluster: str
    before: str
    after: str


class Transition(_Part, frozen=True):
    """Clusters whose first refusal changed in the same way."""

    before: str
    """The plugin; `fits`, or `absent` for a cluster outside the fleet."""
    after: str
    count: int
    clusters: tuple[Number, ...]
    more: int


class ScoreMovement(_Part, frozen=True):
    """Of a cluster selected by both: topology, affinity and bonus for the binding it had."""

    cluster: str
    before: tuple[int, int, int]
    after: tuple[int, int, int]


class Change(_Part, frozen=True):
    """Something the two were decided with."""

    what: str
    before: Any
    after: Any


class Comparison(_Part, frozen=True):
    same: bool
    """Whether both decide the same, to the last binding and refusal."""
    before: Side
    after: Side
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    transitions: tuple[Transition, ...]
    not_compared: int
    """Clusters that one of the two never looked at."""
    scores: tuple[ScoreMovement, ...]
    changes: tuple[Change, ...]


def compare(before: Decision, after: Decision, *, redact: Hidden | None = None) -> Comparison:
    """Without the names of hidden clusters; numbers stay as they are. Each side has a veil of its own, because the two
    may stand in different fleets."""
    veils = (Veil(before.frame, redact), Veil(after.frame, redact))
    one, other = in_use(before), in_use(after)
    transitions, unknown = _transitions(before, after, veils)
    found = Comparison(
        same=before.digest == after.digest,
        before=_side(before, one),
        after=_side(after, other),
        gained=_without(other, one),
        lost=_without(one, other),
        transitions=transitions,
        not_compared=unknown,
        scores=tuple(_movements(before, after)),
        changes=tuple(_changes(before, after)),
    )
    return found if redact is None else _unnamed(found, *veils)


def first_rejectors(decision: Decision) -> dict[str, str]:
    """By cluster: the plugin that refused it first, `fits`, or `not evaluated`."""
    standings = Standings(decision)
    frame = decision.frame
    found = dict.fromkeys(frame.names.ordered, NOT_EVALUATED)
    for one in gathered(standings):
        found.update(dict.fromkeys(_names(frame, one.rows), one.plugin))
    found.update(dict.fromkeys(_names(frame, standings.in_use | standings.fit), FITS))
    return found


def _names(frame: Frame, rows: int) -> list[str]:
    return [frame.name(row) for row in each_row(rows)]


def _side(decision: Decision, targets: list[str]) -> Side:
    request = decision.request
    return Side(
        outcome=level_name(decision),
        digest=decision.digest,
        snapshot=request.snapshot,
        generation=request.generation,
        config_hash=decision.config_hash,
        frame_generation=decision.frame.generation,
        clusters=decision.frame.count,
        selected=len(targets),
        targets=tuple(targets[:TARGETS_SHOWN]),
    )


def _without(names: list[str], others: list[str]) -> tuple[str, ...]:
    known = set(others)
    return tuple(name for name in names if name not in known)


# --- refusals -------------------------------------------------------------------------------------------------------


def _transitions(before: Decision, after: Decision, veils: tuple[Veil, Veil]) -> tuple[tuple[Transition, ...], int]:
    one, other = first_rejectors(before), first_rejectors(after)
    unknown, by_change = 0, dict[tuple[str, str], list[str]]()
    for name in sorted({*one, *other}):
        change = (one.get(name, ABSENT), other.get(name, ABSENT))
        if NOT_EVALUATED in change:
            unknown += change[0] != change[1]
        elif change[0] != change[1]:
            by_change.setdefault(change, []).append(name)
    words = (_Words(before, veils[0]), _Words(after, veils[1]))
    ordered = sorted(by_change, key=lambda change: (-len(by_change[change]), change))
    return tuple(_transition(change, by_change[change], *words) for change in ordered), unknown


def _transition(change: tuple[str, str], names: list[str], before: _Words, after: _Words) -> Transition:
    shown = tuple(Number(name, before.of(name), after.of(name)) for name in names[:NAMES_SHOWN])
    return Transition(*change, len(names), shown, max(len(names) - NAMES_SHOWN, 0))


class _Words:
    """What keeps a cluster out of a decision, with its values."""

    def __init__(self, decision: Decision, veil: Veil) -> None:
        self._standings, self._frame, self._veil = Standings(decision), decision.frame, veil

    def of(self, name: str) -> str:
        row = self._frame.row_of(name)
        if row is None:
            return ABSENT
        refused = first_refusal(self._standings, row)
        return FITS if refused is None else lacking(self._veil.refusal(refused))


# --- scores and inputs ----------------------------------------------------------------------------------------------


def _movements(before: Decision, after: Decision) -> Iterator[ScoreMovement]:
    known = {target.cluster: _key(target) for target in before.targets}
    for target in after.targets:
        one, other = known.get(target.cluster), _key(target)
        if one is not None and other is not None:
            moved = max(abs(new - old) for new, old in zip(other, one, strict=True))
            if moved >= LEAST_MOVEMENT:
                yield ScoreMovement(target.cluster, one, other)


def _key(target: Target) -> tuple[int, int, int] | None:
    scores = target.scores
    return None if scores is None else (scores.topology, scores.affinity, target.obsolete)


def _changes(before: Decision, after: Decision) -> Iterator[Change]:
    one, other = _inputs(before), _inputs(after)
    for what, value in one.items():
        if value != other[what]:
            yield Change(what, value, other[what])


def _inputs(decision: Decision) -> Mapping[str, Any]:
    request = decision.request
    return {
        "configHash": decision.config_hash,
        "generation": request.generation,
        "snapshot": request.snapshot,
        "placementType": request.placement_type,
        "wanted": request.wanted,
        "clusterNames": request.cluster_names,
        "required": _written(request)[0],
        "preferred": _written(request)[1],
        "spread": tuple(
            f"{one.key} max skew {one.max_skew}{'' if one.hard else ', soft'}" for one in request.constraints
        ),
        "tolerations": tuple(map(_toleration, request.tolerations)),
    }


def _written(request: PlacementRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    required = tuple(" and ".join(map(str, (*term.labels, *term.properties))) for term in request.required)
    preferred = tuple(_preference(one) for one in request.preferred)
    return required, preferred


def _preference(one: Preference) -> str:
    labels = " and ".join(map(str, one.labels or ()))
    order = "" if one.sorter is None else f"{'low' if one.sorter.ascending else 'high'} {one.sorter.ref.name}"
    return f"{one.weight}: {' '.join(part for part in (labels, order) if part)}"


def _spread(one: Constraint) -> str:
    return f"{one.key} max skew {one.max_skew}{'' if one.hard else ', soft'}"


def _toleration(one: Toleration) -> str:
    value = f"={one.value}" if one.value else " exists" if one.operator == "Exists" else ""
    return f"{one.key or 'every taint'}{value}{f':{one.effect}' if one.effect else ''}"


# --- hidden clusters --------------------------------------------------------------------------------------------------


def _unnamed(found: Comparison, before: Veil, after: Veil) -> Comparison:
    transitions = tuple(
        msgspec.structs.replace(
            one,
            clusters=tuple(each for each in one.clusters if not after.hides(each.cluster)),
            more=one.more + sum(after.hides(each.cluster) for each in one.clusters),
        )
        for one in found.transitions
    )
    return msgspec.structs.replace(
        found,
        before=msgspec.structs.replace(found.before, targets=before.visible(found.before.targets)),
        after=msgspec.structs.replace(found.after, targets=after.visible(found.after.targets)),
        gained=after.visible(found.gained),
        lost=before.visible(found.lost),
        transitions=transitions,
        scores=tuple(one for one in found.scores if not after.hides(one.cluster)),
        changes=tuple(one for one in found.changes if one.what != "clusterNames"),
    )
