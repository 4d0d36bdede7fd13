"""A binding is created or updated only while the decision is about the placement and the policy as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from fleet.errors import StaleInputs
from fleet.informers.cache import PlacementKinds, PolicyVersion
from fleet.model.keys import IS_LATEST_SNAPSHOT, NUMBER_OF_CLUSTERS, PLACEMENT_GENERATION
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Metadata, Observed, Placement, PolicySnapshot
from fleet.scheduler.dispatch.binding_calls import Precondition

KEY = PlacementKey("team", "web")


def a_placement(uid: str = "p1", **changes: Any) -> Observed[Placement]:
    return Observed(Placement(metadata=Metadata(name="web", namespace="team", uid=uid, **changes)), b"{}")


def a_snapshot(uid: str = "s1", *, count: str = "2", generation: str = "7", latest: str = "true") -> PolicySnapshot:
    return PolicySnapshot(
        metadata=Metadata(
            name="web-0",
            namespace="team",
            uid=uid,
            labels={IS_LATEST_SNAPSHOT: latest},
            annotations={NUMBER_OF_CLUSTERS: count, PLACEMENT_GENERATION: generation},
        )
    )


@dataclass
class Kinds:
    """Of the informers, what a precondition reads."""

    placement: Observed[Placement] | None
    latest: list[PolicySnapshot]

    def get_placement(self, key: PlacementKey) -> Observed[Placement] | None:
        assert key == KEY
        return self.placement

    def latest_snapshots(self, key: PlacementKey) -> list[Observed[PolicySnapshot]]:
        assert key == KEY
        return [Observed(snapshot, b"{}") for snapshot in self.latest]


def check(placement: Observed[Placement] | None, *latest: PolicySnapshot) -> None:
    precondition = Precondition(KEY, "p1", PolicyVersion.of(a_snapshot()))
    precondition.check(cast(PlacementKinds, Kinds(placement, list(latest))))


def test_an_unchanged_placement_passes() -> None:
    check(a_placement(), a_snapshot())


def test_a_placement_that_the_cache_lacks_may_exist() -> None:
    check(None, a_snapshot())


@pytest.mark.parametrize("placement", [a_placement("p2"), a_placement(deletion_timestamp="2026-01-01T00:00:00Z")])
def test_a_deleted_placement_gets_no_bindings(placement: Observed[Placement]) -> None:
    with pytest.raises(StaleInputs, match="placement team/web was deleted after the decision"):
        check(placement, a_snapshot())


@pytest.mark.parametrize(
    "latest",
    [
        [],
        [a_snapshot("s2")],
        [a_snapshot(count="1")],
        [a_snapshot(generation="8")],
        [a_snapshot(latest="false")],
    ],
)
def test_a_changed_policy_gets_no_bindings(latest: list[PolicySnapshot]) -> None:
    with pytest.raises(StaleInputs, match="policy snapshot team/web-0 changed after the decision"):
        check(a_placement(), *latest)


def test_one_of_several_latest_snapshots_is_enough() -> None:
    check(a_placement(), a_snapshot("s2"), a_snapshot())
