"""The request handler: routing, authorization, dispatch to the hub, and the representation of the response."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from fleet.errors import RequestRefused
from fleet.eventloop import pause_collection
from fleet.hub.access.authorization import Attributes
from fleet.hub.http import routes
from fleet.hub.http.nonresource_paths import NonResourcePaths
from fleet.hub.http.requests import HubRequest
from fleet.hub.http.responses import (
    Representation,
    Response,
    Stream,
    json_response,
    negotiate,
    page_not_found,
    warning_header,
)
from fleet.hub.http.routes import ResourcePath
from fleet.hub.hub import Hub, Writers
from fleet.hub.kinds.builtin import DEFINITIONS, REVIEWS, SCALE, event_from_core
from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.listwatch import lists, selectors, tables
from fleet.hub.listwatch.selectors import ObjectSelector
from fleet.hub.listwatch.watches import Render, Watch
from fleet.hub.objects.objects import AcceptedWrite
from fleet.hub.objects.patching import APPLY_PATCH
from fleet.hub.objects.scale import build_scale
from fleet.hub.objects.update_rules import strict_decoding_error
from fleet.hub.storage.conversion import is_stored_form, stored_resource, versioned_body, versioned_document
from fleet.hub.storage.entries import StoredEntry, encode_list
from fleet.hub.storage.store import Key
from fleet.hub.storage.transaction import Overtaken, StoreTransaction
from fleet.hub.wire import statuses
from fleet.hub.wire.bodies import decode_bytes, encode
from fleet.hub.wire.options import (
    ListOptions,
    WriteOptions,
    first_value,
    parse_delete_options,
    parse_flag,
    parse_list_options,
    parse_write_options,
)

LARGE_WRITE: Final = 64 * 1024
"""Bytes of a body, or of the object that it changes, which a thread takes: checking them takes ten milliseconds."""
MOST_WAITING: Final = 128 * 1024 * 1024
"""Bytes of bodies and objects that wait for that thread."""
_SHARE: Final = 2
"""One user's may take no more than this part of them, so that there is room for others'."""
_TOO_MANY_LARGE: Final = "too many large objects wait to be written"
_TRIES_BESIDE: Final = 3
"""A large write that others overtake so often is done at once, on the event loop."""
_REVIEWED: Final = frozenset(kind.kind for kind in REVIEWS)


class RequestHandler:
    def __init__(self, hub: Hub, address: str, *, uses_thread: bool) -> None:
        self._hub = hub
        self._tries_beside = _TRIES_BESIDE if uses_thread else 0
        self._waiting: Counter[str] = Counter()  # bytes of large writes that are not done, by user
        self._nonresource_paths = NonResourcePaths(hub.registry, hub.openapi, address=address)

    async def handle(self, request: HubRequest) -> Response | Stream:
        resource_path = routes.parse_resource_path(request.path)
        if resource_path is None:
            path = request.path.rstrip("/") or "/"
            self._authorize(request, Attributes(verb="get", path=path))
            return self._nonresource_paths.handle(request)
        return await self._handle_resource(request, resource_path, tries=self._tries_beside)

    async def _handle_resource(
        self, request: HubRequest, resource_path: ResourcePath, *, tries: int
    ) -> Response | Stream:
        if not request.user.is_administrator:
            self._authorize(request, _build_attributes(request, resource_path))
        kind = routes.resolve_kind(self._hub.registry, resource_path)
        if kind is None:
            return page_not_found()
        routes.check_verb(kind, resource_path, request.method)
        key = (resource_path.namespace if kind.namespaced else "", resource_path.name)
        match request.method:
            case "GET" if resource_path.subresource == "scale":
                return json_response(build_scale(self._find(kind, key).document()))
            case "GET":
                return (
                    self._get(request, kind, key)
                    if resource_path.name
                    else self._list(request, kind, resource_path.namespace)
                )
        try:
            size = self._measure(request, kind, key) if tries else 0
            if size >= LARGE_WRITE:
                return await self._write_large(request, kind, key, resource_path, size)
            return self._write(request, kind, key, resource_path, self._hub.writers)
        except Overtaken:
            return await self._handle_resource(request, resource_path, tries=tries - 1)
        finally:
            # Success, "unchanged", "not found" and "conflict" alike may follow from changes that are not durable yet.
            await self._hub.store.settle()

    def _measure(self, request: HubRequest, kind: Kind, key: Key) -> int:
        """Bytes that a thread may check: of the body, or of the object that it changes. Definitions and reviews depend
        on more than the heads of objects, and deletions check nothing."""
        if kind.resource == DEFINITIONS or kind.kind in _REVIEWED or request.method == "DELETE":
            return 0
        head = self._hub.objects.head(kind, key) if key[1] else None
        return max(len(request.body), len(head.body) if head is not None else 0)

    async def _write_large(
        self, request: HubRequest, kind: Kind, key: Key, resource_path: ResourcePath, size: int
    ) -> Response:
        user = request.user.name
        own, total = self._waiting[user], self._waiting.total()
        if (total and total + size > MOST_WAITING) or (own and own + size > MOST_WAITING // _SHARE):
            raise RequestRefused(
                429, "TooManyRequests", _TOO_MANY_LARGE, details={"retryAfterSeconds": 1}, retry_after=1
            )
        self._waiting[user] += size
        registry = self._hub.registry
        transaction = StoreTransaction(
            self._hub.store, holds=lambda: routes.resolve_kind(registry, resource_path) is kind
        )
        write = partial(self._write, request, kind, key, resource_path, self._hub.write_to(transaction))
        try:
            response = await self._hub.large_writes.run(_write_without_collection, write)
        except RequestRefused:
            transaction.check()
            raise
        finally:
            self._waiting[user] -= size
            if not self._waiting[user]:
                del self._waiting[user]
        transaction.check()
        return response

    def _write(
        self, request: HubRequest, kind: Kind, key: Key, resource_path: ResourcePath, writers: Writers
    ) -> Response:
        """What it reads and writes of objects is that of the writers: a thread may do it in a transaction."""
        match request.method:
            case "PUT" | "PATCH" if resource_path.subresource == "scale":
                written = _scale(request, kind, key, writers)
            case "POST":
                written = self._create(request, kind, resource_path.namespace, writers)
            case "PUT":
                written = _update(request, kind, key, resource_path.subresource, writers)
            case "PATCH":
                written = _patch(request, kind, key, resource_path.subresource, writers)
            case _ if resource_path.name:
                written = _delete(request, kind, key, writers)
            case _:
                return self._delete_collection(request, kind, resource_path.namespace)
        return _respond_to_write(request, kind, written)

    def _find(self, kind: Kind, key: Key) -> StoredEntry:
        entry = self._hub.store.collection(stored_resource(kind)).entries.get(key)
        if entry is None:
            raise statuses.not_found(kind, key[1])
        return entry

    def _get(self, request: HubRequest, kind: Kind, key: Key) -> Response:
        entry = self._find(kind, key)
        if request.query:
            lists.check_revision(self._hub.store, first_value(request.query, "resourceVersion"))
        return _represent(request, kind, versioned_body(kind, entry.body))

    def _list(self, request: HubRequest, kind: Kind, namespace: str) -> Response | Stream:
        options = parse_list_options(request.query)
        selection = _build_selector(kind, namespace, options)
        representation = negotiate(request.accept)
        if options.watch:
            return self._watch(request, kind, selection, options, representation)
        page = lists.list_page(self._hub.store, kind, selection, options)
        if representation.form == "Table":
            documents = [versioned_document(kind, entry.body) for entry in page.entries]
            include = first_value(request.query, "includeObject")
            return json_response(tables.build_table(kind, documents, page.metadata, include=include))
        if representation.form == "PartialObjectMetadataList":
            documents = [entry.document() for entry in page.entries]
            return json_response(tables.build_partial_list(documents, page.metadata))
        return Response(encode_list(kind, _versioned_bodies(kind, page.entries), page.metadata))

    def _watch(
        self,
        request: HubRequest,
        kind: Kind,
        selection: ObjectSelector,
        options: ListOptions,
        representation: Representation,
    ) -> Stream:
        render: Render | None = None
        if representation.form == "Table":
            render = _TableRows(kind, first_value(request.query, "includeObject"))
        elif representation.form.startswith("PartialObjectMetadata"):
            render = _render_partial
        watch = Watch(self._hub.store, kind, selection, options, render=render)
        return Stream(watch.chunks())

    def _create(self, request: HubRequest, kind: Kind, namespace: str, writers: Writers) -> AcceptedWrite:
        options = parse_write_options(request.query, what="CreateOptions", agent=request.agent)
        document = request.decode_body(kind.kind)
        if kind.kind in _REVIEWED:
            reviewed = self._hub.reviews.review(kind, namespace, document, request.user)
            return AcceptedWrite(201, encode(reviewed))
        _refuse_duplicate_fields(request, kind, options)
        return writers.objects.create(kind, namespace, document, options)

    def _delete_collection(self, request: HubRequest, kind: Kind, namespace: str) -> Response:
        body = request.decode_body("DeleteOptions") if request.body else {}
        deletion, options = parse_delete_options(request.query, body), parse_list_options(request.query)
        page = lists.list_page(self._hub.store, kind, _build_selector(kind, namespace, options), options)
        for entry in page.entries:
            if self._hub.objects.head(kind, entry.key) is not None:
                self._hub.objects.delete(kind, entry.key, deletion)
        return Response(encode_list(kind, _versioned_bodies(kind, page.entries), page.metadata))

    def _authorize(self, request: HubRequest, attributes: Attributes) -> None:
        if self._hub.authorizer.allows(request.user, attributes):
            return
        who = f'User "{request.user.name}"'
        if attributes.path:
            text = f'forbidden: {who} cannot {attributes.verb} path "{attributes.path}"'
            raise RequestRefused(403, "Forbidden", text, details={})
        where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
        resource = f'resource "{attributes.full_resource}" in API group "{attributes.group}"'
        text = f"{who} cannot {attributes.verb} {resource} {where}"
        raise statuses.forbidden(
            Kind(attributes.group, "", "", attributes.resource, namespaced=False), attributes.name, text
        )


def _update(request: HubRequest, kind: Kind, key: Key, subresource: str, writers: Writers) -> AcceptedWrite:
    options = parse_write_options(request.query, what="UpdateOptions", agent=request.agent)
    document = request.decode_body(kind.kind, writers.objects.list_settled_texts(kind, key))
    _refuse_duplicate_fields(request, kind, options)
    return writers.objects.update(kind, key, document, options, subresource)


def _patch(request: HubRequest, kind: Kind, key: Key, subresource: str, writers: Writers) -> AcceptedWrite:
    is_apply = request.media_type == APPLY_PATCH
    options = parse_write_options(request.query, what="PatchOptions", agent=request.agent, apply=is_apply)
    return writers.patcher.patch(kind, key, request.media_type, request.body, options, subresource)


def _scale(request: HubRequest, kind: Kind, key: Key, writers: Writers) -> AcceptedWrite:
    options = parse_write_options(request.query, what="UpdateOptions", agent=request.agent)
    sent = request.decode_body(SCALE.kind) if request.method == "PUT" else None
    written = writers.patcher.scale(kind, key, request.media_type, request.body, options, sent)
    return replace(written, body=encode(build_scale(decode_bytes(written.body))))


def _delete(request: HubRequest, kind: Kind, key: Key, writers: Writers) -> AcceptedWrite:
    body = request.decode_body("DeleteOptions") if request.body else {}
    return writers.objects.delete(kind, key, parse_delete_options(request.query, body))


def _respond_to_write(request: HubRequest, kind: Kind, written: AcceptedWrite) -> Response:
    texts = [*written.warnings, *([kind.deprecation] if kind.deprecation else [])]
    headers = [warning_header(text) for text in texts]
    shown = _represent(request, kind, written.body)
    return Response(shown.body, written.code, headers=headers)


def _write_without_collection(write: Callable[[], Response]) -> Response:
    with pause_collection():
        return write()


class _TableRows:
    """Renders watched objects as one-row Tables; only the first has column definitions."""

    def __init__(self, kind: Kind, include: str) -> None:
        self._kind = kind
        self._include = include
        self._with_headers = True

    def __call__(self, body: bytes) -> bytes:
        document: Document = decode_bytes(body)
        metadata = {"resourceVersion": document["metadata"]["resourceVersion"]}
        with_headers, self._with_headers = self._with_headers, False
        return encode(
            tables.build_table(self._kind, [document], metadata, include=self._include, with_headers=with_headers)
        )


def _render_partial(body: bytes) -> bytes:
    return encode(tables.to_partial(decode_bytes(body)))


def _represent(request: HubRequest, kind: Kind, body: bytes) -> Response:
    """One object in the negotiated representation; a Status is never converted."""
    form = negotiate(request.accept).form
    if not form or body.startswith(b'{"kind":"Status"'):
        return Response(body)
    document = decode_bytes(body)
    if form == "Table":
        metadata = {"resourceVersion": document["metadata"].get("resourceVersion", "")}
        return json_response(
            tables.build_table(kind, [document], metadata, include=first_value(request.query, "includeObject"))
        )
    return json_response(tables.to_partial(document)) if form == "PartialObjectMetadata" else Response(body)


def _versioned_bodies(kind: Kind, entries: list[StoredEntry]) -> list[bytes]:
    if is_stored_form(kind):
        return [entry.body for entry in entries]
    return [versioned_body(kind, entry.body) for entry in entries]


def _build_selector(kind: Kind, namespace: str, options: ListOptions) -> ObjectSelector:
    return ObjectSelector(
        namespace if kind.namespaced else "",
        selectors.parse_label_selector(options.label_selector),
        selectors.parse_field_selector(kind, options.field_selector),
        event_from_core if kind.group == "events.k8s.io" else None,
    )


def _build_attributes(request: HubRequest, resource_path: ResourcePath) -> Attributes:
    watch = request.method == "GET" and parse_flag(request.query, "watch")
    return Attributes(
        verb=resource_path.verb(request.method, watch=watch),
        group=resource_path.group,
        resource=resource_path.plural,
        subresource=resource_path.subresource,
        namespace=resource_path.namespace,
        name=resource_path.name,
    )


def _refuse_duplicate_fields(request: HubRequest, kind: Kind, options: WriteOptions) -> None:
    """Finding duplicate fields takes a second parse, so it is done for strict validation only."""
    if options.validation != "Strict":
        return
    if duplicates := request.find_duplicate_fields():
        raise strict_decoding_error(kind, [f'duplicate field "{path}"' for path in duplicates])
