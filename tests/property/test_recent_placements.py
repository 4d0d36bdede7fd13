"""T-07: what is counted cluster by cluster equals a count of everything, after any sequence of events."""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec
import pytest

from fleet.informers.cache import Caches, FleetTable
from fleet.informers.placed_feeds import RecentPlacements
from fleet.kube.informer import InformerConfig
from fleet.model.placement_key import PlacementKey
from fleet.model.views import AgentStatus, Observed
from fleet.snapshot.sidedata import RECENT_PLACEMENTS, CpuUse, FeedSample
from tests.builders import a_binding, a_cluster, ago
from tests.conftest import LONG
from tests.fake_clock import FakeClock
from tests.unit.scheduler.watching import NoApi, with_metadata

CLUSTERS: Final = ("a", "b", "c")
PLACEMENTS: Final = ("p", "q", "r", "s")
STEPS: Final = 120


class Hub:
    def __init__(self, seed: int = 0) -> None:
        self.dice = random.Random(seed)
        self.clock = FakeClock()
        access = InformerConfig(reads=NoApi(), writes=NoApi(), clock=self.clock, jitter=lambda: 0.0)
        self.caches = Caches(access, namespaced_placements=False)
        self.loads = {"", "load"}
        self.lookups = 0
        self.recent = self.watch()
        self.table = FleetTable(self.caches.clusters, self.recent)
        self.samples: dict[str, FeedSample] = {}
        self.version = 0

    def watch(self) -> RecentPlacements:
        stores = [kinds.bindings.store for kinds in self.caches.kinds]
        return RecentPlacements(stores, loads_of=lambda: self.loads, use_of=self._find_use, clock=self.clock)

    def _find_use(self, key: PlacementKey, cluster: str) -> CpuUse:
        self.lookups += 1
        return CpuUse(unsized=1) if key.name == "p" else CpuUse(ord(cluster), ((700, 2), (50, 1)), 3)

    def _newer(self, view: Any) -> Any:
        self.version += 1
        return with_metadata(view, resource_version=str(self.version))

    def step(self) -> None:
        self.clock.advance(self.dice.choice((0.0, 1.0, 9.0, 40.0)))
        placement, cluster = self.dice.choice(PLACEMENTS), self.dice.choice(CLUSTERS)
        events = (self.bind, self.bind, self.unbind, self.measure, self.report, self.leave, self.switch)
        self.dice.choice(events)(placement, cluster)

    def bind(self, placement: str, cluster: str) -> None:
        binding = a_binding(cluster, name=f"{placement}-{cluster}").of_placement(placement)
        if self.dice.random() < 0.2:
            binding = binding.unscheduled()
        view = with_metadata(binding.build(), creation_timestamp=self._ago(0))
        view = self._newer(view)
        self.caches.kinds[0].bindings.store.apply_event(Observed(view, msgspec.json.encode(view)))

    def unbind(self, placement: str, cluster: str) -> None:
        self.version += 1
        store = self.caches.kinds[0].bindings.store
        store.apply_delete_event(f"{placement}-{cluster}", uid="", version=str(self.version))

    def measure(self, placement: str, cluster: str) -> None:
        sampled_at = self.clock.moment - self.dice.choice((0, 30, 90)) * 1_000_000_000
        self.samples["load"] = FeedSample({"cpu": {cluster: 10.0}}, sampled_at)
        self.table.feed("load", self.samples["load"])

    def report(self, placement: str, cluster: str) -> None:
        view = a_cluster(cluster).build()
        agents = (AgentStatus(type="MemberAgent", last_received_heartbeat=self._ago(self.dice.choice((0, 70)))),)
        status = msgspec.structs.replace(view.status, agent_status=agents)
        self.caches.clusters.apply_event(self._newer(msgspec.structs.replace(view, status=status)))

    def leave(self, placement: str, cluster: str) -> None:
        self.version += 1
        self.caches.clusters.apply_delete_event(cluster, uid="", version=str(self.version))

    def switch(self, placement: str, cluster: str) -> None:
        self.loads = set(self.dice.choice((("", "load"), ("",), ())))

    def _ago(self, seconds: float) -> str:
        return ago(seconds - self.clock.seconds)

    def read_columns(self, table: FleetTable) -> dict[str, dict[str, str]]:
        """What plugins read of clusters that are there."""
        frame = table.frame()
        feed = frame.feeds.get(RECENT_PLACEMENTS)
        columns = {} if feed is None else feed.columns
        rows = {name: frame.names.row_of(name) for name in self.caches.clusters}
        return {column: {name: str(values[row]) for name, row in rows.items()} for column, values in columns.items()}


@pytest.mark.parametrize("seed", range(600 if LONG else 15))
def test_T_07_counts_of_changed_clusters_equal_a_count_of_everything(seed: int) -> None:
    hub = Hub(seed)
    for _ in range(STEPS):
        hub.step()
        counted = hub.read_columns(hub.table)
        expected = RecentPlacements((), loads_of=lambda: hub.loads, use_of=hub._find_use, clock=hub.clock)
        expected._made = {cluster: dict(made) for cluster, made in hub.recent._made.items()}
        fresh = FleetTable(hub.caches.clusters, expected)
        for name, sample in hub.samples.items():
            fresh.feed(name, sample)
        assert counted == hub.read_columns(fresh)


def test_T_07_a_decision_counts_only_clusters_with_changes() -> None:
    hub = Hub()
    for number in range(100):
        for cluster in CLUSTERS:
            hub.recent.assume(PlacementKey("", f"web-{number}"), [cluster])
    hub.measure("", "a")
    for cluster in CLUSTERS:
        hub.report("", cluster)
    hub.table.frame()
    hub.lookups = 0
    hub.table.frame()
    assert hub.lookups == 0
    hub.recent.assume(PlacementKey("", "other"), ["b"])
    hub.table.frame()
    assert hub.lookups == 101
    hub.report("", "c")
    hub.table.frame()
    assert hub.lookups == 201
