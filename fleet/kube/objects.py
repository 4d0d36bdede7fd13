"""Typed client for the objects of one kind, and the retries and updates that its callers share.

Each method of `Objects` is one request. The answer to a write is put into the store, so that the next read of the store
includes it. `call_with_retries` repeats a request while the server is unavailable. `update_with_retries` is for changes
that depend on the present object: a PUT with the version that was read, and after a conflict the same change on the
live object. `build_merge_patch` computes the least that has to be sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec

from fleet.clock import Clock
from fleet.errors import (
    ApiError,
    Conflict,
    DocumentError,
    NotFound,
    ServerTimeout,
    Unavailable,
    UnreadableAnswer,
)
from fleet.kube.api import DEFAULT_DEADLINE, READ_CLASS, WRITE_CLASS, Api, Method, Request
from fleet.kube.backoff import Jitter
from fleet.kube.cache.store import Codec, Store, is_older
from fleet.kube.cache.watch import iter_items, read_head, read_page
from fleet.kube.resource import STATUS, Resource, key_of
from fleet.model.views import Observed, V

T = TypeVar("T")
R = TypeVar("R")

Document = Mapping[str, Any]
Mutation = Callable[[dict[str, Any]], dict[str, Any] | None]
"""From the current document to the desired one; None if they are equal."""

RETRY_DELAYS: Final = (0.010, 0.050, 0.250)
"""Seconds between four attempts."""

_LONGEST_WAIT: Final = 0.25
"""Seconds for a turn. Then an update no longer waits: a conflict is the lesser evil."""

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_PAGE: Final = 500


class _DeleteResponse(msgspec.Struct, frozen=True):
    """The answer to a DELETE: a Status when the object is gone, the object while it has finalizers."""

    class Details(msgspec.Struct, frozen=True):
        uid: str = ""

    kind: str = ""
    details: Details = Details()


class Turns:
    """Of updates of one object: the next one begins with what the last was answered, if there is a store. Beside it, it
    would be a conflict."""

    def __init__(self) -> None:
        self.locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By key."""

    @asynccontextmanager
    async def take(self, key: str) -> AsyncIterator[None]:
        lock = self.locks.setdefault(key, asyncio.Lock())
        has_turn = await _acquire(lock)
        try:
            yield
        finally:
            if has_turn:
                lock.release()

    async def wait(self, key: str) -> None:
        """Without a turn of one's own: for updates that may wait long for their rate limit."""
        lock = self.locks.get(key)
        if lock is not None and await _acquire(lock):
            lock.release()


async def _acquire(lock: asyncio.Lock) -> bool:
    """False if it takes too long."""
    try:
        async with asyncio.timeout(_LONGEST_WAIT):
            return await lock.acquire()
    except TimeoutError:
        return False


@dataclass(frozen=True, slots=True)
class Objects(Generic[T]):
    api: Api
    resource: Resource
    codec: Codec[T]
    _: KW_ONLY
    store: Store[T] | None = None
    call_class: str = WRITE_CLASS
    """Selects the rate limit of writes."""
    deadline: float = DEFAULT_DEADLINE
    turns: Turns = field(default_factory=Turns)

    def with_call_class(self, call_class: str) -> Objects[T]:
        """The same objects, with the rate limit of that class for writes."""
        return self if call_class == self.call_class else replace(self, call_class=call_class)

    async def get(self, key: str) -> T:
        """Live, not from the store."""
        return await self._read(await self._call(Method.GET, self.resource.item(key)))

    async def find(self, key: str) -> T | None:
        """Live, not from the store; None if it does not exist."""
        try:
            return await self.get(key)
        except NotFound:
            return None

    async def refresh(self, key: str) -> T | None:
        """Live like `find`; the store receives the object, too."""
        fresh = await self.find(key)
        if fresh is not None and self.store is not None:
            self.store.apply_write(fresh)
        return fresh

    def find_newer(self, known: T) -> T:
        """The object in the store, if it is a later state of this one."""
        metadata = self.codec.metadata_of(known)
        held = None if self.store is None else self.store.get(key_of(metadata))
        if held is None:
            return known
        stored = self.codec.metadata_of(held)
        is_later = is_older(metadata.resource_version, stored.resource_version)
        return held if is_later and stored.uid == metadata.uid else known

    async def list(self, *, namespace: str = "", labels: str = "") -> list[T]:
        """Live, and complete: page after page of one state of the server."""
        objects: list[T] = []
        after = ""
        while True:
            query = {"limit": str(_PAGE), "labelSelector": labels, "continue": after}
            body = await self._call(Method.GET, self.resource.collection(namespace), query=query)
            page = read_page(body)
            objects += [self.codec.read(document) async for document in iter_items(page)]
            after = page.metadata.continue_
            if not after:
                return objects

    async def create(self, document: Document, *, manager: str = "") -> T:
        """`manager`: the field manager, if it is not that of the client's name."""
        path = self.resource.collection(document.get("metadata", {}).get("namespace", ""))
        return await self._write(Method.POST, path, self._with_type(document), query={"fieldManager": manager})

    async def replace(self, document: Document) -> T:
        """PUT: refused as a Conflict if the object changed since it was read."""
        return await self._write(Method.PUT, self._path_of(document), self._with_type(document))

    async def replace_status(self, document: Document) -> T:
        """PUT of the status; the rest of the document is ignored."""
        return await self._write(Method.PUT, self._path_of(document, STATUS), self._with_type(document))

    async def merge_patch(self, key: str, patch: Document, *, subresource: str = "") -> T:
        """With `metadata.resourceVersion` or `metadata.uid` in the patch, only if the object still has them."""
        path = self.resource.item(key, subresource)
        return await self._write(Method.PATCH, path, patch, content_type=MERGE_PATCH)

    async def json_patch(self, key: str, operations: Sequence[Document], *, subresource: str = "") -> T:
        path = self.resource.item(key, subresource)
        return await self._write(Method.PATCH, path, operations, content_type=JSON_PATCH)

    async def apply(self, document: Document, *, manager: str) -> T:
        """Server-side apply that takes fields from other managers. With a uid, only to the object that has it."""
        path, query = self.resource.item(_key_of(document)), {"fieldManager": manager, "force": "true"}
        return await self._write(Method.PATCH, path, self._with_type(document), content_type=APPLY_PATCH, query=query)

    async def delete(self, key: str, *, uid: str = "", version: str = "") -> None:
        """Given a uid or a version, only that object: a Conflict means that another has taken its name."""
        preconditions = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if preconditions:
            options["preconditions"] = preconditions
        body = await self._call(Method.DELETE, self.resource.item(key), body=options)
        if self.store is not None:
            self._apply_delete(self.store, key, body)

    async def delete_collection(self, *, namespace: str = "", labels: str) -> None:
        """All objects with these labels. The store follows with the watch: the answer has no versions."""
        if not labels:
            raise ValueError(f"deleting every {self.resource.kind} is never meant: name labels")
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        query = {"labelSelector": labels}
        await self._call(Method.DELETE, self.resource.collection(namespace), query=query, body=options)

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _write(
        self,
        method: Method,
        path: str,
        body: Document | Sequence[Document],
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> T:
        written = await self._read(await self._call(method, path, body=body, content_type=content_type, query=query))
        if self.store is not None:
            self._apply_write(self.store, written)
        return written

    async def _call(
        self,
        method: Method,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Document | Sequence[Document] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        request = Request(
            method,
            path,
            query=tuple((name, value) for name, value in (query or {}).items() if value),
            body=None if body is None else msgspec.json.encode(body),
            content_type=content_type,
            call_class=READ_CLASS if method is Method.GET else self.call_class,
            deadline=self.deadline,
        )
        return await self.api.call(request)

    async def _read(self, body: bytes) -> T:
        """A body without a name does not come from an API server; an object that does not fit its kind may."""
        try:
            return self.codec.read(body) if self.store is None else await self.store.read(body)
        except DocumentError as error:
            if read_head(body) is not None:
                raise
            raise UnreadableAnswer(f"the response is not a {self.resource.kind}: {error}") from error

    def _with_type(self, document: Document) -> Document:
        """Items of a list lack apiVersion and kind, and cannot be written without."""
        return {**document, "apiVersion": self.resource.api_version, "kind": self.resource.kind}

    def _path_of(self, document: Document, subresource: str = "") -> str:
        key = _key_of(document)
        if not document["metadata"].get("resourceVersion"):
            raise ValueError(f"{self.resource.kind} {key} without a resourceVersion would overwrite changes of others")
        return self.resource.item(key, subresource)

    def _apply_delete(self, store: Store[T], key: str, body: bytes) -> None:
        try:
            answer = msgspec.json.decode(body, type=_DeleteResponse)
        except msgspec.MsgspecError as error:
            raise UnreadableAnswer(
                f"the answer to deleting {self.resource.kind} {key} cannot be read: {error}"
            ) from error
        if answer.kind == "Status":
            store.apply_delete(key, answer.details.uid)
        elif (left := self.codec.read(body)) and self.codec.metadata_of(left).finalizers:
            store.apply_write(left)

    def _apply_write(self, store: Store[T], written: T) -> None:
        """Taking the last finalizer off an object that is being deleted is what deletes it."""
        metadata = self.codec.metadata_of(written)
        if metadata.deletion_timestamp and not metadata.finalizers:
            store.apply_delete(key_of(metadata), metadata.uid)
        else:
            store.apply_write(written)


def _key_of(document: Document) -> str:
    metadata = document["metadata"]
    return "/".join(metadata[part] for part in ("namespace", "name") if metadata.get(part))


# --- retries and updates ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Delays between the attempts of one write."""

    clock: Clock
    jitter: Jitter
    delays: tuple[float, ...] = RETRY_DELAYS
    spread: float = 0.1

    async def wait(self, attempt: int, error: ApiError) -> None:
        await self.clock.sleep(max(self.delays[attempt] * (1 + self.spread * self.jitter()), error.retry_after or 0.0))

    def allows(self, attempt: int) -> bool:
        return attempt < len(self.delays)


async def call_with_retries(
    request: Callable[[], Awaitable[R]],
    *,
    retry_policy: RetryPolicy,
    on: tuple[type[ApiError], ...] = (Unavailable, ServerTimeout),
) -> R:
    """The request, repeated while it fails with one of these. A failed attempt may have been applied."""
    attempt = 0
    while True:
        try:
            return await request()
        except on as error:
            if not retry_policy.allows(attempt):
                raise
            await retry_policy.wait(attempt, error)
        attempt += 1


async def update_with_retries(
    objects: Objects[Observed[V]],
    key: str,
    change: Mutation,
    *,
    retry_policy: RetryPolicy,
    cached: Observed[V] | None = None,
    status: bool = False,
) -> Observed[V] | None:
    """The object after the change; None if it is gone.

    The first attempt works on `cached` where it is given, or on a later state in the store. After a failure the object
    is read live and `change` is called again, so a change must not keep state between calls. The spec is not decoded,
    and stays as it is.
    """

    async def attempt() -> Observed[V]:
        nonlocal cached
        async with objects.turns.take(key):
            present, cached = cached, None
            present = await objects.get(key) if present is None else objects.find_newer(present)
            wanted = change(present.document_around_spec())
            if wanted is None:
                return present
            return await (objects.replace_status(wanted) if status else objects.replace(wanted))

    try:
        return await call_with_retries(attempt, retry_policy=retry_policy, on=(Conflict, Unavailable, ServerTimeout))
    except NotFound:
        return None


def build_merge_patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The smallest merge patch (RFC 7386) that makes `new` out of `old`; empty when they are equal.

    A null inside `new` cannot be expressed: to a merge patch it means absence.
    """
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := build_merge_patch(before, value):
                patch[key] = inner
        elif key not in old or before != value or type(before) is not type(value):
            patch[key] = value
    return patch


def contains_patch(document: Any, patch: Any) -> bool:
    """Whether the merge patch would leave the document as it is."""
    if not isinstance(patch, dict) or not isinstance(document, dict):
        return type(document) is type(patch) and bool(document == patch)
    return all(
        key not in document if value is None else contains_patch(document.get(key), value)
        for key, value in patch.items()
    )
