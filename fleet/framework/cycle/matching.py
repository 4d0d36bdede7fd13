"""Matching of chosen clusters with existing bindings: refresh, revive, create, or give up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fleet.errors import StaleInputs
from fleet.framework.bindings import PlacementBindings
from fleet.framework.operations import Action, Operation, Target, WriteGroup, build_binding_name, unschedule
from fleet.framework.request import PlacementRequest
from fleet.model.keys import PARENT_PLACEMENT
from fleet.model.views import Binding

_NAMES_TRIED: Final = 5


@dataclass(frozen=True, slots=True)
class Matched:
    targets: tuple[Target, ...]
    operations: tuple[Operation, ...]
    used: frozenset[int]
    """Rows whose obsolete binding is kept."""


def match(targets: Sequence[Target], bindings: PlacementBindings, request: PlacementRequest) -> Matched:
    """Operations in the order of targets, creates before updates."""
    matched: list[Target] = []
    creates: list[Operation] = []
    updates: list[Operation] = []
    for target in targets:
        operation = _operation(target, bindings, request)
        if operation is None:
            matched.append(target)
            continue
        matched.append(Target(target.cluster, target.row, operation, target.scores, target.obsolete, target.step))
        (creates if operation.action is Action.CREATE else updates).append(operation)
    used = frozenset(target.row for target in targets if target.row in bindings.obsolete)
    return Matched(tuple(matched), (*creates, *updates), used)


def give_up_obsolete(bindings: PlacementBindings, used: frozenset[int]) -> list[Operation]:
    """Bindings of earlier policies that were not chosen again, and second bindings."""
    obsolete = [binding for row, binding in bindings.obsolete.items() if row not in used]
    unwanted = sorted([*obsolete, *bindings.surplus], key=lambda binding: binding.metadata.name)
    return [unschedule(binding) for binding in unwanted]


def _operation(target: Target, bindings: PlacementBindings, request: PlacementRequest) -> Operation | None:
    row = target.row
    if row in bindings.scheduled or row in bindings.bound:
        return None
    if row in bindings.obsolete:
        return _update(Action.REFRESH, target, bindings.obsolete[row])
    if row in bindings.unscheduled:
        return _update(Action.REVIVE, target, bindings.unscheduled[row])
    return Operation(
        action=Action.CREATE,
        group=WriteGroup.CREATE,
        cluster=target.cluster,
        name=_free_name(target.cluster, bindings, request),
        scores=target.scores,
    )


def _update(action: Action, target: Target, binding: Binding) -> Operation:
    return Operation(
        action=action,
        group=WriteGroup.UPDATE,
        cluster=target.cluster,
        name=binding.metadata.name,
        binding=binding,
        scores=target.scores,
    )


def _is_alive_here(holder: Binding, cluster: str, request: PlacementRequest) -> bool:
    return (
        not holder.metadata.deletion_timestamp
        and holder.spec.target_cluster == cluster
        and holder.metadata.label(PARENT_PLACEMENT) == request.placement
    )


def _free_name(cluster: str, bindings: PlacementBindings, request: PlacementRequest) -> str:
    holder_uid = None
    for _ in range(_NAMES_TRIED + 1):
        name = build_binding_name(
            placement=request.placement, placement_uid=request.uid, cluster=cluster, holder_uid=holder_uid
        )
        holder = bindings.holders.get(name)
        if holder is None:
            return name
        if _is_alive_here(holder, cluster, request):
            raise StaleInputs(f"{request.key}: binding {name} for cluster {cluster} is in the way, read it again")
        holder_uid = holder.metadata.uid
    raise StaleInputs(f"{request.key}: no free binding name for cluster {cluster} after {_NAMES_TRIED} others")
