"""Names that a policy expects clusters to have: labels, properties, taints and namespaces, as plugins read them.

Plugins list them (`ReadingPlugin`), so that a name that no cluster has can be pointed out before, and whether or not,
it decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from fleet.framework.policy.terms import PropertyRef


class LabelRead(msgspec.Struct, frozen=True, gc=False):
    field: str
    """Where in the placement it is."""
    key: str
    values: tuple[str, ...] = ()
    without: str = ""
    """What follows if no cluster has the label: `spreading over it has no effect`."""


class PropertyRead(msgspec.Struct, frozen=True, gc=False):
    field: str
    ref: PropertyRef


@dataclass(frozen=True, slots=True)
class TaintRead:
    field: str
    key: str
    value: str | None = None
    """None: any value."""


@dataclass(frozen=True, slots=True)
class NamespaceRead:
    field: str
    namespace: str


PolicyRead = LabelRead | PropertyRead | TaintRead | NamespaceRead


@dataclass(frozen=True, slots=True)
class PolicyConflict:
    """Parts of a policy that contradict each other."""

    field: str
    message: str
    about_fleet: bool = False
    """It follows from the clusters there are, so it is only for those who may read all of them."""
