"""Informer of one kind: watches it into a store, and puts the answers to own writes into that store at once.

`WriteGate` decides whether writes pass at all. Reading starts before leadership and continues after it, so that the
cache of a standby is warm; writing is bound to leadership.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from fleet.clock import Clock
from fleet.errors import ConnectionLost, DeadlineExceeded, NotLeading, ServerTimeout
from fleet.kube.api import WRITE_CLASS, Api, Request
from fleet.kube.backoff import Jitter
from fleet.kube.cache.reflector import ListFilter, Reflector, ReflectorTimings, WatchProblem
from fleet.kube.cache.store import Codec, Store
from fleet.kube.leader_election import FencedApi, Leadership
from fleet.kube.objects import Objects
from fleet.kube.resource import Resource

T = TypeVar("T")

_AMBIGUOUS_FAILURES: Final = (asyncio.CancelledError, ConnectionLost, DeadlineExceeded, ServerTimeout)
"""After these the server may still apply the write."""


class WriteGate:
    """An `Api` that lets writes pass only while it is open, and reads always.

    It tracks the writes that the server may still apply: those in flight, and those that ended without an answer, until
    their deadlines, after which the server drops them as well.
    """

    def __init__(self, api: Api, *, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._write_api: Api | None = None
        self._numbers = itertools.count()
        self._unsettled: dict[int, tuple[Request, float]] = {}

    def open(self, leadership: Leadership | None = None) -> None:
        """With a leadership, as long as that lasts."""
        self._write_api = self._api if leadership is None else FencedApi(self._api, leadership)

    def close(self) -> None:
        self._write_api = None

    async def call(self, request: Request) -> bytes:
        if not request.is_write:
            return await self._api.call(request)
        if self._write_api is None:
            raise NotLeading("this process does not lead: nothing is written")
        number = next(self._numbers)
        self._unsettled[number] = request, self._clock.monotonic() + request.deadline
        try:
            answer = await self._write_api.call(request)
        except _AMBIGUOUS_FAILURES:
            self._forget_settled()
            raise
        except BaseException:
            self._unsettled.pop(number, None)
            raise
        self._unsettled.pop(number, None)
        return answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._api.stream(request)

    def list_unsettled(self) -> list[str]:
        """The writes that the server may still apply."""
        self._forget_settled()
        return [f"{request.method} {request.path}" for request, _ in self._unsettled.values()]

    def _forget_settled(self) -> None:
        now = self._clock.monotonic()
        for number in [number for number, (_, until) in self._unsettled.items() if until <= now]:
            del self._unsettled[number]


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerConfig:
    """The API clients and settings that all informers of a process share."""

    reads: Api
    writes: Api
    clock: Clock
    jitter: Jitter
    on_problem: Callable[[Resource, WatchProblem], None] = lambda *_: None
    timings: ReflectorTimings | None = None


class Informer(Generic[T]):
    def __init__(
        self,
        access: InformerConfig,
        resource: Resource,
        codec: Codec[T],
        *,
        call_class: str = WRITE_CLASS,
        selection: ListFilter | None = None,
    ) -> None:
        self.resource = resource
        self.store: Store[T] = Store(codec)
        self.objects: Objects[T] = Objects(access.writes, resource, codec, store=self.store, call_class=call_class)
        self.reflector: Reflector[T] = Reflector(
            access.reads,
            resource,
            self.store,
            clock=access.clock,
            jitter=access.jitter,
            selection=selection,
            timings=access.timings,
            on_problem=lambda problem: access.on_problem(resource, problem),
        )
