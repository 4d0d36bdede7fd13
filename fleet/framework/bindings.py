"""A placement's existing bindings, sorted into the classes that the decision cycle acts on.

Each binding has one class, the first that matches: deleting, unscheduled, dangling, obsolete, scheduled, bound. One
cluster counts once: of several live bindings for it the best is kept, the others are surplus.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

import msgspec

from fleet.framework.request import PlacementRequest
from fleet.model.keys import BOUND, PARENT_PLACEMENT, SCHEDULED, UNSCHEDULED
from fleet.model.views import Binding, ClusterScore
from fleet.snapshot.columns.bitset import from_rows
from fleet.snapshot.frame import Frame

_NAME: Final = attrgetter("metadata.name")


@dataclass(slots=True)
class PlacementBindings:
    """Tuples and mappings are in the order of binding names; rows are those of the frame they were classified with."""

    deleting: list[Binding] = field(default_factory=list)
    dangling: list[Binding] = field(default_factory=list)
    unscheduled: dict[int, Binding] = field(default_factory=dict)
    """Per row the binding with the greatest name: the candidate for revival."""
    obsolete: dict[int, Binding] = field(default_factory=dict)
    scheduled: dict[int, Binding] = field(default_factory=dict)
    bound: dict[int, Binding] = field(default_factory=dict)
    surplus: list[Binding] = field(default_factory=list)
    """Second bindings of a cluster that are to be unscheduled."""
    surplus_bound: dict[int, list[Binding]] = field(default_factory=dict)
    """Second bindings that already run on the current snapshot: left as they are, and reported."""
    unknown: list[Binding] = field(default_factory=list)
    """In an unknown state: left as they are, and reported."""
    holders: dict[str, Binding] = field(default_factory=dict)
    """Bindings by name, those of other placements included."""

    @property
    def present(self) -> int:
        """Clusters with an active binding."""
        return len(self.scheduled) + len(self.bound)

    @property
    def active_rows(self) -> int:
        return from_rows(self.scheduled) | from_rows(self.bound)

    @property
    def obsolete_rows(self) -> int:
        return from_rows(self.obsolete)


def classify(bindings: Iterable[Binding], frame: Frame, request: PlacementRequest) -> PlacementBindings:
    classes = PlacementBindings()
    for binding in sorted(bindings, key=_NAME):
        if binding.metadata.namespace != request.namespace:
            continue
        classes.holders[binding.metadata.name] = binding
        if binding.metadata.label(PARENT_PLACEMENT) == request.placement:
            _classify(binding, classes, frame, request)
    return classes


def _classify(binding: Binding, classes: PlacementBindings, frame: Frame, request: PlacementRequest) -> None:
    row = frame.row_of(binding.spec.target_cluster)
    state = binding.spec.state
    if binding.metadata.deletion_timestamp:
        classes.deleting.append(binding)
    elif state == UNSCHEDULED:
        if row is not None:
            classes.unscheduled[row] = binding
    elif state not in (SCHEDULED, BOUND):
        classes.unknown.append(binding)
    elif row is None or frame.cluster(row).metadata.deletion_timestamp:
        classes.dangling.append(binding)
    else:
        _keep_best(binding, row, classes, current=binding.spec.scheduling_policy_snapshot_name == request.snapshot)


def _keep_best(binding: Binding, row: int, classes: PlacementBindings, *, current: bool) -> None:
    """Bindings arrive by name, so a later one of the same class is the greater and replaces the earlier."""
    obsolete, scheduled, bound = classes.obsolete, classes.scheduled, classes.bound
    if current and binding.spec.state == BOUND:
        if row in bound:
            classes.surplus_bound.setdefault(row, []).append(bound[row])
        _to_surplus(row, classes, scheduled, obsolete)
        bound[row] = binding
    elif row in bound:
        classes.surplus.append(binding)
    elif current:
        _to_surplus(row, classes, scheduled, obsolete)
        scheduled[row] = binding
    elif row in scheduled:
        classes.surplus.append(binding)
    else:
        _to_surplus(row, classes, obsolete)
        obsolete[row] = binding


def _to_surplus(row: int, classes: PlacementBindings, *kept: dict[int, Binding]) -> None:
    for mapping in kept:
        if row in mapping:
            classes.surplus.append(mapping.pop(row))


def stored_rank(binding: Binding) -> tuple[bool, int, int, str]:
    """Ascending: an unscored binding first, then low scores, then smaller names."""
    score = binding.spec.cluster_decision.cluster_score
    if score is None or score is msgspec.UNSET or not isinstance(score, ClusterScore):
        return (False, 0, 0, binding.spec.target_cluster)
    return (True, score.topology, score.affinity, binding.spec.target_cluster)
