"""What plugins reach through their handles, in a running controller and in virtual time."""

from __future__ import annotations

import asyncio
import cProfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from structlog.testing import capture_logs

from fleet.errors import ConfigurationError, NotLeading
from fleet.framework.status import Code, Status
from fleet.kube.api import Api, Method, Request
from fleet.kube.client.rate_limiter import RateLimit, RateLimiter
from tests.e2e.world import NAMESPACES, World
from tests.faults.acting import Acting, Script, a_document, acting_plugins, at_every_hook, load, running
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.virtual import VirtualClock, virtual

WAIT: Final = Status.new(Code.WAIT, "ask the owner")
ALL: Final[dict[str, Any]] = {"placementType": "PickAll"}
BOTH_PERMIT: Final = a_document("    permit: {enabled: [{name: First}, {name: Second}]}\n")


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    with acting_plugins(tmp_path) as script:
        yield script


class Line:
    """Between a controller and its hub: counts what is watched, and holds writes to the rates of their classes."""

    def __init__(self, api: Api, **rates: float) -> None:
        self.watched: list[str] = []
        self._api = api
        limits = {call_class: RateLimit(rate, 1) for call_class, rate in rates.items()}
        self._limiter = RateLimiter(VirtualClock(), limits)

    async def call(self, request: Request) -> bytes:
        if request.is_write:
            await self._limiter.acquire(request.call_class)
        return await self._api.call(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self.watched.append(request.path)
        return self._api.stream(request)


async def a_fleet(*names: str) -> tuple[HubApi, World]:
    hub = a_hub()
    world = World(hub)
    for name in names:
        await world.join(name)
    return hub, world


def a_namespace(name: str) -> Request:
    return Request(Method.POST, "/api/v1/namespaces", body=msgspec.json.encode({"metadata": {"name": name}}))


# --- the handle -------------------------------------------------------------------------------------------------------


@virtual
async def test_F3_100_all_plugins_of_a_profile_have_one_handle_also_after_a_reload_of_another_profile(
    script: Script, tmp_path: Path
) -> None:
    hub, world = await a_fleet("ams")
    file = tmp_path / "fleet.yaml"
    other = "- schedulerName: other\n"
    async with running(hub, file, at_every_hook("First", "Second") + other) as site:
        handle = script.handles["First"]
        assert script.handles["Second"] is handle
        made: list[str] = []
        script.on_made = lambda plugin, given: made.append(plugin.name()) if given is handle else None
        file.write_text(at_every_hook("First", "Second") + other + "  tieBreak: nameAscending\n", encoding="utf-8")
        site.scheduler.reload(load(file))
        assert made == []
        assert site.scheduler.frameworks.default is handle
        seen: list[Any] = []
        script.answers["First", "pre_bind"] = lambda _: seen.append("ams" in handle.cache_view().names)
        await world.place("web", ALL)
        await world.soon_on("web", "ams")
    assert seen == [True]


# --- the hub ----------------------------------------------------------------------------------------------------------


@virtual
async def test_F3_043_F3_105_a_hook_that_acts_writes_to_the_hub_as_bindings_do(script: Script, tmp_path: Path) -> None:
    """A flood of statuses, which are held to one in a minute, does not hold it up."""
    hub, world = await a_fleet("ams")
    line = Line(hub, status=1 / 60, bind=100)
    took: list[float] = []

    async def prepare() -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        client = script.handles["First"].hub()
        assert client is script.handles["First"].hub()
        await client.call(a_namespace("prepared"))
        took.append(loop.time() - started)

    script.answers["First", "pre_bind"] = lambda _: prepare()
    async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First"), through=line) as site:
        flood = [Request(Method.POST, "/api/v1/nothing", call_class="status") for _ in range(100)]
        flooding = [asyncio.create_task(site.controller._gate.call(request)) for request in flood]
        await asyncio.sleep(1)
        await world.place("web", ALL)
        await world.soon_on("web", "ams")
        for task in flooding:
            task.cancel()
        await asyncio.gather(*flooding, return_exceptions=True)
    (written,) = [request for request in hub.requests if request.path == "/api/v1/namespaces" and request.is_write]
    assert written.call_class == "bind"
    assert await world.find(NAMESPACES, "prepared")
    assert took[0] < 1


@virtual
async def test_F3_105_a_process_that_does_not_lead_writes_nothing_for_its_plugins(
    script: Script, tmp_path: Path
) -> None:
    hub, _ = await a_fleet("ams")
    async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First")) as site:
        client = script.handles["First"].hub()
        site.controller._gate.close()
        assert msgspec.json.decode(await client.call(Request(Method.GET, "/api/v1/namespaces")))["items"] is not None
        with pytest.raises(NotLeading):
            await client.call(a_namespace("late"))
        site.controller._gate.open()


@pytest.mark.parametrize("what", ["hub", "watches"])
@virtual
async def test_F3_105_a_hook_that_decides_may_not_ask_for_it(script: Script, tmp_path: Path, what: str) -> None:
    hub, world = await a_fleet("ams")
    script.answers["First", "pre_filter"] = lambda _: getattr(script.handles["First"], what)()
    text = a_document("    preFilter: {enabled: [{name: First}]}\n")
    with capture_logs():
        async with running(hub, tmp_path / "fleet.yaml", text) as site:
            await world.place("web", ALL)
            await asyncio.sleep(5)
            failed = site.of("web")[-1]
            assert await world.bindings("web") == []
    name = {"hub": "the hub", "watches": "watches"}[what]
    assert f"a decision hook asked for {name}: decisions depend on their inputs alone" in failed.failure


# --- watches ----------------------------------------------------------------------------------------------------------


def watch_clusters(plugin: Acting, handle: Any) -> None:
    handle.watches().add_handler("MemberCluster", plugin.see)


@virtual
async def test_F3_044_F3_106_plugins_share_one_watch_of_a_kind_and_see_what_was_there_before(
    script: Script, tmp_path: Path
) -> None:
    hub, world = await a_fleet("ams")
    script.on_made = watch_clusters
    line = Line(hub)
    async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First", "Second"), through=line):
        assert sorted((name, old, new.metadata.name) for name, old, new in script.seen) == [
            ("First", None, "ams"),
            ("Second", None, "ams"),
        ]
        script.seen.clear()
        await world.relabel("ams", env="prod")
        await asyncio.sleep(1)
        changes = [
            (name, (old.metadata.labels or {}).get("env"), new.metadata.labels) for name, old, new in script.seen
        ]
        assert [(name, before, labels["env"]) for name, before, labels in changes] == [
            ("First", None, "prod"),
            ("Second", None, "prod"),
        ]
    watched = [path for path in line.watched if path.endswith("/memberclusters")]
    assert len(watched) == 1


@virtual
async def test_F3_106_a_plugin_that_a_reload_has_replaced_hears_nothing_more(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams")
    script.on_made = watch_clusters
    file = tmp_path / "fleet.yaml"
    async with running(hub, file, at_every_hook("First")) as site:
        script.seen.clear()
        file.write_text(at_every_hook("First", tieBreak="nameAscending"), encoding="utf-8")
        site.scheduler.reload(load(file))
        assert [(name, old) for name, old, _ in script.seen] == [("First", None)]
        site.scheduler.reload(load(file))
        script.seen.clear()
        await world.relabel("ams", env="prod")
        await asyncio.sleep(1)
        assert len(script.seen) == 1


@virtual
async def test_F3_106_a_kind_that_is_not_watched_stops_the_start(script: Script, tmp_path: Path) -> None:
    hub, _ = await a_fleet()
    script.on_made = lambda plugin, handle: handle.watches().add_handler("ConfigMap", plugin.see)
    with pytest.raises(ConfigurationError, match="ConfigMap is not watched here: use one of ClusterPlacementApproval,"):
        async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First")):
            pass


# --- activating -------------------------------------------------------------------------------------------------------


@virtual
async def test_Q_46_a_plugin_has_a_placement_tried_again_without_backoff(script: Script, tmp_path: Path) -> None:
    """First while it waits: five minutes would pass, or an event of the hub. Then during its attempt."""
    hub, world = await a_fleet("ams")
    no = (Status.new(Code.UNSCHEDULABLE, "not yet"), timedelta(0))
    script.answers["First", "permit"] = no
    text = a_document("    permit: {enabled: [{name: First}]}\n", backoffOnRejection="true")

    async def think() -> Any:
        for _ in range(2):
            script.handles["First"].activate("web")
        await asyncio.sleep(5)
        return no

    async with running(hub, tmp_path / "fleet.yaml", text, "queue.earlyPop=false") as site:
        await world.place("web", ALL)
        await asyncio.sleep(60)
        before = len(site.of("web"))
        answers = iter([think])
        script.answers["First", "permit"] = lambda _: next(answers, lambda: None)()
        script.handles["First"].activate("web")
        script.handles["First"].activate("nothing/here")
        await world.soon_on("web", "ams")
        await asyncio.sleep(60)
        script.handles["First"].activate("web")
        await asyncio.sleep(60)
        during, after = site.of("web")[before:]
        assert not any(str(record.key) == "nothing/here" for record in site.records)
    assert (during.triggers, after.triggers) == (("ForceActivate",), ("ForceActivate",))
    assert round((after.started - during.started) / 1e9, 1) == 5


# --- waiting placements -----------------------------------------------------------------------------------------------


@virtual
async def test_F3_102_F3_109_who_visits_waiting_placements_may_allow_them(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams")
    script.answers["First", "permit"] = script.answers["Second", "permit"] = (WAIT, timedelta(seconds=60))
    pending: dict[str, list[list[str]]] = {}

    def allow(item: Any) -> None:
        steps = pending[item.placement.key] = [item.pending_plugins("ams")]
        for plugin in steps[0]:
            assert item.allow(plugin, "ams")
            steps.append(item.pending_plugins())

    async with running(hub, tmp_path / "fleet.yaml", BOTH_PERMIT):
        for name in ("api", "web"):
            await world.place(name, ALL)
        await asyncio.sleep(20)
        script.handles["First"].for_each_waiting(allow)
        await world.soon_on("api", "ams")
        await world.soon_on("web", "ams")
        left: list[Any] = []
        script.handles["First"].for_each_waiting(left.append)
    assert pending == {name: [["First", "Second"], ["Second"], []] for name in ("api", "web")}
    assert left == []


@virtual
async def test_F3_084_placements_that_wait_cost_the_others_next_to_nothing(script: Script, tmp_path: Path) -> None:
    """Counted in calls: a hundred that wait cost less than a tenth of the twentieth that a thousand may cost."""
    hub, world = await a_fleet("ams")
    text = a_document("    permit: {enabled: [{name: First}]}\n")

    async def count_calls(run: str) -> int:
        profile = cProfile.Profile()
        profile.enable()
        for number in range(10):
            await world.place(f"{run}-{number}", ALL)
        await world.soon_on(f"{run}-9", "ams")
        await asyncio.sleep(5)
        profile.disable()
        return sum(entry.callcount for entry in profile.getstats())

    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        await count_calls("warm")
        alone = await count_calls("alone")
        script.answers["First", "permit"] = (WAIT, timedelta(seconds=900))
        for number in range(100):
            await world.place(f"waiting-{number}", ALL)
        await asyncio.sleep(20)
        assert len(site.scheduler.parked) == 100
        script.answers.clear()
        beside = await count_calls("beside")
        assert len(site.scheduler.parked) == 100
    assert beside < 1.005 * alone


@virtual
async def test_Q_45_what_waits_and_what_is_refused_is_in_the_metrics(script: Script, tmp_path: Path) -> None:
    """One cluster may be reserved at a time; what has it is refused when its time is over."""
    hub, world = await a_fleet("ams", "dub")
    reserved: list[str] = []

    def take(cluster: str) -> Status | None:
        if reserved:
            return Status.new(Code.UNSCHEDULABLE, "taken")
        reserved.append(cluster)
        return None

    script.answers["Quota", "reserve"] = take
    script.answers["Quota", "unreserve"] = lambda on: reserved.remove(on) if on in reserved else None
    script.answers["First", "permit"] = lambda on: (WAIT, timedelta(seconds=20)) if on == "ams" else None
    text = a_document("    reserve: {enabled: [{name: Quota}]}\n    permit: {enabled: [{name: First}]}\n")
    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        await world.place("api", {"placementType": "PickFixed", "clusterNames": ["ams"]})
        await asyncio.sleep(5)
        await world.place("web", {"placementType": "PickFixed", "clusterNames": ["dub"]})
        await asyncio.sleep(5)
        assert site.sample("fleet_unschedulable_placements", {"plugin": "Quota"}) == 1
        assert site.sample("fleet_pending_placements", {"queue": "unschedulable"}) == 1
        await world.soon_on("web", "dub")
        assert site.sample("fleet_permit_wait_duration_seconds_count", {"result": "timeout"}) == 1
        assert site.sample("fleet_permit_wait_duration_seconds_sum", {"result": "timeout"}) == pytest.approx(20, abs=1)
