"""Who could be helped by a change: per placement, what the latest policy snapshot reads of member clusters.

A placement is listed only under what it currently waits for. One that has all the clusters it wants waits for nothing,
except with PickAll, which never has enough. So finding those that a change touches costs as much as there are of them,
however many others read the same label.

The index answers for what policies say, not for whether the answer would be another one: that is for the decision.
Policies that cannot be evaluated are listed under whatever can be read of them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from fleet.model.keys import PICK_ALL, PICK_FIXED, PICK_N, PLACEMENT_GENERATION, SCHEDULED_CONDITION
from fleet.model.tolerations import first_untolerated
from fleet.model.views import (
    ClusterAffinity,
    ClusterSelectorTerm,
    LabelSelector,
    PlacementPolicy,
    PolicySnapshot,
    PolicySnapshotSpec,
    Toleration,
)
from fleet.scheduler.events.cluster_diff import Change

H = TypeVar("H", bound=Hashable)

Topic = tuple[str, str]
Tolerations = tuple[Toleration, ...]

_ELIGIBLE: Final[Topic] = ("eligibility", "")
_NAMESPACES: Final[Topic] = ("namespaces", "")
_CLUSTER: Final = "cluster"
_LABEL: Final = "label"
_PROPERTY: Final = "property"
_NAMESPACE: Final = "namespace"


@dataclass(frozen=True, slots=True)
class Interest:
    topics: frozenset[Topic] = frozenset()
    tolerations: Tolerations | None = None
    """None where taints do not count."""
    never_satisfied: bool = False


_NONE: Final = Interest()


def is_short(snapshot: PolicySnapshot) -> bool:
    """Unless its status says, about this very policy and count, that everything wanted is there."""
    metadata, status = snapshot.metadata, snapshot.status
    if metadata.annotation(PLACEMENT_GENERATION) != str(status.observed_crp_generation):
        return True
    condition = next((one for one in status.conditions if one.type == SCHEDULED_CONDITION), None)
    return condition is None or condition.status != "True" or condition.observed_generation != metadata.generation


def interest_of(policy: PlacementPolicy | None, namespace: str) -> Interest:
    policy = policy or PlacementPolicy()
    kind = policy.placement_type or PICK_ALL
    if kind == PICK_FIXED:
        return Interest(frozenset((_CLUSTER, name) for name in policy.cluster_names))
    if kind in (PICK_ALL, PICK_N):
        topics = frozenset(_topics(policy, namespace))
        return Interest(topics, policy.tolerations, never_satisfied=kind == PICK_ALL)
    return _NONE


def _topics(policy: PlacementPolicy, namespace: str) -> Iterator[Topic]:
    yield _ELIGIBLE
    if namespace:
        yield _NAMESPACES
        yield _NAMESPACE, namespace
    for constraint in policy.topology_spread_constraints:
        yield _LABEL, constraint.topology_key
    affinity = policy.affinity.cluster_affinity if policy.affinity else None
    if affinity is not None:
        yield from _affinity_topics(affinity)


def _affinity_topics(affinity: ClusterAffinity) -> Iterator[Topic]:
    """A sorter counts only where clusters are preferred, a property selector only where they are required."""
    for term in affinity.required.cluster_selector_terms if affinity.required else ():
        yield from _label_topics(term.label_selector)
        yield from _selected_properties(term)
    for preferred in affinity.preferred:
        yield from _label_topics(preferred.preference.label_selector)
        if preferred.preference.property_sorter is not None:
            yield _PROPERTY, preferred.preference.property_sorter.name


def _label_topics(selector: LabelSelector | None) -> Iterator[Topic]:
    if selector is not None:
        for key in selector.match_labels or ():
            yield _LABEL, key
        for expression in selector.match_expressions:
            yield _LABEL, expression.key


def _selected_properties(term: ClusterSelectorTerm) -> Iterator[Topic]:
    if term.property_selector is not None:
        for expression in term.property_selector.match_expressions:
            yield _PROPERTY, expression.name


class InterestIndex:
    """Knows placements without a latest snapshot too: a cluster that is gone concerns everybody."""

    def __init__(self) -> None:
        self._known: dict[str, _Placement] = {}
        self._by_topic: _Listing[Topic] = _Listing()
        self._by_tolerations: _Listing[Tolerations] = _Listing()

    def put(self, key: str, snapshot: PolicySnapshot | None, *, short: bool) -> None:
        """The latest snapshot, if there is exactly one, and whether clusters are missing."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Placement()
        if snapshot is None:
            known.spec, known.interest = None, _NONE
        elif known.spec != snapshot.spec:
            known.spec, known.interest = snapshot.spec, interest_of(snapshot.spec.policy, snapshot.metadata.namespace)
        known.short = short
        self._relist(key, known)

    def forget(self, key: str) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._unlist(key, known.listed)

    def all_keys(self) -> list[str]:
        return list(self._known)

    def affected(self, change: Change) -> Collection[str]:
        """Each key once."""
        if change.deleted:
            return self.all_keys()
        touched = self._reading(_touched_topics(change))
        if change.taints:
            for tolerations, keys in self._by_tolerations.items():
                if first_untolerated(change.taints, tolerations) is not None:
                    touched.update(keys)
        return touched.keys()

    def affected_by_eligible(self, clusters: Iterable[str]) -> Collection[str]:
        """By all of them together; each key once."""
        return self._reading((_ELIGIBLE, *((_CLUSTER, name) for name in clusters))).keys()

    def _reading(self, topics: Iterable[Topic]) -> dict[str, None]:
        touched: dict[str, None] = {}
        for topic in topics:
            touched.update(self._by_topic.keys_of(topic))
        return touched

    # --- attempts -----------------------------------------------------------------------------------------------------

    def deciding(self, key: str) -> None:
        """From now on nobody knows whether clusters will be missing: what happens meanwhile must not go unheard."""
        self._set_undecided(key, undecided=True)

    def decided(self, key: str) -> None:
        """What came of it is in the snapshot's status by now."""
        self._set_undecided(key, undecided=False)

    def _set_undecided(self, key: str, *, undecided: bool) -> None:
        known = self._known.get(key)
        if known is not None:
            known.undecided = undecided
            self._relist(key, known)

    # --- lists --------------------------------------------------------------------------------------------------------

    def _relist(self, key: str, known: _Placement) -> None:
        wanted = known.interest if known.is_waiting else _NONE
        if wanted is not known.listed:
            self._unlist(key, known.listed)
            self._by_topic.enter(key, wanted.topics)
            if wanted.tolerations is not None:
                self._by_tolerations.enter(key, (wanted.tolerations,))
            known.listed = wanted

    def _unlist(self, key: str, listed: Interest) -> None:
        self._by_topic.leave(key, listed.topics)
        if listed.tolerations is not None:
            self._by_tolerations.leave(key, (listed.tolerations,))


def _touched_topics(change: Change) -> Iterator[Topic]:
    if change.became_eligible:
        yield _ELIGIBLE
        yield _CLUSTER, change.cluster
    if change.namespaces_unconfirmed:
        yield _NAMESPACES
    yield from ((_LABEL, key) for key in change.labels)
    yield from ((_PROPERTY, name) for name in change.properties)
    yield from ((_PROPERTY, name) for name in change.usage)
    yield from ((_NAMESPACE, name) for name in change.namespaces)


@dataclass(slots=True)
class _Placement:
    spec: PolicySnapshotSpec | None = None
    interest: Interest = _NONE
    short: bool = True
    undecided: bool = False
    listed: Interest = _NONE
    """What the lists say of it."""

    @property
    def is_waiting(self) -> bool:
        return self.short or self.undecided or self.interest.never_satisfied


class _Listing(Generic[H]):
    """Keys by what they are listed under, in the order in which they came."""

    def __init__(self) -> None:
        self._keys: dict[H, dict[str, None]] = {}

    def keys_of(self, value: H) -> Mapping[str, None]:
        return self._keys.get(value, {})

    def items(self) -> Iterable[tuple[H, Mapping[str, None]]]:
        return self._keys.items()

    def enter(self, key: str, values: Iterable[H]) -> None:
        for value in values:
            self._keys.setdefault(value, {})[key] = None

    def leave(self, key: str, values: Iterable[H]) -> None:
        for value in values:
            keys = self._keys[value]
            del keys[key]
            if not keys:
                del self._keys[value]
