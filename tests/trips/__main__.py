"""Counts the files and calls of three trips through the product: `make trace`.

A cluster event to the POST of a binding; a placement to its snapshots; and the first `GET …/why` of a placement.
Everything runs in one process on the embedded hub, which is not counted, and neither is the HTTP transport that it
stands in for. A call is any entry into a function of `api/`, `fleet/` or `plugins/`, resumed coroutines included; a
return is an entry into a file that the trip has been in before, from another one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Final

import structlog

from fleet.kube.api import Method, Request
from fleet.kube.scopes import find_scope
from tests.api.stage import Stage, a_stage

ROOT: Final = Path(__file__).resolve().parents[2]
COUNTED: Final = tuple(f"{ROOT / folder}/" for folder in ("api", "fleet", "plugins"))
NOT_COUNTED: Final = (
    *(f"{ROOT / folder}/" for folder in ("fleet/hub", "fleet/demo")),
    f"{ROOT / 'fleet/cli/scenario/memory_hub.py'}",
    f"{ROOT / 'fleet/nesting.py'}",
)
"""The embedded hub with what it alone calls there, and what stands in for the transport to it."""
WRITE_PATH: Final = tuple(f"{ROOT / folder}/" for folder in ("fleet/kube", "fleet/scheduler/dispatch"))
QUEUE: Final = f"{ROOT / 'fleet/kube/workqueue.py'}"
"""Where the next worker waits meanwhile."""
WHY: Final = "/v1/placements/-/big/why"


@dataclass
class Trip:
    name: str
    files: dict[str, int] = field(default_factory=dict)
    """Calls by file, in the order they were entered."""
    returns: int = 0
    since_decision: set[str] = field(default_factory=set)
    """Files entered after the last decision."""
    _last: str = ""
    _restore: Callable[[], None] = lambda: None

    @property
    def calls(self) -> int:
        return sum(self.files.values())

    def start(self) -> None:
        """In this thread, and in those that are handed work from here on."""
        loop = asyncio.get_running_loop()
        in_executor = loop.run_in_executor
        self._restore = lambda: setattr(loop, "run_in_executor", in_executor)
        loop.run_in_executor = lambda executor, work, *args: in_executor(  # type: ignore[method-assign]
            executor, self._in_thread, partial(work, *args)
        )
        sys.setprofile(self._enter)

    def _in_thread(self, work: Callable[[], Any]) -> Any:
        sys.setprofile(self._enter)
        try:
            return work()
        finally:
            sys.setprofile(None)

    def stop(self) -> None:
        sys.setprofile(None)
        self._restore()

    def _enter(self, frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "return" and frame.f_code.co_name == "decide":
            self.since_decision.clear()
        if event != "call" or not path.startswith(COUNTED) or path.startswith(NOT_COUNTED):
            return
        if path != self._last and path in self.files:
            self.returns += 1
        self._last = path
        self.since_decision.add(path)
        self.files[path] = self.files.get(path, 0) + 1


async def between(stage: Stage, trip: Trip, act: Callable[[], Any], *, until: Callable[[Request], bool]) -> Trip:
    """From the moment at which the hub has carried out `act` to the request that ends the trip."""
    call, arrived = stage.hub.call, asyncio.Event()
    acting = True

    async def traced(request: Request) -> bytes:
        nonlocal acting
        if not acting and until(request):
            trip.stop()
            arrived.set()
        answer = await call(request)
        if acting:
            acting = False
            trip.start()
        return answer

    stage.hub.call = traced  # type: ignore[method-assign]
    try:
        await act()
        await asyncio.wait_for(arrived.wait(), 60)
    finally:
        trip.stop()
        stage.hub.call = call  # type: ignore[method-assign]
    return trip


def creates(plural: str) -> Callable[[Request], bool]:
    return lambda request: request.method is Method.POST and request.path.endswith(f"/{plural}")


class Both:
    """True at the second of the two creates."""

    def __init__(self, *plurals: str) -> None:
        self._left = [creates(plural) for plural in plurals]

    def __call__(self, request: Request) -> bool:
        self._left = [expected for expected in self._left if not expected(request)]
        return not self._left


async def trace() -> list[Trip]:
    """The placement `big` lacks a cluster, which appears in the first trip. No other placement is there."""
    with TemporaryDirectory() as folder:
        async with a_stage(Path(folder)) as stage:
            world = stage.world
            for key in ("web", "shop/cache"):
                await world.delete(find_scope(key).placement, key)
            await settle()
            trips = [
                await between(
                    stage,
                    Trip("cluster event to POST of a binding"),
                    lambda: world.taint("osl-1"),
                    until=creates("clusterresourcebindings"),
                ),
                await between(
                    stage,
                    Trip("placement to its snapshots"),
                    lambda: world.place("new", {"placementType": "PickN", "numberOfClusters": 1}),
                    until=Both("clusterschedulingpolicysnapshots", "clusterresourcesnapshots"),
                ),
            ]
            await settle()
            return [*trips, await why(stage)]


async def why(stage: Stage) -> Trip:
    trip = Trip("GET why")
    async with stage.client() as client:
        (await client.get("/v1/placements/-/new/why")).raise_for_status()  # rights and times are known by then
        trip.start()
        try:
            answer = await client.get(WHY)
        finally:
            trip.stop()
        answer.raise_for_status()
    return trip


async def settle() -> None:
    await asyncio.sleep(3)


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    event, *others = asyncio.run(trace())
    for trip in (event, *others):
        print(f"{trip.name}: {len(trip.files)} files, {trip.calls} calls, {trip.returns} returns")
        if "--files" in sys.argv:
            for path, calls in trip.files.items():
                print(f"  {calls:5d}  {Path(path).relative_to(ROOT)}{' *' if path in trip.since_decision else ''}")
    writing = [path for path in event.since_decision if path.startswith(WRITE_PATH) and path != QUEUE]
    print(f"of it, to write the binding: {len(writing)} files of fleet/kube and fleet/scheduler/dispatch (* above)")


if __name__ == "__main__":
    main()
