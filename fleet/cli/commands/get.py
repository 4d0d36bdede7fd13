"""`fleet get`: lists objects of Fleet's kinds on the hub."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.cli.client.connection import ConnectionOptions, find_connection
from fleet.cli.client.hub_access import HubOptions, connect_to_hub, describe_hub_errors
from fleet.cli.client.hub_objects import list_documents
from fleet.cli.client.name_completion import load_eligibility
from fleet.cli.client.names import BINDING_KINDS, CLUSTER_KIND, PLACEMENT_KINDS, find_kinds
from fleet.cli.commands.why import SUCCESS
from fleet.cli.output.console import write_document
from fleet.cli.output.object_rows import ELIGIBLE, is_unfulfilled, key_of, list_clusters, listing_of, sort_documents
from fleet.clock import SystemClock, epoch_nanoseconds
from fleet.errors import FleetError, InputError
from fleet.kube.api import Api, Method, Request
from fleet.kube.resource import Resource, join_key
from fleet.model import catalog as catalog

WIDE: Final = "wide"
NAME: Final = "name"
TABLES: Final = ("table", WIDE)
_DEFAULT_NAMESPACE: Final = "default"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptions:
    """The options of the command line."""

    kind: str
    name: str | None = None
    namespace: str | None = None
    labels: str | None = None
    unfulfilled: bool = False
    cluster: str | None = None
    sort_by: str | None = None
    output: str = "table"
    hub: HubOptions = field(default_factory=HubOptions)
    api: ConnectionOptions = field(default_factory=ConnectionOptions)


def run_get(options: GetOptions) -> int:
    kinds = find_kinds(options.kind)
    _check(options, kinds)
    documents = asyncio.run(_load(options, kinds))
    documents = [document for document in documents if _selects(options, document)]
    if options.output in TABLES and kinds[0].kind == CLUSTER_KIND:
        documents = _mark_eligible(documents, options.api)
    documents = sort_documents(documents, kinds[0].kind, options.sort_by)
    if options.output in TABLES:
        _print_table(documents, kinds, is_wide=options.output == WIDE)
    elif options.output == NAME:
        print_names(documents)
    else:
        write_document(_build_bundle(documents, single=options.name is not None and bool(documents)), options.output)
    return SUCCESS


def _check(options: GetOptions, kinds: Sequence[catalog.KindDefinition]) -> None:
    kind = kinds[0].kind
    if options.unfulfilled and kind not in PLACEMENT_KINDS:
        raise InputError("is for placements", field="--unfulfilled")
    if options.cluster and kind not in (*PLACEMENT_KINDS, *BINDING_KINDS):
        raise InputError("is for placements and bindings", field="--cluster")


def _selects(options: GetOptions, document: Json) -> bool:
    if options.unfulfilled and not is_unfulfilled(document):
        return False
    return options.cluster is None or options.cluster in list_clusters(document)


def _mark_eligible(documents: Sequence[Json], wanted: ConnectionOptions) -> list[Json]:
    """Whether clusters take new work depends on settings, so the API is asked; `-` without one."""
    try:
        known = load_eligibility(find_connection(wanted))
    except FleetError as error:
        reason = str(error).partition("\nnext:")[0]
        sys.stderr.write(f"note: ELIGIBLE is not known: {reason}\n")
        known = {}
    return [{**document, ELIGIBLE: known.get(key_of(document))} for document in documents]


# --- reading --------------------------------------------------------------------------------------------------------


async def _load(options: GetOptions, kinds: Sequence[catalog.KindDefinition]) -> list[Json]:
    async with connect_to_hub(options.hub) as api:
        if options.name is not None:
            return [await _load_object(api, options, kinds, options.name)]
        with describe_hub_errors(options.kind):
            pages = [await _list_objects(api, Resource.of(kind), options) for kind in kinds]
    return sorted((document for page in pages for document in page), key=key_of)


async def _load_object(api: Api, options: GetOptions, kinds: Sequence[catalog.KindDefinition], name: str) -> Json:
    if options.labels:
        raise InputError("a name and a label selector cannot be combined", field="--selector")
    key, kind = _resolve_key(options, kinds, name)
    with describe_hub_errors(options.kind):
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
    """With a namespace, a cluster-scoped resource has no objects."""
    if options.namespace and not resource.namespaced:
        return []
    return await list_documents(api, resource, namespace=options.namespace or "", labels=options.labels or "")


# --- output ---------------------------------------------------------------------------------------------------------


def _print_table(documents: Sequence[Json], kinds: Sequence[catalog.KindDefinition], *, is_wide: bool) -> None:
    from fleet.cli.output.console import page_of, print_text
    from fleet.text_table import render_table

    if not documents:
        sys.stderr.write(
            f"no {kinds[0].plural if len(kinds) == 1 else ' and no '.join(kind.plural for kind in kinds)}\n"
        )
        return
    listing = listing_of(kinds[0].kind)
    columns = listing.select(is_wide=is_wide)
    rows = [[row[column] for column in columns] for row in listing.rows(documents, epoch_nanoseconds(SystemClock()))]
    head = [listing.headings[column] for column in columns]
    print_text(render_table(head, rows, numbers=listing.numbers, width=page_of(sys.stdout).width))


def print_names(documents: Sequence[Json]) -> None:
    """`clusterresourceplacement.placement.kubernetes-fleet.io/web`, as kubectl takes them."""
    for document in documents:
        group = str(document["apiVersion"]).partition("/")[0]
        sys.stdout.write(f"{str(document['kind']).lower()}.{group}/{document['metadata']['name']}\n")


def _build_bundle(documents: Sequence[Json], *, single: bool) -> Json:
    shown = [_without_managed_fields(document) for document in documents]
    return shown[0] if single else {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": shown}


def _without_managed_fields(document: Json) -> Json:
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    return {**document, "metadata": metadata}
