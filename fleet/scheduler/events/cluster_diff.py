"""Differences between two versions of a member cluster, as far as they can matter to a placement.

Thousands of clusters report every few seconds, and nearly every report repeats the last one. So each part of a cluster
is compared as a whole first, and a new observation time alone does not count as a difference. The affected placements
are found by `interest_index`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from typing import Final

from fleet.model.keys import NAMESPACE_COLLECTION_SUCCEEDED, RESOURCE_PROPERTY_PREFIX
from fleet.model.quantity import quantity_or_none, quantity_to_float
from fleet.model.views import MemberCluster, MemberClusterStatus, PropertyValue, QuantityText, ResourceUsage, Taint
from fleet.snapshot.columns.numbers import USAGE_KINDS
from fleet.snapshot.columns.pools import POOLS, parse_pool_property
from fleet.snapshot.table import differ_beyond_heartbeat

BecameEligible = Callable[[MemberCluster | None, MemberCluster], bool]
"""Whether a cluster may take new work at this moment, and could not in its former version, if there was one."""

_NOTHING: Final[frozenset[str]] = frozenset()
_NO_USAGE: Final = ResourceUsage()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDiff:
    """False where no placement can be waiting for any of it."""

    cluster: str = ""
    deleted: bool = False
    joined: bool = False
    """New, and eligible."""
    became_eligible: bool = False
    labels: frozenset[str] = _NOTHING
    """Keys that were added, removed or given another value."""
    taints: tuple[Taint, ...] = ()
    """Removed taints: a new taint makes no placement schedulable."""
    properties: frozenset[str] = _NOTHING
    usage: frozenset[str] = _NOTHING
    """Property names of the resources whose quantity changed."""
    freed: bool = False
    """Room there was given back that no report had included."""
    namespaces: frozenset[str] = _NOTHING
    """Those that appeared or vanished."""
    namespaces_unconfirmed: bool = False
    """From now on, a namespace that is not listed may exist all the same."""
    updated: bool = False
    """Anything beyond the heartbeat changed; for plugins that do not name what they read."""

    def __bool__(self) -> bool:
        return self is not NO_DIFF

    @property
    def events(self) -> tuple[str, ...]:
        """By the names that event hints have for them."""
        happened = {
            "Delete": self.deleted,
            "Add": self.joined,
            "UpdateHealth": self.became_eligible and not self.joined,
            "UpdateLabels": self.labels,
            "UpdateTaints": self.taints,
            "UpdateProperties": self.properties,
            "UpdateCapacity": self.usage or self.freed,
            "UpdateNamespaces": self.namespaces or self.namespaces_unconfirmed,
        }
        return tuple(compress(happened, happened.values())) or ("Update",)

    def __str__(self) -> str:
        return f"MemberCluster/{'+'.join(self.events)} {self.cluster}"


NO_DIFF: Final = ClusterDiff()


def diff_clusters(
    old: MemberCluster | None,
    new: MemberCluster | None,
    *,
    became_eligible: BecameEligible,
    initial: bool = False,
    any_update: bool = False,
    freed: bool = False,
) -> ClusterDiff:
    """With `initial`, the cluster existed before the first list: that is not joining. With `any_update`, changes count
    that no plugin has named. `freed`: the report gives room back."""
    if new is None:
        return NO_DIFF if old is None else ClusterDiff(cluster=old.metadata.name, deleted=True)
    diff = _diff_known(old, new, became_eligible, initial=initial)
    if freed and new.metadata.deletion_timestamp is None:
        diff = replace(diff, cluster=new.metadata.name, freed=True)
    if any_update and not initial and differ_beyond_heartbeat(old, new):
        return replace(diff, cluster=new.metadata.name, updated=True)
    return diff


def _diff_known(
    old: MemberCluster | None, new: MemberCluster, became_eligible: BecameEligible, *, initial: bool
) -> ClusterDiff:
    if new.metadata.deletion_timestamp:
        return NO_DIFF  # counts when it is gone
    if old is not None:
        return _diff_update(old, new, became_eligible)
    if initial or not became_eligible(None, new):
        return NO_DIFF
    return ClusterDiff(cluster=new.metadata.name, joined=True, became_eligible=True)


def _diff_update(old: MemberCluster, new: MemberCluster, became_eligible: BecameEligible) -> ClusterDiff:
    before, after = old.status, new.status
    regained = _reports_differ(old, new) and became_eligible(old, new)
    labels = _diff_values(old.metadata.labels, new.metadata.labels)
    taints = () if old.spec == new.spec else tuple(taint for taint in old.spec.taints if taint not in new.spec.taints)
    properties = _diff_properties(before.properties, after.properties)
    usage = _NOTHING if before.resource_usage == after.resource_usage else _diff_usage(before, after)
    namespaces = _diff_names(before.namespaces, after.namespaces)
    unconfirmed = before.conditions != after.conditions and _lost_confirmation(before, after)
    if not (regained or labels or taints or properties or usage or namespaces or unconfirmed):
        return NO_DIFF
    return ClusterDiff(
        cluster=new.metadata.name,
        became_eligible=regained,
        labels=labels,
        taints=taints,
        properties=properties,
        usage=usage,
        namespaces=namespaces,
        namespaces_unconfirmed=unconfirmed,
    )


def _reports_differ(old: MemberCluster, new: MemberCluster) -> bool:
    """In what eligibility depends on."""
    return (
        old.status.agent_status != new.status.agent_status
        or old.status.properties != new.status.properties
        or old.metadata.deletion_timestamp is not None
    )


def _diff_values(old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> frozenset[str]:
    if old == new:
        return _NOTHING
    return frozenset(key for key, _ in (old or {}).items() ^ (new or {}).items())


def _diff_properties(old: dict[str, PropertyValue] | None, new: dict[str, PropertyValue] | None) -> frozenset[str]:
    """Without the times of observation, which differ in every report."""
    if old == new:
        return _NOTHING
    before = {name: value.value for name, value in (old or {}).items()}
    after = {name: value.value for name, value in (new or {}).items()}
    changed = _diff_values(before, after)
    return changed | {POOLS} if any(map(parse_pool_property, changed)) else changed


def _diff_names(old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> frozenset[str]:
    return _NOTHING if old == new else frozenset((old or {}).keys() ^ (new or {}).keys())


def _diff_usage(old: MemberClusterStatus, new: MemberClusterStatus) -> frozenset[str]:
    before, after = old.resource_usage or _NO_USAGE, new.resource_usage or _NO_USAGE
    return frozenset(
        f"{RESOURCE_PROPERTY_PREFIX}{word}-{resource}"
        for word, kind in USAGE_KINDS.items()
        for resource in _diff_resources(getattr(before, kind), getattr(after, kind))
    )


def _diff_resources(old: dict[str, QuantityText] | None, new: dict[str, QuantityText] | None) -> Iterator[str]:
    before, after = old or {}, new or {}
    for resource in before.keys() | after.keys():
        if _quantities_differ(before.get(resource), after.get(resource)):
            yield resource


def _quantities_differ(old: QuantityText | None, new: QuantityText | None) -> bool:
    """By value; what cannot be read is compared as it is written."""
    if old == new:
        return False
    if old is None or new is None or quantity_to_float(old) != quantity_to_float(new):
        return True  # NaN, for what cannot be read, is unlike everything
    return quantity_or_none(old) != quantity_or_none(new)


def _lost_confirmation(old: MemberClusterStatus, new: MemberClusterStatus) -> bool:
    before, after = _collection_status(old), _collection_status(new)
    return (before is not None and after is None) or (before == "True" and after != "True")


def _collection_status(status: MemberClusterStatus) -> str | None:
    for condition in status.conditions:
        if condition.type == NAMESPACE_COLLECTION_SUCCEEDED:
            return condition.status
    return None
