"""`fleet get`: lists objects of Fleet's kinds on the hub."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.cli.client.hub_access import HubOptions, connect_to_hub
from fleet.cli.client.names import find_kinds
from fleet.cli.commands.why import SUCCESS
from fleet.cli.output.console import write_json, write_yaml
from fleet.cli.output.object_rows import key_of, listing_of
from fleet.clock import SystemClock, epoch_nanoseconds
from fleet.errors import InputError
from fleet.kube.api import Api, Method, Request
from fleet.kube.resource import Resource, join_key
from fleet.model import catalog as catalog

_PAGE: Final = 500
_DEFAULT_NAMESPACE: Final = "default"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptions:
    """The options of the command line."""

    kind: str
    name: str | None = None
    namespace: str | None = None
    labels: str | None = None
    output: str = "table"
    hub: HubOptions = field(default_factory=HubOptions)


def run_get(options: GetOptions) -> int:
    kinds = find_kinds(options.kind)
    documents = asyncio.run(_load(options, kinds))
    if options.output == "table":
        _print_table(documents, kinds)
    else:
        bundle = _build_bundle(documents, single=options.name is not None)
        write_json(bundle) if options.output == "json" else write_yaml(bundle)
    return SUCCESS


# --- reading --------------------------------------------------------------------------------------------------------


async def _load(options: GetOptions, kinds: Sequence[catalog.KindDefinition]) -> list[Json]:
    async with connect_to_hub(options.hub) as api:
        if options.name is not None:
            return [await _load_object(api, options, kinds, options.name)]
        pages = [await _list_objects(api, Resource.of(kind), options) for kind in kinds]
    return sorted((document for page in pages for document in page), key=key_of)


async def _load_object(api: Api, options: GetOptions, kinds: Sequence[catalog.KindDefinition], name: str) -> Json:
    if options.labels:
        raise InputError("a name and a label selector cannot be combined", field="--selector")
    key, kind = _resolve_key(options, kinds, name)
    body = await api.call(Request(Method.GET, Resource.of(kind).item(key)))
    document: Json = json.loads(body)
    return document


def _resolve_key(
    options: GetOptions, kinds: Sequence[catalog.KindDefinition], name: str
) -> tuple[str, catalog.KindDefinition]:
    """`web` is cluster-scoped if the kind has both scopes; `shop/web` is namespaced."""
    namespace, _, plain = name.rpartition("/")
    namespace = namespace or options.namespace or ""
    fitting = [kind for kind in kinds if kind.is_namespaced is bool(namespace)]
    if fitting:
        return join_key(namespace, plain), fitting[0]
    if kinds[0].is_namespaced:
        return join_key(_DEFAULT_NAMESPACE, plain), kinds[0]
    raise InputError(f"{name!r}: a {kinds[0].kind} has no namespace; leave it out", field="NAME")


async def _list_objects(api: Api, resource: Resource, options: GetOptions) -> list[Json]:
    """All pages. With a namespace, a cluster-scoped resource has no objects."""
    documents: list[Json] = []
    after = ""
    if options.namespace and not resource.namespaced:
        return documents
    while True:
        query = {"limit": str(_PAGE), "labelSelector": options.labels or "", "continue": after}
        given = tuple((name, value) for name, value in query.items() if value)
        page = json.loads(
            await api.call(Request(Method.GET, resource.collection(options.namespace or ""), query=given))
        )
        typed = {"apiVersion": resource.api_version, "kind": resource.kind}
        documents += [{**typed, **item} for item in page.get("items") or ()]
        after = page.get("metadata", {}).get("continue", "")
        if not after:
            return documents


# --- output ---------------------------------------------------------------------------------------------------------


def _print_table(documents: Sequence[Json], kinds: Sequence[catalog.KindDefinition]) -> None:
    from fleet.cli.output.console import page_of, print_text
    from fleet.text_table import render_table

    if not documents:
        sys.stderr.write(
            f"no {kinds[0].plural if len(kinds) == 1 else ' and no '.join(kind.plural for kind in kinds)}\n"
        )
        return
    listing = listing_of(kinds[0].kind)
    rows = listing.rows(documents, epoch_nanoseconds(SystemClock()))
    width = page_of(sys.stdout).width
    print_text(render_table(listing.headings, rows, numbers=listing.numbers, width=width))


def _build_bundle(documents: Sequence[Json], *, single: bool) -> Json:
    shown = [_without_managed_fields(document) for document in documents]
    return shown[0] if single else {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": shown}


def _without_managed_fields(document: Json) -> Json:
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    return {**document, "metadata": metadata}
