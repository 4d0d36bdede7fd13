"""`fleet get`: lists objects of Fleet's kinds on the hub, and follows their changes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.cli.client.connection import ConnectionOptions, find_connection
from fleet.cli.client.hub_access import HubOptions, connect_to_hub, describe_missing
from fleet.cli.client.hub_objects import list_documents
from fleet.cli.client.hub_watch import HubWatch, watch_documents
from fleet.cli.client.name_completion import load_eligibility
from fleet.cli.client.names import BINDING_KINDS, CLUSTER_KIND, PLACEMENT_KINDS, find_kinds
from fleet.cli.commands.why import SUCCESS
from fleet.cli.output.object_rows import ELIGIBLE, is_unfulfilled, key_of, list_clusters, sort_documents
from fleet.cli.output.object_table import NAME, TABLE, TABLES, ObjectTable, print_change, print_documents, print_names
from fleet.cli.progress import show_progress
from fleet.errors import BadRequest, FleetError, InputError
from fleet.kube.api import Api, Method, Request
from fleet.kube.cache.reflector import ListFilter
from fleet.kube.resource import Resource, join_key, split_key
from fleet.model import catalog as catalog

INTERRUPTED: Final = 1
"""The exit code of a watch, as of kubectl's."""
_DEFAULT_NAMESPACE: Final = "default"
_ELIGIBILITY_EVERY: Final = 10.0
"""Seconds between two questions of a watch: clusters fall silent without a change of their objects."""

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
    watch: bool = False
    output: str = TABLE
    hub: HubOptions = field(default_factory=HubOptions)
    api: ConnectionOptions = field(default_factory=ConnectionOptions)


def run_get(options: GetOptions) -> int:
    kinds = find_kinds(options.kind)
    _check(options, kinds)
    if options.watch:
        try:
            asyncio.run(_watch(options, kinds))
        except KeyboardInterrupt:
            return INTERRUPTED
    documents = _arrange(asyncio.run(_load(options, kinds)), options, kinds)
    if options.output in TABLES:
        _print_table(ObjectTable(kinds[0].kind, options.output), documents, kinds)
    elif options.output == NAME:
        print_names(documents)
    else:
        print_documents(documents, options.output, is_single=options.name is not None)
    return SUCCESS


def _arrange(documents: Sequence[Json], options: GetOptions, kinds: Sequence[catalog.KindDefinition]) -> list[Json]:
    """Those that are selected, in the order in which they are shown."""
    selected = [document for document in documents if _selects(options, document)]
    if _shows_eligibility(options, kinds):
        selected = _mark_eligible(selected, _load_eligible(options.api))
    return sort_documents(selected, kinds[0].kind, options.sort_by)


def _print_table(table: ObjectTable, documents: Sequence[Json], kinds: Sequence[catalog.KindDefinition]) -> None:
    if not documents:
        plurals = " and no ".join(kind.plural for kind in kinds)
        sys.stderr.write(f"no {plurals}\n")
    table.print_rows(documents)


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


def _shows_eligibility(options: GetOptions, kinds: Sequence[catalog.KindDefinition]) -> bool:
    return options.output in TABLES and kinds[0].kind == CLUSTER_KIND


def _load_eligible(wanted: ConnectionOptions) -> dict[str, bool]:
    """Whether clusters take new work depends on settings, so the API is asked. Empty without one."""
    try:
        return load_eligibility(find_connection(wanted))
    except FleetError as error:
        reason = str(error).partition("\nnext:")[0]
        sys.stderr.write(f"note: ELIGIBLE is not known: {reason}\n")
        return {}


def _mark_eligible(documents: Sequence[Json], known: Mapping[str, bool]) -> list[Json]:
    return [{**document, ELIGIBLE: known.get(key_of(document))} for document in documents]


# --- reading --------------------------------------------------------------------------------------------------------


async def _load(options: GetOptions, kinds: Sequence[catalog.KindDefinition]) -> list[Json]:
    async with connect_to_hub(options.hub) as api:
        with show_progress("reading from the hub"):
            return await _load_from(api, options, kinds)


async def _load_from(api: Api, options: GetOptions, kinds: Sequence[catalog.KindDefinition]) -> list[Json]:
    if options.name is not None:
        return [await _load_object(api, options, kinds, options.name)]
    with describe_missing(options.kind), _describe_selector(options):
        pages = [await _list_objects(api, Resource.of(kind), options) for kind in kinds]
    return sorted((document for page in pages for document in page), key=key_of)


async def _load_object(api: Api, options: GetOptions, kinds: Sequence[catalog.KindDefinition], name: str) -> Json:
    if options.labels:
        raise InputError("a name and a label selector cannot be combined", field="--selector")
    key, kind = _resolve_key(options, kinds, name)
    with describe_missing(options.kind):
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


@contextmanager
def _describe_selector(options: GetOptions) -> Iterator[None]:
    """The hub refuses the one part of a list request that is the user's own text."""
    try:
        yield
    except BadRequest as error:
        if not options.labels:
            raise
        raise InputError(f"{options.labels!r}: {error}", field="--selector") from error


# --- watching -------------------------------------------------------------------------------------------------------


async def _watch(options: GetOptions, kinds: Sequence[catalog.KindDefinition]) -> None:
    """Until it is cancelled."""
    async with connect_to_hub(options.hub) as api:
        with describe_missing(options.kind), _describe_selector(options):
            async with watch_documents(api, _list_sources(options, kinds), _print_note) as watch:
                if options.name is not None and not watch.documents:
                    await _load_object(
                        api, options, kinds, options.name
                    )  # for the error of an object that is not there
                if _shows_eligibility(options, kinds):
                    await _follow_clusters(watch, options, kinds)
                else:
                    await _follow(watch, options, kinds)


def _list_sources(options: GetOptions, kinds: Sequence[catalog.KindDefinition]) -> list[tuple[Resource, ListFilter]]:
    if options.name is not None:
        key, kind = _resolve_key(options, kinds, options.name)
        namespace, name = split_key(key)
        return [(Resource.of(kind), ListFilter(namespace, fields=f"metadata.name={name}"))]
    selection = ListFilter(options.namespace or "", labels=options.labels or "")
    # With a namespace, a cluster-scoped resource has no objects.
    return [(Resource.of(kind), selection) for kind in kinds if kind.is_namespaced or not options.namespace]


async def _follow(watch: HubWatch, options: GetOptions, kinds: Sequence[catalog.KindDefinition]) -> None:
    table = ObjectTable(kinds[0].kind, options.output) if options.output in TABLES else None
    documents = _arrange(watch.documents, options, kinds)
    if table is not None:
        _print_table(table, documents, kinds)
    else:
        for document in documents:
            print_change(document, options.output)
    while True:
        for change in await watch.next_changes():
            states = [state for state in (change.new, change.old) if state is not None]
            if not any(_selects(options, state) for state in states):
                continue
            if table is None:
                print_change(states[0], options.output)
            elif change.new is None:
                table.print_deletion(states[0])
            else:
                table.print_change(states[0])


async def _follow_clusters(watch: HubWatch, options: GetOptions, kinds: Sequence[catalog.KindDefinition]) -> None:
    """Rows also change when the API considers a cluster eligible or no longer."""
    table = ObjectTable(kinds[0].kind, options.output)
    known = await asyncio.to_thread(_load_eligible, options.api)
    _print_table(table, sort_documents(_mark_eligible(watch.documents, known), kinds[0].kind, options.sort_by), kinds)
    present = {key_of(document): document for document in watch.documents}
    while True:
        changes = await watch.next_changes(within=_ELIGIBILITY_EVERY if known else None)
        if known:
            known = await asyncio.to_thread(_load_eligible, options.api) or known
        for change in changes:
            if change.new is not None:
                present[key_of(change.new)] = change.new
            elif change.old is not None:
                present.pop(key_of(change.old), None)
                table.print_deletion(_mark_eligible([change.old], {})[0])
        for document in _mark_eligible(list(present.values()), known):
            table.print_change(document)


def _print_note(text: str) -> None:
    sys.stderr.write(f"note: {text}\n")
