"""`fleet get`: objects of Fleet's kinds as the hub has them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.cli.client.hub_access import HubOptions, connected
from fleet.cli.client.kind_names import kinds_called
from fleet.cli.commands.why import FINE, write_json, write_yaml
from fleet.cli.output.object_rows import key_of, listing_of
from fleet.clock import SystemClock, epoch_nanoseconds
from fleet.errors import InputError
from fleet.kube.api import Api, Method, Request
from fleet.kube.resource import Resource, join_key
from fleet.model import catalogue

_PAGE: Final = 500
_DEFAULT_NAMESPACE: Final = "default"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptions:
    """As they stand on the command line."""

    kind: str
    name: str | None = None
    namespace: str | None = None
    labels: str | None = None
    output: str = "table"
    hub: HubOptions = field(default_factory=HubOptions)


def run_get(options: GetOptions) -> int:
    kinds = kinds_called(options.kind)
    found = asyncio.run(_found(options, kinds))
    if options.output == "table":
        _show(found, kinds)
    else:
        bundle = _bundle(found, single=options.name is not None)
        write_json(bundle) if options.output == "json" else write_yaml(bundle)
    return FINE


# --- reading --------------------------------------------------------------------------------------------------------


async def _found(options: GetOptions, kinds: Sequence[catalogue.KindDefinition]) -> list[Json]:
    async with connected(options.hub) as api:
        if options.name is not None:
            return [await _one(api, options, kinds, options.name)]
        pages = [await _all(api, Resource.of(kind), options) for kind in kinds]
    return sorted((one for page in pages for one in page), key=key_of)


async def _one(api: Api, options: GetOptions, kinds: Sequence[catalogue.KindDefinition], name: str) -> Json:
    if options.labels:
        raise InputError("a name and labels cannot both choose; leave one out", field="--selector")
    key, kind = _key(options, kinds, name)
    body = await api.call(Request(Method.GET, Resource.of(kind).item(key)))
    document: Json = json.loads(body)
    return document


def _key(
    options: GetOptions, kinds: Sequence[catalogue.KindDefinition], name: str
) -> tuple[str, catalogue.KindDefinition]:
    """`web` is of the whole fleet where both flavours are meant; `shop/web` is in a namespace."""
    namespace, _, plain = name.rpartition("/")
    namespace = namespace or options.namespace or ""
    fitting = [kind for kind in kinds if kind.is_namespaced is bool(namespace)]
    if fitting:
        return join_key(namespace, plain), fitting[0]
    if kinds[0].is_namespaced:
        return join_key(_DEFAULT_NAMESPACE, plain), kinds[0]
    raise InputError(f"{name!r}: a {kinds[0].kind} belongs to no namespace; leave it out", field="NAME")


async def _all(api: Api, resource: Resource, options: GetOptions) -> list[Json]:
    """Page after page; of both flavours, a namespace asks for one."""
    found: list[Json] = []
    after = ""
    if options.namespace and not resource.namespaced:
        return found
    while True:
        query = {"limit": str(_PAGE), "labelSelector": options.labels or "", "continue": after}
        given = tuple((name, value) for name, value in query.items() if value)
        page = json.loads(
            await api.call(Request(Method.GET, resource.collection(options.namespace or ""), query=given))
        )
        typed = {"apiVersion": resource.api_version, "kind": resource.kind}
        found += [{**typed, **one} for one in page.get("items") or ()]
        after = page.get("metadata", {}).get("continue", "")
        if not after:
            return found


# --- showing --------------------------------------------------------------------------------------------------------


def _show(found: Sequence[Json], kinds: Sequence[catalogue.KindDefinition]) -> None:
    from fleet.cli.output.console import columns, write

    if not found:
        sys.stderr.write(f"no {kinds[0].plural if len(kinds) == 1 else ' and no '.join(one.plural for one in kinds)}\n")
        return
    listing = listing_of(kinds[0].kind)
    rows = listing.rows(found, epoch_nanoseconds(SystemClock()))
    write([columns(listing.headings, rows, numbers=listing.numbers)])


def _bundle(found: Sequence[Json], *, single: bool) -> Json:
    shown = [_without_managed_fields(one) for one in found]
    return shown[0] if single else {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": shown}


def _without_managed_fields(document: Json) -> Json:
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    return {**document, "metadata": metadata}
