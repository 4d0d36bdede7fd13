"""The events that would requeue a placement, in words and by name.

The scheduler requeues placements by what their policies read of clusters (`fleet.scheduler.events.interest_index`). The
same index is turned into a list here, so that a user sees what a placement waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from api.models import Waker
from fleet.kube.scopes import MEMBER_CLUSTERS, find_scope
from fleet.model.keys import PICK_ALL, PICK_FIXED, PICK_N, RESOURCE_PROPERTY_PREFIX
from fleet.model.views import ClusterAffinity, LabelSelector, PlacementPolicy, PolicySnapshot
from fleet.scheduler.events.interest_index import interest_of, lacks_clusters

Hides = Callable[[str], bool]

_CLUSTER: Final = MEMBER_CLUSTERS.kind
_ANY_PLUGIN: Final = "*"


def list_wake_events(snapshot: PolicySnapshot | None, key: str, *, hides: Hides = lambda _: False) -> tuple[Waker, ...]:
    """A fulfilled placement is requeued by no event of a cluster but its deletion."""
    events = _list_cluster_events(snapshot, hides) if snapshot is not None and _is_waiting(snapshot) else ()
    return (*events, *_list_own_events(key))


def _is_waiting(snapshot: PolicySnapshot) -> bool:
    return lacks_clusters(snapshot) or interest_of(snapshot.spec.policy, snapshot.metadata.namespace).never_satisfied


# --- clusters ---------------------------------------------------------------------------------------------------------


def _list_cluster_events(snapshot: PolicySnapshot, hides: Hides) -> Iterator[Waker]:
    policy, namespace = snapshot.spec.policy or PlacementPolicy(), snapshot.metadata.namespace
    kind = policy.placement_type or PICK_ALL
    if kind == PICK_FIXED:
        yield from _list_named_clusters(policy.cluster_names, hides)
    elif kind in (PICK_ALL, PICK_N):
        yield from _list_new_clusters()
        when = "a cluster loses a taint that the policy does not tolerate"
        yield _build_cluster_waker("UpdateTaints", "TaintToleration", when)
        yield from _list_namespace_events(namespace)
        yield from _list_policy_events(policy)


def _list_new_clusters() -> Iterator[Waker]:
    yield _build_cluster_waker("Add", _ANY_PLUGIN, "a cluster joins that may take work")
    yield _build_cluster_waker("UpdateHealth", "ClusterEligibility", "a cluster may take work again")


def _list_named_clusters(names: Iterable[str], hides: Hides) -> Iterator[Waker]:
    targets = sorted(set(names))
    visible = tuple(name for name in targets if not hides(name))
    hidden = len(targets) - len(visible)
    if not targets:
        return
    subject = " or ".join([*visible, *([f"one of {hidden} that you may not read"] if hidden else [])])
    yield _build_cluster_waker("Add", "PickFixed", f"{subject} joins and may take work", visible)
    yield _build_cluster_waker("UpdateHealth", "ClusterEligibility", f"{subject} may take work again", visible)


def _list_namespace_events(namespace: str) -> Iterator[Waker]:
    if namespace:
        when = f"namespace {namespace} comes or goes on a cluster, or a cluster stops reporting its namespaces"
        yield _build_cluster_waker("UpdateNamespaces", "NamespaceAffinity", when, (namespace,))


def _list_policy_events(policy: PlacementPolicy) -> Iterator[Waker]:
    affinity = policy.affinity.cluster_affinity if policy.affinity else None
    if affinity is not None:
        yield from _list_label_events("ClusterAffinity", _collect_label_keys(affinity))
        yield from _list_property_events(_collect_property_names(affinity))
    topology_keys = (constraint.topology_key for constraint in policy.topology_spread_constraints)
    yield from _list_label_events("TopologySpreadConstraints", topology_keys)


def _list_label_events(plugin: str, keys: Iterable[str]) -> Iterator[Waker]:
    labels = tuple(sorted(set(keys)))
    if labels:
        yield _build_cluster_waker("UpdateLabels", plugin, f"label {' or '.join(labels)} of a cluster changes", labels)


def _list_property_events(names: Iterable[str]) -> Iterator[Waker]:
    properties = tuple(sorted(set(names)))
    resources = tuple(name for name in properties if name.startswith(RESOURCE_PROPERTY_PREFIX))
    if properties:
        when = f"property {' or '.join(properties)} of a cluster changes"
        yield _build_cluster_waker("UpdateProperties", "ClusterAffinity", when, properties)
    if resources:
        when = f"{' or '.join(name.removeprefix(RESOURCE_PROPERTY_PREFIX) for name in resources)} of a cluster changes"
        yield _build_cluster_waker("UpdateCapacity", "ClusterAffinity", when, resources)


def _collect_label_keys(affinity: ClusterAffinity) -> Iterator[str]:
    for term in affinity.required.cluster_selector_terms if affinity.required else ():
        yield from _collect_selector_keys(term.label_selector)
    for preferred in affinity.preferred:
        yield from _collect_selector_keys(preferred.preference.label_selector)


def _collect_selector_keys(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels or ()
        yield from (expression.key for expression in selector.match_expressions)


def _collect_property_names(affinity: ClusterAffinity) -> Iterator[str]:
    """A sorter counts only where clusters are preferred, a property selector only where they are required."""
    for term in affinity.required.cluster_selector_terms if affinity.required else ():
        if term.property_selector is not None:
            yield from (expression.name for expression in term.property_selector.match_expressions)
    for preferred in affinity.preferred:
        if preferred.preference.property_sorter is not None:
            yield preferred.preference.property_sorter.name


# --- the placement itself ---------------------------------------------------------------------------------------------


def _list_own_events(key: str) -> Iterator[Waker]:
    scope = find_scope(key)
    snapshot, placement, binding = scope.policy_snapshot.kind, scope.placement.kind, scope.binding.kind
    yield _build_cluster_waker("Delete", _ANY_PLUGIN, "a cluster is deleted")
    yield _build_own_waker(f"{snapshot}/Add", "the policy changes")
    yield _build_own_waker(f"{snapshot}/UpdateCount", "the number of clusters changes")
    yield _build_own_waker(f"{snapshot}/UpdateGeneration", "the placement is edited")
    yield _build_own_waker(f"{snapshot}/UpdateLatest", "another policy becomes the latest")
    yield _build_own_waker(f"{binding}/Add", "another client creates a binding of the placement")
    yield _build_own_waker(f"{binding}/Delete", "a binding of the placement is deleted")
    yield _build_own_waker(f"{placement}/Terminating", "the placement is being deleted")


def _build_cluster_waker(action: str, plugin: str, when: str, names: tuple[str, ...] | None = None) -> Waker:
    return Waker(event=f"{_CLUSTER}/{action}", plugin=plugin, when=when, names=names)


def _build_own_waker(event: str, when: str) -> Waker:
    return Waker(event=event, plugin=_ANY_PLUGIN, when=when, names=None)
