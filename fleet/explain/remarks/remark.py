"""Remarks: mistakes of meaning in a policy that is otherwise valid, as values."""

from __future__ import annotations

from typing import Literal

import msgspec

RemarkKind = Literal[
    "unknown-label",
    "unknown-label-value",
    "unknown-property",
    "unknown-taint",
    "unknown-taint-value",
    "unknown-namespace",
    "unknown-cluster",
    "unknown-object",
    "too-many-clusters",
    "contradiction",
    "without-effect",
    "further",
]


class NameCount(msgspec.Struct, frozen=True, rename="camel"):
    """A value, and how many clusters have it."""

    value: str
    clusters: int


class Remark(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Names and counts are of clusters that the caller may read."""

    kind: RemarkKind
    field: str
    """Where in the placement it is."""
    subject: str = ""
    """The name: a label key, a property, a taint key, a cluster, a namespace or an object."""
    value: str = ""
    """The value of the label or taint that no cluster has."""
    near: str = ""
    """The name or value that was probably meant; empty where none is near."""
    near_clusters: int = 0
    """How many clusters have it."""
    counts: tuple[NameCount, ...] = ()
    """The values there are, the most frequent first."""
    more: int = 0
    """How many values are left out; of the last remark, how many remarks."""
    clusters: int = 0
    """How many clusters were looked at."""
    message: str
