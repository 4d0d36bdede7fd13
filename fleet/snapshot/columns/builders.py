"""Builders of columns, by column key: each reads its value off a cluster.

A column is built on first use and kept up to date from then on, so a fleet pays only for the labels and properties
that its policies mention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from fleet.model.keys import NAMESPACE_COLLECTION_SUCCEEDED
from fleet.model.views import MemberCluster, Taint
from fleet.snapshot.columns.interned import InternedColumn
from fleet.snapshot.columns.numbers import NumberColumn
from fleet.snapshot.columns.signals import SignalsColumn

ColumnKey = tuple[str, ...]
Column = InternedColumn[Any] | NumberColumn | SignalsColumn
ClusterRows = Iterable[MemberCluster | None]

SIGNALS: Final[ColumnKey] = ("signals",)
TAINTS: Final[ColumnKey] = ("taints",)

# States of one namespace on a cluster.
NAMESPACE_PRESENT: Final = "present"
NAMESPACE_MISSING: Final = "missing"
NAMESPACES_UNREPORTED: Final = "unreported"
NAMESPACE_UNCONFIRMED: Final = "unconfirmed"

USAGE_KINDS: Final = {"total": "capacity", "allocatable": "allocatable", "available": "available"}


def build_column(key: ColumnKey, size: int, rows: ClusterRows) -> Column:
    match key:
        case ("label", name):
            return InternedColumn(size, rows, _label_reader(name))
        case ("property", name):
            return NumberColumn(size, rows, _property_reader(name))
        case ("usage", kind, resource):
            return NumberColumn(size, rows, _usage_reader(kind, resource))
        case ("namespace", name):
            return InternedColumn(size, rows, _namespace_reader(name))
        case ("taints",):
            return InternedColumn(size, rows, _taints)
        case ("signals",):
            return SignalsColumn(size, rows)
    raise KeyError(key)


def _label_reader(key: str) -> Callable[[MemberCluster], str | None]:
    def read(cluster: MemberCluster) -> str | None:
        labels = cluster.metadata.labels
        return None if labels is None else labels.get(key)

    return read


def _property_reader(name: str) -> Callable[[MemberCluster], str | None]:
    def read(cluster: MemberCluster) -> str | None:
        properties = cluster.status.properties
        value = None if properties is None else properties.get(name)
        return None if value is None else value.value

    return read


def _usage_reader(kind: str, resource: str) -> Callable[[MemberCluster], str | None]:
    def read(cluster: MemberCluster) -> str | None:
        usage = cluster.status.resource_usage
        quantities = None if usage is None else getattr(usage, kind)
        quantity = None if quantities is None else quantities.get(resource)
        return None if quantity is None else str(quantity)

    return read


def _taints(cluster: MemberCluster) -> tuple[Taint, ...] | None:
    return cluster.spec.taints or None


def _namespace_reader(name: str) -> Callable[[MemberCluster], str | None]:
    def read(cluster: MemberCluster) -> str | None:
        collected = next((c for c in cluster.status.conditions if c.type == NAMESPACE_COLLECTION_SUCCEEDED), None)
        if collected is None:
            return None
        namespaces = cluster.status.namespaces
        if namespaces is not None and name in namespaces:
            return NAMESPACE_PRESENT
        if collected.status != "True":
            return NAMESPACE_UNCONFIRMED
        return NAMESPACES_UNREPORTED if namespaces is None else NAMESPACE_MISSING

    return read
