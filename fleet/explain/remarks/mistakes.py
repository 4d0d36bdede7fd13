"""Mistakes in a policy: the names it reads that no cluster has, parts that exclude each other or have no effect.

Finding them costs a few column lookups per name, so that every attempt can afford it. What they are called in the
answer, and which names are near, is worked out in `remarks`, and only for mistakes that are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import msgspec

from fleet.cached import cached_property
from fleet.checkpoint import check, consume, split
from fleet.explain.remarks.nearest import Vocabulary
from fleet.explain.remarks.remark import RemarkKind
from fleet.framework.policy.reads import LabelRead, NamespaceRead, PolicyRead, PropertyRead, TaintRead
from fleet.framework.policy.terms import PropertyRef
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import COUNT_FIELD, NAMES_FIELD, PlacementRequest
from fleet.model.keys import RESOURCE_PROPERTY_PREFIX
from fleet.model.views import MemberCluster
from fleet.snapshot.columns.bitset import each_row, from_bools
from fleet.snapshot.columns.interned import NAMESPACE_MISSING, NAMESPACE_PRESENT
from fleet.snapshot.columns.numbers import USAGE_KINDS
from fleet.snapshot.frame import Frame


class Mistake(msgspec.Struct, frozen=True, gc=False):
    kind: RemarkKind
    field: str
    subject: str = ""
    value: str = ""
    note: str = ""
    """What follows from it, or the whole sentence where there is no subject."""


def find_mistakes(
    request: PlacementRequest, frame: Frame, profile: CompiledProfile, *, most: int
) -> tuple[Mistake, ...]:
    """The first of them, each once, in the order of the policy. Where unknown names are enough, nothing else is looked
    for: a large policy may have tens of thousands."""
    names = tuple(islice(find_unknown_names(request, frame, profile), most))
    others = find_other_mistakes(request, frame, profile) if len(names) < most else ()
    return (*names, *others)[:most]


def find_unknown_names(
    request: PlacementRequest, frame: Frame, profile: CompiledProfile, *, rows: int | None = None
) -> Iterator[Mistake]:
    """Each once: a large policy may have tens of thousands. An empty fleet has no names at all, so nothing is compared
    with it. `rows` are the clusters that the caller may read: all without."""
    names = FleetNames(frame, frame.valid if rows is None else frame.valid & rows)
    listed = set[tuple[str, str, str]]()
    for mistake in _find_unknown_names(request, profile, names) if names.clusters else ():
        key = (mistake.kind, mistake.subject, mistake.value)
        if key not in listed:
            listed.add(key)
            yield mistake
    while listed:  # at once it takes milliseconds, in which no other thread runs
        listed.pop()


def find_other_mistakes(
    request: PlacementRequest, frame: Frame, profile: CompiledProfile, *, rows: int | None = None
) -> tuple[Mistake, ...]:
    """What follows from the policy alone, and from the number of clusters."""
    sees_all = rows is None or frame.valid & rows == frame.valid
    conflicts = _find_conflicts(request, frame, profile, sees_all=sees_all)
    unused = (Mistake("without-effect", part.field, note=part.message) for part in request.unused)
    return tuple(dict.fromkeys((*conflicts, *unused)))


def _find_unknown_names(request: PlacementRequest, profile: CompiledProfile, names: FleetNames) -> Iterator[Mistake]:
    for position, cluster in enumerate(request.cluster_names):
        if not names.has_cluster(cluster):
            yield Mistake("unknown-cluster", f"{NAMES_FIELD}[{position}]", cluster)
    for _, plugin in profile.find_plugins("list_reads"):
        for read in consume(_list_safely(plugin, "list_reads", request)):
            check()
            yield from _check_read(read, names)


def _check_read(read: PolicyRead, names: FleetNames) -> Iterator[Mistake]:
    match read:
        case LabelRead() if not names.has_label(read.key):
            yield Mistake("unknown-label", read.field, read.key, note=read.without)
        case LabelRead():
            for value in names.list_unknown_values(read.key, read.values):
                yield Mistake("unknown-label-value", read.field, read.key, value)
        case PropertyRead() if not names.has_property(read.ref):
            yield Mistake("unknown-property", read.field, read.ref.name)
        case TaintRead() if read.key not in names.taints:
            yield Mistake("unknown-taint", read.field, read.key)
        case TaintRead() if read.value is not None and read.value not in names.taints[read.key]:
            yield Mistake("unknown-taint-value", read.field, read.key, read.value)
        case NamespaceRead() if names.lacks_namespace(read.namespace):
            yield Mistake("unknown-namespace", read.field, read.namespace)


def _find_conflicts(
    request: PlacementRequest, frame: Frame, profile: CompiledProfile, *, sees_all: bool
) -> Iterator[Mistake]:
    if sees_all and 0 < frame.count < (request.wanted or 0):
        note = f"{request.wanted} clusters are wanted, and the fleet has {frame.count}"
        yield Mistake("too-many-clusters", COUNT_FIELD, note=note)
    for _, plugin in profile.find_plugins("find_conflicts"):
        for conflict in _list_safely(plugin, "find_conflicts", request, frame):
            if sees_all or not conflict.about_fleet:
                yield Mistake("contradiction", conflict.field, note=conflict.message)


def _list_safely(plugin: Any, method: str, *args: Any) -> list[Any]:
    """A plugin that fails here costs its own remarks only."""
    try:
        return list(getattr(plugin, method)(*args))
    except Exception:
        return []


# --- names ------------------------------------------------------------------------------------------------------------


class FleetNames:
    """The names there are in a fleet, with the number of clusters that have each.

    They are collected only when a name is missing, from the clusters that the caller may read."""

    def __init__(self, frame: Frame, rows: int) -> None:
        self._frame, self._rows = frame, rows
        self.clusters = rows.bit_count()

    def has_label(self, key: str) -> bool:
        return bool(self._frame.labels(key).exists() & self._rows)

    def list_unknown_values(self, key: str, values: Iterable[str]) -> Iterator[str]:
        column, rows = self._frame.labels(key), self._rows
        for part in split(tuple(values)):
            yield from (value for value in part if not column.eq(value) & rows)

    def has_property(self, ref: PropertyRef) -> bool:
        column = ref.column(self._frame)
        return bool((from_bools(column.present()) | column.unreadable) & self._rows)

    def lacks_namespace(self, name: str) -> bool:
        """Only where a complete list of namespaces lacks it, and no other list has it."""
        column = self._frame.namespace(name)
        missing, present = (column.eq(state) & self._rows for state in (NAMESPACE_MISSING, NAMESPACE_PRESENT))
        return bool(missing) and missing == column.exists() & self._rows and not present

    def has_cluster(self, name: str) -> bool:
        row = self._frame.row_of(name)
        return row is not None and bool(self._rows >> row & 1)

    @cached_property
    def labels(self) -> Counter[str]:
        return Counter(chain.from_iterable(cluster.metadata.labels or () for cluster in self._clusters))

    def count_label_values(self, key: str) -> Counter[str]:
        rows = self._rows
        return _drop_zeros(
            (value, (members & rows).bit_count()) for value, members in self._frame.labels(key).distinct()
        )

    @cached_property
    def properties(self) -> Counter[str]:
        """Of both kinds: observed properties, and those that name a part of the resource usage."""
        names = Counter(chain.from_iterable(cluster.status.properties or () for cluster in self._clusters))
        usages = [cluster.status.resource_usage for cluster in self._clusters if cluster.status.resource_usage]
        for capacity, kind in USAGE_KINDS.items():
            resources = Counter(chain.from_iterable(getattr(usage, kind) or () for usage in usages))
            for resource, count in resources.items():
                names[f"{RESOURCE_PROPERTY_PREFIX}{capacity}-{resource}"] += count
        return names

    @property
    def taints(self) -> dict[str, Counter[str]]:
        """By key, the values and how many clusters have them."""
        return self._taints[0]

    @property
    def taint_keys(self) -> Counter[str]:
        return self._taints[1]

    @cached_property
    def _taints(self) -> tuple[dict[str, Counter[str]], Counter[str]]:
        """Both counts in one walk. A cluster may have several taints of one key."""
        values: dict[str, Counter[str]] = {}
        keys: Counter[str] = Counter()
        for taints, members in self._frame.taints.distinct():
            count = (members & self._rows).bit_count()
            if count:
                keys.update(dict.fromkeys((taint.key for taint in taints), count))
                for key, value in {(taint.key, taint.value) for taint in taints}:
                    values.setdefault(key, Counter())[value] += count
        return values, keys

    @cached_property
    def namespaces(self) -> Counter[str]:
        return Counter(chain.from_iterable(cluster.status.namespaces or () for cluster in self._clusters))

    @cached_property
    def cluster_names(self) -> Vocabulary:
        return Vocabulary(self._frame.name(row) for row in each_row(self._rows))

    @cached_property
    def _clusters(self) -> list[MemberCluster]:
        return [self._frame.cluster(row) for row in each_row(self._rows)]


def _drop_zeros(counts: Iterable[tuple[str, int]]) -> Counter[str]:
    return Counter({value: count for value, count in counts if count})
