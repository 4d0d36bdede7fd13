"""Generated histories of a fleet: after every step `why` accounts for all of it, and agrees with the hub."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Final

import msgspec
import pytest

from api.app import create_app
from api.auth.access import AccessRequest, Caller, CallerAuthorizer
from api.auth.permissions import Permissions
from api.live.backend import Backend
from api.live.live import LiveState
from api.services.why import WhyQuery, explain_placement
from api.text.why import render_why
from fleet.kube.resource import STATUS
from fleet.kube.scopes import MEMBER_CLUSTERS, find_scope
from fleet.model.placement_key import PlacementKey
from fleet.settings import load_settings
from tests.e2e.world import Json, World, configured, member_status
from tests.faults.controller.stage import Stage, staged, undisturbed
from tests.faults.controller.storms import Storm
from tests.faults.virtual import no_jitter, run_virtually
from tests.oracle.affinity import affinity_rejection
from tests.oracle.documents import name_of
from tests.oracle.eligibility import eligibility_failure
from tests.oracle.filters import taint_rejection
from tests.oracle.settings import DEFAULTS

STEPS: Final = 8
TIMEOUT: Final = timedelta(hours=2)
"""Without a heartbeat: longer than a step takes."""
SETTINGS: Final = ("eligibility.heartbeatTimeout=2h",)
REGIONS: Final = ("eu", "us", "asia")
POLICIES: Final[tuple[Json, ...]] = (
    {"placementType": "PickN", "numberOfClusters": 2},
    {
        "placementType": "PickN",
        "numberOfClusters": 3,
        "topologySpreadConstraints": [{"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    },
    {"placementType": "PickAll"},
    {"placementType": "PickFixed", "clusterNames": ["c0", "c2", "c9"]},
    {"placementType": "PickN", "numberOfClusters": 2, "tolerations": [{"key": "down", "operator": "Exists"}]},
)
PLACEMENTS: Final = ("few", "spread", "all", "fixed", "shop/api")
COUNTED: Final = ("few", "spread", "shop/api")
TAINTS: Final = (
    {"key": "down", "value": "", "effect": "NoSchedule"},
    {"key": "slow", "value": "disk", "effect": "NoSchedule"},
)
HOLD: Final = "test.kubernetes-fleet.io/hold"
"""A finalizer that keeps a cluster that leaves."""
ACTS: Final = (
    ("join", 2),
    ("leave", 1),
    ("begin leaving", 1),
    ("end leaving", 1),
    ("taint", 2),
    ("clear", 1),
    ("silence", 1),
    ("hear", 1),
    ("relabel", 1),
    ("count", 3),
    ("edit", 1),
    ("tolerate", 1),
    ("list", 1),
    ("replace", 1),
)
IN_USE: Final = ("selected", "already-selected")
LIVE: Final = ("Scheduled", "Bound")


def within(*regions: str) -> Json:
    expression = {"key": "region", "operator": "In", "values": list(regions)}
    term = {"labelSelector": {"matchExpressions": [expression]}}
    return {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [term]}}}


class EverybodyMay(CallerAuthorizer):
    async def authenticate(self, token: str) -> Caller:
        return Caller(token)

    async def is_allowed(self, caller: Caller, request: AccessRequest) -> bool:
        del caller, request
        return True


@dataclass
class Chronicle:
    """One history, as it goes on."""

    stage: Stage
    rng: Random
    silent: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)
    steps: list[str] = field(default_factory=list)

    @property
    def world(self) -> World:
        return self.stage.user

    async def begin(self) -> None:
        for number in range(6):
            await self.join(f"c{number}")
        for name, policy in zip(PLACEMENTS, POLICIES, strict=True):
            await self.world.place(name, policy)

    async def join(self, name: str) -> None:
        await self.world.join(name, labels={"region": self.rng.choice(REGIONS)})

    async def step(self) -> None:
        names = [name_of(cluster) for cluster in await self.world.all(MEMBER_CLUSTERS)]
        name = self.rng.choice(names)
        acts, weights = zip(*ACTS, strict=True)
        act = self.rng.choices(acts, weights)[0]
        self.steps.append(f"{act} {name}")
        match act:
            case "join" if len(names) < 10:
                await self.join(next(f"c{number}" for number in range(10) if f"c{number}" not in names))
            case "leave" if len(names) > 2 and name not in self.leaving:
                self.silent.discard(name)
                await self.world.delete(MEMBER_CLUSTERS, name)
            case "begin leaving" if name not in self.leaving:
                self.leaving.add(name)
                await self.world.patch(MEMBER_CLUSTERS, name, {"metadata": {"finalizers": [HOLD]}})
                await self.world.delete(MEMBER_CLUSTERS, name)
            case "end leaving" if self.leaving:
                gone = self.rng.choice(sorted(self.leaving))
                self.leaving.discard(gone)
                self.silent.discard(gone)
                await self.world.patch(MEMBER_CLUSTERS, gone, {"metadata": {"finalizers": None}})
            case "taint":
                await self.world.taint(name, *self.rng.sample(TAINTS, self.rng.choice((1, 1, 2))))
            case "clear":
                await self.world.taint(name)
            case "silence":
                self.silent.add(name)
            case "hear":
                self.silent.discard(name)
            case "relabel":
                await self.world.relabel(name, region=self.rng.choice(REGIONS))
            case "count":
                await self.world.edit_policy(self.rng.choice(COUNTED), numberOfClusters=self.rng.randint(0, 5))
            case "edit":
                affinity = self.rng.choice((None, within("eu"), within("eu", "us")))
                await self.world.edit_policy(self.rng.choice(PLACEMENTS[:3]), affinity=affinity)
            case "tolerate":
                tolerations = self.rng.choice((None, [{"key": "down", "operator": "Exists"}]))
                await self.world.edit_policy(self.rng.choice(COUNTED), tolerations=tolerations)
            case "replace":
                await self.replace(self.rng.choice(PLACEMENTS))
            case "list":
                listed = self.rng.sample([f"c{number}" for number in range(10)], 3)
                await self.world.edit_policy("fixed", clusterNames=listed)

    async def replace(self, key: str) -> None:
        """Deleted, and created again with the same policy."""
        policy = (await self.world.placement(key))["spec"]["policy"]
        await self.world.delete(find_scope(key).placement, key)
        await self.stage.rest()
        await self.world.place(key, policy)

    async def beat(self) -> None:
        """A heartbeat of every cluster that is not silent; the last one of the others is hours ago."""
        now = self.stage.clock.now()
        for cluster in await self.world.all(MEMBER_CLUSTERS):
            heard = now - 2 * TIMEOUT if name_of(cluster) in self.silent else now
            status = member_status()
            status["agentStatus"][0]["lastReceivedHeartbeat"] = heard.strftime("%Y-%m-%dT%H:%M:%SZ")
            await self.world.patch(MEMBER_CLUSTERS, name_of(cluster), {"status": status}, subresource=STATUS)


@asynccontextmanager
async def answering(stage: Stage) -> AsyncIterator[Backend]:
    """The API beside the controller: it survives whatever happens to that one."""
    live = LiveState.standalone(stage.hub, configured(*SETTINGS), clock=stage.clock, jitter=no_jitter)
    app = create_app(live, None, EverybodyMay(), load_settings(None, {}, SETTINGS))
    watching = asyncio.create_task(live.caches.run())
    try:
        await live.caches.wait_until_synced()
        yield app.state.shared.backend
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def explain(backend: Backend, name: str) -> tuple[Json, str]:
    permissions = Permissions(EverybodyMay(), Caller("root"))
    query = WhyQuery(key=name, everything=True, fixes="none", limit=500)
    answer = (await explain_placement(backend, permissions, query)).answer
    return msgspec.to_builtins(answer), render_why(answer)


# --- what has to hold -------------------------------------------------------------------------------------------------


async def check_unsettled(history: Chronicle, backend: Backend, name: str) -> None:
    """While the controller works, of what the API has seen of the hub until then."""
    key = PlacementKey.parse(name)
    seen = list_seen(backend, key)
    if await history.world.latest_snapshot(name) is None:
        return
    answer, _ = await explain(backend, name)
    if seen == list_seen(backend, key):
        clusters, bindings, live = seen
        named = list_named(answer)
        assert list_shown(answer) == clusters, "each cluster once"
        assert live <= named <= bindings, f"each live binding once, and none that is not there: {named} of {seen}"


def list_seen(backend: Backend, key: PlacementKey) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Clusters, bindings, and those of the bindings that are for something that runs."""
    caches = backend.live.caches
    bindings = [binding.view for binding in caches.bindings(key)]
    live = [each for each in bindings if each.spec.state in LIVE and not each.metadata.deletion_timestamp]
    names, live_names = (Counter(binding.metadata.name for binding in some) for some in (bindings, live))
    return Counter(iter(caches.clusters)), names, live_names


def list_shown(answer: Json) -> Counter[str]:
    return Counter(row["name"] for row in answer["attempt"]["clusters"])


def list_named(answer: Json) -> Counter[str]:
    rows = [*answer["attempt"]["clusters"], *answer["attempt"]["strangers"]]
    return Counter(binding["name"] for row in rows for binding in row["bindings"] if binding["state"])


async def check(history: Chronicle, backend: Backend, name: str) -> None:
    world, (answer, text) = history.world, await explain(backend, name)
    clusters = {name_of(cluster): cluster for cluster in await world.all(MEMBER_CLUSTERS)}
    policy = (await world.placement(name))["spec"]["policy"]
    rows = {row["name"]: row for row in answer["attempt"]["clusters"]}

    shown = list_shown(answer)
    assert shown == Counter(clusters.keys()), f"each cluster once: {shown}, {list(clusters)}"
    counts = answer["verdict"]["counts"]
    assert counts["total"] == len(clusters) == sum(counts.values()) - counts["total"]

    assert list_named(answer) == Counter(binding["metadata"]["name"] for binding in await world.bindings(name)), (
        "each binding once"
    )

    there = {row["name"] for row in rows.values() if is_there(row)}
    used = await world.in_use(name)
    assert there == used, f"the clusters that the hub shows: {sorted(used ^ there)}"
    condition = await world.scheduled(name)
    assert condition is not None
    assert (answer["verdict"]["state"] == "Scheduled") == (condition["status"] == "True"), "the state of the hub"

    for row in rows.values():
        check_answers_of_plugins(row, clusters[row["name"]], policy, history)
    check_text(text, answer)


def is_there(row: Json) -> bool:
    """In use, or not taken away yet: a cluster that leaves keeps its binding until it is gone."""
    live = [binding for binding in row["bindings"] if binding["state"] in LIVE]
    if row["outcome"] == "already-selected":
        assert live, row
    elif live and row["outcome"] != "selected" and row["standing"] != "retained":
        assert [binding["action"] for binding in live] == ["unschedule"], row
    return bool(live)


def check_answers_of_plugins(row: Json, cluster: Json, policy: Json, history: Chronicle) -> None:
    """Against naive filters of this suite's own."""
    against = find_reasons(cluster, policy, history)
    for verdict in row["rejections"]:
        if verdict["plugin"] in against or (verdict["plugin"] in STATIC and verdict["verdict"] == "reject"):
            is_against = verdict["plugin"] in against
            assert (verdict["verdict"] == "reject") is is_against, (row["name"], verdict, against)
    concerns = {concern["plugin"] for concern in row["concerns"]} & STATIC
    if row["standing"] == "kept":
        assert concerns == against, row
    elif row["outcome"] in ("selected", "fit-not-selected"):
        assert not against, row
    assert not (row["concerns"] and row["outcome"] not in IN_USE), row


STATIC: Final = {"ClusterAffinity", "ClusterEligibility", "TaintToleration"}


def find_reasons(cluster: Json, policy: Json, history: Chronicle) -> set[str]:
    settings = replace(DEFAULTS, heartbeat_timeout=TIMEOUT)
    reasons = set()
    failure = eligibility_failure(cluster, history.stage.clock.now(), settings)
    is_out = name_of(cluster) in history.silent | history.leaving
    assert (failure is not None) is is_out, "the history and the oracle agree"
    if failure is not None:
        reasons.add("ClusterEligibility")
    if policy["placementType"] == "PickFixed":
        return reasons
    if affinity_rejection(policy, cluster) is not None:
        reasons.add("ClusterAffinity")
    if taint_rejection(cluster, policy.get("tolerations") or []) is not None:
        reasons.add("TaintToleration")
    return reasons


def check_text(text: str, answer: Json) -> None:
    """Every cluster in use is in it, nothing is empty, and nothing is left without a name."""
    assert "(none)" not in text
    assert "REMOVED FROM" not in text, "nothing of it has happened"
    assert "\nSELECTED" not in text
    lines = text.splitlines()
    for row in answer["attempt"]["clusters"]:
        if is_there(row):
            assert sum(line.split("  ")[0] == row["name"] for line in lines) >= 1, (row["name"], text)
        for concern in row["concerns"]:
            line = next(line for line in lines if line.startswith(f"{row['name']} "))
            assert "kept, though" in line, (concern, text)
            assert "would not be chosen now" in text
    assert not any(line.endswith(":") and not after for line, after in pairwise([*lines, ""])), text


# --- histories --------------------------------------------------------------------------------------------------------


async def live_through(seed: int) -> None:
    rng = Random(seed)
    script = Storm(rng, deaths=3) if seed % 3 == 0 else undisturbed
    async with staged(seed=seed, script=script) as stage:
        stage.assignments = SETTINGS
        for cluster in await stage.user.all(MEMBER_CLUSTERS):
            await stage.user.delete(MEMBER_CLUSTERS, name_of(cluster))
        history = Chronicle(stage, rng)
        await history.begin()
        async with answering(stage) as backend:
            for _ in range(STEPS):
                await history.step()
                await history.beat()
                for name in PLACEMENTS:
                    await asyncio.sleep(rng.uniform(0, 0.2))
                    await check_unsettled(history, backend, name)
                await stage.rest()
                await history.beat()  # resting took minutes
                await asyncio.sleep(1)
                for name in PLACEMENTS:
                    try:
                        await check(history, backend, name)
                    except AssertionError as error:
                        raise AssertionError(f"seed {seed}, after {history.steps}: {name}: {error}") from error


def test_why_accounts_for_every_cluster_and_binding_after_every_step() -> None:
    for seed in range(2):
        run_virtually(live_through(seed))


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_why_accounts_for_everything_in_a_thousand_histories(block: int) -> None:
    for seed in range(50 * block, 50 * (block + 1)):
        run_virtually(live_through(seed))
