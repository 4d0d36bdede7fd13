"""Prerequisites of a rollout: versions that work together, and no foreign scheduler on the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from fleet.errors import InputError, NotFound
from fleet.kube.api import Api, Method, Request
from fleet.kube.leader_election import is_fleet
from fleet.kube.lease import LEASES
from fleet.model.timestamps import timestamp_or_none
from fleet.operator.compatibility import HUB_GROUP, MEMBER_GROUP, find_skew
from fleet.operator.tls_policy import API_SERVER, Json, convert_profile
from fleet.release.oci.references import parse_reference
from fleet.release.tags import parse_tag
from fleet.settings import Settings

DEFAULT_LEASE: Final = Settings().leader_election.key


@dataclass(frozen=True, slots=True)
class HubFacts:
    served: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Versions of API groups."""
    foreign_holder: str = ""
    """Of the lease of the first scheduler, when that is none of Fleet's."""
    serving_info: Json | None = None
    """What it asks of servers; None where it has no opinion."""


def list_unmet(image: str, facts: HubFacts) -> list[tuple[str, str]]:
    """Reasons and messages of the checks that fail. An image without a release tag is refused elsewhere."""
    unmet = []
    try:
        skew = find_skew(parse_tag(parse_reference(image).version), facts.served)
    except InputError:
        skew = None
    if skew:
        unmet.append(("VersionSkew", skew))
    if facts.foreign_holder:
        text = f"{facts.foreign_holder} holds Lease {DEFAULT_LEASE} and is no scheduler of Fleet: it would decide the "
        unmet.append(("ForeignScheduler", f"{text}placements of other schedulers, too; stop it first"))
    return unmet


async def read_hub_facts(api: Api, now: datetime) -> HubFacts:
    served = {group: await _list_versions(api, group) for group in (HUB_GROUP, MEMBER_GROUP)}
    lease = await _find(api, LEASES.item(DEFAULT_LEASE))
    api_server = await _find(api, API_SERVER)
    serving_info = convert_profile(api_server) if api_server else None
    return HubFacts(served, _get_foreign_holder(lease.get("spec") or {}, now), serving_info)


def _get_foreign_holder(spec: Mapping[str, Any], now: datetime) -> str:
    holder = spec.get("holderIdentity") or ""
    renewed = timestamp_or_none(spec.get("renewTime"))
    if not holder or is_fleet(holder) or renewed is None:
        return ""
    seconds = now.timestamp() - renewed / 1e9
    return str(holder) if seconds < (spec.get("leaseDurationSeconds") or 0) else ""


async def _list_versions(api: Api, group: str) -> list[str]:
    return [item["version"] for item in (await _find(api, f"/apis/{group}")).get("versions") or ()]


async def _find(api: Api, path: str) -> dict[str, Any]:
    """Empty where there is none."""
    try:
        document: dict[str, Any] = msgspec.json.decode(await api.call(Request(Method.GET, path)))
    except NotFound:
        return {}
    return document
