"""Placements, snapshots and bindings behind an `Api` in memory, with the preconditions that a hub holds writers to.

Every request may meet a fault, before it is carried out or after. What others do meanwhile is said by `before`.
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fleet.errors import ApiError, ConnectionLost, DeadlineExceeded, Unreachable
from fleet.informers.cache import Caches, PlacementKinds
from fleet.kube.api import Method, Request
from fleet.kube.informer import InformerConfig
from fleet.kube.objects import Objects
from fleet.kube.patch import RetryPolicy
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, Observed
from fleet.scheduler.cleanup import Cleanup
from fleet.scheduler.dispatch.binding_calls import BindingWriter
from fleet.scheduler.dispatch.dispatcher import Dispatcher
from tests.faults.objects import refusal
from tests.faults.scripted import Refuse
from tests.faults.virtual import VirtualClock, no_jitter

Json = dict[str, Any]

PATIENCE = RetryPolicy(VirtualClock(), no_jitter)
DELETED_AT = "2026-03-10T08:59:00Z"
GROUP = "/apis/placement.kubernetes-fleet.io/v1beta1"
_TERMINATION = re.compile(r"(/status)?$")


@dataclass(frozen=True)
class Before:
    """Refused, and not carried out."""

    error: ApiError | Exception


@dataclass(frozen=True)
class After:
    """Carried out, and then refused."""

    error: ApiError | Exception


Fault = Before | After | None

CONFLICT = Refuse(409, "Conflict").error()
INTERNAL = Refuse(500, "InternalError").error()
UNAVAILABLE = Refuse(503, "ServiceUnavailable").error()
TIMEOUT = Refuse(504, "Timeout").error()
TOO_MANY = Refuse(429, "TooManyRequests", retry_after=1).error()
LOST = ConnectionLost("scripted: reset")
UNREACHABLE = Unreachable("scripted: nobody listens")
LATE = DeadlineExceeded("scripted: no answer in time")


@dataclass
class CrudServer:
    fault: Callable[[Request], Fault] = lambda _: None
    objects: dict[str, Json] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    before: list[Callable[[], object]] = field(default_factory=list)
    """What others do just before our writes, one for each."""
    seconds: float = 0.0
    """How long a request takes."""
    _counted: int = 0

    async def call(self, request: Request) -> bytes:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        fault = self.fault(request)
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if isinstance(fault, Before):
            raise fault.error
        if request.is_write and self.before:
            self.before.pop(0)()
        answer = msgspec.json.encode(self._perform(request))
        if isinstance(fault, After):
            raise fault.error
        return answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    # --- what others see and do ---------------------------------------------------------------------------------------

    def put(self, path: str, document: Json) -> Json:
        """Creates or replaces, whatever the version."""
        held = self.objects.get(path)
        self._counted += 1
        stored = copy.deepcopy(document)
        metadata = stored.setdefault("metadata", {})
        metadata["name"] = path.rpartition("/")[2]
        metadata["uid"] = held["metadata"]["uid"] if held else metadata.get("uid") or f"uid-{self._counted}"
        metadata["resourceVersion"] = str(self._counted)
        self.objects[path] = stored
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            del self.objects[path]
        return stored

    def edit(self, path: str, patch: Json) -> Json:
        return self.put(path, merged(self.objects[path], patch))

    def writes(self) -> list[tuple[str, str]]:
        """Method and path, from the plural on."""
        return [(str(one.method), one.path.removeprefix(f"{GROUP}/")) for one in self.requests if one.is_write]

    def bodies(self) -> list[Any]:
        return [msgspec.json.decode(one.body) for one in self.requests if one.body is not None]

    # --- inside -------------------------------------------------------------------------------------------------------

    def _perform(self, request: Request) -> Json:
        body: Json = {} if request.body is None else msgspec.json.decode(request.body)
        if request.method is Method.POST:
            return self._create(f"{request.path}/{body['metadata']['name']}", body)
        path = _TERMINATION.sub("", request.path)
        if path not in self.objects:
            if request.method is Method.GET and dict(request.query).get("limit"):
                return self._list(request)
            raise refusal(404, "NotFound")
        held = self.objects[path]
        match request.method:
            case Method.PUT:
                self._check(held, body["metadata"], required=True)
                changed = body if path == request.path else {**held, "status": body["status"]}
                return self._change(path, changed)
            case Method.PATCH:
                self._check(held, body.get("metadata", {}))
                return self._change(path, merged(held, body))
            case Method.DELETE:
                self._check(held, body.get("preconditions", {}))
                return self._delete(path)
        return held

    def _create(self, path: str, body: Json) -> Json:
        if path in self.objects:
            raise refusal(409, "AlreadyExists")
        return self.put(path, body)

    def _list(self, request: Request) -> Json:
        wanted, _, value = dict(request.query).get("labelSelector", "").partition("=")
        folder = f"{request.path}/"
        items = [
            one for path, one in self.objects.items() if path.startswith(folder) and "/" not in path[len(folder) :]
        ]
        found = [one for one in items if not wanted or one["metadata"].get("labels", {}).get(wanted) == value]
        return {"kind": "List", "metadata": {"resourceVersion": str(self._counted)}, "items": found}

    def _check(self, held: Json, wanted: Json, *, required: bool = False) -> None:
        if required:
            assert wanted["resourceVersion"], "a PUT without a version"
        for name in ("uid", "resourceVersion"):
            if wanted.get(name, held["metadata"][name]) != held["metadata"][name]:
                raise refusal(409, "Conflict")

    def _change(self, path: str, changed: Json) -> Json:
        """A write that changes nothing has no effect."""
        return self.objects[path] if changed == self.objects[path] else self.put(path, changed)

    def _delete(self, path: str) -> Json:
        held = self.objects[path]
        if held["metadata"].get("finalizers"):
            return self._change(path, merged(held, {"metadata": {"deletionTimestamp": DELETED_AT}}))
        del self.objects[path]
        return {"kind": "Status", "status": "Success", "details": {"uid": held["metadata"]["uid"]}}


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


# --- what the scheduler has of it -------------------------------------------------------------------------------------


@dataclass
class Site:
    """A dispatcher at work on the kinds of one flavour."""

    server: CrudServer
    kinds: PlacementKinds
    dispatcher: Dispatcher

    @property
    def bindings(self) -> Objects[Observed[Binding]]:
        return self.kinds.bindings.objects

    @property
    def writer(self) -> BindingWriter:
        return BindingWriter(dispatcher=self.dispatcher, retry_policy=PATIENCE)

    @property
    def cleanup(self) -> Cleanup:
        return Cleanup(bindings=self.writer, retry_policy=PATIENCE)


@asynccontextmanager
async def a_site(server: CrudServer, *, namespaced: bool = False, concurrency: int = 32) -> AsyncIterator[Site]:
    access = InformerConfig(reads=server, writes=server, clock=VirtualClock(), jitter=no_jitter)
    kinds = Caches(access).kinds_of(PlacementKey.parse("shop/web" if namespaced else "web"))
    dispatcher = Dispatcher(clock=VirtualClock(), concurrency=concurrency)
    for watched in kinds:
        watched.store.version = "0"
        dispatcher.follow(watched.store)
    async with asyncio.TaskGroup() as group:
        group.create_task(dispatcher.run(), name="dispatcher")
        await asyncio.sleep(0)
        yield Site(server, kinds, dispatcher)
        dispatcher.close()
