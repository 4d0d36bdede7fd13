"""The hub in memory with kinds of all sorts: it says which ones it serves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.kube.api import Request
from fleet.kube.informer import InformerConfig
from fleet.kube.resource import Resource
from tests.fake_hub import FakeHub, Json, merged, refusal
from tests.faults.virtual import VirtualClock, no_jitter

NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SERVICES: Final = Resource("", "v1", "services", "Service", namespaced=True)
ENDPOINTS: Final = Resource("", "v1", "endpoints", "Endpoints", namespaced=True)
SECRETS: Final = Resource("", "v1", "secrets", "Secret", namespaced=True)
PODS: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
WIDGETS: Final = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)

USUAL: Final = (NAMESPACES, CONFIG_MAPS, SERVICES, ENDPOINTS, SECRETS, PODS, DEPLOYMENTS, ROLES, DEFINITIONS)
ALL_VERBS: Final = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass
class ContentHub(FakeHub):
    kinds: list[Resource] = field(default_factory=lambda: list(USUAL))
    verbs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By plural; all of them unless given."""
    preferred: dict[str, str] = field(default_factory=dict)
    """Version by group; the first one unless given."""
    down: set[str] = field(default_factory=set)
    """Paths that nobody serves at the moment."""
    clock: VirtualClock = field(default_factory=VirtualClock)

    def access(self) -> InformerConfig:
        return InformerConfig(reads=self, writes=self, clock=self.clock, jitter=no_jitter)

    def add(self, resource: Resource, key: str, **fields: Any) -> Json:
        """Creates or replaces an object; `metadata` is merged."""
        namespace, _, name = key.rpartition("/")
        self.namespaces.add(namespace)
        metadata = merged({"name": name, "namespace": namespace or None}, fields.pop("metadata", {}))
        return self._store(resource.item(key), {"metadata": merged({}, metadata), **fields})

    def drop(self, resource: Resource, key: str) -> None:
        self._remove(resource.item(key))

    def asked(self, text: str) -> int:
        """Requests for paths with this in them."""
        return sum(text in request.path for request in self.requests)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _discovery(self, path: str) -> Json | None:
        if path == "/api":
            return {"versions": ["v1"]}
        if path == "/apis":
            groups = dict.fromkeys(one.group for one in self.kinds if one.group)
            return {"groups": [self._group(name) for name in groups]}
        parts = path.strip("/").split("/")
        if len(parts) == 2 and parts[0] == "api":
            return self._resources("", parts[1])
        if len(parts) == 3 and parts[0] == "apis":
            return self._resources(parts[1], parts[2])
        return None

    def _perform(self, request: Request) -> Json:
        found = self._discovery(request.path)
        if found is None:
            return super()._perform(request)
        if request.path in self.down:
            raise refusal(503, "ServiceUnavailable")
        return found

    def _group(self, name: str) -> Json:
        versions = list(dict.fromkeys(one.version for one in self.kinds if one.group == name))
        preferred = self.preferred.get(name, versions[0])
        return {
            "name": name,
            "versions": [{"version": version} for version in versions],
            "preferredVersion": {"version": preferred},
        }

    def _resources(self, group: str, version: str) -> Json:
        served = [one for one in self.kinds if (one.group, one.version) == (group, version)]
        if not served:
            raise refusal(404, "NotFound")
        return {"resources": [entry for one in served for entry in self._entries(one)]}

    def _entries(self, one: Resource) -> Iterable[Json]:
        yield {
            "name": one.plural,
            "kind": one.kind,
            "namespaced": one.namespaced,
            "verbs": self.verbs.get(one.plural, ALL_VERBS),
        }
        yield {"name": f"{one.plural}/status", "kind": one.kind, "namespaced": one.namespaced, "verbs": ["get"]}
