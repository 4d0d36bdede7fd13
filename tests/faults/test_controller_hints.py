"""Queueing hints that plugins bring, in a running controller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from structlog.testing import capture_logs

from tests.faults.configured import Scene, a_scene
from tests.faults.virtual import virtual
from tests.installed import an_installed_package

TWO: Final = {"placementType": "PickN", "numberOfClusters": 2}
PLUGINS: Final = """
import asyncio

from fleet.framework.explaining import HintRegistration
from fleet.framework.status import Code, Status
from fleet.framework.types import PluginTraits, Reason, ReasonTable, Verdict


class Pairs(PluginTraits):
    # Compares clusters, so that no hint can be made of its filter: it accepts those with a partner of their colour.
    READS = ("labels",)
    REASONS = ReasonTable(Reason("Alone", Code.UNSCHEDULABLE, "has no partner"))
    asked = []

    def __init__(self, raw=None, handle=None): ...
    def name(self): return "Pairs"

    def filter(self, ctx, state, req, frame, alive):
        column = frame.labels("colour")
        colours = [column.value(row) for row in range(frame.size)]
        ok = sum(1 << row for row, colour in enumerate(colours) if colour and colours.count(colour) > 1)
        return Verdict(ok=ok, reason=1)

    def queueing_hints(self):
        return tuple(HintRegistration(action, self.hint) for action in ("Add", "UpdateHealth", "UpdateLabels"))

    def hint(self, change, request):
        Pairs.asked.append(request.placement)
        if "broken" in request.placement:
            raise RuntimeError("no colours")
        return (change.new.metadata.labels or {}).get("colour") is not None


class Slow(Pairs):
    # Reserves, and takes its time to refuse: clusters change meanwhile.
    def name(self): return "Slow"
    def filter(self, ctx, state, req, frame, alive): return Verdict(ok=-1)
    async def reserve(self, ctx, state, placement, target):
        await asyncio.sleep(5)
        return Status.new(Code.UNSCHEDULABLE, "no room")
    async def unreserve(self, ctx, state, placement, target): ...


class Waiting(Pairs):
    REASONS = ReasonTable(Reason("Alone", Code.PENDING, "has no partner yet"))
    def name(self): return "Waiting"
"""
PROFILE: Final = """\
profiles:
- schedulerName: DefaultScheduler
- schedulerName: paired
  backoffOnRejection: {backoff}
  plugins: {{filter: {{enabled: [{{name: {plugin}}}]}}}}
"""


@contextmanager
def pairs(folder: Path) -> Iterator[None]:
    folder.mkdir()
    with an_installed_package(folder, PLUGINS, {name: name for name in ("Pairs", "Waiting", "Slow")}):
        yield


async def rejected_by_pairs(scene: Scene, *names: str) -> None:
    """Placements that wait, because the one cluster has a colour and no partner."""
    await scene.world.join("ams", labels={"colour": "red"}, silent_for=scene.hours_ago(0))
    for name in names:
        await scene.place(name, TWO, scheduler_name="paired")
    for name in names:
        await scene.world.soon_scheduled(name, status="False")
    await asyncio.sleep(60)
    scene.attempts.records.clear()


@virtual
async def test_F3_113_Q_06_only_events_that_the_hint_of_the_rejecting_plugin_agrees_to_wake(tmp_path: Path) -> None:
    with pairs(tmp_path / "pairs"):
        async with a_scene(tmp_path, PROFILE.format(plugin="Pairs", backoff="false")) as scene:
            await rejected_by_pairs(scene, "web")
            await scene.world.join("dub", silent_for=scene.hours_ago(0))  # the hint says no
            await scene.world.taint("ams", {"key": "a", "value": "b", "effect": "NoSchedule"})
            await scene.world.taint("ams")  # no event that the plugin registered
            await asyncio.sleep(60)
            assert scene.attempts.records == []
            await scene.world.relabel("dub", colour="red")
            await scene.world.soon_on("web", "ams", "dub")
        labels = {"plugin": "Pairs", "event": "MemberCluster/UpdateHealth"}
        metric = "fleet_queueing_hint_execution_duration_seconds_count"
        assert scene.sample(metric, hint="Skip", **labels)
        assert scene.sample(metric, hint="Queue", plugin="Pairs", event="MemberCluster/UpdateLabels") == 1


@virtual
async def test_Q_07_a_plugin_that_did_not_reject_is_not_asked(tmp_path: Path) -> None:
    with pairs(tmp_path / "pairs"):
        async with a_scene(tmp_path, PROFILE.format(plugin="Pairs", backoff="false")) as scene:
            await scene.world.join("ams", silent_for=scene.hours_ago(0))
            await scene.place("other", TWO)
            await scene.world.soon_scheduled("other", status="False")
            await scene.world.join("dub", labels={"colour": "red"}, silent_for=scene.hours_ago(0))
            await scene.world.soon_on("other", "ams", "dub")
            from plugins_of_pairs import Pairs  # type: ignore[import-not-found]  # installed by the test

            assert "other" not in Pairs.asked


@virtual
async def test_Q_09_a_hint_that_fails_requeues(tmp_path: Path) -> None:
    with pairs(tmp_path / "pairs"), capture_logs() as logs:
        async with a_scene(tmp_path, PROFILE.format(plugin="Pairs", backoff="false")) as scene:
            await rejected_by_pairs(scene, "broken")
            await scene.world.join("dub", silent_for=scene.hours_ago(0))
            await asyncio.sleep(60)
            assert len(scene.attempts.of("broken")) >= 1
    assert any("a queueing hint failed" in line["event"] for line in logs)


@virtual
async def test_Q_10_F3_115_a_pending_plugin_wakes_without_back_off(tmp_path: Path) -> None:
    """Rejected twice in a row, it would have to wait for a second; nobody waits for idle workers here."""
    with pairs(tmp_path / "pairs"):
        profile = PROFILE.format(plugin="Waiting", backoff="true")
        async with a_scene(tmp_path, profile, "queue.earlyPop=false") as scene:
            await rejected_by_pairs(scene, "web")
            for colour in ("blue", "green", "white"):
                await scene.world.relabel("ams", colour=colour)
                await asyncio.sleep(0.1)
            assert len(scene.attempts.of("web")) == 3


@virtual
async def test_Q_09_a_plugin_without_hints_is_woken_by_what_it_reads(tmp_path: Path) -> None:
    """Beside one with hints, which has not rejected the placement."""
    with pairs(tmp_path / "pairs"):
        async with a_scene(tmp_path, PROFILE.format(plugin="Pairs", backoff="false")) as scene:
            taint = {"key": "a", "value": "b", "effect": "NoSchedule"}
            for name in ("ams", "dub"):
                await scene.world.join(name, labels={"colour": "red"}, silent_for=scene.hours_ago(0))
                await scene.world.taint(name, taint)
            await scene.place("web", TWO, scheduler_name="paired")
            await scene.world.soon_scheduled("web", status="False")
            await scene.world.taint("ams")
            await scene.world.taint("dub")
            await scene.world.soon_on("web", "ams", "dub")


@virtual
async def test_Q_11_a_change_during_an_attempt_is_left_to_the_hint_of_the_plugin_that_rejects(tmp_path: Path) -> None:
    profile = PROFILE.format(plugin="Pairs", backoff="false").replace("filter:", "reserve:").replace("Pairs", "Slow")
    with pairs(tmp_path / "pairs"):
        async with a_scene(tmp_path, profile) as scene:
            await scene.world.join("ams", silent_for=scene.hours_ago(0))
            await scene.place("web", TWO, scheduler_name="paired")
            await asyncio.sleep(2)
            await scene.world.join("dub", silent_for=scene.hours_ago(0))  # the hint says no
            await asyncio.sleep(60)
            assert len(scene.attempts.of("web")) == 1
            await scene.world.relabel("dub", colour="red")
            await asyncio.sleep(2)
            assert scene.sample("fleet_inflight_events", event="MemberCluster/UpdateLabels") is None
            await scene.world.relabel("dub", colour="blue")
            await asyncio.sleep(1)
            assert scene.sample("fleet_inflight_events", event="MemberCluster/UpdateLabels") == 1
            await asyncio.sleep(60)
            assert len(scene.attempts.of("web")) == 3
