"""A client that overwrites its objects again and again, and remembers what was acknowledged."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Final

from fleet.errors import AlreadyExists, ApiError, NotFound
from fleet.kube.api import Api
from tests.e2e.world import CONFIG_MAPS, NAMESPACES, World

_NAMESPACE: Final = "kept"
_OBJECTS: Final = 20


@dataclass
class Writer:
    api: Api
    acknowledged: dict[str, int] = field(default_factory=dict)
    count: int = 0
    """Of acknowledged writes."""

    async def work(self) -> None:
        while not await self._has_namespace():
            await asyncio.sleep(0.05)
        for number in itertools.count():
            name = f"kept-{number % _OBJECTS}"
            if await self._write(name, number):
                self.acknowledged[name] = number
                self.count += 1
            await asyncio.sleep(0.05)

    async def find_lost_writes(self) -> list[str]:
        acknowledged = dict(self.acknowledged)
        maps = await World(self.api).all(CONFIG_MAPS, namespace=_NAMESPACE)
        kept = {item["metadata"]["name"]: int(item["data"]["number"]) for item in maps}
        lost = {name: number for name, number in acknowledged.items() if kept.get(name, -1) < number}
        return [f"{name} lost its acknowledged number {number}: {kept.get(name)}" for name, number in lost.items()]

    async def _has_namespace(self) -> bool:
        try:
            await World(self.api).create(NAMESPACES, {"metadata": {"name": _NAMESPACE}})
        except AlreadyExists:
            return True
        except ApiError:
            return False
        return True

    async def _write(self, name: str, number: int) -> bool:
        """Whether it was acknowledged."""
        world, metadata = World(self.api), {"name": name, "namespace": _NAMESPACE}
        document = {"metadata": metadata, "data": {"number": str(number)}}
        try:
            try:
                await world.replace(CONFIG_MAPS, f"{_NAMESPACE}/{name}", document)
            except NotFound:
                await world.create(CONFIG_MAPS, document)
        except ApiError:
            return False
        return True
