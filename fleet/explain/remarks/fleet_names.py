"""The names there are in a fleet, with the number of clusters that have each.

They are collected only when a name is missing, from the clusters that the caller may read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from itertools import chain

from fleet.explain.remarks.nearest import Vocabulary
from fleet.framework.policy.terms import PropertyRef
from fleet.model.keys import RESOURCE_PROPERTY_PREFIX
from fleet.model.views import MemberCluster
from fleet.snapshot.columns.bitset import each_row, from_bools
from fleet.snapshot.columns.interned import NAMESPACE_MISSING, NAMESPACE_PRESENT
from fleet.snapshot.columns.numbers import USAGE_KINDS
from fleet.snapshot.frame import Frame


class FleetNames:
    def __init__(self, frame: Frame, rows: int) -> None:
        self._frame, self._rows = frame, rows
        self.clusters = rows.bit_count()

    # --- whether a name exists: over columns ------------------------------------------------------------------------

    def has_label(self, key: str) -> bool:
        return bool(self._frame.labels(key).exists() & self._rows)

    def has_label_value(self, key: str, value: str) -> bool:
        return bool(self._frame.labels(key).eq(value) & self._rows)

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

    # --- all names: over clusters -----------------------------------------------------------------------------------

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
