"""Interest index: the placements by the parts of member clusters that their latest policy snapshots read.

A placement is listed only under what it currently waits for. One that has all the clusters it wants waits for nothing,
except with PickAll, which never has enough. So finding the placements that a change affects costs as much as there are
of them, independent of how many others read the same label.

Plugins name what they read of clusters for a policy, valid or not (`events_to_register`). Whether a decision would come
out differently is left to the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from fleet.framework.explaining import EVERY_LABEL, ClusterEventKind, EventSources
from fleet.model.keys import PICK_ALL, PICK_FIXED, PICK_N, PLACEMENT_GENERATION, SCHEDULED_CONDITION
from fleet.model.placement_key import PlacementKey
from fleet.model.views import PlacementPolicy, PolicySnapshot, PolicySnapshotSpec, Toleration, find_untolerated
from fleet.scheduler.events.cluster_diff import ClusterDiff
from fleet.scheduler.requests import PARTS_ON_LOOP

H = TypeVar("H", bound=Hashable)

Topic = tuple[str, str]
Tolerations = tuple[Toleration, ...]

_ELIGIBLE: Final[Topic] = ("eligibility", "")
_NAMESPACES: Final[Topic] = ("namespaces", "")
_CAPACITY: Final[Topic] = ("capacity", "")
_CLUSTER: Final = "cluster"
_ANY_UPDATED: Final[Topic] = ("updated", "")
_EVERY: Final = EVERY_LABEL
"""Name of all labels, and of all properties."""
_LABEL: Final = "label"
_PROPERTY: Final = "property"
_NAMESPACE: Final = "namespace"
_UPDATE: Final = ClusterEventKind.UPDATE
_UPDATE_CAPACITY: Final = ClusterEventKind.UPDATE_CAPACITY
_UPDATE_LABELS: Final = ClusterEventKind.UPDATE_LABELS
_UPDATE_NAMESPACES: Final = ClusterEventKind.UPDATE_NAMESPACES
_UPDATE_PROPERTIES: Final = ClusterEventKind.UPDATE_PROPERTIES
_UPDATE_TAINTS: Final = ClusterEventKind.UPDATE_TAINTS
_MOST_ANSWERS: Final = 1_000
_LARGEST_QUESTION: Final = 4_096
"""Bytes of a policy."""


SourcesOf = Callable[[PlacementKey], EventSources]


@dataclass(frozen=True, slots=True)
class Interest:
    topics: frozenset[Topic] = frozenset()
    tolerations: Tolerations | None = None
    """None where taints do not count."""
    never_satisfied: bool = False


_NONE: Final = Interest()


def lacks_clusters(snapshot: PolicySnapshot) -> bool:
    """Unless its status confirms, for the current policy and count, that all desired clusters are selected."""
    metadata, status = snapshot.metadata, snapshot.status
    if metadata.annotation(PLACEMENT_GENERATION) != str(status.observed_crp_generation):
        return True
    condition = next((item for item in status.conditions if item.type == SCHEDULED_CONDITION), None)
    return condition is None or condition.status != "True" or condition.observed_generation != metadata.generation


def is_never_satisfied(policy: PlacementPolicy | None) -> bool:
    return policy is None or policy.placement_type in ("", PICK_ALL)


class InterestIndex:
    """Holds placements without a latest snapshot, too: the deletion of a cluster affects all placements."""

    def __init__(self, sources_of: SourcesOf) -> None:
        """The plugins that read clusters for a placement."""
        self._sources_of = sources_of
        self.reads_any_update = False
        """Whether changes count that no plugin has named."""
        self._entries: dict[PlacementKey, _Entry] = {}
        self._asked: EventSources = ()
        self._answers: dict[tuple[str, bytes], Interest] = {}
        """Of those plugins, by namespace and policy: many placements have the same."""
        self._by_topic: _KeyIndex[Topic] = _KeyIndex()
        self._by_tolerations: _KeyIndex[Tolerations] = _KeyIndex()

    def put(self, key: PlacementKey, snapshot: PolicySnapshot | None, *, short: bool) -> None:
        """The latest snapshot, if there is exactly one, and whether clusters are missing."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry()
        if snapshot is None:
            entry.spec, entry.interest = None, _NONE
        elif entry.spec != snapshot.spec:
            entry.spec = snapshot.spec
            entry.interest = self._interest_of(key, snapshot.spec.policy, snapshot.metadata.namespace)
        entry.short = short
        self._relist(key, entry)

    def _interest_of(self, key: PlacementKey, policy: PlacementPolicy | None, namespace: str) -> Interest:
        policy, sources = policy or PlacementPolicy(), self._sources_of(key)
        if sources is not self._asked or len(self._answers) >= _MOST_ANSWERS:
            self._asked, self._answers = sources, {}
        question = namespace, msgspec.json.encode(policy)
        answer = self._answers.get(question)
        if answer is None:
            answer = self._ask(sources, policy, namespace)
            if len(question[1]) <= _LARGEST_QUESTION:
                self._answers[question] = answer
        return answer

    def _ask(self, asked: EventSources, policy: PlacementPolicy, namespace: str) -> Interest:
        kind = policy.placement_type or PICK_ALL
        if kind not in (PICK_ALL, PICK_N, PICK_FIXED):
            return _NONE
        sources = [each for each in asked if each.judges_fixed or kind != PICK_FIXED]
        events = [event for each in sources for event in each.source.events_to_register(policy, namespace)]
        self.reads_any_update |= any(event.kind is _UPDATE for event in events)
        if kind == PICK_FIXED:
            read = {_CLUSTER, *(event.kind.value for event in events)}
            return Interest(frozenset((topic, name) for topic in read for name in policy.cluster_names))
        topics, reads_taints = {_ELIGIBLE}, False
        for event, names in events:
            if event is _UPDATE:
                topics.add(_ANY_UPDATED)
            elif event is _UPDATE_LABELS:
                topics.update(_list_names(_LABEL, names))
            elif event is _UPDATE_PROPERTIES:
                topics.update(_list_names(_PROPERTY, names))
            elif event is _UPDATE_CAPACITY:
                topics.add(_CAPACITY)
            elif event is _UPDATE_NAMESPACES:
                topics.add(_NAMESPACES)
                topics.update([(_NAMESPACE, name) for name in names])
            elif event is _UPDATE_TAINTS:
                reads_taints = True
        tolerations = policy.tolerations if reads_taints else None
        return Interest(frozenset(topics), tolerations, never_satisfied=kind == PICK_ALL)

    def forget(self, key: PlacementKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._unlist(key, entry.listed)

    def forget_spec(self, key: PlacementKey) -> None:
        """So that the plugins are asked again when the snapshot is put again."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.spec = None

    def list_keys(self) -> list[PlacementKey]:
        return list(self._entries)

    def is_waiting(self, key: PlacementKey) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.is_waiting

    def lacks_clusters(self, key: PlacementKey) -> bool:
        """By its status."""
        entry = self._entries.get(key)
        return entry is not None and entry.short

    def find_affected(self, diff: ClusterDiff) -> Collection[PlacementKey]:
        """Each key once."""
        if diff.deleted:
            return self.list_keys()
        affected = self._find_readers(_list_topics(diff))
        if diff.taints:
            for tolerations, keys in self._by_tolerations.items():
                if find_untolerated(diff.taints, tolerations) is not None:
                    affected.update(keys)
        return affected.keys()

    def find_affected_by_eligible(self, clusters: Iterable[str]) -> Collection[PlacementKey]:
        """By all of them together; each key once."""
        return self._find_readers((_ELIGIBLE, *((_CLUSTER, name) for name in clusters))).keys()

    def _find_readers(self, topics: Iterable[Topic]) -> dict[PlacementKey, None]:
        affected: dict[PlacementKey, None] = {}
        for topic in topics:
            affected.update(self._by_topic.list_keys(topic))
        return affected

    # --- attempts -----------------------------------------------------------------------------------------------------

    def begin_attempt(self, key: PlacementKey) -> None:
        """Until the attempt ends it is open whether clusters will be missing, so no event may be missed."""
        self._set_undecided(key, undecided=True)

    def end_attempt(self, key: PlacementKey) -> None:
        """The snapshot's status has the result by now."""
        self._set_undecided(key, undecided=False)

    def _set_undecided(self, key: PlacementKey, *, undecided: bool) -> None:
        entry = self._entries.get(key)
        if entry is not None:
            entry.undecided = undecided
            self._relist(key, entry)

    # --- lists --------------------------------------------------------------------------------------------------------

    def _relist(self, key: PlacementKey, entry: _Entry) -> None:
        wanted = entry.interest if entry.is_waiting else _NONE
        if wanted is not entry.listed:
            self._unlist(key, entry.listed)
            self._by_topic.add(key, wanted.topics)
            if wanted.tolerations is not None:
                self._by_tolerations.add(key, (wanted.tolerations,))
            entry.listed = wanted

    def _unlist(self, key: PlacementKey, listed: Interest) -> None:
        self._by_topic.remove(key, listed.topics)
        if listed.tolerations is not None:
            self._by_tolerations.remove(key, (listed.tolerations,))


def _list_names(kind: str, names: Collection[str]) -> list[Topic]:
    """To list a placement under tens of thousands holds the event loop for longer than its evaluations are worth."""
    return [(kind, name) for name in (names if len(names) <= PARTS_ON_LOOP else (_EVERY,))]


def _list_topics(diff: ClusterDiff) -> Iterator[Topic]:
    if diff.became_eligible:
        yield _ELIGIBLE
        yield _CLUSTER, diff.cluster
    if diff.namespaces_unconfirmed:
        yield _NAMESPACES
    if diff.updated:
        yield _ANY_UPDATED
        yield _UPDATE.value, diff.cluster
    if diff.usage:
        yield _UPDATE_PROPERTIES.value, diff.cluster
    if diff.usage or diff.freed:
        yield _CAPACITY
    yield from ((event, diff.cluster) for event in diff.events)
    for kind, names in ((_LABEL, diff.labels), (_PROPERTY, (*diff.properties, *diff.usage))):
        yield from ((kind, name) for name in (*names, *([_EVERY] if names else ())))
    yield from ((_NAMESPACE, name) for name in diff.namespaces)


@dataclass(slots=True)
class _Entry:
    spec: PolicySnapshotSpec | None = None
    interest: Interest = _NONE
    short: bool = True
    undecided: bool = False
    listed: Interest = _NONE
    """The interest under which it is listed now."""

    @property
    def is_waiting(self) -> bool:
        return self.short or self.undecided or self.interest.never_satisfied


class _KeyIndex(Generic[H]):
    """Keys by the values they are listed under, in the order in which they were added."""

    def __init__(self) -> None:
        self._keys: dict[H, dict[PlacementKey, None]] = {}

    def list_keys(self, value: H) -> Mapping[PlacementKey, None]:
        return self._keys.get(value, {})

    def items(self) -> Iterable[tuple[H, Mapping[PlacementKey, None]]]:
        return self._keys.items()

    def add(self, key: PlacementKey, values: Iterable[H]) -> None:
        for value in values:
            self._keys.setdefault(value, {})[key] = None

    def remove(self, key: PlacementKey, values: Iterable[H]) -> None:
        for value in values:
            keys = self._keys[value]
            del keys[key]
            if not keys:
                del self._keys[value]
