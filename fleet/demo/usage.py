"""Usage of simulated clusters by their workloads: as much as their placements request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from fleet.clock import Clock
from fleet.framework.policy.resource_requests import parse_requests
from fleet.kube.api import Api
from fleet.kube.backoff import Jitter
from fleet.kube.cache.store import build_codec
from fleet.kube.informer import Informer, InformerConfig
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.model.keys import REQUESTS
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Observed, Placement


class WorkloadUsage:
    """Requests in options are not looked at."""

    def __init__(
        self, api: Api, *, clock: Clock, jitter: Jitter, list_applied: Callable[[str], Iterable[PlacementKey]]
    ) -> None:
        """`list_applied` returns the placements that a cluster has."""
        access = InformerConfig(reads=api, writes=api, clock=clock, jitter=jitter)
        scopes = (CLUSTER_SCOPED, NAMESPACED)
        self._placements: dict[bool, Informer[Observed[Placement]]] = {
            scope.namespaced: Informer(access, scope.placement, build_codec(Placement)) for scope in scopes
        }
        self._list_applied = list_applied

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._placements.values():
                tasks.create_task(informer.reflector.run(), name=f"demo-{informer.resource.plural}")

    def measure(self, cluster: str) -> Mapping[str, int]:
        """In whole units, by resource."""
        used: Counter[str] = Counter()
        for key in self._list_applied(cluster):
            placement = self._placements[bool(key.namespace)].store.get(str(key))
            used.update(parse_requests("" if placement is None else placement.view.metadata.annotation(REQUESTS) or ""))
        return used
