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


def wakes_on(snapshot: PolicySnapshot | None, key: str, *, hides: Hides = lambda _: False) -> tuple[Waker, ...]:
    """A placement that has all it wants waits for no cluster, except to be told that one is gone."""
    found = list(_of_fleet(snapshot, hides)) if snapshot is not None and _waits(snapshot) else []
    return (*found, *_always(key))


def _waits(snapshot: PolicySnapshot) -> bool:
    return lacks_clusters(snapshot) or interest_of(snapshot.spec.policy, snapshot.metadata.namespace).never_satisfied


# --- clusters ---------------------------------------------------------------------------------------------------------


def _of_fleet(snapshot: PolicySnapshot, hides: Hides) -> Iterator[Waker]:
    policy, namespace = snapshot.spec.policy or PlacementPolicy(), snapshot.metadata.namespace
    kind = policy.placement_type or PICK_ALL
    if kind == PICK_FIXED:
        yield from _listed(policy.cluster_names, hides)
    elif kind in (PICK_ALL, PICK_N):
        yield from _new_ones()
        yield _waker("UpdateTaints", "TaintToleration", "a cluster loses a taint that the policy does not tolerate")
        yield from _in_namespace(namespace)
        yield from _read(policy)


def _new_ones() -> Iterator[Waker]:
    yield _waker("Add", _ANY_PLUGIN, "a cluster joins that may take work")
    yield _waker("UpdateHealth", "ClusterEligibility", "a cluster may take work again")


def _listed(names: Iterable[str], hides: Hides) -> Iterator[Waker]:
    own = sorted(set(names))
    seen = tuple(name for name in own if not hides(name))
    hidden = len(own) - len(seen)
    if not own:
        return
    whom = " or ".join([*seen, *([f"one of {hidden} that you may not read"] if hidden else [])])
    yield _waker("Add", "PickFixed", f"{whom} joins and may take work", seen)
    yield _waker("UpdateHealth", "ClusterEligibility", f"{whom} may take work again", seen)


def _in_namespace(namespace: str) -> Iterator[Waker]:
    if namespace:
        when = f"namespace {namespace} comes or goes on a cluster, or a cluster stops reporting its namespaces"
        yield _waker("UpdateNamespaces", "NamespaceAffinity", when, (namespace,))


def _read(policy: PlacementPolicy) -> Iterator[Waker]:
    affinity = policy.affinity.cluster_affinity if policy.affinity else None
    if affinity is not None:
        yield from _labels("ClusterAffinity", _affinity_labels(affinity))
        yield from _properties(_affinity_properties(affinity))
    yield from _labels("TopologySpreadConstraints", (one.topology_key for one in policy.topology_spread_constraints))


def _labels(plugin: str, keys: Iterable[str]) -> Iterator[Waker]:
    own = tuple(sorted(set(keys)))
    if own:
        yield _waker("UpdateLabels", plugin, f"label {' or '.join(own)} of a cluster changes", own)


def _properties(names: Iterable[str]) -> Iterator[Waker]:
    own = tuple(sorted(set(names)))
    resources = tuple(name for name in own if name.startswith(RESOURCE_PROPERTY_PREFIX))
    if own:
        yield _waker("UpdateProperties", "ClusterAffinity", f"property {' or '.join(own)} of a cluster changes", own)
    if resources:
        when = f"{' or '.join(name.removeprefix(RESOURCE_PROPERTY_PREFIX) for name in resources)} of a cluster changes"
        yield _waker("UpdateCapacity", "ClusterAffinity", when, resources)


def _affinity_labels(affinity: ClusterAffinity) -> Iterator[str]:
    for term in affinity.required.cluster_selector_terms if affinity.required else ():
        yield from _selected(term.label_selector)
    for preferred in affinity.preferred:
        yield from _selected(preferred.preference.label_selector)


def _selected(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels or ()
        yield from (one.key for one in selector.match_expressions)


def _affinity_properties(affinity: ClusterAffinity) -> Iterator[str]:
    """A sorter counts only where clusters are preferred, a property selector only where they are required."""
    for term in affinity.required.cluster_selector_terms if affinity.required else ():
        if term.property_selector is not None:
            yield from (one.name for one in term.property_selector.match_expressions)
    for preferred in affinity.preferred:
        if preferred.preference.property_sorter is not None:
            yield preferred.preference.property_sorter.name


# --- the placement itself ---------------------------------------------------------------------------------------------


def _always(key: str) -> Iterator[Waker]:
    flavour = find_scope(key)
    snapshot, placement, binding = flavour.policy_snapshot.kind, flavour.placement.kind, flavour.binding.kind
    yield _waker("Delete", _ANY_PLUGIN, "a cluster is deleted")
    yield _own(f"{snapshot}/Add", "the policy changes")
    yield _own(f"{snapshot}/UpdateCount", "the number of clusters changes")
    yield _own(f"{snapshot}/UpdateGeneration", "the placement is edited")
    yield _own(f"{snapshot}/UpdateLatest", "another policy becomes the latest")
    yield _own(f"{binding}/Add", "somebody else creates a binding of the placement")
    yield _own(f"{binding}/Delete", "a binding of the placement is deleted")
    yield _own(f"{placement}/Terminating", "the placement is being deleted")


def _waker(action: str, plugin: str, when: str, names: tuple[str, ...] | None = None) -> Waker:
    return Waker(event=f"{_CLUSTER}/{action}", plugin=plugin, when=when, names=names)


def _own(event: str, when: str) -> Waker:
    return Waker(event=event, plugin=_ANY_PLUGIN, when=when, names=None)
