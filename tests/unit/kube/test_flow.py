"""Budgets hold, class by class, and waits grow as they should."""

from __future__ import annotations

import asyncio

import pytest

from fleet.clock import SECOND, SystemClock
from fleet.kube.api import LEASE_CLASS
from fleet.kube.backoff import WATCH_BACKOFF, ExponentialBackoff, FailureBackoff
from fleet.kube.client.rate_limiter import RateLimit, RateLimiter, TokenBucket
from fleet.kube.resource import Resource, split_key
from fleet.model.catalog import CATALOG
from tests.faults.virtual import VirtualClock, no_jitter, virtual


def now() -> float:
    return asyncio.get_running_loop().time()


@virtual
async def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    flow = RateLimiter(VirtualClock(), default=RateLimit(rate=10, burst=5))
    for _ in range(15):
        await flow.acquire("read")
    assert now() == pytest.approx(1.0)


@virtual
async def test_who_waits_together_is_served_one_after_the_other() -> None:
    flow = RateLimiter(VirtualClock(), default=RateLimit(rate=10, burst=1))
    served = []

    async def caller(number: int) -> None:
        await flow.acquire("read")
        served.append((number, round(now(), 3)))

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(caller(number), name=f"caller {number}")
    assert served == [(0, 0), (1, 0.1), (2, 0.2), (3, 0.3)]


@virtual
async def test_one_class_cannot_starve_another() -> None:
    flow = RateLimiter(VirtualClock(), limits={"status": RateLimit(rate=0.001, burst=1)})
    await flow.acquire("status")
    async with asyncio.timeout(1):
        await flow.acquire("bind")


@virtual
async def test_leases_are_never_held_back() -> None:
    flow = RateLimiter(VirtualClock(), default=RateLimit(rate=0.001, burst=1))
    for _ in range(100):
        await flow.acquire(LEASE_CLASS)
    assert now() == 0


@virtual
async def test_who_gives_up_waiting_gives_the_token_back() -> None:
    flow = RateLimiter(VirtualClock(), default=RateLimit(rate=0.1, burst=1))
    await flow.acquire("read")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await flow.acquire("read")
    await flow.acquire("read")
    assert now() == pytest.approx(10)


def test_a_bucket_gives_its_burst_at_once_and_then_one_token_at_a_time() -> None:
    bucket = TokenBucket(RateLimit(rate=2, burst=3))
    assert [bucket.reserve(0) for _ in range(5)] == [0, 0, 0, SECOND // 2, SECOND]


def test_saved_tokens_are_no_more_than_the_burst() -> None:
    bucket = TokenBucket(RateLimit(rate=2, burst=3))
    for _ in range(3):
        bucket.reserve(0)
    assert [bucket.reserve(1000 * SECOND) for _ in range(4)] == [0, 0, 0, SECOND // 2]


@pytest.mark.parametrize(
    "budget", [RateLimit(rate=0, burst=1), RateLimit(rate=-1, burst=1), RateLimit(rate=1, burst=0)]
)
def test_a_budget_that_lets_nothing_pass_is_refused(budget: RateLimit) -> None:
    with pytest.raises(ValueError, match="lets nothing pass"):
        TokenBucket(budget)


def test_jitter_only_adds_to_a_wait() -> None:
    pace = ExponentialBackoff(initial=1, maximum=8, jitter=0.5)
    assert [pace.compute_delay(failures) for failures in range(6)] == [1, 2, 4, 8, 8, 8]
    assert [pace.compute_delay(failures, 1.0) for failures in range(2)] == [1.5, 3]
    assert pace.compute_delay(10**9) == 8


def test_a_wait_is_at_least_what_was_asked_for() -> None:
    backoff = FailureBackoff(WATCH_BACKOFF, no_jitter)
    assert backoff.next_delay(at_least=5) == 5
    assert backoff.next_delay(at_least=0.1) == 1.6
    backoff.reset()
    assert backoff.next_delay() == 0.8


def test_the_system_clock_elapses_and_knows_utc() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    assert clock.monotonic() >= before
    assert clock.now().utcoffset() is not None


# --- paths and keys ---------------------------------------------------------------------------------------------------

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
NODES = Resource("g.io", "v2", "nodes", "Node", namespaced=False)


def test_paths() -> None:
    assert PODS.collection() == "/api/v1/pods"
    assert PODS.collection("a") == "/api/v1/namespaces/a/pods"
    assert PODS.item("a/b", "status") == "/api/v1/namespaces/a/pods/b/status"
    assert NODES.collection("ignored") == "/apis/g.io/v2/nodes"
    assert NODES.item("a b?") == "/apis/g.io/v2/nodes/a%20b%3F"
    assert (PODS.api_version, NODES.api_version) == ("v1", "g.io/v2")


@pytest.mark.parametrize("resource, key", [(PODS, "b"), (NODES, "a/b"), (PODS, ""), (PODS, "a/b/c"), (PODS, "/b")])
def test_a_key_that_does_not_fit_its_kind_is_refused(resource: Resource, key: str) -> None:
    with pytest.raises(ValueError, match="is not a key"):
        resource.item(key)


@pytest.mark.parametrize("key, expected", [("a", ("", "a")), ("a/b", ("a", "b"))])
def test_keys_are_taken_apart(key: str, expected: tuple[str, str]) -> None:
    assert split_key(key) == expected


def test_fleets_own_kinds_have_their_place() -> None:
    paths = {known.kind: Resource.of(known).collection("x") for known in CATALOG}
    assert paths["MemberCluster"] == "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"
    assert paths["ResourceBinding"].endswith("/namespaces/x/resourcebindings")
