"""The workloads of the demo, and the five placements that place them.

Each object is created once in the life of a hub. A ConfigMap on the hub records the created objects, so that objects
that users delete or change stay so when the demo starts again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fleet.clock import Clock
from fleet.demo.locations import location_at
from fleet.errors import AlreadyExists, NotFound
from fleet.kube.api import Api
from fleet.kube.backoff import Jitter
from fleet.kube.cache.store import Codec
from fleet.kube.objects import Objects, RetryPolicy, call_with_retries
from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.model.views import Metadata, View

Document = dict[str, Any]

NAMESPACE: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAP: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
DEPLOYMENT: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
RECORD_NAMESPACE: Final = "fleet-demo"
RECORD_NAME: Final = "created"
_RECORD: Final = f"{RECORD_NAMESPACE}/{RECORD_NAME}"

DemoObject = tuple[Resource, Document]


class _Record(View, frozen=True):
    metadata: Metadata = Metadata()
    data: dict[str, str] | None = None


_RECORDS: Final = Codec(msgspec.json.Decoder(_Record).decode, lambda record: record.metadata)


class Workloads:
    """Creates the objects that were never created before."""

    def __init__(self, api: Api, *, clock: Clock, jitter: Jitter) -> None:
        self._api = api
        self._retry_policy = RetryPolicy(clock, jitter)
        self._records = Objects(api, CONFIG_MAP, _RECORDS)

    async def was_started_before(self) -> bool:
        """Whether the demo was started on this hub before."""
        return await self._records.find(_RECORD) is not None

    async def establish(self, objects: Sequence[DemoObject] | None = None) -> None:
        known = await self._record()
        for resource, document in demo_objects() if objects is None else objects:
            name = _recorded_name(resource, document)
            if name not in known:
                await self._create(resource, document)
                await self._record_created(name)

    async def _record(self) -> set[str]:
        await self._create(NAMESPACE, _build_metadata(RECORD_NAMESPACE))
        await self._create(CONFIG_MAP, _build_metadata(RECORD_NAME, RECORD_NAMESPACE) | {"data": {}})
        return set(
            (await call_with_retries(lambda: self._records.get(_RECORD), retry_policy=self._retry_policy)).data or {}
        )

    async def _record_created(self, name: str) -> None:
        """After the object: without the record, a restart creates it again, which AlreadyExists ends."""
        patch = {"data": {name: "created"}}
        await call_with_retries(lambda: self._records.merge_patch(_RECORD, patch), retry_policy=self._retry_policy)

    async def _create(self, resource: Resource, document: Document) -> None:
        objects = Objects(self._api, resource, _RECORDS)
        with contextlib.suppress(AlreadyExists, NotFound):  # NotFound: its namespace was deleted
            await call_with_retries(lambda: objects.create(document), retry_policy=self._retry_policy)


def demo_objects() -> list[DemoObject]:
    """In order of creation."""
    return [*_namespaces(), *_content(), *_build_placements()]


def placement_keys() -> list[str]:
    return [
        "/".join(filter(None, (placement["metadata"].get("namespace"), placement["metadata"]["name"])))
        for _, placement in _build_placements()
    ]


def _recorded_name(resource: Resource, document: Document) -> str:
    """A key that ConfigMaps allow."""
    metadata = document["metadata"]
    parts = (resource.plural, metadata.get("namespace"), metadata["name"])
    return ".".join(part for part in parts if part)


def _build_metadata(name: str, namespace: str | None = None) -> Document:
    return {"metadata": {"name": name} | ({"namespace": namespace} if namespace else {})}


# --- what is placed ---------------------------------------------------------------------------------------------------


def _namespaces() -> list[DemoObject]:
    return [(NAMESPACE, _build_metadata(name)) for name in ("shop", "payments", "batch-reports", "node-agents")]


def _content() -> list[DemoObject]:
    return [
        _deployment("shop", "storefront", replicas=3),
        _deployment("shop", "catalog-cache", replicas=2),
        _config_map("shop", "storefront-settings", currency="EUR", banner="spring-sale"),
        _deployment("payments", "ledger", replicas=2),
        _config_map("payments", "ledger-settings", retention="10y"),
        _deployment("batch-reports", "nightly-report", replicas=1),
        _deployment("node-agents", "log-shipper", replicas=1),
        _config_map("node-agents", "log-shipper-settings", level="info"),
    ]


def _deployment(namespace: str, name: str, *, replicas: int) -> DemoObject:
    labels = {"app": name}
    container = {"name": name, "image": f"registry.example.com/{namespace}/{name}:1.4.2"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return DEPLOYMENT, _build_metadata(name, namespace) | {"spec": spec}


def _config_map(namespace: str, name: str, **data: str) -> DemoObject:
    return CONFIG_MAP, _build_metadata(name, namespace) | {"data": data}


# --- where it is placed -----------------------------------------------------------------------------------------------


def _build_placements() -> list[DemoObject]:
    return [
        _cluster_placement("node-agents", "node-agents", _build_pick_all_policy()),
        _cluster_placement("payments-ledger", "payments", _build_fixed_policy()),
        _cluster_placement("storefront", "shop", _build_spread_policy()),
        _cluster_placement("batch-reports", "batch-reports", _build_cost_policy()),
        _catalog_cache(),
    ]


def _cluster_placement(name: str, namespace: str, policy: Document) -> DemoObject:
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": namespace}
    return CLUSTER_SCOPED.placement, _build_metadata(name) | {
        "spec": {"resourceSelectors": [selector], "policy": policy}
    }


def _build_pick_all_policy() -> Document:
    return {"placementType": "PickAll", "tolerations": [{"operator": "Exists"}]}


def _build_fixed_policy() -> Document:
    """On the two oldest members of Europe and America, by name."""
    return {"placementType": "PickFixed", "clusterNames": [location_at(0).name, location_at(1).name]}


def _build_spread_policy() -> Document:
    return {
        "placementType": "PickN",
        "numberOfClusters": 6,
        "affinity": {
            "clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "clusterSelectorTerms": [
                        {
                            "labelSelector": {"matchLabels": {"env": "prod"}},
                            "propertySelector": {
                                "matchExpressions": [
                                    {"name": "kubernetes-fleet.io/node-count", "operator": "Ge", "values": ["4"]}
                                ]
                            },
                        }
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 20, "preference": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}
                ],
            }
        },
        "topologySpreadConstraints": [
            {"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
            {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
        ],
    }


def _build_cost_policy() -> Document:
    return {
        "placementType": "PickN",
        "numberOfClusters": 3,
        "affinity": {
            "clusterAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    _by_property(60, "kubernetes.azure.com/per-cpu-core-cost", "Ascending"),
                    _by_property(30, "resources.kubernetes-fleet.io/available-cpu", "Descending"),
                ]
            }
        },
    }


def _by_property(weight: int, name: str, order: str) -> Document:
    return {"weight": weight, "preference": {"propertySorter": {"name": name, "sortOrder": order}}}


def _catalog_cache() -> DemoObject:
    """Eligible clusters need its namespace, so it waits for the storefront."""
    selector = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "catalog-cache"}
    preferred = [{"weight": 50, "preference": {"labelSelector": {"matchLabels": {"region": "eu-west"}}}}]
    affinity = {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    policy = {"placementType": "PickN", "numberOfClusters": 2, "affinity": affinity}
    spec = {"resourceSelectors": [selector], "policy": policy}
    return NAMESPACED.placement, _build_metadata("catalog-cache", "shop") | {"spec": spec}
