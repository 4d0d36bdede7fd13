"""Scenes in which Fleet's own client speaks to a hub."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from fleet.clock import SystemClock
from fleet.kube.client.transport import Transport
from tests.control_plane.access import Access

SECONDS: Final = 150

Scene = Callable[[Transport], Awaitable[None]]


def play(access: Access, scene: Scene, *, seconds: float = SECONDS) -> None:
    """Runs a scene in which a client is connected by the administrator's kubeconfig."""

    async def connected() -> None:
        clock = SystemClock()
        async with (
            asyncio.timeout(seconds),
            await Transport.from_kubeconfig(access.kubeconfig, clock=clock) as transport,
        ):
            await scene(transport)

    asyncio.run(connected())
