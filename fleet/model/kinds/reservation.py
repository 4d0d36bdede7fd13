"""Reservations: room on a cluster that several schedulers share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet.model.kinds.markers import Quantities, Timestamp, list_map
from fleet.model.kinds.meta import Document, Model


class ReservationEntry(Model):
    """Room for one placement."""

    owner: Annotated[
        str, Field(min_length=1, max_length=317, description="The scheduler: namespace and name of its lease.")
    ]
    placement: Annotated[
        str,
        Field(min_length=1, max_length=317, description="Name of the placement, after its namespace if any."),
    ]
    uid: Annotated[str, Field(min_length=1, max_length=128, description="Of the placement.")]
    requests: Annotated[Quantities, Field(max_length=32, description="What it needs there, by resource.")]
    expires_at: Annotated[Timestamp, Field(description="From then on the entry counts no more.")]


class ClusterReservationSpec(Model):
    """What schedulers have promised on the cluster."""

    entries: Annotated[
        tuple[ReservationEntry, ...],
        Field(max_length=5000, description="Room that is taken, and may not be reported yet."),
        list_map("owner", "uid"),
    ] = ()


class ClusterReservation(Document):
    """Room that schedulers reserve from each other on the member cluster of the same name."""

    spec: Annotated[ClusterReservationSpec, Field(description="The reservations.")] = ClusterReservationSpec()
