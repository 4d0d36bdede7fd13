"""What an update of a member cluster changed, as far as a placement can be interested in it.

Thousands of clusters report every few seconds, and nearly every report says what the last one said. So each part of a
cluster is compared as a whole first, and what differs only in when it was observed is no change at all. Who is
interested is left to `interests`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fleet.model.keys import NAMESPACE_COLLECTION_SUCCEEDED, RESOURCE_PROPERTY_PREFIX
from fleet.model.quantity import quantity_or_none, quantity_to_float
from fleet.model.views import MemberCluster, MemberClusterStatus, PropertyValue, QuantityText, ResourceUsage, Taint
from fleet.snapshot.columns.builders import USAGE_KINDS

Judge = Callable[[MemberCluster], bool]
"""Whether a cluster may take new work at this moment."""

_NOTHING: Final[frozenset[str]] = frozenset()
_NO_USAGE: Final = ResourceUsage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """False where there is nothing that anybody could be waiting for."""

    cluster: str = ""
    deleted: bool = False
    joined: bool = False
    """Seen for the first time, and eligible."""
    became_eligible: bool = False
    labels: frozenset[str] = _NOTHING
    """Keys that were added, removed or given another value."""
    taints: tuple[Taint, ...] = ()
    """Those that are gone: a new taint helps nobody."""
    properties: frozenset[str] = _NOTHING
    usage: frozenset[str] = _NOTHING
    """Property names of the resources whose quantity is another one."""
    namespaces: frozenset[str] = _NOTHING
    """Those that appeared or vanished."""
    namespaces_unconfirmed: bool = False
    """From now on, a namespace that is not listed may exist all the same."""

    def __bool__(self) -> bool:
        return self is not NO_CHANGE

    @property
    def events(self) -> tuple[str, ...]:
        """By the names that event hints have for them."""
        return tuple(name for name, happened in self._events() if happened)

    def _events(self) -> Iterator[tuple[str, object]]:
        yield "Delete", self.deleted
        yield "Add", self.joined
        yield "UpdateHealth", self.became_eligible and not self.joined
        yield "UpdateLabels", self.labels
        yield "UpdateTaints", self.taints
        yield "UpdateProperties", self.properties
        yield "UpdateCapacity", self.usage
        yield "UpdateNamespaces", self.namespaces or self.namespaces_unconfirmed

    def __str__(self) -> str:
        return f"MemberCluster/{'+'.join(self.events)} {self.cluster}"


NO_CHANGE: Final = Change()


def changes_between(
    old: MemberCluster | None, new: MemberCluster | None, *, eligible: Judge, initial: bool = False
) -> Change:
    """With `initial`, the cluster was there before anybody looked: that is not joining."""
    if new is None:
        return NO_CHANGE if old is None else Change(cluster=old.metadata.name, deleted=True)
    if new.metadata.deletion_timestamp:
        return NO_CHANGE  # counts when it is gone
    if old is not None:
        return _update(old, new, eligible)
    if initial or not eligible(new):
        return NO_CHANGE
    return Change(cluster=new.metadata.name, joined=True, became_eligible=True)


def _update(old: MemberCluster, new: MemberCluster, eligible: Judge) -> Change:
    before, after = old.status, new.status
    became_eligible = _reports_differ(old, new) and not eligible(old) and eligible(new)
    labels = _differing(old.metadata.labels, new.metadata.labels)
    taints = () if old.spec == new.spec else tuple(one for one in old.spec.taints if one not in new.spec.taints)
    properties = _properties(before.properties, after.properties)
    usage = _NOTHING if before.resource_usage == after.resource_usage else _usage(before, after)
    namespaces = _names(before.namespaces, after.namespaces)
    unconfirmed = before.conditions != after.conditions and _lost_confirmation(before, after)
    if not (became_eligible or labels or taints or properties or usage or namespaces or unconfirmed):
        return NO_CHANGE
    return Change(
        cluster=new.metadata.name,
        became_eligible=became_eligible,
        labels=labels,
        taints=taints,
        properties=properties,
        usage=usage,
        namespaces=namespaces,
        namespaces_unconfirmed=unconfirmed,
    )


def _reports_differ(old: MemberCluster, new: MemberCluster) -> bool:
    return old.status.agent_status != new.status.agent_status or old.metadata.deletion_timestamp is not None


def _differing(old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> frozenset[str]:
    if old == new:
        return _NOTHING
    return frozenset(key for key, _ in (old or {}).items() ^ (new or {}).items())


def _properties(old: dict[str, PropertyValue] | None, new: dict[str, PropertyValue] | None) -> frozenset[str]:
    """Without the times of observation, which differ in every report."""
    if old == new:
        return _NOTHING
    before = {name: one.value for name, one in (old or {}).items()}
    after = {name: one.value for name, one in (new or {}).items()}
    return _differing(before, after)


def _names(old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> frozenset[str]:
    return _NOTHING if old == new else frozenset((old or {}).keys() ^ (new or {}).keys())


def _usage(old: MemberClusterStatus, new: MemberClusterStatus) -> frozenset[str]:
    before, after = old.resource_usage or _NO_USAGE, new.resource_usage or _NO_USAGE
    return frozenset(
        f"{RESOURCE_PROPERTY_PREFIX}{word}-{resource}"
        for word, kind in USAGE_KINDS.items()
        for resource in _resources(getattr(before, kind), getattr(after, kind))
    )


def _resources(old: dict[str, QuantityText] | None, new: dict[str, QuantityText] | None) -> Iterator[str]:
    before, after = old or {}, new or {}
    for resource in before.keys() | after.keys():
        if _is_another(before.get(resource), after.get(resource)):
            yield resource


def _is_another(old: QuantityText | None, new: QuantityText | None) -> bool:
    """By value; what cannot be read is compared as it is written."""
    if old == new:
        return False
    if old is None or new is None or quantity_to_float(old) != quantity_to_float(new):
        return True  # NaN, for what cannot be read, is unlike everything
    return quantity_or_none(old) != quantity_or_none(new)


def _lost_confirmation(old: MemberClusterStatus, new: MemberClusterStatus) -> bool:
    before, after = _collection(old), _collection(new)
    return (before is not None and after is None) or (before == "True" and after != "True")


def _collection(status: MemberClusterStatus) -> str | None:
    for condition in status.conditions:
        if condition.type == NAMESPACE_COLLECTION_SUCCEEDED:
            return condition.status
    return None
