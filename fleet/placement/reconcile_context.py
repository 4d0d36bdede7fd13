"""One placement as one pass sees it."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.informers.cache import PlacementKinds
from fleet.kube.resource import key_of
from fleet.model.keys import PICK_FIXED, PICK_N
from fleet.model.views import Observed, Placement, PlacementSpec
from fleet.placement.snapshots.policy_snapshots import read_policy
from fleet.placement.status.conditions import Chain
from fleet.placement.status.namespaced_status import is_accessible
from fleet.placement.status.status import chain_of


@dataclass(frozen=True, slots=True)
class ReconcileContext:
    kinds: PlacementKinds
    placement: Observed[Placement]
    spec: PlacementSpec
    reads_live: bool = False
    """After a failure: the caches may lack one of our own writes."""

    @property
    def key(self) -> str:
        return key_of(self.placement.view.metadata)

    @property
    def uid(self) -> str:
        return self.placement.view.metadata.uid

    @property
    def generation(self) -> int:
        return self.placement.view.metadata.generation

    @property
    def prefix(self) -> str:
        return self.kinds.flavour.condition_prefix

    @property
    def chain(self) -> Chain:
        return chain_of(self.spec)

    @property
    def is_accessible(self) -> bool:
        return is_accessible(self.spec, self.placement)

    @property
    def selects_no_cluster(self) -> bool:
        """No cluster at all is what was asked for."""
        policy = read_policy(self.spec) or {}
        kind = policy.get("placementType")
        return (kind == PICK_N and policy.get("numberOfClusters") == 0) or (
            kind == PICK_FIXED and not policy.get("clusterNames")
        )
