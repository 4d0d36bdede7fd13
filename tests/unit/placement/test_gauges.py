"""Figures that are counted when somebody asks."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from fleet.placement.metrics import compute_heartbeat_ages, count_bindings_by_state
from tests.builders import a_binding, a_cluster
from tests.fake_clock import FakeClock
from tests.faults.hub_api import a_hub
from tests.faults.virtual import virtual
from tests.unit.manager.test_manager import a_controller, a_placement, running
from tests.unit.scheduler.watching import World, observed


def test_bindings_are_counted_by_state_in_both_scopes() -> None:
    world = World().saw(
        a_binding("c1", name="web-c1").build(),
        a_binding("c2", name="web-c2").bound().build(),
        a_binding("c3", name="api-c3").in_namespace("team").bound().build(),
    )
    assert count_bindings_by_state(world.caches) == {"Scheduled": 1, "Bound": 2}


def test_a_cluster_has_the_age_of_its_last_heartbeat() -> None:
    world = World().saw(a_cluster("c7").heard(90), a_cluster("c8").never_heard())
    assert compute_heartbeat_ages(world.caches, FakeClock()) == {"c7": pytest.approx(90)}


@virtual
async def test_snapshots_are_counted_and_weighed_by_kind() -> None:
    hub = a_hub()
    await a_placement(hub, "web")
    await a_placement(hub, "api")
    controller = a_controller(hub, elects=False)
    async with running(controller):
        await asyncio.sleep(60)
        values = controller.registry.get_sample_value
        for kind in ("ClusterSchedulingPolicySnapshot", "ClusterResourceSnapshot"):
            stored = await hub.list(f"/apis/placement.kubernetes-fleet.io/v1beta1/{kind.lower()}s")
            assert values("fleet_snapshots", {"kind": kind}) == len(stored) == 2
            assert values("fleet_snapshot_bytes", {"kind": kind}) == pytest.approx(sum(map(size_of, stored)), rel=0.05)
        assert values("fleet_snapshots", {"kind": "ResourceSnapshot"}) == 0


def size_of(document: dict[str, Any]) -> int:
    return len(msgspec.json.encode(document))


@virtual
async def test_the_controller_tells_them() -> None:
    controller = a_controller(a_hub())
    controller.caches.kinds[0].bindings.store.apply_event(observed(a_binding("c1").build()))
    controller.caches.clusters.apply_event(a_cluster("c7").build())
    assert controller.registry.get_sample_value("fleet_bindings", {"state": "Scheduled"}) == 1
    assert controller.registry.get_sample_value("fleet_cluster_heartbeat_age_seconds", {"cluster": "c7"}) is not None
