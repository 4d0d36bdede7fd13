"""Quotas: what the placements of a tenant may request on all clusters together, and lend to each other."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet.model.kinds.markers import Quantities
from fleet.model.kinds.meta import Document, LabelSelector, Model

_MIN = "What is guaranteed, by resource; what is not used of it may be lent. The resource clusters counts bindings."
_MAX = "What may be used at most, with what is borrowed; as much as is left when absent."


class PlacementQuotaSpec(Model):
    """What the placements of the namespace may request together."""

    min: Annotated[Quantities | None, Field(max_length=32, description=_MIN)] = None
    max: Annotated[Quantities | None, Field(max_length=32, description=_MAX)] = None


class ClusterPlacementQuotaSpec(Model):
    """What the selected placements may request together."""

    placements: Annotated[
        LabelSelector | None, Field(description="Labels of the placements that count; every placement when absent.")
    ] = None
    min: Annotated[Quantities | None, Field(max_length=32, description=_MIN)] = None
    max: Annotated[Quantities | None, Field(max_length=32, description=_MAX)] = None


class PlacementQuotaStatus(Model):
    """What is in use, written by the scheduler only."""

    used: Annotated[Quantities | None, Field(description="What the placements request on their clusters.")] = None
    borrowed: Annotated[Quantities | None, Field(description="What of that is beyond the guarantee.")] = None


class PlacementQuota(Document):
    """A quota of the ResourcePlacements of its namespace."""

    spec: Annotated[PlacementQuotaSpec, Field(description="The quota.")]
    status: Annotated[PlacementQuotaStatus, Field(description="What is in use.")] = PlacementQuotaStatus()


class ClusterPlacementQuota(Document):
    """A quota of ClusterResourcePlacements."""

    spec: Annotated[ClusterPlacementQuotaSpec, Field(description="The quota.")]
    status: Annotated[PlacementQuotaStatus, Field(description="What is in use.")] = PlacementQuotaStatus()
