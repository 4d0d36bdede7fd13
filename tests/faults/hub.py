"""What a well-behaved API server knows about one kind: its objects now, and how they came to be."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field
from typing import Any

import msgspec

Document = dict[str, Any]


@dataclass(frozen=True)
class Happened:
    version: int
    type: str
    document: Document

    def line(self) -> bytes:
        return msgspec.json.encode({"type": self.type, "object": self.document}) + b"\n"


@dataclass
class Hub:
    """Versions are counted over everything, as in etcd."""

    version: int = 100
    objects: dict[str, Document] = field(default_factory=dict)
    history: list[Happened] = field(default_factory=list)
    oldest: int = 0
    """Versions before this one are compacted."""
    _born: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, name: str, **fields: Any) -> Document:
        """Creates the object or changes it; a PUT of the same content counts as a change."""
        before = self.objects.get(name)
        self._born += before is None
        uid = before["metadata"]["uid"] if before else f"uid-{self._born}"
        document = {"metadata": {"name": name, "uid": uid}, **fields}
        return self._happen("MODIFIED" if before else "ADDED", name, document)

    def delete(self, name: str) -> Document:
        document = self.objects[name]
        return self._happen("DELETED", name, copy.deepcopy(document))

    def compact(self) -> None:
        self.oldest = self.version

    def set_back(self, to: Hub) -> None:
        """Restored from a backup: everything since is forgotten, the versions too."""
        self.version, self.oldest = to.version, to.version
        self.objects, self.history = copy.deepcopy(to.objects), []
        self.announce()

    def backup(self) -> Hub:
        return Hub(version=self.version, objects=copy.deepcopy(self.objects))

    def since(self, version: int) -> list[Happened]:
        return [one for one in self.history if one.version > version]

    async def news(self) -> None:
        await self._news.wait()

    def announce(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def state(self) -> dict[str, str]:
        """What a cache should hold: the version of each object."""
        return {name: document["metadata"]["resourceVersion"] for name, document in self.objects.items()}

    def _happen(self, type: str, name: str, document: Document) -> Document:
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        if type == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = document
        self.history.append(Happened(self.version, type, copy.deepcopy(document)))
        self.announce()
        return document
