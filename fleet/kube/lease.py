"""The Lease object of a leader election: its fields, and the requests that read, watch and replace it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

import msgspec

from fleet.errors import NotFound, UnreadableAnswer
from fleet.kube.api import LEASE_CLASS, Api, Method, Request
from fleet.kube.cache.watch import ADDED, DELETED, ERROR, MODIFIED, LineSplitter, read_event, read_status
from fleet.kube.client.failures import build_error
from fleet.kube.resource import Resource, split_key

LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
_WATCH_SECONDS: Final = 300


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a lease that every renewal changes."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    document: dict[str, Any]
    spec: LeaseSpec

    @property
    def holder(self) -> str:
        return self.spec.holder_identity or ""

    @property
    def version(self) -> str:
        return str(self.document.get("metadata", {}).get("resourceVersion", ""))


@dataclass(frozen=True, slots=True)
class LeaseRequests:
    """The requests about one lease. They are not rate limited: being late costs the leadership."""

    api: Api
    key: str
    _: KW_ONLY
    deadline: float

    async def get(self) -> Lease | None:
        try:
            return _read(await self._call(Method.GET, LEASES.item(self.key)))
        except NotFound:
            return None

    async def put(self, document: dict[str, Any]) -> Lease:
        """Creates it if the document is new, else replaces the version that the document has."""
        namespace, _, name = self.key.rpartition("/")
        metadata = {**document.get("metadata", {}), "namespace": namespace, "name": name}
        body = {**document, "apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata}
        if metadata.get("resourceVersion"):
            return _read(await self._call(Method.PUT, LEASES.item(self.key), body))
        return _read(await self._call(Method.POST, LEASES.collection(namespace), body))

    async def watch(self, version: str) -> AsyncIterator[Lease]:
        """The lease after each change since a version; without a holder after its deletion. Ends after some minutes."""
        namespace, name = split_key(self.key)
        query = (
            ("fieldSelector", f"metadata.name={name}"),
            ("watch", "1"),
            ("resourceVersion", version),
            ("timeoutSeconds", str(_WATCH_SECONDS)),
        )
        request = Request(Method.GET, LEASES.collection(namespace), query=query, call_class=LEASE_CLASS)
        lines = LineSplitter()
        async with self.api.stream(request) as pieces:
            async for piece in pieces:
                for line in filter(None, lines.feed(piece)):
                    lease = _read_change(line)
                    if lease is not None and lease.document.get("metadata", {}).get("name") == name:
                        yield lease

    async def _call(self, method: Method, path: str, body: dict[str, Any] | None = None) -> bytes:
        encoded = None if body is None else msgspec.json.encode(body)
        request = Request(method, path, body=encoded, call_class=LEASE_CLASS, deadline=self.deadline)
        return await self.api.call(request)


def _read(body: bytes) -> Lease:
    try:
        document = msgspec.json.decode(body, type=dict[str, Any])
        return Lease(document, msgspec.convert(document.get("spec") or {}, LeaseSpec))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableAnswer(f"the server's response is not a Lease: {error}") from error


def _read_change(line: bytes) -> Lease | None:
    event = read_event(line)
    if event.type == ERROR:
        raise build_error(read_status(event.object))
    if event.type == DELETED:
        return Lease({**_read(bytes(event.object)).document, "spec": {}}, LeaseSpec())
    return _read(bytes(event.object)) if event.type in (ADDED, MODIFIED) else None
