"""README's walk, by hand: everything is done and seen with kubectl alone."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Final

import pytest

from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.timestamps import SECOND, parse_timestamp
from tests.e2e.placing import Hub, Json, Places, places, soon, soon_equal
from tests.e2e.scheduling import story

NS: Final = "e2e-walk"
SECONDS: Final = 90
"""Far more than it takes, because laptops are busy."""
TIMEOUT: Final = 300
"""Seconds of silence after which a cluster is stale."""
PLACEMENT: Final = f"""
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata:
  name: web
spec:
  resourceSelectors:
    - {{group: "", version: v1, kind: Namespace, name: {NS}}}
  policy:
    placementType: PickN
    numberOfClusters: 2
    affinity:
      clusterAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          clusterSelectorTerms:
            - labelSelector: {{matchLabels: {{env: prod}}}}
"""


class Terminal:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def run(self, line: str, *more: str, stdin: str | None = None) -> str:
        """A line as it is typed, without `kubectl`; `more` are arguments with spaces in them."""
        return await asyncio.to_thread(self._hub.kubectl, *line.split(), *more, stdin=stdin)

    async def patch(self, what: str, patch: Json) -> None:
        await self.run(f"patch {what} --type=merge -p", json.dumps(patch))

    async def table(self, line: str) -> tuple[list[str], list[list[str]]]:
        """Header and rows."""
        header, *rows = (await self.run(line)).splitlines()
        return header.split(), [row.split() for row in rows]

    async def clusters(self) -> list[str]:
        """Of the bindings that are in use, by name."""
        found = json.loads(await self.run("get crb -l kubernetes-fleet.io/parent-CRP=web -o json"))["items"]
        return sorted(one["spec"]["targetCluster"] for one in found if one["spec"]["state"] != "Unscheduled")

    async def soon_on(self, *clusters: str) -> None:
        await soon_equal(self.clusters, list(clusters), within=SECONDS)

    async def wait(self, what: str, condition: str) -> None:
        await self.run(f"wait {what} --for={condition} --timeout={SECONDS}s")


@story
@pytest.mark.servers  # kubectl
async def test_every_step_has_its_effect(hub: Hub) -> None:
    async with places(hub, f"eligibility.heartbeatTimeout={TIMEOUT}s", rolled_out=True) as fleet:
        terminal = Terminal(hub)
        await fleet.namespace(NS)
        for name in ("a", "b", "c", "d", "e"):
            await fleet.join(name, labels={"env": "prod" if name < "d" else "test"}, properties={}, available={})

        assert (
            await terminal.run("apply -f -", stdin=PLACEMENT)
            == "clusterresourceplacement.placement.kubernetes-fleet.io/web created\n"
        )
        await terminal.wait("crp/web", "condition=ClusterResourcePlacementScheduled")
        await terminal.wait("crp/web", "condition=ClusterResourcePlacementAvailable")
        await terminal.soon_on("b", "c")
        header, rows = await terminal.table("get crp")
        assert header == ["NAME", "GEN", "SCHEDULED", "SCHEDULED-GEN", "AVAILABLE", "AVAILABLE-GEN", "AGE"]
        assert [row[:-1] for row in rows] == [["web", "1", "True", "1", "True", "1"]]
        header, rows = await terminal.table("get crb")
        assert header == ["NAME", "WORKSYNCHRONIZED", "RESOURCESAPPLIED", "AGE"]
        assert [row[1:-1] for row in rows] == [["True", "True"], ["True", "True"]]
        assert [row[0][:6] for row in rows] == ["web-b-", "web-c-"]
        header, rows = await terminal.table("get memberclusters")
        assert header[:2] == ["NAME", "JOINED"]
        assert [row[0] for row in rows] == ["a", "b", "c", "d", "e"]

        # More clusters than there are with the label: the condition names the failure, and a label mends it.
        await terminal.patch("crp web", {"spec": {"policy": {"numberOfClusters": 4}}})
        await terminal.soon_on("a", "b", "c")
        await terminal.wait("crp/web", "condition=ClusterResourcePlacementScheduled=False")
        await terminal.run("label membercluster d env=prod --overwrite")
        await terminal.soon_on("a", "b", "c", "d")
        await terminal.wait("crp/web", "condition=ClusterResourcePlacementAvailable")

        # What is placed stays through a taint and a lost label; what is picked anew avoids both.
        await terminal.patch("membercluster d", {"spec": {"taints": [{"key": "down", "effect": "NoSchedule"}]}})
        await terminal.run("label membercluster a env-")
        await terminal.patch("crp web", {"spec": {"policy": {"numberOfClusters": 3}}})
        await terminal.soon_on("b", "c", "d")
        await terminal.run("label membercluster e env=prod --overwrite")

        # A silent cluster keeps what it has, and gets nothing new; one that leaves is replaced.
        for name in ("c", "e"):
            await fleet.report(name, silent_for=TIMEOUT - 1)
            await soon(lambda name=name: is_stale(fleet, name))
        await terminal.run("delete membercluster b")
        await terminal.soon_on("c", "d")
        await terminal.wait("crp/web", "condition=ClusterResourcePlacementScheduled=False")
        said = await terminal.run("get csps -o jsonpath={.items[*].status.targetClusters[*].reason}")
        assert "no recent heartbeat signals" in said
        await fleet.report("e")
        await terminal.soon_on("c", "d", "e")
        await terminal.wait("crp/web", "condition=ClusterResourcePlacementAvailable")

        await soon(
            lambda: described(terminal, "SchedulingChanged", "SchedulingIncomplete", "PlacementRolloutCompleted")
        )

        await terminal.run(f"delete crp web --timeout={SECONDS}s")
        await terminal.soon_on()
        for kinds in ("crp", "csps,crs", "crb"):
            assert await terminal.run(f"get {kinds} -o name") == ""


async def is_stale(fleet: Places, cluster: str) -> bool:
    """Nobody writes that down: time passes."""
    agent = (await fleet.get(MEMBER_CLUSTERS, cluster))["status"]["agentStatus"][0]
    return time.time_ns() > parse_timestamp(agent["lastReceivedHeartbeat"]) + TIMEOUT * SECOND


async def described(terminal: Terminal, *reasons: str) -> bool:
    text = await terminal.run("describe crp web")
    assert "Events:" in text
    return all(reason in text.partition("Events:")[2] for reason in reasons)
