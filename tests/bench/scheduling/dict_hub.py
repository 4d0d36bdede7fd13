"""A hub of dictionaries in the process of the scheduler: lists, watches and writes at the least cost.

It does what the scheduler relies on: versions and uids, conflicts, finalizers, and watches from any version. It checks
no schema, knows no kinds, and keeps all events.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from fleet.errors import AlreadyExists, Conflict, NotFound
from fleet.hub.apply.patches import json_patch, merge_patch
from fleet.kube.api import Method, Request
from fleet.kube.objects import JSON_PATCH

Document = dict[str, Any]

_ADDED: Final = b'{"type":"ADDED","object":'
_MODIFIED: Final = b'{"type":"MODIFIED","object":'
_DELETED: Final = b'{"type":"DELETED","object":'
_CREATED_AT: Final = "2026-01-01T00:00:00Z"

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Document).decode
_read_parts: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(slots=True)
class Collection:
    documents: dict[str, bytes] = field(default_factory=dict)
    """By path."""
    versions: list[int] = field(default_factory=list)
    lines: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Events: how the line begins, and the object."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def report(self, kind: bytes, document: bytes, version: int) -> None:
        self.versions.append(version)
        self.lines.append((kind, document))
        self.changed.set()


class DictHub:
    def __init__(self, *, delay_of: Callable[[Request], float] = lambda _: 0.0) -> None:
        """`delay_of` says how long a request takes, in seconds."""
        self.requests: Counter[str] = Counter()
        """By method and plural."""
        self.on_write: Callable[[Request], None] = lambda _: None
        self._delay_of = delay_of
        self._collections: dict[str, Collection] = {}
        self._pages: dict[str, tuple[str, list[bytes]]] = {}
        """What is left of lists, with their versions."""
        self._lists = 0
        self._version = 0

    # --- what the driver does and sees --------------------------------------------------------------------------------

    def put(self, path: str, document: Document) -> None:
        """As if it had been there from the beginning, or by a writer that does not care what was there."""
        collection = self._collection_of(path)
        known = collection.documents.get(path)
        metadata = {"uid": f"uid-{self._version + 1}", "generation": 1, "creationTimestamp": _CREATED_AT}
        if known is not None:
            metadata |= {name: _decode(known)["metadata"][name] for name in metadata}
        document = {**document, "metadata": {**metadata, **document["metadata"]}}
        self._store(collection, path, document, kind=_ADDED if known is None else _MODIFIED)

    def get(self, path: str) -> Document:
        return _decode(self._find(self._collection_of(path), path))

    def list_objects(self, collection: str) -> list[Document]:
        return [_decode(document) for document in self._collections.get(collection, Collection()).documents.values()]

    def count_bytes(self) -> int:
        """Of the objects, and of their former states in events."""
        held = self._collections.values()
        return sum(len(document) for collection in held for _, document in collection.lines)

    def remove(self, path: str) -> None:
        collection = self._collection_of(path)
        self._delete(collection, path, _decode(collection.documents[path]))

    # --- Api ----------------------------------------------------------------------------------------------------------

    async def call(self, request: Request) -> bytes:
        if delay := self._delay_of(request):
            await asyncio.sleep(delay)
        path = request.path
        if request.method is Method.GET:
            if request.query or path not in (collection := self._collection_of(path)).documents:
                return self._answer_list(path, dict(request.query))
            return collection.documents[path]
        written = self._write(request, path)
        self.on_write(request)
        return written

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self._count("WATCH", request.path)
        yield self._watch(self._open(request.path), int(dict(request.query).get("resourceVersion", "0")))

    async def _watch(self, collection: Collection, version: int) -> AsyncIterator[bytes]:
        """All that has happened since the last piece is one piece."""
        position = next((at for at, each in enumerate(collection.versions) if each > version), len(collection.lines))
        while True:
            if position == len(collection.lines):
                collection.changed.clear()
                await collection.changed.wait()
                continue
            lines = collection.lines[position:]
            position += len(lines)
            yield b"".join(part for kind, document in lines for part in (kind, document, b"}\n"))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _open(self, path: str) -> Collection:
        return self._collections.setdefault(path, Collection())

    def _collection_of(self, path: str) -> Collection:
        return self._open(path.rpartition("/")[0])

    def _count(self, verb: str, collection: str, subresource: str = "") -> None:
        self.requests[f"{verb} {collection.rpartition('/')[2]}{subresource}"] += 1

    def _find(self, collection: Collection, path: str) -> bytes:
        try:
            return collection.documents[path]
        except KeyError:
            raise NotFound(f"{path} not found", status=404, reason="NotFound") from None

    def _answer_list(self, path: str, query: Mapping[str, str]) -> bytes:
        """Pages of one state; a path that is neither an object nor a collection is taken for an empty one."""
        if not query and path.rpartition("/")[0] in self._collections:
            raise NotFound(f"{path} not found", status=404, reason="NotFound")
        self._count("LIST", path)
        name, _, start = query.get("continue", "").partition(":")
        version, items = self._pages.pop(name) if name else (str(self._version or 1), self._select(path, query))
        begin, size = int(start or 0), int(query.get("limit", 0)) or len(items)
        metadata = {"resourceVersion": version}
        if begin + size < len(items):
            self._lists += 1
            self._pages[str(self._lists)] = version, items
            metadata["continue"] = f"{self._lists}:{begin + size}"
        return b'{"metadata":%s,"items":[%s]}' % (_encode(metadata), b",".join(items[begin : begin + size]))

    def _select(self, path: str, query: Mapping[str, str]) -> list[bytes]:
        items = list(self._open(path).documents.values())
        selector = query.get("labelSelector")
        return [each for each in items if _is_selected(_decode(each)["metadata"], selector)] if selector else items

    def _write(self, request: Request, path: str) -> bytes:
        method, body = request.method, request.body or b"{}"
        if method is Method.POST:
            self._count("POST", path)
            return self._create(path, body)
        is_status = path.endswith("/status")
        path = path.removesuffix("/status")
        collection = self._collection_of(path)
        self._count(str(method), path.rpartition("/")[0], "/status" if is_status else "")
        held = self._find(collection, path)
        if method is Method.PUT:
            return self._replace(collection, path, held, body, is_status=is_status)
        document = _decode(held)
        if method is Method.DELETE:
            return self._begin_deletion(collection, path, document, _decode(body))
        patch = msgspec.json.decode(body)
        if request.content_type == JSON_PATCH:
            return self._store_changed(collection, path, document, json_patch(document, patch))
        _check_preconditions(path, document["metadata"], patch.get("metadata") or {})
        return self._store_changed(collection, path, document, merge_patch(document, patch))

    def _create(self, path: str, body: bytes) -> bytes:
        parts: Document = _read_parts(body)
        metadata = _decode(parts["metadata"])
        if not metadata.get("name"):
            metadata["name"] = f"{metadata.get('generateName', '')}{self._version:x}"
        collection, item = self._open(path), f"{path}/{metadata['name']}"
        if item in collection.documents:
            raise AlreadyExists(f"{item} already exists", status=409, reason="AlreadyExists")
        metadata |= {"uid": f"uid-{self._version + 1}", "generation": 1, "creationTimestamp": _CREATED_AT}
        parts["metadata"] = metadata
        return self._store(collection, item, parts, kind=_ADDED)

    def _replace(self, collection: Collection, path: str, held: bytes, body: bytes, *, is_status: bool) -> bytes:
        """The parts that stay are not read."""
        sent, parts = _read_parts(body), _read_parts(held)
        metadata, given = _decode(parts["metadata"]), _decode(sent["metadata"])
        _check_preconditions(path, metadata, given)
        changed: Document
        if is_status:
            changed = {**parts, "status": sent.get("status", b"null"), "metadata": metadata}
        else:
            generation = metadata["generation"] + (bytes(sent.get("spec", b"")) != bytes(parts.get("spec", b"")))
            kept = {name: metadata[name] for name in ("uid", "creationTimestamp")}
            changed = {**sent, "metadata": {**given, **kept, "generation": generation}}
            if "status" in parts:
                changed["status"] = parts["status"]
        return self._store_or_finish(collection, path, changed)

    def _store_changed(self, collection: Collection, path: str, old: Document, new: Document) -> bytes:
        if old.get("spec") != new.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        return self._store_or_finish(collection, path, new)

    def _store_or_finish(self, collection: Collection, path: str, document: Document) -> bytes:
        """The last finalizer of an object that is being deleted deletes it."""
        metadata = document["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            return self._delete(collection, path, document)
        return self._store(collection, path, document, kind=_MODIFIED)

    def _store(self, collection: Collection, path: str, document: Document, *, kind: bytes) -> bytes:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        encoded = collection.documents[path] = _encode(document)
        collection.report(kind, encoded, self._version)
        return encoded

    def _begin_deletion(self, collection: Collection, path: str, document: Document, options: Document) -> bytes:
        metadata = document["metadata"]
        _check_preconditions(path, metadata, options.get("preconditions") or {})
        if not metadata.get("finalizers"):
            self._delete(collection, path, document)
            return _encode({"kind": "Status", "status": "Success", "details": {"uid": metadata["uid"]}})
        metadata.setdefault("deletionTimestamp", _CREATED_AT)
        return self._store(collection, path, document, kind=_MODIFIED)

    def _delete(self, collection: Collection, path: str, document: Document) -> bytes:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        del collection.documents[path]
        encoded = _encode(document)
        collection.report(_DELETED, encoded, self._version)
        return encoded


def _check_preconditions(path: str, metadata: Document, wanted: Document) -> None:
    for name in ("uid", "resourceVersion"):
        if wanted.get(name, metadata[name]) != metadata[name]:
            raise Conflict(f"{path}: {name} is {metadata[name]}", status=409, reason="Conflict")


def _is_selected(metadata: Document, selector: str) -> bool:
    labels = metadata.get("labels") or {}
    pairs = (part.partition("=") for part in unquote(selector).split(","))
    return all(labels.get(name) == value for name, _, value in pairs)
