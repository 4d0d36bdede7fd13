"""Discovery documents: served groups, versions and resources, in the aggregated and the legacy form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fleet.hub.kinds.builtin import SCALE
from fleet.hub.kinds.kind import SUBRESOURCE_VERBS, Document, Kind
from fleet.hub.kinds.registry import KindRegistry

VERSION: Final[Document] = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.0+fleet",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}

_SCALE: Final = {"group": SCALE.group, "version": SCALE.version, "kind": SCALE.kind}


def build_core_versions(address: str) -> Document:
    everywhere = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"], "serverAddressByClientCIDRs": everywhere}


def build_group_list(registry: KindRegistry) -> Document:
    groups = [_build_group(registry, name) for name in _list_named_groups(registry)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def build_group(registry: KindRegistry, name: str) -> Document | None:
    if name not in _list_named_groups(registry):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_build_group(registry, name)}


def build_resource_list(registry: KindRegistry, group: str, version: str) -> Document:
    resources = [entry for kind in registry.of_version(group, version) for entry in _build_resources(kind)]
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def build_aggregated_discovery(registry: KindRegistry, *, core: bool, api: str) -> Document:
    """All groups with all their resources in one document; `api` is the requested version of apidiscovery.k8s.io."""
    groups = [""] if core else _list_named_groups(registry)
    items = [_build_aggregated_group(registry, name) for name in groups]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{api}", "metadata": {}, "items": items}


def build_root_paths(registry: KindRegistry) -> Document:
    groups = [f"/apis/{name}" for name in _list_named_groups(registry)]
    versions = [
        f"/apis/{name}/{version}" for name in _list_named_groups(registry) for version in registry.versions(name)
    ]
    other = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]
    return {"paths": sorted([*other, *groups, *versions])}


def _list_named_groups(registry: KindRegistry) -> list[str]:
    return sorted(name for name in registry.groups if name)


def _build_group(registry: KindRegistry, name: str) -> Document:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in registry.versions(name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _build_resources(kind: Kind) -> Iterator[Document]:
    entry: Document = {
        "name": kind.plural,
        "singularName": kind.singular_name,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    yield entry | _optional(shortNames=kind.short_names, categories=kind.categories)
    own = {"kind": kind.kind}
    for name in kind.subresources:
        yield {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            **(_SCALE if name == "scale" else own),
            "verbs": ["update"] if name == "finalize" else list(SUBRESOURCE_VERBS),
        }


def _build_aggregated_group(registry: KindRegistry, name: str) -> Document:
    versions = [
        {
            "version": version,
            "resources": [_build_aggregated_resource(kind) for kind in registry.of_version(name, version)],
            "freshness": "Current",
        }
        for version in registry.versions(name)
    ]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _build_aggregated_resource(kind: Kind) -> Document:
    response = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    entry: Document = {
        "resource": kind.plural,
        "responseKind": response,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular_name,
        "verbs": list(kind.verbs),
    }
    inner = [
        {
            "subresource": name,
            "responseKind": _SCALE if name == "scale" else response,
            "verbs": ["update"] if name == "finalize" else list(SUBRESOURCE_VERBS),
        }
        for name in kind.subresources
    ]
    return entry | _optional(shortNames=kind.short_names, categories=kind.categories, subresources=inner)


def _optional(**lists: Any) -> Document:
    return {key: list(value) for key, value in lists.items() if value}
