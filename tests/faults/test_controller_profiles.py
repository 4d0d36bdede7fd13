"""Profiles of a document in a running controller: what they are built of, what they keep from attempt to attempt, and
what wakes their placements."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from fleet.clock import SECOND
from fleet.errors import ConfigurationError
from fleet.framework.cycle.decision import Decision
from fleet.framework.request import PlacementRequest
from fleet.framework.scalar import ScalarPlugin
from fleet.framework.status import MAX_TOTAL_SCORE, Code, Status
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.manager.manager import Manager
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt_record import AttemptResult
from fleet.scheduler.queue.item import QueueItem
from tests.doubles import Rejecting, RejectingOneByOne, Scoring
from tests.e2e.hub import soon
from tests.e2e.world import configured
from tests.fast_yaml import safe_dump
from tests.faults.configured import HEAD, Scene, a_scene
from tests.faults.hub_api import a_hub
from tests.faults.virtual import virtual
from tests.installed import installed_doubles
from tests.unit.framework.plugin_fakes import BASIC_HOOKS

ONE: Final = {"placementType": "PickN", "numberOfClusters": 1}
TWO: Final = {"placementType": "PickN", "numberOfClusters": 2}
MANY: Final = {"placementType": "PickN", "numberOfClusters": 9}
PATIENT: Final = """\
profiles:
- pluginConfig:
  - {name: ClusterEligibility, args: {heartbeatTimeout: 100h}}
"""
CARELESS: Final = """\
profiles:
- plugins: {filter: {disabled: [{name: ClusterEligibility}]}}
"""


@virtual
async def test_a_cluster_becomes_eligible_by_the_arguments_of_the_profile(tmp_path: Path) -> None:
    async with a_scene(tmp_path, PATIENT) as scene:
        await scene.world.join("late", silent_for=scene.hours_ago(50), joined="False")
        await scene.place("web", ONE)
        await scene.world.soon_scheduled("web", status="False")
        await scene.world.report("late", silent_for=scene.hours_ago(50))
        await scene.world.soon_on("web", "late")


@virtual
@pytest.mark.parametrize("profiles", [PATIENT, CARELESS], ids=["longer time-out", "not filtered"])
async def test_a_cluster_joins_that_only_this_profile_takes(tmp_path: Path, profiles: str) -> None:
    async with a_scene(tmp_path, profiles) as scene:
        await scene.place("web", ONE)
        await scene.world.soon_scheduled("web", status="False")
        await scene.world.join("late", silent_for=scene.hours_ago(50))
        await scene.world.soon_on("web", "late")


@virtual
async def test_a_placement_that_was_handed_to_another_scheduler_is_cleaned_up_after(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.world.join("ams", silent_for=scene.hours_ago(0))
        await scene.place("web", ONE)
        await scene.world.soon_on("web", "ams")
        await scene.annotate("web", scheduler_name="nobody")
        await scene.world.delete(CLUSTER_SCOPED.placement, "web")

        async def is_gone() -> bool:
            return await scene.world.find(CLUSTER_SCOPED.placement, "web") is None

        await soon(is_gone)
        assert await scene.world.bindings("web") == []


# --- how they are built -----------------------------------------------------------------------------------------------


def document_of(*profiles: dict[str, Any], **hooks: list[str]) -> str:
    """One profile of these plugins alone, or of what is given."""
    enabled = {
        hook: {"enabled": [{"name": name} for name in names]} for hook, names in {**BASIC_HOOKS, **hooks}.items()
    }
    return safe_dump({"profiles": list(profiles) or [{"base": "Empty", "plugins": enabled}]}, sort_keys=False)


@contextmanager
def installed(folder: Path, *plugins: Any) -> Iterator[None]:
    def giving(plugin: Any) -> Callable[..., Any]:
        return lambda raw, handle: plugin

    (folder / "doubles").mkdir()
    with installed_doubles(folder / "doubles", {plugin.name(): giving(plugin) for plugin in plugins}):
        yield


def test_F3_003_F3_041_a_controller_is_not_built_with_scores_that_could_overflow(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    weight = MAX_TOTAL_SCORE // 100 // 2 + 1
    entries = "[{name: ClusterAffinity, weight: 3}, {name: SamePlacementAntiAffinity, weight: 3}]"
    file.write_text(f"{HEAD}profiles: [{{plugins: {{score: {{enabled: {entries}}}}}}}]\n", encoding="utf-8")
    settings = configured(file=file)
    (profile,) = settings.profiles
    score = profile.plugins["score"]

    def with_weights(most: int) -> Manager:  # a file may give a million at most
        heavy = replace(score, enabled=tuple(replace(choice, weight=most) for choice in score.enabled))
        changed = replace(profile, plugins={**profile.plugins, "score": heavy})
        return Manager(a_hub(), settings.model_copy(update={"profiles": (changed,)}), elects=False)

    with pytest.raises(ConfigurationError, match="total score of Score plugins could overflow"):
        with_weights(weight)
    assert with_weights(weight - 2).scheduler is not None


class ByLess:
    """The greater name first."""

    def name(self) -> str:
        return "Backwards"

    def less(self, one: QueueItem, other: QueueItem) -> bool:
        return (-one.priority, str(other.key)) < (-other.priority, str(one.key))


class ByKey(ByLess):
    def key(self, item: QueueItem) -> Any:
        return (-item.priority, [-ord(letter) for letter in str(item.key)])


def an_item(dice: random.Random) -> Any:
    key = PlacementKey.parse(dice.choice("abcdefgh"))
    return QueueItem(key, str(key), dice.randrange(3), None, 0, 0, None)  # type: ignore[arg-type]


@virtual
@pytest.mark.parametrize("plugin", [ByLess(), ByKey()], ids=["less", "key"])
async def test_F3_047_F3_075_one_order_of_the_queue_whether_by_less_or_by_key(tmp_path: Path, plugin: Any) -> None:
    sort = {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "Backwards"}]}}
    text = document_of(*({"schedulerName": name, "plugins": sort} for name in ("DefaultScheduler", "other")))
    with installed(tmp_path, plugin):
        async with a_scene(tmp_path, text, "workers=1") as scene:
            names = ["ba", "ab", "aa", "bb"]
            for number, name in enumerate(names):
                profile = {"scheduler_name": "other"} if number % 2 else {}
                await scene.place(name, MANY, **profile)
                await scene.world.soon_scheduled(name, status="False")
            scene.attempts.records.clear()
            await scene.world.join("ams", silent_for=scene.hours_ago(0))
            await asyncio.sleep(30)
            assert [str(record.key) for record in scene.attempts.records][:4] == sorted(names, reverse=True)

            scheduler = scene.controller.scheduler
            assert scheduler is not None
            (less,) = {framework.queue_sort_func() for framework in scheduler.frameworks}
    dice = random.Random(7)
    for _ in range(10_000):
        one, two, three = (an_item(dice) for _ in range(3))
        assert less(one, two) == (less.key(one) < less.key(two)) == ByLess().less(one, two)
        assert not (less(one, two) and less(two, one))
        assert not (less(one, two) and less(two, three)) or less(one, three)
        ties = [not less(a, b) and not less(b, a) for a, b in ((one, two), (two, three), (one, three))]
        assert ties[2] or not (ties[0] and ties[1])


# --- partial scans ----------------------------------------------------------------------------------------------------


async def decide_in_turn(scene: Scene, *names: str) -> list[Decision]:
    """Of placements for two clusters each, one after the other."""
    for name in "abcdef":
        await scene.world.join(name, silent_for=scene.hours_ago(0))
    await asyncio.sleep(1)
    decisions = []
    for name in names:
        await scene.place(name, TWO)
        await scene.world.soon_scheduled(name)
        (record,) = [each for each in scene.attempts.of(name) if each.decision is not None]
        assert record.decision is not None
        decisions.append(record.decision)
    return decisions


def chosen(decisions: list[Decision]) -> list[str]:
    return ["".join(target.cluster for target in decision.targets) for decision in decisions]


@virtual
async def test_F3_088_without_filters_and_scores_clusters_are_taken_in_turn(tmp_path: Path) -> None:
    async with a_scene(tmp_path, document_of()) as scene:
        decisions = await decide_in_turn(scene, "one", "two", "three", "four")
        scheduler = scene.controller.scheduler
        assert scheduler is not None
        framework = scheduler.frameworks.default
        assert not framework.has_filter_plugins()
        assert not framework.has_score_plugins()
    assert chosen(decisions) == ["ab", "cd", "ef", "ab"]


@virtual
async def test_F3_089_without_scores_a_search_cluster_by_cluster_ends_with_as_many_as_are_wanted(
    tmp_path: Path,
) -> None:
    with installed(tmp_path, RejectingOneByOne("Door", "bf")):
        async with a_scene(tmp_path, document_of(filter=["Door"])) as scene:
            decisions = await decide_in_turn(scene, "one", "two", "three")
    assert [sorted(found) for found in chosen(decisions)] == [["a", "c"], ["d", "e"], ["a", "c"]]
    examined = [decision.verdicts.examined.bit_count() for decision in decisions if decision.verdicts is not None]
    assert examined == [3, 2, 4]
    assert [decision.rounds[0].scores.totals().tolist() for decision in decisions] == [[1, 1]] * 3


@virtual
async def test_F3_089_without_scores_all_clusters_that_a_vector_filter_passes_count_one(tmp_path: Path) -> None:
    with installed(tmp_path, Rejecting("Door", "bf")):
        async with a_scene(tmp_path, document_of(filter=["Door"])) as scene:
            decisions = await decide_in_turn(scene, "one", "two")
    assert chosen(decisions) == ["ed", "ed"]
    assert [decision.rounds[0].scores.totals().tolist() for decision in decisions] == [[1, 1, 1, 1]] * 2


# --- what a normal attempt does not do --------------------------------------------------------------------------------


class Explaining(Rejecting):
    explained = 0

    def explain_row(self, req: Any, frame: Any, row: int, reason: int) -> dict[str, object]:
        self.explained += 1
        return {"plugin": self.name()}


@virtual
async def test_F3_133_no_reason_is_explained_for_a_decision_alone(tmp_path: Path) -> None:
    plugin = Explaining("Door", "bf")
    with installed(tmp_path, plugin):
        async with a_scene(tmp_path, document_of(filter=["Door"]), "status.unselectedBudget=0") as scene:
            (decision,) = await decide_in_turn(scene, "one")
            assert decision.verdicts is not None
            assert plugin.explained == 0
            row = decision.frame.row_of("b")
            assert row is not None
            assert decision.verdicts.status(row) is not None
    assert plugin.explained > 0


class Signing(Scoring):
    READS = ("labels",)

    def sign(self, req: PlacementRequest) -> Hashable:
        return req.required


@virtual
async def test_F3_116_equal_placements_share_a_ranking_until_a_cluster_changes(tmp_path: Path) -> None:
    plugin = Signing("Points", {"b": 5, "e": 3})
    with installed(tmp_path, plugin):
        async with a_scene(tmp_path, document_of(score=["Points"]), "metrics.samplePlugins=0") as scene:
            decisions = await decide_in_turn(scene, "one", "two", "three")
            assert plugin.calls == ["Points.score"]
            assert chosen(decisions) == ["be"] * 3
            assert [decision.request.placement for decision in decisions] == ["one", "two", "three"]

            await scene.world.relabel("b", zone="north")
            plugin.points = {"c": 9}
            await scene.place("four", TWO)
            await scene.world.soon_scheduled("four")
            assert len(plugin.calls) == 2
            await scene.world.soon_on("four", "c", "f")


@virtual
async def test_F3_042_the_option_that_is_given_last_wins(tmp_path: Path) -> None:
    """Over the document, and over itself."""
    share = "metrics.samplePlugins"
    async with a_scene(tmp_path, "metrics: {samplePlugins: 0}\n", f"{share}=50", f"{share}=100") as scene:
        await scene.place("web", ONE)
        await scene.world.soon_scheduled("web", status="False")
        labels = {"plugin": "DesiredBatch", "point": "batch", "status": "Success"}
        assert scene.sample("fleet_plugin_execution_duration_seconds_count", **labels) == len(scene.attempts.records)


@virtual
@pytest.mark.parametrize("percent", [0, 7, 100])
async def test_F3_030_F3_031_plugins_are_timed_in_the_share_of_attempts_that_is_configured(
    tmp_path: Path, percent: int
) -> None:
    async with a_scene(tmp_path, "", f"metrics.samplePlugins={percent}") as scene:
        for number in range(100):
            await scene.place(f"web-{number}", ONE)
        for number in range(100):
            await scene.world.soon_scheduled(f"web-{number}", status="False")
        labels = {"plugin": "DesiredBatch", "point": "batch", "status": "Success"}
        measured = scene.sample("fleet_plugin_execution_duration_seconds_count", **labels)
        attempts = scene.sample("fleet_scheduling_algorithm_duration_seconds_count")
        series = {
            sample.labels.get("plugin")
            for metric in scene.controller.registry.collect()
            for sample in metric.samples
            if metric.name == "fleet_plugin_execution_duration_seconds" and sample.value
        }
    assert attempts is not None
    assert attempts >= 100
    assert abs(100 * (measured or 0) / attempts - percent) <= 2
    assert bool(series) == bool(percent)


# --- items of the queue -----------------------------------------------------------------------------------------------

BACKING_OFF: Final = """\
profiles:
- backoffOnRejection: true
  plugins: {filter: {enabled: [{name: Moody}]}}
"""


class Moody(ScalarPlugin):
    """Takes clusters of the zone `open`, and fails while it is out of order."""

    READS = ("labels",)
    ROW_LOCAL = True
    is_broken = False

    def filter_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> Status | None:
        if self.is_broken:
            raise LookupError("out of order")
        return None if cluster.labels.get("zone") == "open" else Status.new(Code.UNSCHEDULABLE, "not open")


def item_of(scene: Scene, name: str) -> QueueItem:
    scheduler = scene.controller.scheduler
    assert scheduler is not None
    item = scheduler.queue.peek(PlacementKey.parse(name))
    assert item is not None
    return item


async def relabelled(scene: Scene, zone: str) -> None:
    await scene.world.relabel("ams", zone=zone)
    await asyncio.sleep(20)


@virtual
async def test_F3_096_F3_097_F3_098_F3_099_an_item_counts_its_attempts_and_its_copies_change_nothing(
    tmp_path: Path,
) -> None:
    plugin = Moody()
    with installed(tmp_path, plugin), capture_logs():
        async with a_scene(tmp_path, BACKING_OFF) as scene:
            await scene.world.join("ams", silent_for=scene.hours_ago(0))
            await scene.place("web", ONE, gates="review")
            await asyncio.sleep(100)
            cleared = scene.clock.monotonic()
            await scene.annotate("web", gates=None)
            await scene.world.soon_scheduled("web", status="False")
            first = item_of(scene, "web")
            assert first.initial_attempt_timestamp is not None
            assert first.initial_attempt_timestamp >= cleared * SECOND
            assert (first.attempts, first.unschedulable_count, first.consecutive_errors_count) == (1, 1, 0)

            plugin.is_broken = True
            await scene.world.relabel("ams", zone="x")
            await asyncio.sleep(0.5)  # taken early
            failed = item_of(scene, "web")
            assert failed.attempts == 1 + failed.consecutive_errors_count > 1
            assert failed.unschedulable_count == 1
            plugin.is_broken = False
            await asyncio.sleep(100)
            again = item_of(scene, "web")
            assert (again.unschedulable_count, again.consecutive_errors_count) == (2, 0)
            assert again.attempts == len([each for each in scene.attempts.of("web") if each.decision is not None])
            assert again.timestamp > failed.timestamp > first.timestamp
            assert again.initial_attempt_timestamp == first.initial_attempt_timestamp
            last = scene.attempts.of("web")[-1]
            assert last.result is AttemptResult.SHORT

            again.attempts = again.priority = 1000
            assert item_of(scene, "web").attempts < 1000 > item_of(scene, "web").priority
            await relabelled(scene, "open")
            assert await scene.world.in_use("web") == {"ams"}
            bound = scene.clock.monotonic() - first.initial_attempt_timestamp / SECOND
            total = sum(
                sample.value
                for metric in scene.controller.registry.collect()
                for sample in metric.samples
                if sample.name == "fleet_scheduling_sli_duration_seconds_sum"
            )
            assert 100 < total <= bound < 130


@virtual
async def test_F3_096_of_equal_placements_the_one_that_came_back_earlier_goes_first(tmp_path: Path) -> None:
    text = "profiles: [{plugins: {filter: {enabled: [{name: Moody}]}}}]"
    with installed(tmp_path, Moody()):
        async with a_scene(tmp_path, text, "workers=1") as scene:
            await scene.world.join("ams", silent_for=scene.hours_ago(0))
            for name in ("first", "second"):
                await scene.place(name, ONE)
                await scene.world.soon_scheduled(name, status="False")
            await scene.world.edit_policy("first", numberOfClusters=2)
            await asyncio.sleep(20)
            assert item_of(scene, "first").timestamp > item_of(scene, "second").timestamp
            scene.attempts.records.clear()
            await relabelled(scene, "open")
            assert [str(record.key) for record in scene.attempts.records][:2] == ["second", "first"]
