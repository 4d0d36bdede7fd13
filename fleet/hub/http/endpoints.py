"""From a request to the part of the hub that answers it: routing, authorization, representation."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fleet.errors import RequestRefused
from fleet.hub import statuses
from fleet.hub.http import routes
from fleet.hub.http.authorization import Attributes
from fleet.hub.http.nonresource_paths import Paths
from fleet.hub.http.options import ListOptions, WriteOptions, delete_options, first, flag, list_options, write_options
from fleet.hub.http.requests import Request
from fleet.hub.http.responses import (
    Response,
    Stream,
    Wanted,
    json_response,
    page_not_found,
    wanted,
    warning,
)
from fleet.hub.http.routes import Words
from fleet.hub.hub import Hub
from fleet.hub.kinds.builtin import REVIEWS, event_from_core
from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.objects import selectors, tables
from fleet.hub.objects.conversion import is_stored_form, shown_body, shown_document
from fleet.hub.objects.objects import Written
from fleet.hub.objects.patching import APPLY_PATCH
from fleet.hub.objects.scale import SCALE, scale_of
from fleet.hub.objects.selectors import Selection
from fleet.hub.objects.update_rules import strict_refusal
from fleet.hub.storage import lists
from fleet.hub.storage.encoding import Entry, decode_bytes, encode, joined
from fleet.hub.storage.store import Key
from fleet.hub.storage.watches import Render, Watch

_REVIEWED: Final = frozenset(kind.kind for kind in REVIEWS)


class Endpoints:
    def __init__(self, hub: Hub, address: str) -> None:
        self._hub = hub
        self._paths = Paths(hub.registry, hub.openapi, address=address)

    async def answer(self, request: Request) -> Response | Stream:
        words = routes.words(request.path)
        if words is None:
            path = request.path.rstrip("/") or "/"
            self._authorize(request, Attributes(verb="get", path=path))
            return self._paths.answer(request)
        return await self._answer_resource(request, words)

    async def _answer_resource(self, request: Request, words: Words) -> Response | Stream:
        if not request.user.is_administrator:
            self._authorize(request, _attributes(request, words))
        kind = routes.kind_of(self._hub.registry, words)
        if kind is None:
            return page_not_found()
        routes.check_verb(kind, words, request.method)
        key = (words.namespace if kind.namespaced else "", words.name)
        match request.method:
            case "GET" if words.subresource == "scale":
                return json_response(scale_of(self._hub.objects.get(kind, key).document()))
            case "PUT" | "PATCH" if words.subresource == "scale":
                written = self._scale(request, kind, key)
            case "GET":
                return self._get(request, kind, key) if words.name else self._list(request, kind, words.namespace)
            case "POST":
                written = self._create(request, kind, words.namespace)
            case "PUT":
                written = self._update(request, kind, key, words.subresource)
            case "PATCH":
                written = self._patch(request, kind, key, words.subresource)
            case _ if words.name:
                written = self._delete(request, kind, key)
            case _:
                return await self._delete_collection(request, kind, words.namespace)
        if written.durable is not None:
            await written.durable
        return self._written(request, kind, written)

    def _get(self, request: Request, kind: Kind, key: Key) -> Response:
        entry = self._hub.objects.get(kind, key)
        if request.query:
            lists.check_revision(self._hub.store, first(request.query, "resourceVersion"))
        return _shown(request, kind, shown_body(kind, entry.body))

    def _list(self, request: Request, kind: Kind, namespace: str) -> Response | Stream:
        options = list_options(request.query)
        selection = _selection(kind, namespace, options)
        shape = wanted(request.accept)
        if options.watch:
            return self._watch(request, kind, selection, options, shape)
        page = lists.page(self._hub.store, kind, selection, options)
        if shape.shape == "Table":
            documents = [shown_document(kind, entry.body) for entry in page.entries]
            include = first(request.query, "includeObject")
            return json_response(tables.table(kind, documents, page.metadata, include=include))
        if shape.shape == "PartialObjectMetadataList":
            documents = [entry.document() for entry in page.entries]
            return json_response(tables.partial_list(documents, page.metadata))
        return Response(joined(kind, _bodies(kind, page.entries), page.metadata))

    def _watch(self, request: Request, kind: Kind, selection: Selection, options: ListOptions, shape: Wanted) -> Stream:
        render: Render | None = None
        if shape.shape == "Table":
            render = _TableRows(kind, first(request.query, "includeObject"))
        elif shape.shape.startswith("PartialObjectMetadata"):
            render = _partial
        watch = Watch(self._hub.store, kind, selection, options, render=render)
        return Stream(watch.chunks())

    def _create(self, request: Request, kind: Kind, namespace: str) -> Written:
        options = write_options(request.query, what="CreateOptions", agent=request.agent)
        document = request.document(kind.kind)
        if kind.kind in _REVIEWED:
            answer = self._hub.reviews.answer(kind, namespace, document, request.user)
            return Written(201, encode(answer))
        _refuse_duplicates(request, kind, options)
        return self._hub.objects.create(kind, namespace, document, options)

    def _update(self, request: Request, kind: Kind, key: Key, subresource: str) -> Written:
        options = write_options(request.query, what="UpdateOptions", agent=request.agent)
        document = request.document(kind.kind)
        _refuse_duplicates(request, kind, options)
        return self._hub.objects.update(kind, key, document, options, subresource)

    def _patch(self, request: Request, kind: Kind, key: Key, subresource: str) -> Written:
        is_apply = request.media_type == APPLY_PATCH
        options = write_options(request.query, what="PatchOptions", agent=request.agent, apply=is_apply)
        return self._hub.patcher.patch(kind, key, request.media_type, request.body, options, subresource)

    def _scale(self, request: Request, kind: Kind, key: Key) -> Written:
        options = write_options(request.query, what="UpdateOptions", agent=request.agent)
        sent = request.document(SCALE.kind) if request.method == "PUT" else None
        written = self._hub.patcher.scale(kind, key, request.media_type, request.body, options, sent)
        return replace(written, body=encode(scale_of(decode_bytes(written.body))))

    def _delete(self, request: Request, kind: Kind, key: Key) -> Written:
        body = request.document("DeleteOptions") if request.body else {}
        return self._hub.objects.delete(kind, key, delete_options(request.query, body))

    async def _delete_collection(self, request: Request, kind: Kind, namespace: str) -> Response:
        body = request.document("DeleteOptions") if request.body else {}
        deletion, options = delete_options(request.query, body), list_options(request.query)
        page = lists.page(self._hub.store, kind, _selection(kind, namespace, options), options)
        waiting = []
        for entry in page.entries:
            if self._hub.objects.head(kind, entry.key) is not None:
                waiting.append(self._hub.objects.delete(kind, entry.key, deletion).durable)
        for durable in waiting:
            if durable is not None:
                await durable
        return Response(joined(kind, _bodies(kind, page.entries), page.metadata))

    def _written(self, request: Request, kind: Kind, written: Written) -> Response:
        texts = [*written.warnings, *([kind.deprecation] if kind.deprecation else [])]
        headers = [warning(text) for text in texts]
        shown = _shown(request, kind, written.body)
        return Response(shown.body, written.code, headers=headers)

    def _authorize(self, request: Request, asked: Attributes) -> None:
        if self._hub.authorizer.allows(request.user, asked):
            return
        who = f'User "{request.user.name}"'
        if asked.path:
            text = f'forbidden: {who} cannot {asked.verb} path "{asked.path}"'
            raise RequestRefused(403, "Forbidden", text, details={})
        where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
        text = f'{who} cannot {asked.verb} resource "{asked.full_resource}" in API group "{asked.group}" {where}'
        raise statuses.forbidden(Kind(asked.group, "", "", asked.resource, namespaced=False), asked.name, text)


class _TableRows:
    """The objects of a watch as tables of one row; only the first carries the heads of the columns."""

    def __init__(self, kind: Kind, include: str) -> None:
        self._kind = kind
        self._include = include
        self._heads = True

    def __call__(self, body: bytes) -> bytes:
        document: Document = decode_bytes(body)
        metadata = {"resourceVersion": document["metadata"]["resourceVersion"]}
        heads, self._heads = self._heads, False
        return encode(tables.table(self._kind, [document], metadata, include=self._include, heads=heads))


def _partial(body: bytes) -> bytes:
    return encode(tables.partial(decode_bytes(body)))


def _shown(request: Request, kind: Kind, body: bytes) -> Response:
    """One object in the representation that was asked for; a Status stays what it is."""
    shape = wanted(request.accept).shape
    if not shape or body.startswith(b'{"kind":"Status"'):
        return Response(body)
    document = decode_bytes(body)
    if shape == "Table":
        metadata = {"resourceVersion": document["metadata"].get("resourceVersion", "")}
        return json_response(tables.table(kind, [document], metadata, include=first(request.query, "includeObject")))
    return json_response(tables.partial(document)) if shape == "PartialObjectMetadata" else Response(body)


def _bodies(kind: Kind, entries: list[Entry]) -> list[bytes]:
    if is_stored_form(kind):
        return [entry.body for entry in entries]
    return [shown_body(kind, entry.body) for entry in entries]


def _selection(kind: Kind, namespace: str, options: ListOptions) -> Selection:
    return Selection(
        namespace if kind.namespaced else "",
        selectors.labels(options.label_selector),
        selectors.fields(kind, options.field_selector),
        event_from_core if kind.group == "events.k8s.io" else None,
    )


def _attributes(request: Request, words: Words) -> Attributes:
    watch = request.method == "GET" and flag(request.query, "watch")
    return Attributes(
        verb=words.verb(request.method, watch=watch),
        group=words.group,
        resource=words.plural,
        subresource=words.subresource,
        namespace=words.namespace,
        name=words.name,
    )


def _refuse_duplicates(request: Request, kind: Kind, options: WriteOptions) -> None:
    """Looking for fields that are named twice means parsing once more, so only strict clients get it."""
    if options.validation != "Strict":
        return
    if found := request.duplicates():
        raise strict_refusal(kind, [f'duplicate field "{path}"' for path in found])
