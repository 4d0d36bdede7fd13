"""Staged update runs of placements whose rollout they control."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fleet.errors import Forbidden, NotFound
from fleet.kube.api import Api
from fleet.kube.cache.store import build_codec
from fleet.kube.objects import Objects
from fleet.kube.resource import Resource
from fleet.model.keys import PLACEMENT_GROUP, STORAGE_VERSION
from fleet.model.views import Metadata, StagedUpdateRun
from fleet.placement.status.cluster_statuses import ClusterProgress

CLUSTER_RUNS: Final = Resource(
    PLACEMENT_GROUP, STORAGE_VERSION, "clusterstagedupdateruns", "ClusterStagedUpdateRun", namespaced=False
)
NAMESPACED_RUNS: Final = Resource(
    PLACEMENT_GROUP, STORAGE_VERSION, "stagedupdateruns", "StagedUpdateRun", namespaced=True
)


def find_common_index(clusters: Iterable[ClusterProgress]) -> str:
    """The index of the resource snapshot that all clusters have; empty if they differ."""
    indices = {cluster.index for cluster in clusters}
    return indices.pop() if len(indices) == 1 else ""


class StagedRunLister:
    """Lists runs live: only the message of a rare state names them, which does not justify an informer."""

    def __init__(self, api: Api) -> None:
        self._runs = {
            resource.namespaced: Objects(api, resource, build_codec(StagedUpdateRun))
            for resource in (CLUSTER_RUNS, NAMESPACED_RUNS)
        }

    async def list_names(self, placement: Metadata) -> list[str]:
        """Sorted names of the runs of a placement; empty if the kind is not served or listing it is forbidden."""
        try:
            runs = await self._runs[bool(placement.namespace)].list(namespace=placement.namespace)
        except (NotFound, Forbidden):
            return []
        names = [run.view.metadata.name for run in runs if run.view.spec.placement_name == placement.name]
        return sorted(names)
