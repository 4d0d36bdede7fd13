"""Probes over real sockets: what is wrong is named, the loop is watched, everything ends cleanly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from fleet.clock import SystemClock
from fleet.errors import ConfigurationError
from fleet.manager.health import HealthChecks, HealthServer
from fleet.settings import Address
from tests.fake_clock import FakeClock
from tests.faults.virtual import VirtualClock, virtual

FREE = Address("127.0.0.1:0")
OFF = Address("off")


Ask = Callable[[str], Awaitable[tuple[int, str]]]


def asked(
    check: Callable[[HealthServer, Ask], Awaitable[None]],
    health: HealthChecks | None = None,
    registry: CollectorRegistry | None = None,
    *,
    address: Address = FREE,
    metrics_address: Address | None = None,
) -> None:
    """Runs the check against a server, and the server around it."""

    async def run() -> None:
        server = HealthServer(
            health or HealthChecks(SystemClock()),
            registry or CollectorRegistry(),
            health_address=address,
            metrics_address=metrics_address or address,
        )
        async with server, aiohttp.ClientSession() as session:

            async def ask(path: str) -> tuple[int, str]:
                bound = server.metrics_address if path == "/metrics" else server.health_address
                assert bound is not None
                async with session.get(f"http://127.0.0.1:{bound[1]}{path}") as answer:
                    return answer.status, await answer.text()

            await check(server, ask)

    asyncio.run(run())


def want(path: str, status: int, text: str, health: HealthChecks) -> None:
    async def check(server: HealthServer, ask: Ask) -> None:
        assert await ask(path) == (status, text)

    asked(check, health)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def health(clock: FakeClock) -> HealthChecks:
    return HealthChecks(clock)


# --- probes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_when_all_is_well_the_answer_is_short(path: str, health: HealthChecks) -> None:
    health.add_readiness_check("stores", list)
    want(path, 200, "ok", health)


def test_on_request_it_names_what_was_looked_at(health: HealthChecks) -> None:
    health.add_readiness_check("stores", list)
    want("/readyz?verbose", 200, "[+]stores ok\nreadyz check passed\n", health)


def test_what_is_missing_is_named_beside_what_is_there(health: HealthChecks) -> None:
    health.add_readiness_check("stores", lambda: ["MemberCluster", "ClusterResourceBinding"])
    health.add_readiness_check("lease", list)
    text = "[-]stores failed: MemberCluster, ClusterResourceBinding\n[+]lease ok\nreadyz check failed\n"
    want("/readyz", 503, text, health)


def test_what_is_not_ready_is_alive(health: HealthChecks) -> None:
    health.add_readiness_check("stores", lambda: ["MemberCluster"])
    want("/livez", 200, "ok", health)


def test_readiness_is_asked_anew_every_time(health: HealthChecks) -> None:
    missing = ["MemberCluster"]
    health.add_readiness_check("stores", lambda: missing)

    async def check(server: HealthServer, ask: Ask) -> None:
        assert (await ask("/readyz"))[0] == 503
        missing.clear()
        assert (await ask("/readyz"))[0] == 200

    asked(check, health)


def test_a_loop_that_does_not_turn_is_not_alive(health: HealthChecks, clock: FakeClock) -> None:
    clock.advance(31)
    assert health.liveness()["event-loop"] == "silent for 31 s, expected every 30 s"


@virtual
async def test_a_loop_that_turns_is_alive_however_long() -> None:
    health = HealthChecks(VirtualClock())
    watching = asyncio.create_task(health.watch_event_loop())
    await asyncio.sleep(3600)
    assert health.liveness() == {"event-loop": ""}
    watching.cancel()


def test_who_gives_no_sign_of_life_is_named(health: HealthChecks) -> None:
    health.add_liveness_check("scheduler", lambda: 61.4, within=60)
    health.add_liveness_check("events", lambda: 59.0, within=60)
    text = "[+]event-loop ok\n[-]scheduler failed: silent for 61 s, expected every 60 s\n[+]events ok\n"
    want("/livez", 503, f"{text}livez check failed\n", health)


# --- figures and addresses --------------------------------------------------------------------------------------------


def test_figures_are_served_beside_the_probes() -> None:
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc(3)

    async def check(server: HealthServer, ask: Ask) -> None:
        assert server.metrics_address == server.health_address
        status, text = await ask("/metrics")
        assert status == 200
        assert "things_total 3.0" in text

    asked(check, registry=registry)


def test_figures_may_have_an_address_of_their_own() -> None:
    async def check(server: HealthServer, ask: Ask) -> None:
        assert server.metrics_address != server.health_address
        assert (await ask("/metrics"))[0] == 200
        assert server.health_address is not None
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{server.health_address[1]}/metrics"
            async with session.get(url) as answer:
                assert answer.status == 404

    asked(check, metrics_address=Address("localhost:0"))


@pytest.mark.parametrize(
    "accepted, content", [("", "text/plain"), ("application/openmetrics-text", "application/openmetrics-text")]
)
def test_figures_come_in_the_format_that_is_asked_for(accepted: str, content: str) -> None:
    async def check(server: HealthServer, ask: Ask) -> None:
        assert server.metrics_address is not None
        url = f"http://127.0.0.1:{server.metrics_address[1]}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url, headers={"Accept": accepted}) as answer:
            assert answer.content_type == content

    asked(check)


def test_what_is_off_listens_nowhere() -> None:
    async def check(server: HealthServer, ask: Ask) -> None:
        assert (server.health_address, server.metrics_address) == (None, None)

    asked(check, address=OFF)


def test_no_host_means_all_interfaces() -> None:
    async def check(server: HealthServer, ask: Ask) -> None:
        assert (await ask("/livez"))[0] == 200

    asked(check, address=Address(":0"))


def test_an_address_that_is_taken_is_named_and_nothing_stays_open() -> None:
    async def check(server: HealthServer, ask: Ask) -> None:
        assert server.health_address is not None
        taken = Address(f"127.0.0.1:{server.health_address[1]}")
        second = HealthServer(
            HealthChecks(SystemClock()), CollectorRegistry(), health_address=FREE, metrics_address=taken
        )
        before = asyncio.all_tasks()
        with pytest.raises(ConfigurationError, match=rf"metrics\.address: cannot listen on {taken}: .*in use"):
            await second.__aenter__()
        assert asyncio.all_tasks() == before

    asked(check)


def test_after_the_end_nobody_listens_and_nothing_runs() -> None:
    async def run() -> None:
        server = HealthServer(
            HealthChecks(SystemClock()), CollectorRegistry(), health_address=FREE, metrics_address=FREE
        )
        async with server:
            assert server.health_address is not None
            port = server.health_address[1]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with pytest.raises(OSError, match="Connect"):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(run())


def test_a_check_that_fails_is_an_error_of_that_request_only(health: HealthChecks) -> None:
    calls: list[Any] = []

    def missing() -> list[str]:
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError
        return []

    health.add_readiness_check("stores", missing)

    async def check(server: HealthServer, ask: Ask) -> None:
        assert (await ask("/readyz"))[0] == 500
        assert (await ask("/readyz"))[0] == 200

    asked(check, health)


def test_pages_are_served_beside_the_metrics_and_nowhere_else() -> None:
    pages = {"/v1/profiles": b"[]"}

    async def main() -> None:
        for health, metrics, status in ((OFF, FREE, 200), (FREE, OFF, 404)):
            checks, registry = HealthChecks(SystemClock()), CollectorRegistry()
            server = HealthServer(checks, registry, health_address=health, metrics_address=metrics, find_page=pages.get)
            async with server, aiohttp.ClientSession() as session:
                bound = server.metrics_address or server.health_address
                assert bound is not None
                async with session.get(f"http://127.0.0.1:{bound[1]}/v1/profiles") as answer:
                    assert answer.status == status
                    assert (answer.content_type == "application/json") == (status == 200)

    asyncio.run(main())
