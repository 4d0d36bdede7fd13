"""The events that would requeue a placement, in words and by name.

The scheduler requeues placements after the events that plugins register (`fleet.scheduler.events.interest_index`). Here
the same events are listed, so that a user sees what a placement waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from api.models import Waker
from fleet.framework.explaining import ClusterEvent, ClusterEventKind, EventSources
from fleet.kube.scopes import MEMBER_CLUSTERS, find_scope
from fleet.model.keys import PICK_ALL, PICK_FIXED, PICK_N, RESOURCE_PROPERTY_PREFIX
from fleet.model.views import PlacementPolicy, PolicySnapshot
from fleet.scheduler.events.interest_index import is_never_satisfied, lacks_clusters

Hides = Callable[[str], bool]

_CLUSTER: Final = MEMBER_CLUSTERS.kind
_ANY_PLUGIN: Final = "*"
_ORDER: Final = {
    ClusterEventKind.UPDATE_HEALTH: 0,
    ClusterEventKind.UPDATE_TAINTS: 1,
    ClusterEventKind.UPDATE_NAMESPACES: 2,
    ClusterEventKind.UPDATE_LABELS: 3,
    ClusterEventKind.UPDATE_PROPERTIES: 3,
}


def list_wake_events(
    snapshot: PolicySnapshot | None, key: str, sources: EventSources, *, hides: Hides = lambda _: False
) -> tuple[Waker, ...]:
    """A fulfilled placement is requeued by no event of a cluster but its deletion."""
    events = _list_cluster_events(snapshot, sources, hides) if snapshot is not None and _is_waiting(snapshot) else ()
    return (*events, *_list_own_events(key))


def _is_waiting(snapshot: PolicySnapshot) -> bool:
    return lacks_clusters(snapshot) or is_never_satisfied(snapshot.spec.policy)


# --- clusters ---------------------------------------------------------------------------------------------------------


def _list_cluster_events(snapshot: PolicySnapshot, sources: EventSources, hides: Hides) -> Iterator[Waker]:
    policy, namespace = snapshot.spec.policy or PlacementPolicy(), snapshot.metadata.namespace
    kind = policy.placement_type or PICK_ALL
    events = [(plugin, event) for plugin, source in sources for event in source.events_to_register(policy, namespace)]
    if kind == PICK_FIXED:
        judges = [plugin for plugin, event in events if event.kind is ClusterEventKind.UPDATE_HEALTH]
        yield from _list_named_clusters(policy.cluster_names, judges, hides)
    elif kind in (PICK_ALL, PICK_N):
        yield _build_cluster_waker("Add", _ANY_PLUGIN, "a cluster joins that may take work")
        for plugin, event in sorted(events, key=lambda item: _ORDER[item[1].kind]):
            yield from _list_plugin_event(plugin, event)


def _list_named_clusters(names: Iterable[str], judges: Iterable[str], hides: Hides) -> Iterator[Waker]:
    targets = sorted(set(names))
    visible = tuple(name for name in targets if not hides(name))
    hidden = len(targets) - len(visible)
    if not targets:
        return
    subject = " or ".join([*visible, *([f"one of {hidden} that you may not read"] if hidden else [])])
    yield _build_cluster_waker("Add", "PickFixed", f"{subject} joins and may take work", visible)
    for plugin in judges:
        yield _build_cluster_waker("UpdateHealth", plugin, f"{subject} may take work again", visible)


def _list_plugin_event(plugin: str, event: ClusterEvent) -> Iterator[Waker]:
    names = tuple(sorted(set(event.names)))
    either = " or ".join(names)
    match event.kind:
        case ClusterEventKind.UPDATE_HEALTH:
            yield _build_cluster_waker("UpdateHealth", plugin, "a cluster may take work again")
        case ClusterEventKind.UPDATE_TAINTS:
            when = "a cluster loses a taint that the policy does not tolerate"
            yield _build_cluster_waker("UpdateTaints", plugin, when)
        case ClusterEventKind.UPDATE_NAMESPACES:
            when = f"namespace {either} comes or goes on a cluster, or a cluster stops reporting its namespaces"
            yield _build_cluster_waker("UpdateNamespaces", plugin, when, names)
        case ClusterEventKind.UPDATE_LABELS:
            yield _build_cluster_waker("UpdateLabels", plugin, f"label {either} of a cluster changes", names)
        case ClusterEventKind.UPDATE_PROPERTIES:
            yield _build_cluster_waker("UpdateProperties", plugin, f"property {either} of a cluster changes", names)
            yield from _list_capacity_event(plugin, names)


def _list_capacity_event(plugin: str, properties: Iterable[str]) -> Iterator[Waker]:
    resources = tuple(name for name in properties if name.startswith(RESOURCE_PROPERTY_PREFIX))
    if resources:
        when = f"{' or '.join(name.removeprefix(RESOURCE_PROPERTY_PREFIX) for name in resources)} of a cluster changes"
        yield _build_cluster_waker("UpdateCapacity", plugin, when, resources)


# --- the placement itself ---------------------------------------------------------------------------------------------


def _list_own_events(key: str) -> Iterator[Waker]:
    scope = find_scope(key)
    snapshot, placement, binding = scope.policy_snapshot.kind, scope.placement.kind, scope.binding.kind
    yield _build_cluster_waker("Delete", _ANY_PLUGIN, "a cluster is deleted")
    yield _build_placement_waker(f"{snapshot}/Add", "the policy changes")
    yield _build_placement_waker(f"{snapshot}/UpdateCount", "the number of clusters changes")
    yield _build_placement_waker(f"{snapshot}/UpdateGeneration", "the placement is edited")
    yield _build_placement_waker(f"{snapshot}/UpdateLatest", "another policy becomes the latest")
    yield _build_placement_waker(f"{binding}/Add", "another client creates a binding of the placement")
    yield _build_placement_waker(f"{binding}/Delete", "a binding of the placement is deleted")
    yield _build_placement_waker(f"{placement}/Terminating", "the placement is being deleted")


def _build_cluster_waker(action: str, plugin: str, when: str, names: tuple[str, ...] | None = None) -> Waker:
    return Waker(event=f"{_CLUSTER}/{action}", plugin=plugin, when=when, names=names)


def _build_placement_waker(event: str, when: str) -> Waker:
    return Waker(event=event, plugin=_ANY_PLUGIN, when=when, names=None)
