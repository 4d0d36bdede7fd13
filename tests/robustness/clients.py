"""Clients that write, read and watch, and record everything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.robustness.history import Action, History, Operation, Result
from tests.robustness.requests import NoAnswer, request, watch
from tests.robustness.watch_checks import Segment, WatchEvent

_ACTIONS: Final = (
    *(Action.CREATE,) * 3,
    *(Action.PUT,) * 3,
    *(Action.REPLACE,) * 3,
    *(Action.DELETE,) * 2,
    *(Action.GET,) * 4,
)
_METHODS: Final = {
    Action.CREATE: "POST", Action.PUT: "PUT", Action.REPLACE: "PUT", Action.DELETE: "DELETE", Action.GET: "GET"
}  # fmt: skip
SENTINEL: Final = "sentinel"
PATIENCE: Final = 120.0


@dataclass
class Round:
    """What one round writes into: a namespace of its own."""

    port: int
    namespace: str
    wait_until_serving: Callable[[], Awaitable[None]]
    history: History = field(default_factory=History)
    segments: list[Segment] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    is_over: bool = False
    _values: int = 0

    @property
    def url(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    def new_value(self, rng: Random) -> str:
        """Mostly a new one; sometimes one that others write at the same time."""
        self._values += 1
        return str(self._values) if rng.random() < 0.7 else f"shared-{self._values // 20}"

    async def perform(self, client: str, key: str, action: Action, *, value: str = "", expected: int = 0) -> Operation:
        operation = self.history.call(client, key, action, value=value, expected=expected)
        metadata: dict[str, Any] = {"name": key}
        if action is Action.REPLACE:
            metadata["resourceVersion"] = str(expected)
        body = {"metadata": metadata, "data": {"v": value}} if action not in (Action.DELETE, Action.GET) else None
        path = self.url if action is Action.CREATE else f"{self.url}/{key}"
        try:
            code, document = await request(self.port, _METHODS[action], path, body)
        except NoAnswer:
            await self.wait_until_serving()
            return operation
        self._record(operation, code, document)
        return operation

    def _record(self, operation: Operation, code: int, document: dict[str, Any]) -> None:
        if code in (200, 201):
            revision = int(document["metadata"].get("resourceVersion", 0))
            value = document["data"]["v"] if operation.action is Action.GET else None
            self.history.answer(operation, Result.OK, value=value, revision=revision)
        elif code == 404:
            self.history.answer(operation, Result.MISSING)
        elif code == 409:
            is_create = operation.action is Action.CREATE
            self.history.answer(operation, Result.EXISTS if is_create else Result.STALE)
        elif code != 503:  # which says that the write was refused; the checker takes it for unknown
            self.unexpected.append(f"{operation.action} {operation.key}: {code} {document.get('message', '')}")

    async def write_and_read(self, client: str, keys: list[str], rng: Random) -> None:
        seen: dict[str, int] = {}
        while not self.is_over:
            key, action = rng.choice(keys), rng.choice(_ACTIONS)
            value = "" if action in (Action.DELETE, Action.GET) else self.new_value(rng)
            expected = seen.get(key, 1) if action is Action.REPLACE else 0
            operation = await self.perform(client, key, action, value=value, expected=expected)
            if operation.result is Result.OK and operation.revision and action is not Action.DELETE:
                seen[key] = operation.revision

    async def read_all(self) -> tuple[dict[str, tuple[str, int]], int]:
        """Values and revisions by key, and the revision of the list."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    code, document = await request(self.port, "GET", self.url)
                except NoAnswer:
                    await asyncio.sleep(0.02)
                    continue
                if code == 200:
                    break
        objects = {
            item["metadata"]["name"]: (item["data"]["v"], int(item["metadata"]["resourceVersion"]))
            for item in document["items"]
        }
        return objects, int(document["metadata"]["resourceVersion"])

    async def follow(self, watcher: str) -> None:
        """Watches until the sentinel appears; after a lost connection from where it was, after 410 from a list."""
        while True:
            objects, revision = await self.read_all()
            segment = Segment(watcher, revision, {key: value for key, (value, _) in objects.items()})
            self.segments.append(segment)
            if SENTINEL in objects or await self._follow_segment(segment):
                return

    async def _follow_segment(self, segment: Segment) -> bool:
        """Whether the sentinel was seen; otherwise the watcher has to list."""
        while True:
            path = f"{self.url}?watch=1&resourceVersion={segment.end}"
            async with aclosing(watch(self.port, path)) as events:
                async for event in events:
                    document = event["object"]
                    if event["type"] == "ERROR":
                        return False
                    key, revision = document["metadata"]["name"], int(document["metadata"]["resourceVersion"])
                    segment.events.append(WatchEvent(revision, event["type"], key, document["data"]["v"]))
                    if key == SENTINEL:
                        return True
            await self.wait_until_serving()

    async def finish(self, keys: list[str]) -> dict[str, tuple[str, int]]:
        """Writes the sentinel and reads every key once more, until each has an answer."""
        for key, action in [(SENTINEL, Action.CREATE), *((key, Action.GET) for key in keys)]:
            async with asyncio.timeout(PATIENCE):
                value = "end" if action is Action.CREATE else ""
                while (await self.perform("final", key, action, value=value)).result is Result.UNKNOWN:
                    await asyncio.sleep(0.02)
        return (await self.read_all())[0]
