"""Single objects behind an `Api` in memory: created, read, replaced, patched and deleted by version, or not at all."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fleet.errors import ConnectionLost, DeadlineExceeded, Unreachable
from fleet.kube.api import Method, Request
from fleet.kube.client.failures import parse_error
from tests.faults.scripted import Down, Hang, Refuse

Json = dict[str, Any]


@dataclass(frozen=True)
class LostAnswer:
    """The request is done, and the connection breaks before the answer."""


@dataclass(frozen=True)
class Slow:
    """So long until the request is done, and so long again until the answer is there."""

    before: float = 0.0
    after: float = 0.0


Weather = Down | Hang | Refuse | LostAnswer | Slow | None


def fair(_: Request) -> Weather:
    return None


@dataclass
class ObjectServer:
    """`weather` decides what each request meets. Deadlines hold, as they do in the transport."""

    weather: Callable[[Request], Weather] = fair
    objects: dict[str, Json] = field(default_factory=dict)
    requests: list[tuple[float, Request]] = field(default_factory=list)
    before_next_write: list[Callable[[], object]] = field(default_factory=list)
    """What others do just before our writes, one for each."""
    _versions: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def call(self, request: Request) -> bytes:
        self.requests.append((asyncio.get_running_loop().time(), request))
        try:
            async with asyncio.timeout(request.deadline):
                return await self._served(request)
        except TimeoutError as error:
            raise DeadlineExceeded("scripted: no answer") from error

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    def store(self, path: str, document: Json) -> Json:
        """What somebody else writes."""
        stored = copy.deepcopy(document)
        metadata = stored.setdefault("metadata", {})
        metadata["resourceVersion"] = str(next(self._versions))
        metadata.setdefault("uid", f"uid-{metadata['resourceVersion']}")
        self.objects[path] = stored
        return stored

    async def _served(self, request: Request) -> bytes:
        weather = self.weather(request)
        match weather:
            case Down():
                raise Unreachable("scripted: nobody listens")
            case Hang():
                await asyncio.sleep(1e9)
            case Refuse():
                raise weather.error()
            case Slow():
                await asyncio.sleep(weather.before)
        answer = self._perform(request)
        match weather:
            case LostAnswer():
                raise ConnectionLost("scripted: reset")
            case Slow():
                await asyncio.sleep(weather.after)
        return msgspec.json.encode(answer)

    def _perform(self, request: Request) -> Json:
        body: Json = {} if request.body is None else msgspec.json.decode(request.body)
        if request.is_write and self.before_next_write:
            self.before_next_write.pop(0)()
        if request.method is Method.POST:
            return self._create(f"{request.path}/{body['metadata']['name']}", body)
        path = request.path.removesuffix("/status")
        if path not in self.objects:
            raise refusal(404, "NotFound")
        match request.method:
            case Method.PUT:
                return self._replace(path, body, only_status=path != request.path)
            case Method.PATCH:
                return self.store(path, _merged(self.objects[path], body))
            case Method.DELETE:
                return self._delete(path, body.get("preconditions", {}))
        return self.objects[path]

    def _create(self, path: str, body: Json) -> Json:
        if path in self.objects:
            raise refusal(409, "AlreadyExists")
        return self.store(path, body)

    def _replace(self, path: str, body: Json, *, only_status: bool) -> Json:
        held = self.objects[path]
        if body["metadata"]["resourceVersion"] != held["metadata"]["resourceVersion"]:
            raise refusal(409, "Conflict")
        return self.store(path, {**held, "status": body["status"]} if only_status else body)

    def _delete(self, path: str, preconditions: Json) -> Json:
        held = self.objects[path]
        if any(held["metadata"][name] != value for name, value in preconditions.items()):
            raise refusal(409, "Conflict")
        if held["metadata"].get("finalizers"):
            return self.store(path, _merged(held, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
        del self.objects[path]
        return {"kind": "Status", "status": "Success", "details": {"uid": held["metadata"]["uid"]}}


def refusal(code: int, reason: str) -> Exception:
    return parse_error(code, msgspec.json.encode({"kind": "Status", "reason": reason, "code": code, "message": reason}))


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
