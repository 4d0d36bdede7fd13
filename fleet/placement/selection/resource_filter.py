"""Resource filter: excludes kinds of the hub, kinds listed by the operator, and objects that controllers derive."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from fleet.errors import ConfigurationError
from fleet.kube.resource import Resource
from fleet.model.keys import CLUSTER_GROUP, OPERATOR_GROUP, PLACEMENT_GROUP, SCHEDULING_GROUP
from fleet.placement.selection.candidates import CandidateObject
from fleet.settings import Settings

ENVELOPES: Final = frozenset({"ClusterResourceEnvelope", "ResourceEnvelope"})

_GROUPS: Final = frozenset(
    {CLUSTER_GROUP, SCHEDULING_GROUP, OPERATOR_GROUP, "events.k8s.io", "coordination.k8s.io", "metrics.k8s.io"}
)
_KINDS: Final = frozenset(
    {
        ("", "Pod"),
        ("", "Node"),
        ("", "Event"),  # the objects of events.k8s.io under their older name
        ("networking.fleet.azure.com", "ServiceImport"),
        ("networking.fleet.azure.com", "TrafficManagerProfile"),
        ("networking.fleet.azure.com", "TrafficManagerBackend"),
    }
)
_OWNED: Final = frozenset({"ReplicaSet", "ControllerRevision"})
_SERVICE_ACCOUNT_TOKEN: Final = "kubernetes.io/service-account-token"
_SLICE_MANAGER: Final = "endpointslice.kubernetes.io/managed-by"


@dataclass(frozen=True, slots=True)
class KindList:
    """Kinds as operators list them: `apps`, `apps/v1`, `apps/v1/Deployment,StatefulSet`, `v1/ConfigMap`."""

    groups: frozenset[str] = frozenset()
    versions: frozenset[tuple[str, str]] = frozenset()
    kinds: frozenset[tuple[str, str, str]] = frozenset()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Each text may hold several entries, separated by semicolons."""
        names: dict[int, set[tuple[str, ...]]] = {1: set(), 2: set(), 3: set()}
        for entry in filter(None, (part.strip() for text in texts for part in text.split(";"))):
            for name in _parse_entry(entry):
                names[len(name)].add(name)
        return cls(
            frozenset(group for (group,) in names[1]),
            frozenset((group, version) for group, version in names[2]),
            frozenset((group, version, kind) for group, version, kind in names[3]),
        )

    def __bool__(self) -> bool:
        return bool(self.groups or self.versions or self.kinds)

    def has(self, group: str, version: str, kind: str) -> bool:
        return (group, version, kind) in self.kinds or (group, version) in self.versions or (group in self.groups)

    def has_any_of(self, group: str, version: str) -> bool:
        named = {(kind_group, kind_version) for kind_group, kind_version, _ in self.kinds}
        return group in self.groups or (group, version) in self.versions | named


def _parse_entry(entry: str) -> list[tuple[str, ...]]:
    parts = [part.strip() for part in entry.split("/")]
    if len(parts) > 1 and _is_version(parts[0]):
        parts.insert(0, "")  # the core group has no name
    if len(parts) == 1 and _is_version(parts[0]):
        return [("", parts[0])]
    if len(parts) > 3 or not all(parts[1:]) or any("," in part for part in parts[:2]):
        raise ConfigurationError(
            f"{entry!r} is not a list of kinds: write group, group/version or group/version/Kind,Kind"
        )
    if len(parts) < 3:
        return [tuple(parts)]
    return [(parts[0], parts[1], kind.strip()) for kind in parts[2].split(",") if kind.strip()]


def _is_version(text: str) -> bool:
    return re.fullmatch(r"v\d+((alpha|beta)\d+)?", text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFilter:
    """The operator's settings, on top of the built-in exclusions."""

    skipped: KindList = field(default_factory=KindList)
    allowed: KindList = field(default_factory=KindList)
    """Empty: every kind."""
    skipped_namespaces: frozenset[str] = frozenset()
    secrets: bool = True
    """Whether Secrets may be placed, except through an envelope."""
    workloads_on_hub: bool = False

    def __post_init__(self) -> None:
        if self.skipped and self.allowed:
            raise ConfigurationError("kinds are either skipped or allowed: give one of the two lists")

    def allows_kind(self, group: str, version: str, kind: str) -> bool:
        if self.skipped.has(group, version, kind) or (self.allowed and not self.allowed.has(group, version, kind)):
            return False
        if (group, kind) == ("", "PersistentVolumeClaim") and self.workloads_on_hub:
            return False
        if self.withholds(group, kind):
            return False
        return not _is_hub_kind(group, kind)

    def withholds(self, group: str, kind: str) -> bool:
        """Whether a selector of this kind is an error; those of other kinds that are not allowed match nothing."""
        return (group, kind) == ("", "Secret") and not self.secrets

    def allows(self, resource: Resource) -> bool:
        return self.allows_kind(resource.group, resource.version, resource.kind)

    def may_allow_version(self, group: str, version: str) -> bool:
        """Whether any kind of this group and version can be placed."""
        if group in _GROUPS or group in self.skipped.groups or (group, version) in self.skipped.versions:
            return False
        return not self.allowed or self.allowed.has_any_of(group, version)

    def is_reserved(self, namespace: str) -> bool:
        return (
            namespace.startswith(("fleet-", "kube-")) or namespace == "default" or namespace in self.skipped_namespaces
        )


def _is_hub_kind(group: str, kind: str) -> bool:
    if group == PLACEMENT_GROUP:
        return kind not in ENVELOPES
    return group in _GROUPS or (group, kind) in _KINDS


def is_placeable(resource: Resource, candidate: CandidateObject, *, has_service: Callable[[str], bool]) -> bool:
    """Whether this object of an allowed kind may be placed; `has_service` is true for the key of a Service."""
    metadata = candidate.metadata
    if metadata.deletion_timestamp is not None:
        return False
    match resource.group, resource.kind:
        case "apps", kind if kind in _OWNED:
            return not metadata.owner_references
        case "", "ConfigMap":
            return metadata.name != "kube-root-ca.crt"
        case "", "ServiceAccount":
            return metadata.name != "default"
        case "", "Secret":
            return bool(candidate.type != _SERVICE_ACCOUNT_TOKEN)
        case "", "Endpoints":
            return not has_service(candidate.key)
        case "discovery.k8s.io", "EndpointSlice":
            return metadata.label(_SLICE_MANAGER) is None
    return True


EVERYTHING: Final = ResourceFilter()
"""Without settings of an operator."""


def build_resource_filter(settings: Settings) -> ResourceFilter:
    chosen = settings.selection
    return ResourceFilter(
        skipped=KindList.parse(chosen.skipped_kinds),
        allowed=KindList.parse(chosen.allowed_kinds),
        skipped_namespaces=frozenset(chosen.skipped_namespaces),
        secrets=chosen.secrets,
        workloads_on_hub=chosen.workloads_on_hub,
    )
