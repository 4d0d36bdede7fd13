"""Entries of a ClusterReservation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleet.clock import SECOND
from fleet.errors import InputError
from fleet.framework.policy.resource_requests import NOTHING, format_amount, read_amount
from fleet.model.timestamps import format_timestamp, timestamp_or_none
from fleet.model.views import ClusterReservation, Observed, ReservationEntry

Json = dict[str, Any]

LIFETIME: Final = 600 * SECOND
"""Of an entry, unless it is renewed. A scheduler that has ended writes no binding after its lease, which is shorter."""
SETTLING: Final = 60 * SECOND
"""Entries stay for so long when there is a binding: the caches of all schedulers have it by then."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Room for a placement on a cluster."""

    placement: str
    uid: str
    requests: Mapping[str, int]


def list_entries(reservation: Observed[ClusterReservation] | None) -> tuple[ReservationEntry, ...]:
    return () if reservation is None else reservation.view.spec.entries


def is_expired(entry: ReservationEntry, now: int) -> bool:
    """An unreadable time is in the past."""
    return (timestamp_or_none(entry.expires_at) or 0) <= now


def get_age(entry: ReservationEntry, now: int) -> int:
    """Since it was written or renewed."""
    return now + LIFETIME - (timestamp_or_none(entry.expires_at) or 0)


def read_requests(entry: ReservationEntry) -> Mapping[str, int]:
    """Quantities that cannot be read are left out."""
    requests = {}
    for resource, quantity in entry.requests.items():
        try:
            requests[resource] = read_amount(resource, quantity)
        except InputError:
            continue
    return requests or NOTHING


def build_entry(owner: str, claim: Claim, now: int) -> ReservationEntry:
    return ReservationEntry(
        owner=owner,
        placement=claim.placement,
        uid=claim.uid,
        requests={resource: format_amount(resource, amount) for resource, amount in claim.requests.items()},
        expires_at=format_timestamp(now + LIFETIME),
    )


def build_reservation(
    cluster: str, former: Observed[ClusterReservation] | None, entries: Iterable[ReservationEntry]
) -> Json:
    """With the version that was read, so that it replaces nothing else."""
    document: Json = {"metadata": {"name": cluster}} if former is None else former.document()
    return {**document, "spec": {"entries": [_write(entry) for entry in entries]}}


def _write(entry: ReservationEntry) -> Json:
    return {
        "owner": entry.owner,
        "placement": entry.placement,
        "uid": entry.uid,
        "requests": entry.requests,
        "expiresAt": entry.expires_at,
    }
