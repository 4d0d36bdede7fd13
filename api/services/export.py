"""Export of all inputs of decisions as one document, from which a simulation can start elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from api.live.live import LiveState
from api.models import SnapshotDocument
from fleet.kube.cache.store import Store
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import format_timestamp
from fleet.model.views import MemberCluster
from fleet.settings import Settings
from fleet.settings.tree import is_deciding
from fleet.worker_thread import WorkerThread


async def build_snapshot_document(live: LiveState, settings: Settings, thread: WorkerThread) -> SnapshotDocument:
    """Of one moment. Documents of clusters are made in the thread: there may be thousands."""
    changed = {name: value for name, value in settings.collect_changes().items() if is_deciding(name)}
    kinds = live.caches.kinds
    clusters = list(_list_clusters(live))
    document = SnapshotDocument(
        at=format_timestamp(live.now()),
        config_hash=live.frameworks.default.profile.config_hash,
        settings=changed,
        clusters=(),
        placements=_list_documents(each.placements.store for each in kinds),
        options=_list_documents(each.options.store for each in kinds),
        quotas=_list_documents(each.quotas.store for each in kinds),
        policy_snapshots=_list_documents(each.policy_snapshots.store for each in kinds),
        bindings=_list_documents(each.bindings.store for each in kinds),
        pending=tuple(_list_pending(live)),
    )
    return msgspec.structs.replace(document, clusters=await thread.run(_describe_clusters, clusters))


def _list_documents(stores: Iterable[Store[Any]]) -> tuple[Any, ...]:
    """As read: to decode large ones takes long."""
    return tuple(msgspec.Raw(observed.raw) for store in stores for observed in store.values())


def list_cluster_documents(live: LiveState) -> Iterator[dict[str, Any]]:
    """The fields that decisions read; the others are not watched."""
    return map(describe_cluster, _list_clusters(live))


def describe_cluster(cluster: MemberCluster) -> dict[str, Any]:
    return {
        "apiVersion": MEMBER_CLUSTERS.api_version,
        "kind": MEMBER_CLUSTERS.kind,
        **msgspec.to_builtins(cluster),
    }


def _describe_clusters(clusters: Iterable[MemberCluster]) -> tuple[dict[str, Any], ...]:
    return tuple(map(describe_cluster, clusters))


def _list_clusters(live: LiveState) -> Iterator[MemberCluster]:
    for name in live.cluster_names():
        cluster = live.caches.clusters.get(name)
        if cluster is not None:
            yield cluster


def _list_pending(live: LiveState) -> Iterator[str]:
    for key in live.placement_keys():
        if live.queue is not None and live.queue.peek(PlacementKey.parse(key)) is not None:
            yield key
