"""An API server in memory, behind an `Api`: lists, watches, generations, statuses, finalizers, preconditions, faults.

`fault` decides for each request which fault it meets. A write whose answer is lost has happened. Below `GROUP`, tests
name objects by the rest of their path: `clusterresourceplacements/web`.
"""

from __future__ import annotations

import asyncio
import functools
import re
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from fleet.errors import ConnectionLost, DeadlineExceeded, Unreachable
from fleet.kube.api import Api, Method, Request
from fleet.kube.client.failures import parse_error
from tests.faults.scripted import Down, Hang, Refuse

Json = dict[str, Any]

GROUP: Final = "/apis/placement.kubernetes-fleet.io/v1beta1"
DELETED_AT: Final = "2026-01-01T00:00:00Z"

_PATH: Final = re.compile(
    r"(?P<root>/apis/[^/]+/[^/]+|/api/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?P<status>/status)?)?"
)


# --- faults -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refused:
    """Not carried out; the answer is this error."""

    error: Exception
    after: float = 0.0


@dataclass(frozen=True)
class Lost:
    """Carried out; the answer is this error."""

    error: Exception = field(default_factory=lambda: ConnectionLost("scripted: reset"))
    after: float = 0.0


@dataclass(frozen=True)
class Slow:
    """So long until the request is carried out, and so long again until the answer is there."""

    before: float = 0.0
    after: float = 0.0


@dataclass(frozen=True)
class Answered:
    """Not carried out; the answer is this."""

    body: bytes


Fault = Refused | Lost | Slow | Answered | Down | Hang | Refuse | None

CONFLICT: Final = Refuse(409, "Conflict").error()
INTERNAL: Final = Refuse(500, "InternalError").error()
UNAVAILABLE: Final = Refuse(503, "ServiceUnavailable").error()
TIMEOUT: Final = Refuse(504, "Timeout").error()
TOO_MANY: Final = Refuse(429, "TooManyRequests", retry_after=1).error()
LOST: Final = ConnectionLost("scripted: reset")
UNREACHABLE: Final = Unreachable("scripted: nobody listens")
LATE: Final = DeadlineExceeded("scripted: no answer in time")


Faults = Callable[[Request], Fault]


def fair(_: Request) -> Fault:
    return None


def is_write(request: Request) -> bool:
    return request.is_write


def in_turn(*faults: Fault, to: Callable[[Request], bool] = lambda _: True) -> Faults:
    """The first of these requests meet the faults, one each."""
    left = iter(faults)
    return lambda request: next(left, None) if to(request) else None


async def serve(request: Request, fault: Fault, perform: Callable[[], Awaitable[bytes]]) -> bytes:
    """Deadlines hold, as they do in the transport."""
    try:
        async with asyncio.timeout(request.deadline):
            match fault:
                case Answered():
                    return fault.body
                case Down():
                    raise UNREACHABLE
                case Hang():
                    await asyncio.sleep(1e9)
                case Refuse():
                    raise fault.error()
                case Refused():
                    await asyncio.sleep(fault.after)
                    raise fault.error
                case Slow():
                    await asyncio.sleep(fault.before)
            answer = await perform()
            match fault:
                case Lost():
                    await asyncio.sleep(fault.after)
                    raise fault.error
                case Slow():
                    await asyncio.sleep(fault.after)
            return answer
    except TimeoutError as error:
        raise DeadlineExceeded("scripted: no answer") from error


def refusal(code: int, reason: str) -> Exception:
    return parse_error(code, msgspec.json.encode({"kind": "Status", "reason": reason, "code": code, "message": reason}))


class FaultyApi:
    """What one client has of a server: its requests may meet faults of their own."""

    def __init__(self, api: Api, fault: Faults = fair) -> None:
        self.fault = fault
        self.met: list[Request] = []
        """Requests that met a fault."""
        self._api = api

    async def call(self, request: Request) -> bytes:
        fault = self.fault(request)
        if fault is not None:
            self.met.append(request)
        return await serve(request, fault, lambda: self._api.call(request))

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._api.stream(request)


# --- the server -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HubEvent:
    version: int
    path: str
    type: str
    document: Json


@dataclass
class FakeHub:
    fault: Faults = fair
    before_write: list[Callable[[], object]] = field(default_factory=list)
    """What others do just before our writes, one for each."""
    namespaces: set[str] = field(default_factory=lambda: {"default", "fleet-system", "shop"})
    objects: dict[str, Json] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """Of the requests."""
    history: list[HubEvent] = field(default_factory=list)
    version: int = 100
    now: str = "2026-01-01T00:00:00Z"
    """When objects are born."""
    _born: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    # --- the Api ------------------------------------------------------------------------------------------------------

    async def call(self, request: Request) -> bytes:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        fault = self.fault(request)

        async def perform() -> bytes:
            if request.is_write and self.before_write:
                self.before_write.pop(0)()
            return msgspec.json.encode(self._perform(request))

        await asyncio.sleep(0)
        return await serve(request, fault, perform)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        query = dict(request.query)
        until = asyncio.get_running_loop().time() + int(query["timeoutSeconds"])
        pieces = self._events(request.path, int(query["resourceVersion"]), until=until)
        try:
            yield pieces
        finally:
            await pieces.aclose()

    # --- what others see and do ---------------------------------------------------------------------------------------

    def get(self, path: str) -> Json:
        return self.objects[_below_group(path)]

    def put(self, path: str, document: Json) -> Json:
        """Creates or replaces, status included, whatever the version."""
        return self._store(_below_group(path), document)

    def edit(self, path: str, **changes: Any) -> Json:
        """Merges into the object."""
        return self.put(path, merged(self.get(path), changes))

    def remove(self, path: str) -> None:
        """As a DELETE of another client."""
        self._delete(_below_group(path), {})

    def vanish(self, path: str) -> None:
        """Whatever finalizers it has."""
        self._remove(_below_group(path))

    def succeed(self, path: str, document: Json) -> None:
        """Another object takes the place of this one."""
        self.remove(path)
        self.put(path, document)

    def names(self, plural: str) -> list[str]:
        pattern = re.compile(rf"{GROUP}/(?:namespaces/[^/]+/)?{plural}/([^/]+)")
        return sorted(match[1] for path in self.objects if (match := pattern.fullmatch(path)))

    def members(self, collection: str, selector: str = "") -> list[Json]:
        wanted = dict(term.split("=") for term in selector.split(",") if term)
        return [
            document
            for path, document in sorted(self.objects.items())
            if _is_in(path, collection) and wanted.items() <= (document["metadata"].get("labels") or {}).items()
        ]

    def writes(self) -> list[str]:
        """`PUT clusterresourceplacements/web/status`, without the group."""
        return [
            f"{request.method} {re.sub(r'^(/apis/[^/]+|/api)/[^/]+/', '', request.path)}"
            for request in self.requests
            if request.is_write
        ]

    def bodies(self) -> list[Any]:
        return [msgspec.json.decode(request.body) for request in self.requests if request.body]

    def forget_requests(self) -> None:
        self.requests.clear()
        self.times.clear()

    def state(self) -> Json:
        """Everything, without what differs from run to run."""
        return {path: _lasting(document) for path, document in sorted(self.objects.items())}

    # --- requests -----------------------------------------------------------------------------------------------------

    def _perform(self, request: Request) -> Json:
        parts = _PATH.fullmatch(request.path)
        assert parts, request.path
        body: Json = {} if request.body is None else msgspec.json.decode(request.body)
        if parts["namespace"] and parts["namespace"] not in self.namespaces:
            raise refusal(404, "NotFound")
        if parts["name"] is None:
            return self._collection(request, body)
        path = request.path.removesuffix("/status")
        if path not in self.objects:
            raise refusal(404, "NotFound")
        match request.method:
            case Method.PUT:
                return self._replace(path, body, only_status=bool(parts["status"]))
            case Method.PATCH:
                return self._patch(path, body)
            case Method.DELETE:
                return self._delete(path, body.get("preconditions", {}))
        return self.objects[path]

    def _collection(self, request: Request, body: Json) -> Json:
        query = dict(request.query)
        match request.method:
            case Method.POST:
                return self._create(f"{request.path}/{body['metadata']['name']}", body)
            case Method.DELETE:
                for document in self.members(request.path, query["labelSelector"]):
                    self._delete(f"{request.path}/{document['metadata']['name']}", {})
                return {"kind": "Status", "status": "Success"}
        items = self.members(request.path, query.get("labelSelector", ""))
        return {"kind": "List", "metadata": {"resourceVersion": str(self.version)}, "items": items}

    def _create(self, path: str, body: Json) -> Json:
        if path in self.objects:
            raise refusal(409, "AlreadyExists")
        return self._store(path, {field: value for field, value in body.items() if field != "status"})

    def _replace(self, path: str, body: Json, *, only_status: bool) -> Json:
        held = self._checked(path, {"resourceVersion": body["metadata"]["resourceVersion"]})
        changed = {**held, "status": body["status"]} if only_status else {**body, "status": held.get("status")}
        return self._change(path, {field: value for field, value in changed.items() if value is not None})

    def _patch(self, path: str, patch: Json) -> Json:
        return self._change(path, merged(self._checked(path, patch.get("metadata", {})), patch))

    def _delete(self, path: str, preconditions: Json) -> Json:
        held = self._checked(path, preconditions)
        if held["metadata"].get("finalizers"):
            return self._change(path, merged(held, {"metadata": {"deletionTimestamp": DELETED_AT}}))
        uid = self._remove(path)["metadata"]["uid"]
        return {"kind": "Status", "status": "Success", "details": {"uid": uid}}

    def _checked(self, path: str, wanted: Json) -> Json:
        held = self.objects[path]
        if any(wanted.get(name) not in ("", None, held["metadata"][name]) for name in ("uid", "resourceVersion")):
            raise refusal(409, "Conflict")
        return held

    def _change(self, path: str, changed: Json) -> Json:
        """A write that changes nothing has no effect."""
        held = self.objects[path]
        if changed["metadata"].get("deletionTimestamp") and not changed["metadata"].get("finalizers"):
            self.objects[path] = changed
            return self._remove(path)
        return held if changed == held else self._store(path, changed)

    # --- state --------------------------------------------------------------------------------------------------------

    def _store(self, path: str, document: Json) -> Json:
        held = self.objects.get(path)
        stored: Json = copy_json(document)
        metadata = stored.setdefault("metadata", {})
        parts = _PATH.fullmatch(path)
        assert parts, path
        self.version += 1
        self._born += held is None
        metadata |= {"name": parts["name"], "resourceVersion": str(self.version)}
        if parts["namespace"]:
            metadata["namespace"] = parts["namespace"]
        metadata["creationTimestamp"] = held["metadata"]["creationTimestamp"] if held else self.now
        metadata["uid"] = held["metadata"]["uid"] if held else metadata.get("uid") or f"uid-{self._born}"
        changed = held is not None and held.get("spec") != stored.get("spec")
        metadata["generation"] = (held["metadata"]["generation"] if held else 1) + changed
        self.objects[path] = stored
        self._announce("ADDED" if held is None else "MODIFIED", path, stored)
        return stored

    def _remove(self, path: str) -> Json:
        self.version += 1
        gone: Json = merged(self.objects.pop(path), {"metadata": {"resourceVersion": str(self.version)}})
        self._announce("DELETED", path, gone)
        return gone

    def _announce(self, type: str, path: str, document: Json) -> None:
        self.history.append(HubEvent(self.version, path, type, copy_json(document)))
        self._news.set()
        self._news = asyncio.Event()

    async def _events(self, collection: str, version: int, *, until: float) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            news = self._news
            for event in self._since(version, collection):
                version = event.version
                yield msgspec.json.encode({"type": event.type, "object": event.document}) + b"\n"
            with suppress(TimeoutError):
                async with asyncio.timeout(min(60.0, until - loop.time())):
                    await news.wait()
            if not self._since(version, collection):
                version = self.version
                bookmark = {"metadata": {"resourceVersion": str(version)}}
                yield msgspec.json.encode({"type": "BOOKMARK", "object": bookmark}) + b"\n"

    def _since(self, version: int, collection: str) -> list[HubEvent]:
        first = bisect_right(self.history, version, key=lambda event: event.version)
        return [event for event in self.history[first:] if _is_in(event.path, collection)]


def _below_group(path: str) -> str:
    return path if path.startswith("/") else f"{GROUP}/{path}"


@functools.cache
def _is_in(path: str, collection: str) -> bool:
    parts, wanted = _PATH.fullmatch(path), _PATH.fullmatch(collection)
    assert parts
    assert wanted
    same_kind = (parts["root"], parts["plural"]) == (wanted["root"], wanted["plural"])
    return same_kind and wanted["namespace"] in (None, parts["namespace"])


def copy_json(value: Any) -> Any:
    """What `copy.deepcopy` gives for a tree of JSON, at a fifth of its price."""
    match value:
        case dict():
            return {key: copy_json(child) for key, child in value.items()}
        case list():
            return [copy_json(child) for child in value]
    return value


def merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


_PASSING: Final = frozenset({"resourceVersion", "uid", "lastTransitionTime", "lastUpdatedTime"})


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(item) for key, item in value.items() if key not in _PASSING}
    return [_lasting(item) for item in value] if isinstance(value, list) else value
