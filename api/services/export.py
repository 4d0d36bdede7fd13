"""Everything decisions are made of, as one document that a simulation can begin with somewhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from api.live.live import Live
from api.models import SnapshotDocument
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.timestamps import format_timestamp
from fleet.settings import Settings
from fleet.settings.tree import DECIDING


def snapshot_document(live: Live, settings: Settings) -> SnapshotDocument:
    changed = {name: value for name, value in settings.collect_changes().items() if name.partition(".")[0] in DECIDING}
    kinds = live.caches.kinds
    return SnapshotDocument(
        at=format_timestamp(live.now()),
        config_hash=live.framework.profile.config_hash,
        settings=changed,
        clusters=tuple(_clusters(live)),
        placements=tuple(one.document() for each in kinds for one in each.placements.store.values()),
        policy_snapshots=tuple(one.document() for each in kinds for one in each.policy_snapshots.store.values()),
        bindings=tuple(one.document() for each in kinds for one in each.bindings.store.values()),
        pending=tuple(_pending(live)),
    )


def _clusters(live: Live) -> Iterator[dict[str, Any]]:
    """What decisions read of them; nothing else is watched."""
    head = {"apiVersion": MEMBER_CLUSTERS.api_version, "kind": MEMBER_CLUSTERS.kind}
    for name in live.cluster_names():
        yield head | msgspec.to_builtins(live.caches.clusters.get(name))


def _pending(live: Live) -> Iterator[str]:
    for key in live.placement_keys():
        if live.queue is not None and live.queue.peek(key) is not None:
            yield key
