"""The input of one reconcile of a placement: the placement as read, its spec and its kinds.

To decode a large spec or policy holds the event loop, so each is decoded once in a reconcile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fleet.cached import cached_property
from fleet.informers.cache import PlacementKinds
from fleet.kube.resource import key_of
from fleet.model.decoding import decode
from fleet.model.keys import PICK_FIXED, PICK_N
from fleet.model.views import Observed, Placement, PlacementSpec
from fleet.placement.selection.selectors import SelectorTerm

ACCESSIBLE: Final = "NamespaceAccessible"


class ReconciledSpec(PlacementSpec, frozen=True):
    resource_selectors: tuple[SelectorTerm, ...] = ()


@dataclass(frozen=True)
class ReconcileContext:
    kinds: PlacementKinds
    placement: Observed[Placement]
    reads_live: bool = False
    """Set after a failure: the caches may lack one of our own writes."""

    @cached_property
    def spec(self) -> ReconciledSpec:
        return decode(bytes(self.placement.view.spec), ReconciledSpec).view

    @cached_property
    def policy_fields(self) -> PolicyFields | None:
        return read_policy_fields(self.spec.policy)

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
        return self.kinds.scope.condition_prefix

    @property
    def is_accessible(self) -> bool:
        """Whether the status is copied to the selected namespace."""
        return self.spec.status_reporting_scope == ACCESSIBLE and not self.placement.view.metadata.namespace

    @property
    def selects_no_cluster(self) -> bool:
        """The policy selects no cluster."""
        policy = self.policy_fields or {}
        kind = decode_field(policy, "placementType")
        return (kind == PICK_N and decode_field(policy, "numberOfClusters") == 0) or (
            kind == PICK_FIXED and not decode_field(policy, "clusterNames")
        )


PolicyFields = Mapping[str, msgspec.Raw]
"""The fields of a policy, encoded: to decode all of a large one takes long."""


def read_policy_fields(policy: msgspec.Raw) -> PolicyFields | None:
    return _decode_fields(policy) if bytes(policy) else None


def decode_field(policy: PolicyFields, name: str) -> Any:
    """None where it is absent."""
    return msgspec.json.decode(policy[name]) if name in policy else None


_decode_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode
