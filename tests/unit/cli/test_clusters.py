"""Cordon, uncordon, drain and approve against the embedded hub, beside a stand-in for KubeFleet's hub agent."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fleet.cli.clusters import approve, commands
from fleet.cli.clusters.commands import MaintenanceOptions, run_cordon, run_drain
from fleet.cli.clusters.cordon import CORDON, is_cordoned, read_cluster, set_cordon
from fleet.cli.clusters.evictions import EVICTIONS, evict_all, load_content
from fleet.cli.clusters.impact import confirm
from fleet.errors import InputError, InvalidKey, NotFound
from fleet.kube.api import Method, Request
from fleet.kube.objects import MERGE_PATCH
from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, NAMESPACED
from tests.e2e.world import NAMESPACES, World
from tests.faults.hub_api import HubApi, a_hub

OTHER = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
GONE = "Failed to find scheduler decision for placement in cluster targeted by eviction"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> HubApi:
    """A hub that the commands find."""
    hub = a_hub()

    @asynccontextmanager
    async def connect(_: object) -> AsyncIterator[HubApi]:
        yield hub

    monkeypatch.setattr(commands, "connect_to_hub", connect)
    monkeypatch.setattr(approve, "connect_to_hub", connect)
    return hub


async def fill(hub: HubApi) -> World:
    """`web` and `ledger`, which names its cluster, and the namespaced `shop/cart` are on ams-1, `api` on both."""
    world = World(hub)
    await world.join("ams-1", taints=[OTHER])
    await world.join("dub-1")
    await world.create(NAMESPACES, {"metadata": {"name": "shop"}})
    await world.place("web", {"placementType": "PickN", "numberOfClusters": 1})
    await world.place("api", {"placementType": "PickAll"})
    await world.place("ledger", {"placementType": "PickFixed", "clusterNames": ["ams-1"]})
    for placement, cluster in (("web", "ams-1"), ("api", "ams-1"), ("api", "dub-1"), ("ledger", "ams-1")):
        await world.create(CLUSTER_SCOPED.binding, binding(placement, cluster))
    await world.create(NAMESPACED.binding, binding("cart", "ams-1", namespace="shop"))
    return world


def binding(placement: str, cluster: str, **metadata: str) -> dict[str, Any]:
    labels = {"kubernetes-fleet.io/parent-CRP": placement}
    return {
        "metadata": {"name": f"{placement}-{cluster}", "labels": labels, **metadata},
        "spec": {
            "state": "Bound",
            "targetCluster": cluster,
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": f"{placement}-0",
            "clusterDecision": {"clusterName": cluster, "selected": True, "reason": "picked"},
        },
    }


async def evictions_of(hub: HubApi) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(await hub.call(Request(Method.GET, EVICTIONS.collection())))["items"]
    return items


async def execute(hub: HubApi, *, valid: str = "True", executed: str = "True", message: str = "done") -> None:
    """The hub agent: finishes every eviction, until cancelled."""
    while True:
        for item in await evictions_of(hub):
            if not (item.get("status") or {}).get("conditions"):
                kinds = [("Valid", valid)] + ([("Executed", executed)] if valid == "True" else [])
                conditions = [
                    {
                        "type": kind,
                        "status": status,
                        "reason": kind,
                        "message": message,
                        "observedGeneration": 1,
                        "lastTransitionTime": "2026-03-02T09:00:00Z",
                    }
                    for kind, status in kinds
                ]
                body = json.dumps({"status": {"conditions": conditions}}).encode()
                path = EVICTIONS.item(item["metadata"]["name"], STATUS)
                await hub.call(Request(Method.PATCH, path, body=body, content_type=MERGE_PATCH))
                if executed == "True" and valid == "True":
                    spec = item["spec"]
                    name = f"{spec['placementName']}-{spec['clusterName']}"
                    await hub.call(Request(Method.DELETE, CLUSTER_SCOPED.binding.item(name)))
        await asyncio.sleep(0.01)


def drain(hub: HubApi, monkeypatch: pytest.MonkeyPatch, *, agent: dict[str, Any] | None = None, **options: Any) -> int:
    """With the agent beside it, if it has a behavior."""

    async def quick(api: Any, cluster: str, placements: Any) -> AsyncIterator[Any]:
        working = None if agent is None else asyncio.create_task(execute(hub, **agent))
        try:
            async for result in evict_all(api, cluster, placements, poll_interval=0.01):
                yield result
        finally:
            if working is not None:
                working.cancel()

    monkeypatch.setattr(commands, "evict_all", quick)
    return run_drain(MaintenanceOptions(cluster="ams-1", shows_impact=False, **{"yes": True, **options}))


async def taints_of(hub: HubApi) -> list[dict[str, Any]]:
    taints: list[dict[str, Any]] = (await read_cluster(hub, "ams-1"))["spec"].get("taints") or []
    return taints


# --- cordon -----------------------------------------------------------------------------------------------------------


def test_cordon_adds_the_taint_of_kubefleet_and_uncordon_removes_that_one_only(
    hub: HubApi, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(fill(hub))
    change = MaintenanceOptions(cluster="ams-1", yes=True, shows_impact=False)

    assert run_cordon(change, cordoned=True) == 0
    assert asyncio.run(taints_of(hub)) == [OTHER, CORDON]
    assert run_cordon(change, cordoned=True) == 0
    assert asyncio.run(taints_of(hub)) == [OTHER, CORDON]
    assert run_cordon(change, cordoned=False) == 0
    assert asyncio.run(taints_of(hub)) == [OTHER]
    assert capsys.readouterr().out.splitlines() == [
        "ams-1 cordoned",
        "ams-1 is already cordoned",
        "ams-1 uncordoned",
    ]


def test_a_taint_that_is_added_at_the_same_time_is_kept(hub: HubApi) -> None:
    class Racing:
        """Somebody's write comes between reading and writing, once."""

        def __init__(self) -> None:
            self.raced = False

        async def call(self, request: Request) -> bytes:
            if request.is_write and not self.raced:
                self.raced = True
                body = json.dumps({"spec": {"taints": [OTHER, {**OTHER, "key": "new"}]}}).encode()
                path = MEMBER_CLUSTERS.item("ams-1")
                await hub.call(Request(Method.PATCH, path, body=body, content_type=MERGE_PATCH))
            return await hub.call(request)

    asyncio.run(fill(hub))

    assert asyncio.run(set_cordon(Racing(), "ams-1", cordoned=True))  # type: ignore[arg-type]
    assert [taint["key"] for taint in asyncio.run(taints_of(hub))] == ["gpu", "new", "cordon-key"]


def test_a_dry_run_changes_nothing(hub: HubApi, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(fill(hub))

    assert run_cordon(MaintenanceOptions(cluster="ams-1", dry_run=True, shows_impact=False), cordoned=True) == 0
    assert drain(hub, monkeypatch, dry_run=True) == 0
    assert asyncio.run(taints_of(hub)) == [OTHER]
    assert asyncio.run(evictions_of(hub)) == []


def test_without_a_terminal_yes_is_required(hub: HubApi, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(fill(hub))
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)

    with pytest.raises(InputError, match="Drain ams-1\\? There is no terminal to answer on\nnext: add --yes"):
        drain(hub, monkeypatch, yes=False)
    assert asyncio.run(taints_of(hub)) == [OTHER]


@pytest.mark.parametrize("name", ["", "/", "a/b/c", "shop/web"])
def test_what_is_no_name_of_a_cluster_is_an_error(hub: HubApi, name: str) -> None:
    with pytest.raises(InvalidKey, match="is not a key"):
        asyncio.run(read_cluster(hub, name))
    assert hub.requests == []


class InterruptedTerminal:
    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        signal.raise_signal(signal.SIGINT)
        return "y\n"


def test_ctrl_c_at_the_question_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", InterruptedTerminal())
    answers: list[bool] = []

    async def ask() -> None:
        answers.append(confirm("Drain it?", yes=False))

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(ask())
    assert answers == []


def test_a_cluster_that_is_not_there_is_an_error_with_the_next_step(hub: HubApi) -> None:
    with pytest.raises(NotFound, match='"nowhere" not found\nnext: `fleet get clusters` lists what there is'):
        run_cordon(MaintenanceOptions(cluster="nowhere", yes=True, shows_impact=False), cordoned=True)


# --- drain ------------------------------------------------------------------------------------------------------------


def test_what_is_on_a_cluster_is_told_apart_by_how_it_can_leave(hub: HubApi) -> None:
    asyncio.run(fill(hub))
    content = asyncio.run(load_content(hub, "ams-1"))

    assert (content.evictable, content.fixed, content.namespaced) == (["api", "web"], ["ledger"], ["shop/cart"])


def test_drain_cordons_evicts_and_names_what_remains(
    hub: HubApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = asyncio.run(fill(hub))

    assert drain(hub, monkeypatch, agent={}) == 1
    assert asyncio.run(taints_of(hub)) == [OTHER, CORDON]
    evicted = {(item["spec"]["placementName"], item["spec"]["clusterName"]) for item in asyncio.run(evictions_of(hub))}
    assert evicted == {("api", "ams-1"), ("web", "ams-1")}
    assert asyncio.run(world.in_use("api")) == {"dub-1"}
    lines = capsys.readouterr().out.splitlines()
    assert {"api evicted", "web evicted", "ams-1 cordoned"} <= set(lines)
    assert "ledger remains: it is not evictable; change or delete it" in lines
    assert "shop/cart remains: it is not evictable; change or delete it" in lines


def test_an_empty_cluster_is_drained_at_once(hub: HubApi, monkeypatch: pytest.MonkeyPatch) -> None:
    async def prepare() -> None:
        await World(hub).join("ams-1")

    asyncio.run(prepare())

    assert drain(hub, monkeypatch) == 0
    assert is_cordoned(asyncio.run(read_cluster(hub, "ams-1")))


@pytest.mark.parametrize(
    "agent, gone",
    [
        ({"executed": "False", "message": "blocked by a disruption budget"}, False),
        ({"valid": "False", "message": GONE}, True),
        ({"valid": "False", "message": "Found ClusterResourcePlacement with PickFixed"}, False),
        ({"executed": "Unknown"}, False),
    ],
)
def test_an_eviction_that_was_not_executed_is_no_success(
    hub: HubApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, agent: Any, gone: bool
) -> None:
    asyncio.run(fill(hub))
    drain(hub, monkeypatch, agent=agent)
    lines = capsys.readouterr().out.splitlines()

    assert ("web evicted" in lines) is gone
    assert any(line.startswith("web not evicted: ") for line in lines) is not gone


def test_an_interrupted_drain_goes_on_with_its_evictions(
    hub: HubApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(fill(hub))

    assert drain(hub, monkeypatch, timeout=0.05) == 1
    assert "web is not evicted after 0.05 s; run the command again to go on" in capsys.readouterr().out
    begun = {item["metadata"]["name"] for item in asyncio.run(evictions_of(hub))}
    drain(hub, monkeypatch, agent={})

    assert {item["metadata"]["name"] for item in asyncio.run(evictions_of(hub))} == begun
    assert "web evicted" in capsys.readouterr().out


# --- approve ----------------------------------------------------------------------------------------------------------


def test_approving_a_request_sets_its_condition_and_keeps_the_others(hub: HubApi) -> None:
    from fleet.cli.client.hub_access import HubOptions

    async def prepare() -> None:
        request = {
            "metadata": {"name": "web-canary"},
            "spec": {"parentStageRollout": "web", "targetStage": "canary"},
        }
        await World(hub).create(approve._CLUSTER_SCOPED, request)

    asyncio.run(prepare())

    assert approve.run_approve("careq", "web-canary", "", HubOptions()) == 0
    assert approve.run_approve("ClusterApprovalRequest", "web-canary", "", HubOptions()) == 0
    path = approve._CLUSTER_SCOPED.item("web-canary")
    (condition,) = json.loads(asyncio.run(hub.call(Request(Method.GET, path))))["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Approved", "True")
    assert condition["reason"] == "ClusterApprovalRequestApproved"
    assert condition["observedGeneration"] == 1


def test_an_approval_names_a_kind_and_a_namespace(hub: HubApi) -> None:
    from fleet.cli.client.hub_access import HubOptions

    with pytest.raises(InputError, match="KIND: 'pods' cannot be approved"):
        approve.run_approve("pods", "x", "", HubOptions())
    with pytest.raises(InputError, match="--namespace"):
        approve.run_approve("areq", "x", "", HubOptions())
    with pytest.raises(NotFound, match="next:"):
        approve.run_approve("areq", "x", "shop", HubOptions())
