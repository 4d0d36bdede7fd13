"""A small API server in memory, behind an `Api`: lists, watches, generations, statuses, finalizers, preconditions.

Faults are said per request: `fault` is asked before each one. A write whose answer is lost has happened.
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from fleet.errors import ApiError
from fleet.kube.api import Method, Request
from tests.faults.objects import refusal

Json = dict[str, Any]

PLACEMENTS: Final = "/apis/placement.kubernetes-fleet.io/v1beta1"
DELETED_AT: Final = "2026-01-01T00:00:00Z"

_PATH: Final = re.compile(
    r"(?P<root>/apis/[^/]+/[^/]+|/api/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?P<status>/status)?)?"
)


@dataclass(frozen=True)
class Refused:
    """Not carried out."""

    error: ApiError


@dataclass(frozen=True)
class Lost:
    """Carried out; the answer is this error."""

    error: ApiError


Fault = Refused | Lost | None


@dataclass(frozen=True)
class Happened:
    version: int
    collection: str
    type: str
    document: Json


@dataclass
class MemoryHub:
    fault: Callable[[Request], Fault] = lambda _: None
    before_write: list[Callable[[], object]] = field(default_factory=list)
    """What others do just before our writes, one for each."""
    namespaces: set[str] = field(default_factory=lambda: {"shop"})
    objects: dict[str, Json] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    history: list[Happened] = field(default_factory=list)
    version: int = 100
    now: str = "2026-01-01T00:00:00Z"
    """When objects are born."""
    _born: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    # --- the Api ------------------------------------------------------------------------------------------------------

    async def call(self, request: Request) -> bytes:
        self.requests.append(request)
        await asyncio.sleep(0)
        fault = self.fault(request)
        if isinstance(fault, Refused):
            raise fault.error
        if request.is_write and self.before_write:
            self.before_write.pop(0)()
        answer = msgspec.json.encode(self._perform(request))
        if isinstance(fault, Lost):
            raise fault.error
        return answer

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
        return self.objects[f"{PLACEMENTS}/{path}"]

    def put(self, path: str, document: Json) -> Json:
        """Creates or replaces, status included, whatever the version."""
        return self._store(f"{PLACEMENTS}/{path}", document)

    def edit(self, path: str, **changes: Any) -> Json:
        """Merges into the object."""
        return self.put(path, merged(self.get(path), changes))

    def remove(self, path: str) -> None:
        """As a DELETE of somebody else."""
        self._delete(f"{PLACEMENTS}/{path}")

    def succeed(self, path: str, document: Json) -> None:
        """Another object takes the place of this one."""
        self.remove(path)
        self.put(path, document)

    def names(self, plural: str) -> list[str]:
        pattern = re.compile(rf"{PLACEMENTS}/(?:namespaces/[^/]+/)?{plural}/([^/]+)")
        return sorted(found[1] for path in self.objects if (found := pattern.fullmatch(path)))

    def members(self, collection: str, selector: str = "") -> list[Json]:
        wanted = dict(term.split("=") for term in selector.split(",") if term)
        return [
            document
            for path, document in sorted(self.objects.items())
            if _is_in(path, collection) and wanted.items() <= (document["metadata"].get("labels") or {}).items()
        ]

    def writes(self) -> list[str]:
        """`PUT clusterresourceplacements/web/status`, without group and namespace."""
        return [
            f"{one.method} {re.sub(r'^(/[^/]+){3}(/namespaces/[^/]+)?/', '', one.path)}"
            for one in self.requests
            if one.is_write
        ]

    def forget_requests(self) -> None:
        self.requests.clear()

    def state(self) -> Json:
        """Everything, without what differs from run to run."""
        return {path: _lasting(document) for path, document in sorted(self.objects.items())}

    # --- requests -----------------------------------------------------------------------------------------------------

    def _perform(self, request: Request) -> Json:
        found = _PATH.fullmatch(request.path)
        assert found, request.path
        body: Json = {} if request.body is None else msgspec.json.decode(request.body)
        if found["namespace"] and found["namespace"] not in self.namespaces:
            raise refusal(404, "NotFound")
        if found["name"] is None:
            return self._collection(request, body)
        path = request.path.removesuffix("/status")
        if path not in self.objects:
            raise refusal(404, "NotFound")
        match request.method:
            case Method.PUT:
                return self._replace(path, body, only_status=bool(found["status"]))
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
                    self._delete(_path_of(request.path, document))
                return {"kind": "Status", "status": "Success"}
        items = self.members(request.path, query.get("labelSelector", ""))
        return {"kind": "List", "metadata": {"resourceVersion": str(self.version)}, "items": items}

    def _create(self, path: str, body: Json) -> Json:
        if path in self.objects:
            raise refusal(409, "AlreadyExists")
        return self._store(path, {field: value for field, value in body.items() if field != "status"})

    def _replace(self, path: str, body: Json, *, only_status: bool) -> Json:
        held = self.objects[path]
        if body["metadata"]["resourceVersion"] != held["metadata"]["resourceVersion"]:
            raise refusal(409, "Conflict")
        changed = {**held, "status": body["status"]} if only_status else {**body, "status": held.get("status")}
        changed = {field: value for field, value in changed.items() if value is not None}
        if changed["metadata"].get("deletionTimestamp") and not changed["metadata"].get("finalizers"):
            return self._remove(path)
        return held if changed == held else self._store(path, changed)

    def _patch(self, path: str, patch: Json) -> Json:
        held = self.objects[path]
        if patch["metadata"].get("resourceVersion", "") not in ("", held["metadata"]["resourceVersion"]):
            raise refusal(409, "Conflict")
        changed = merged(held, patch)
        return held if changed == held else self._store(path, changed)

    def _delete(self, path: str, preconditions: Json | None = None) -> Json:
        held = self.objects[path]
        if any(held["metadata"][name] != value for name, value in (preconditions or {}).items()):
            raise refusal(409, "Conflict")
        if held["metadata"].get("finalizers"):
            return self._store(path, merged(held, {"metadata": {"deletionTimestamp": DELETED_AT}}))
        return self._remove(path)

    # --- state --------------------------------------------------------------------------------------------------------

    def _store(self, path: str, document: Json) -> Json:
        held = self.objects.get(path)
        stored = copy.deepcopy(document)
        metadata = stored.setdefault("metadata", {})
        found = _PATH.fullmatch(path)
        assert found
        self.version += 1
        self._born += held is None
        metadata |= {"name": found["name"], "resourceVersion": str(self.version)}
        if found["namespace"]:
            metadata["namespace"] = found["namespace"]
        metadata["creationTimestamp"] = held["metadata"]["creationTimestamp"] if held else self.now
        metadata["uid"] = held["metadata"]["uid"] if held else metadata.get("uid") or f"uid-{self._born}"
        changed = held is not None and held.get("spec") != stored.get("spec")
        metadata["generation"] = (held["metadata"]["generation"] if held else 1) + changed
        self.objects[path] = stored
        self._tell("ADDED" if held is None else "MODIFIED", path, stored)
        return stored

    def _remove(self, path: str) -> Json:
        gone = self.objects.pop(path)
        self.version += 1
        gone = merged(gone, {"metadata": {"resourceVersion": str(self.version)}})
        self._tell("DELETED", path, gone)
        return {"kind": "Status", "status": "Success", "details": {"uid": gone["metadata"]["uid"]}}

    def _tell(self, type: str, path: str, document: Json) -> None:
        self.history.append(Happened(self.version, path, type, copy.deepcopy(document)))
        self._news.set()
        self._news = asyncio.Event()

    async def _events(self, collection: str, version: int, *, until: float) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            news = self._news
            for one in self._since(version, collection):
                version = one.version
                yield msgspec.json.encode({"type": one.type, "object": one.document}) + b"\n"
            with suppress(TimeoutError):
                async with asyncio.timeout(min(60.0, until - loop.time())):
                    await news.wait()
            if not self._since(version, collection):
                version = self.version
                bookmark = {"metadata": {"resourceVersion": str(version)}}
                yield msgspec.json.encode({"type": "BOOKMARK", "object": bookmark}) + b"\n"

    def _since(self, version: int, collection: str) -> list[Happened]:
        return [one for one in self.history if one.version > version and _is_in(one.collection, collection)]


def _is_in(path: str, collection: str) -> bool:
    found, wanted = _PATH.fullmatch(path), _PATH.fullmatch(collection)
    assert found
    assert wanted
    same_kind = (found["root"], found["plural"]) == (wanted["root"], wanted["plural"])
    return same_kind and wanted["namespace"] in (None, found["namespace"])


def _path_of(collection: str, document: Json) -> str:
    return f"{collection}/{document['metadata']['name']}"


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
