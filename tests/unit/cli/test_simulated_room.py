"""Room for what a placement requests, as `fleet simulate` and `fleet diff` tell it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Fleet
from tests.unit.cli.manifests import Manifest, binding, member, placement, sized, snapshot, wanting
from tests.unit.cli.profiled import (
    Decide,
    Run,
    deciding,
    rejection,
    score_of,
    simulate_profile,
    targets,
)

LATER = "2026-03-10T09:05:00Z"


@pytest.fixture
def run(tmp_path: Path, fleet: Fleet) -> Run:
    return simulate_profile(tmp_path, fleet, LATER)


@pytest.fixture
def decide(run: Run) -> Decide:
    return deciding(run)


@pytest.mark.parametrize(
    "cluster, reason, message",
    [
        (
            sized("a", has={"cpu": "4", "memory": "8Gi"}, free={"cpu": "1500m", "memory": "8Gi"}),
            "InsufficientCapacity",
            "needs cpu 2, and 1500m of 4 is free: 500m is missing",
        ),
        (
            sized("a", has={"cpu": "1", "memory": "8Gi"}),
            "NeverFits",
            "needs cpu 2, and the cluster has 1 in all",
        ),
        (
            sized("a", has={"cpu": "1", "memory": "8Gi"}, free={"cpu": "0", "memory": "8Gi"}, max_cpu="3"),
            "InsufficientCapacity",
            "needs cpu 2, and 0 of 1 is free: 2 is missing, until it has scaled up",
        ),
        (
            sized("a", has={"cpu": "1", "memory": "8Gi"}, free={"cpu": "0", "memory": "8Gi"}, max_cpu="2900m"),
            "NeverFits",
            "needs cpu 2, and the cluster has 1 in all",
        ),
        (
            sized("a", has={"cpu": "4", "memory": "8Gi"}, free={"cpu": "4", "memory": "1Gi"}),
            "InsufficientCapacity",
            "needs memory 4Gi, and 1Gi of 8Gi is free: 3Gi is missing",
        ),
        (sized("a", has={"cpu": "4"}), "ResourceUnknown", "needs memory 4Gi, and the cluster does not report memory"),
    ],
    ids=["too little", "never", "after scaling up", "not even then", "the second resource", "not reported"],
)
def test_X_14_a_cluster_without_room_is_rejected_with_numbers(
    decide: Decide, cluster: Manifest, reason: str, message: str
) -> None:
    (decided,) = decide(cluster, wanting("web", "cpu=2,memory=4Gi"), ResourceFit={"unknown": "Reject"})

    assert rejection(decided, "a") == (reason, message)


def test_X_14_what_is_not_reported_counts_as_enough_and_is_remarked(decide: Decide) -> None:
    (decided,) = decide(member("a"), wanting("web", "cpu=2"))

    assert targets(decided) == ["a"]
    (warning,) = decided["answer"]["attempt"]["warnings"]
    assert (warning["kind"], warning["subject"], warning["clusters"]) == ("ResourceUnknown", "cpu", ["a"])


def test_X_14_the_table_says_what_is_free_and_what_is_taken(run: Run) -> None:
    clusters = [sized(name, has={"cpu": "4"}, free={"cpu": free}) for name, free in (("a", "1500m"), ("b", "1"))]
    manifests = (*clusters, member("c"), wanting("web", "cpu=2", 3))
    ran, why = run(*manifests, options=()), run(*manifests, options=("--why", "a"))

    assert "ResourceFit      2  a        cpu 2 (1500m free)  b" in ran.out
    assert "cpu is requested and not reported, so it counts as enough, on c" in ran.out
    for line in (
        "needs cpu 2, and 1500m of 4 is free: 500m is missing",
        "used 2500m, booked 0",
    ):
        assert line in " ".join(why.out.split())


@pytest.mark.parametrize(
    "requests, message",
    [
        ("cpu=lots", "'lots' is no quantity for cpu: write cpu=4, 500m or 16Gi"),
        ("cpu", "'' is no quantity for cpu: write cpu=4, 500m or 16Gi"),
        ("memory=-1Gi", "-1Gi of memory is negative: write 0 or more"),
        ("c p u=1", "'c p u' is no name of a resource, such as cpu, memory or example.com/gpu"),
        ("cpu=1E", "1E of cpu is more than any cluster has"),
    ],
)
def test_a_request_that_cannot_be_read_is_named(decide: Decide, requests: str, message: str) -> None:
    (decided,) = decide(member("a"), wanting("web", requests))

    verdict = decided["answer"]["verdict"]
    assert targets(decided) == []
    assert message in json.dumps(verdict)


def test_a_placement_without_requests_is_decided_as_ever(decide: Decide) -> None:
    full = sized("a", has={"cpu": "1"}, free={"cpu": "0"})
    (decided,) = decide(full, placement("web", placementType="PickN", numberOfClusters=1))

    assert targets(decided) == ["a"]


# --- how clusters rank ------------------------------------------------------------------------------------------------

HALF = sized("half", has={"cpu": "4", "memory": "8Gi"}, free={"cpu": "2", "memory": "4Gi"})
EMPTY = sized("empty", has={"cpu": "4", "memory": "8Gi"})
UNEVEN = sized("uneven", has={"cpu": "4", "memory": "8Gi"}, free={"cpu": "4", "memory": "2Gi"})
NO_MEMORY = sized("silent", has={"cpu": "4"}, free={"cpu": "3"})


@pytest.mark.parametrize(
    "strategy, expected",
    [
        # cpu=1, memory=1Gi: (free - r) / room, the mean of both, in percent.
        ("LeastAllocated", {"half": 31, "empty": 81, "uneven": 44, "silent": 25}),
        ("MostAllocated", {"half": 69, "empty": 19, "uneven": 56, "silent": 25}),
    ],
)
def test_X_15_scores_of_room(decide: Decide, strategy: str, expected: Mapping[str, int]) -> None:
    (decided,) = decide(
        HALF, EMPTY, UNEVEN, NO_MEMORY, wanting("web", "cpu=1,memory=1Gi", 4), ResourceFit={"strategy": strategy}
    )

    assert {name: score_of(decided, name, "ResourceFit") for name in expected} == expected


def test_X_15_scores_of_balance(decide: Decide) -> None:
    """100 times (1 - standard deviation of the used shares): 3/4 and 5/8; 1/4 and 1/8; 1/4 and 7/8; 1/2 alone."""
    (decided,) = decide(HALF, EMPTY, UNEVEN, NO_MEMORY, wanting("web", "cpu=1,memory=1Gi", 4))

    expected = {"half": 94, "empty": 94, "uneven": 69, "silent": 100}
    assert {name: score_of(decided, name, "BalancedAllocation") for name in expected} == expected


@pytest.mark.parametrize("free, score", [("0", 63), ("-1Gi", 0)], ids=["full", "overcommitted"])
def test_X_15_an_overcommitted_cluster_has_no_balance(decide: Decide, free: str, score: int) -> None:
    cluster = sized("a", has={"cpu": "4", "memory": "8Gi"}, free={"cpu": "4", "memory": free})
    (decided,) = decide(cluster, wanting("web", "cpu=1"))

    assert score_of(decided, "a", "BalancedAllocation") == score


# --- several placements -----------------------------------------------------------------------------------------------


def test_what_one_placement_gets_is_not_there_for_the_next(decide: Decide) -> None:
    clusters = [sized(name, has={"cpu": "2"}) for name in "ab"]
    decisions = decide(*clusters, *(wanting(f"web{number}", "cpu=1") for number in range(6)))

    assert [len(targets(each)) for each in decisions] == [1, 1, 1, 1, 0, 0]


def test_a_binding_that_no_report_includes_takes_room(decide: Decide) -> None:
    applied = {"type": "Applied", "status": "True", "reason": "Applied", "message": "", "observedGeneration": 1}
    for applied_at, fits in (("2026-03-10T09:00:01Z", False), ("2026-03-10T08:59:59Z", True), (None, False)):
        bound = binding("a", of="db", snapshot="db-0", state="Bound")
        if applied_at is not None:
            bound["status"] = {"conditions": [{**applied, "lastTransitionTime": applied_at}]}
        taken = snapshot("db-0", of="db", number=1, placementType="PickN", numberOfClusters=1)
        owner = wanting("db", "cpu=2")
        decisions = decide(sized("a", has={"cpu": "2"}), owner, taken, bound, wanting("web", "cpu=1"))
        (web,) = [each for each in decisions if each["answer"]["placement"]["name"] == "web"]
        assert bool(targets(web)) is fits, applied_at
