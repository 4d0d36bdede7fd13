"""Envelopes: objects that are only meant for members, wrapped so that they have no effect on the hub."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet.model.kinds.markers import EmbeddedObject
from fleet.model.kinds.meta import Document

Wrapped = Annotated[
    dict[str, EmbeddedObject],
    Field(min_length=1, max_length=50, description="The complete objects, each under a name of its own."),
]


class ClusterResourceEnvelope(Document):
    """Wraps cluster-scoped objects."""

    data: Wrapped


class ResourceEnvelope(Document):
    """Wraps objects of its own namespace."""

    data: Wrapped
