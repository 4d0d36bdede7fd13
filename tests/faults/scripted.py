"""The hub behind an `Api` in memory. Each request may meet a fault; what comes after the script is served well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fleet.errors import ApiError, ConnectionLost, DeadlineExceeded, Gone, NotFound, Unreachable
from fleet.kube.api import Request
from fleet.kube.client.failures import parse_error
from tests.faults.hub import Hub

PATH = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"
BOOKMARK_EVERY = 60.0


# --- faults -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Down:
    """Nobody listens."""


@dataclass(frozen=True)
class Hang:
    """Accepted and never answered; a stream falls silent after some events."""

    after: int = 0


@dataclass(frozen=True)
class Late:
    """A good answer, some seconds after it was made; a stream that opens after some seconds."""

    seconds: float


@dataclass(frozen=True)
class Refuse:
    code: int
    reason: str = ""
    retry_after: int = 0

    def error(self) -> ApiError:
        status = {"kind": "Status", "reason": self.reason, "code": self.code, "message": f"scripted {self.code}"}
        return parse_error(self.code, msgspec.json.encode(status), retry_after=str(self.retry_after or ""))


@dataclass(frozen=True)
class Reset:
    """The connection breaks after some events; of the next one, that many bytes arrive."""

    after: int = 0
    bytes_more: int = 0


@dataclass(frozen=True)
class Close:
    """The stream ends in good order after some events; of the next one, that many bytes arrive."""

    after: int = 0
    bytes_more: int = 0


@dataclass(frozen=True)
class Garbage:
    """A line that is none, after some events."""

    line: bytes
    after: int = 0


@dataclass(frozen=True)
class ErrorEvent:
    code: int
    reason: str = ""
    after: int = 0
    retry_after: int = 0


@dataclass(frozen=True)
class Trickle:
    """Bytes without a line break, one every second, for ever."""


Fault = Down | Hang | Late | Refuse | Reset | Close | Garbage | ErrorEvent | Trickle | None


# --- the server -------------------------------------------------------------------------------------------------------


@dataclass
class ScriptedApi:
    """`lists` and `watches` are scripts: one entry per request, None for a request that is served well."""

    hub: Hub
    lists: list[Fault] = field(default_factory=list)
    watches: list[Fault] = field(default_factory=list)
    page: int = 500
    piece: int = 0
    """Bytes per piece of a stream; 0: one line each."""
    requests: list[tuple[float, Request]] = field(default_factory=list)
    changes_between_pages: list[str] = field(default_factory=list)
    """Names to change, one after each page, while a list is under way."""

    async def call(self, request: Request) -> bytes:
        self._note(request)
        fault = self.lists.pop(0) if self.lists else None
        match fault:
            case Down():
                raise Unreachable("scripted: nobody listens")
            case Hang():
                await asyncio.sleep(request.deadline)
                raise DeadlineExceeded("scripted: no answer")
            case Refuse():
                raise fault.error()
            case Reset():
                raise ConnectionLost("scripted: reset")
            case Garbage():
                return fault.line
        answer = self._list(request)
        if isinstance(fault, Late):
            await asyncio.sleep(fault.seconds)
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self._note(request)
        fault = self.watches.pop(0) if self.watches else None
        match fault:
            case Down():
                raise Unreachable("scripted: nobody listens")
            case Refuse():
                raise fault.error()
            case Late():
                await asyncio.sleep(fault.seconds)
        query = dict(request.query)
        version = int(query["resourceVersion"])
        if version < self.hub.oldest:
            raise Gone(f"too old resource version: {version} ({self.hub.oldest})", status=410, reason="Expired")
        pieces = self._pieces(version, fault, until=asyncio.get_running_loop().time() + int(query["timeoutSeconds"]))
        try:
            yield pieces
        finally:
            await pieces.aclose()

    def watch_times(self) -> list[float]:
        return [at for at, request in self.requests if ("watch", "1") in request.query]

    def list_times(self) -> list[float]:
        return [at for at, request in self.requests if ("watch", "1") not in request.query]

    def first_page_times(self) -> list[float]:
        asked = [(at, dict(request.query)) for at, request in self.requests]
        return [at for at, query in asked if "watch" not in query and "continue" not in query]

    # --- inside -------------------------------------------------------------------------------------------------------

    def _note(self, request: Request) -> None:
        self.requests.append((asyncio.get_running_loop().time(), request))

    def _list(self, request: Request) -> bytes:
        query = dict(request.query)
        version, names = self._snapshot(query)
        limit = min(int(query.get("limit", 0)) or len(names), self.page if "limit" in query else len(names))
        shown, rest = names[:limit], names[limit:]
        items = [self._as_of(name, version) for name in shown]
        token = f"{version}:{rest[0]}" if rest else ""
        if self.changes_between_pages and rest:
            name = self.changes_between_pages.pop(0)
            self.hub.put(name, touched=True)
        metadata = {"resourceVersion": str(version), **({"continue": token} if token else {})}
        return msgspec.json.encode({"kind": "List", "metadata": metadata, "items": items or None})

    def _snapshot(self, query: dict[str, str]) -> tuple[int, list[str]]:
        token = query.get("continue", "")
        if not token:
            return self.hub.version, sorted(self.hub.objects)
        version, _, first = token.partition(":")
        if int(version) < self.hub.oldest:
            raise Gone("the continue token has expired", status=410, reason="Expired")
        return int(version), [name for name in self._names_at(int(version)) if name >= first]

    def _names_at(self, version: int) -> list[str]:
        return sorted(name for name in self._ever() if self._as_of(name, version))

    def _ever(self) -> set[str]:
        return set(self.hub.objects) | {one.document["metadata"]["name"] for one in self.hub.history}

    def _as_of(self, name: str, version: int) -> dict[str, Any] | None:
        known = [one for one in self.hub.history if one.document["metadata"]["name"] == name and one.version <= version]
        if known:
            return None if known[-1].type == "DELETED" else known[-1].document
        return self.hub.objects.get(name)

    async def _pieces(self, version: int, fault: Fault, *, until: float) -> AsyncGenerator[bytes, None]:
        served = 0
        async for line in self._lines(version, until=until):
            for piece in _spoilt(line, fault, served):
                yield piece
            if _is_spoilt(fault, served):
                if isinstance(fault, Hang):
                    await asyncio.sleep(1e6)
                if isinstance(fault, Reset):
                    raise ConnectionLost("scripted: reset")
                while isinstance(fault, Trickle):
                    await asyncio.sleep(1)
                    yield b'{"type":'
                if not isinstance(fault, Garbage):
                    return
            for piece in _cut(line, self.piece):
                yield piece
            served += 1

    async def _lines(self, version: int, *, until: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            for happened in self.hub.since(version):
                version = happened.version
                yield happened.line()
            try:
                async with asyncio.timeout(min(BOOKMARK_EVERY, until - loop.time())):
                    await self.hub.news()
            except TimeoutError:
                # A server that was set back knows of no later version than its own.
                version = min(version, self.hub.version) if version > self.hub.version else self.hub.version
                yield _bookmark(version)


def _bookmark(version: int) -> bytes:
    return msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}) + b"\n"


def _is_spoilt(fault: Fault, served: int) -> bool:
    return isinstance(fault, Trickle) or (
        isinstance(fault, Hang | Reset | Close | Garbage | ErrorEvent) and served == fault.after
    )


def _spoilt(line: bytes, fault: Fault, served: int) -> Iterator[bytes]:
    """What arrives instead of a line, or before it."""
    if not _is_spoilt(fault, served):
        return
    match fault:
        case Reset() | Close():
            yield line[: fault.bytes_more]
        case Garbage():
            yield fault.line + b"\n"
        case ErrorEvent():
            details = {"retryAfterSeconds": fault.retry_after}
            status = {"kind": "Status", "reason": fault.reason, "code": fault.code, "details": details}
            yield msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"


def _cut(line: bytes, size: int) -> Iterator[bytes]:
    if not size:
        yield line
        return
    for start in range(0, len(line), size):
        yield line[start : start + size]


def not_found() -> ApiError:
    return NotFound("scripted: not found", status=404, reason="NotFound")
