"""Profiles of a running process, and who may ask for them."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from fleet.clock import SystemClock
from fleet.manager.debug_pages import DebugPages
from fleet.manager.health import HealthChecks, HealthServer
from fleet.manager.profiling import describe_heap, describe_stacks, profile_cpu
from fleet.settings import Address
from fleet.worker_thread import Precedence

FREE = Address("127.0.0.1:0")


def compute_endlessly(stopping: threading.Event) -> None:
    while not stopping.is_set():
        sum(range(1000))


@contextmanager
def a_thread(target: Any) -> Iterator[threading.Event]:
    stopping = threading.Event()
    thread = threading.Thread(target=target, args=(stopping,), name="busy; one")
    thread.start()
    try:
        yield stopping
    finally:
        stopping.set()
        thread.join()


def render(name: str, **scope: Any) -> tuple[int, str]:
    async def run() -> tuple[int, str]:
        pages = DebugPages()
        try:
            given = {"path": f"/debug/{name}", "query_string": b"", "client": ("127.0.0.1", 1), "headers": []}
            return await pages.render(given | scope)
        finally:
            pages.close()

    return asyncio.run(run())


def test_a_profile_has_the_calls_that_took_time_and_how_much() -> None:
    with a_thread(threading.Event.wait), a_thread(compute_endlessly):
        lines = profile_cpu(0.3).splitlines()

    assert lines
    for line in lines:
        assert re.fullmatch(r"\S+ [0-9]+", line), line
    (busiest, microseconds) = lines[0].rsplit(" ", 1)
    assert busiest.startswith("busy,_one;")
    assert busiest.endswith(".compute_endlessly")
    assert int(microseconds) > 0


def test_stacks_show_what_threads_and_tasks_wait_for() -> None:
    async def wait_inside() -> None:
        await asyncio.Event().wait()

    async def wait_outside() -> None:
        await wait_inside()

    async def run() -> str:
        task = asyncio.create_task(wait_outside(), name="a waiting one")
        preceding = asyncio.create_task(Precedence().run(wait_outside()), name="a preceding one")
        await asyncio.sleep(0)
        text = describe_stacks(asyncio.all_tasks())
        task.cancel()
        preceding.cancel()
        return text

    with a_thread(threading.Event.wait):
        text = asyncio.run(run())

    blocks = {block.partition("\n")[0]: block for block in text.split("\n\n")}
    assert "threading.Event.wait" in blocks["thread busy; one"]
    for name, outside in (("task a waiting one", []), ("task a preceding one", ["run"])):
        calls = [call.rpartition(".")[2].partition(":")[0] for call in re.findall(r"\S+:[0-9]+", blocks[name])]
        assert calls == [*outside, "wait_outside", "wait_inside", "wait"]


def test_the_heap_is_told_by_type() -> None:
    class Marked(list[int]):
        pass

    kept = [Marked() for _ in range(200_000)]
    (row,) = [line for line in describe_heap().splitlines() if line.endswith(Marked.__qualname__)]
    size, count, _ = row.split()
    assert int(count) == len(kept)
    assert int(size) >= 200_000 * 40


@pytest.mark.parametrize(
    "scope",
    [
        {"client": ("10.1.2.3", 1)},
        {"client": ("::ffff:10.1.2.3", 1)},
        {"client": None},
        {"headers": [(b"x-forwarded-for", b"10.1.2.3")]},
        {"headers": [(b"forwarded", b"for=10.1.2.3")]},
        {"headers": [(b"host", b"rebound.example")]},
        {"headers": [(b"host", b"rebound.example:8080")]},
        {"headers": [(b"host", b"localhost.rebound.example")]},
        {"headers": [(b"host", b"10.1.2.3:8080")]},
        {"headers": [(b"host", b"[::1")]},
        {"headers": [(b"host", b"")]},
        {"headers": [(b"host", b"localhost"), (b"host", b"rebound.example")]},
    ],
)
def test_profiles_are_for_callers_on_the_machine_only(scope: dict[str, Any]) -> None:
    assert render("stacks", **scope)[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_every_loopback_address_is_the_machine(host: str) -> None:
    status, text = render("stacks", client=(host, 1))
    assert status == 200
    assert "task " in text


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "127.0.0.2"])
def test_the_machine_may_be_named(host: str) -> None:
    assert render("stacks", headers=[(b"host", host.encode())])[0] == 200


@pytest.mark.parametrize("seconds", ["0", "61", "-1", "1.5", "", "x", "9" * 5000, "00600", "00011234567"])
def test_a_profile_has_bounds(seconds: str) -> None:
    status, text = render("profile", query_string=f"seconds={seconds}".encode())
    assert (status, text) == (400, "400: seconds should be a whole number of 1 to 60\n")


def test_an_unknown_page_names_those_that_there_are() -> None:
    assert render("trace") == (404, "404: there are profile, stacks and heap\n")


@asynccontextmanager
async def a_server() -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """Its address, and a client."""
    checks, registry = HealthChecks(SystemClock()), CollectorRegistry()
    server = HealthServer(checks, registry, health_address=FREE, metrics_address=FREE, is_profiled=True)
    async with server, aiohttp.ClientSession() as session:
        assert server.metrics_address is not None
        yield session, f"http://127.0.0.1:{server.metrics_address[1]}"


def test_one_page_at_a_time_and_the_probes_are_answered_meanwhile() -> None:
    async def run() -> None:
        async with a_server() as (session, url):

            async def ask(path: str) -> int:
                async with session.get(f"{url}{path}") as answer:
                    return answer.status

            profile = asyncio.create_task(ask("/debug/profile?seconds=1"))
            while await ask("/debug/stacks") != 429:
                pass
            assert await ask("/livez") == 200
            assert not profile.done()
            assert await profile == 200
            assert await ask("/debug/stacks") == 200
            async with session.post(f"{url}/debug/stacks") as answer:
                assert answer.status == 405

    asyncio.run(run())


def test_a_caller_who_has_gone_keeps_others_waiting_no_longer_than_the_profile_takes() -> None:
    async def run() -> None:
        async with a_server() as (session, url):
            gone = asyncio.create_task(session.get(f"{url}/debug/profile?seconds=1"))
            while (await session.get(f"{url}/debug/stacks")).status != 429:
                pass
            gone.cancel()
            while (await session.get(f"{url}/debug/stacks")).status != 200:
                pass

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_server_that_ends_does_not_wait_for_a_profile() -> None:
    async def run() -> None:
        checks, registry = HealthChecks(SystemClock()), CollectorRegistry()
        server = HealthServer(checks, registry, health_address=FREE, metrics_address=FREE, is_profiled=True)
        async with aiohttp.ClientSession() as session:
            async with server:
                assert server.metrics_address is not None
                url = f"http://127.0.0.1:{server.metrics_address[1]}/debug"
                profile = asyncio.create_task(session.get(f"{url}/profile?seconds=60"))
                while (await session.get(f"{url}/debug/stacks")).status != 429:
                    pass
            with pytest.raises(aiohttp.ClientError):
                (await profile).raise_for_status()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_without_the_setting_there_are_no_such_pages() -> None:
    async def run() -> None:
        checks, registry = HealthChecks(SystemClock()), CollectorRegistry()
        server = HealthServer(checks, registry, health_address=FREE, metrics_address=FREE)
        async with server, aiohttp.ClientSession() as session:
            assert server.metrics_address is not None
            for name in ("profile", "stacks", "heap"):
                url = f"http://127.0.0.1:{server.metrics_address[1]}/debug/{name}"
                async with session.get(url) as answer:
                    assert answer.status == 404

    asyncio.run(run())
