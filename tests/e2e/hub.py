"""A hub under test, and how to get back to an empty one."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from fleet.clock import SystemClock
from fleet.errors import AlreadyExists, NotFound
from fleet.kube.api import Api, Method, Request
from fleet.kube.client.rate_limiter import RateLimit, RateLimiter
from fleet.kube.client.transport import Transport
from fleet.kube.objects import MERGE_PATCH
from fleet.model.catalog import CATALOG
from fleet.model.keys import CLUSTER_GROUP, PLACEMENT_GROUP, SCHEDULING_GROUP
from tests.conformance.crds import install_crds
from tests.conformance.embedded import new_hub
from tests.control_plane.access import Access
from tests.control_plane.waiting import SECONDS_TO_HAPPEN

LEASE_NAMESPACE: Final = "fleet-system"
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases"
_NO_FINALIZERS: Final = b'{"metadata": {"finalizers": null}}'
_UNLIMITED: Final = RateLimit(rate=1e6, burst=1_000_000)


@dataclass(frozen=True)
class Hub:
    target: str
    access: Access

    @asynccontextmanager
    async def connected(self, *, flow: RateLimiter | None = None) -> AsyncIterator[Transport]:
        """Fleet's own connection, as the administrator."""
        clock = SystemClock()
        budget = flow or RateLimiter(clock, default=_UNLIMITED)
        async with await Transport.from_kubeconfig(
            self.access.kubeconfig, clock=clock, rate_limiter=budget
        ) as transport:
            yield transport

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints; it has to succeed."""
        command = [str(self.access.kubectl), f"--kubeconfig={self.access.kubeconfig}", *arguments]
        # What it knows of a hub it keeps by address, and addresses come again.
        environment = os.environ | {"KUBECACHEDIR": str(self.access.kubeconfig.with_name("kubectl-cache"))}
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=120, env=environment, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def empty(self) -> None:
        """Nothing of Fleet's is left, whatever finalizers are on it."""
        asyncio.run(self._empty())

    async def _empty(self) -> None:
        namespace = msgspec.json.encode({"metadata": {"name": LEASE_NAMESPACE}})
        async with self.connected() as api:
            with suppress(AlreadyExists):
                await api.call(Request(Method.POST, "/api/v1/namespaces", body=namespace))
            for path in (*_collections(), _LEASES):  # one connection: handshakes cost more than all the rest
                await _erase_all(api, path)


async def _erase_all(api: Api, collection: str) -> None:
    found = msgspec.json.decode(await api.call(Request(Method.GET, collection)))
    for item in found["items"]:
        await _erase(api, _path_of(collection, item), item)


async def _erase(api: Api, path: str, item: dict[str, Any]) -> None:
    with suppress(NotFound):
        if item["metadata"].get("finalizers"):
            await api.call(Request(Method.PATCH, path, body=_NO_FINALIZERS, content_type=MERGE_PATCH))
        await api.call(Request(Method.DELETE, path))


@contextmanager
def fresh_access(target: str, folder: Path) -> Iterator[Access]:
    """A hub of this target in a folder, with Fleet's kinds."""
    with new_hub(target, folder) as running:
        install_crds(running.access)
        yield running.access


def _collections() -> list[str]:
    return [
        f"/apis/{one.group}/{one.storage}/{one.plural}"
        for one in CATALOG
        if one.group in (CLUSTER_GROUP, PLACEMENT_GROUP, SCHEDULING_GROUP) and not one.on_member
    ]


def _path_of(collection: str, item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    root, _, plural = collection.rpartition("/")
    root = root.partition("/namespaces/")[0]
    within = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{root}{within}/{plural}/{metadata['name']}"


async def soon(look: Any, *, within: float = SECONDS_TO_HAPPEN, pause: float = 0.02) -> Any:
    """The first answer of `look` that is true; fails with the last one, or with what the last look raised.

    The longer it has waited, the longer it waits before it looks again: in virtual time, waiting costs nothing else.
    """
    async with asyncio.timeout(within + 5):
        begun = asyncio.get_running_loop().time()
        while True:
            found = await look()
            if found:
                return found
            waited = asyncio.get_running_loop().time() - begun
            if waited > within:
                raise AssertionError(f"not within {within:g} s, last seen: {found!r}")
            await asyncio.sleep(max(pause, min(waited / 10, within - waited)))
