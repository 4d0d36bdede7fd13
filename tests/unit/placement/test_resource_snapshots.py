"""Resource snapshot groups: what they look like, when there is a new one, and that no crash leaves half of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from fleet.clock import epoch_nanoseconds
from fleet.errors import ConnectionLost, StaleInputs, Unavailable
from fleet.kube.api import Request
from fleet.kube.objects import RetryPolicy
from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.model.views import Metadata, Observed, Placement, PlacementSpec, RolloutStrategy
from fleet.placement.selection.resolution import SelectedObject, SelectionResult
from fleet.placement.snapshots.hashing import resources_hash
from fleet.placement.snapshots.resource_snapshots import EnsureResult, Pacing, ResourceSnapshots, SeveralLatestGroups
from tests.fake_hub import Json, Lost, Refused
from tests.faults.virtual import VirtualClock, no_jitter, run_virtually, virtual, within
from tests.unit.placement.content_hub import ContentHub

SNAPSHOTS = CLUSTER_SCOPED.resource_snapshot
PREFIX = "kubernetes-fleet.io/"
LATEST = PREFIX + "is-latest-snapshot"
HASH = PREFIX + "resource-hash"
SIZE = PREFIX + "number-of-resource-snapshots"
SEEN_AT = PREFIX + "next-resource-snapshot-candidate-detection-time"
PART = 2000
LARGE = PART // 2 + 1


def an_object(name: str, *, size: int = 0, kind: str = "ConfigMap", group: str = "", **metadata: Any) -> SelectedObject:
    version = f"{group}/v1" if group else "v1"
    document = {"apiVersion": version, "data": {"x": "y" * size}, "kind": kind, "metadata": {"name": name, **metadata}}
    return SelectedObject(group, "v1", kind, "", name, msgspec.json.encode(document, order="deterministic"))


def selection(*objects: str | SelectedObject) -> SelectionResult:
    return SelectionResult(tuple(one if isinstance(one, SelectedObject) else an_object(one) for one in objects))


def large(*names: str) -> SelectionResult:
    """Each object fills a snapshot."""
    return selection(*(an_object(name, size=LARGE) for name in names))


def hash_of(selected: SelectionResult) -> str:
    return resources_hash(one.content for one in selected.objects)


@dataclass
class Bench:
    hub: ContentHub
    groups: ResourceSnapshots
    clock: VirtualClock
    woken: list[str] = field(default_factory=list)

    async def ensure(
        self,
        selected: SelectionResult,
        *,
        limit: int = 10,
        strategy: str = "RollingUpdate",
        namespace: str = "",
        reads_live: bool = False,
        uid: str = "uid-web",
    ) -> EnsureResult:
        await asyncio.sleep(0.1)
        return await self.groups.ensure(
            Metadata(name="web", namespace=namespace, uid=uid),
            PlacementSpec(strategy=RolloutStrategy(type=strategy), revision_history_limit=limit),
            selected,
            now=epoch_nanoseconds(self.clock),
            reads_live=reads_live,
        )

    async def replace(self, selected: SelectionResult, *, limit: int = 10) -> EnsureResult:
        """Waits for as long as it takes."""
        done = await self.ensure(selected, limit=limit)
        while done.wait_seconds is not None:
            await asyncio.sleep(done.wait_seconds)
            done = await self.ensure(selected, limit=limit)
        return done

    def snapshots(self, resource: Resource = SNAPSHOTS) -> list[str]:
        return self.hub.names(resource.plural)

    def snapshot(self, name: str) -> Json:
        return self.hub.objects[SNAPSHOTS.item(name)]

    def annotation(self, name: str, key: str) -> str | None:
        found: str | None = self.snapshot(name)["metadata"].get("annotations", {}).get(key)
        return found

    def label(self, name: str, key: str) -> str | None:
        found: str | None = self.snapshot(name)["metadata"]["labels"].get(key)
        return found

    def annotate(self, name: str, **annotations: str | None) -> None:
        self.hub.edit(f"{SNAPSHOTS.plural}/{name}", metadata={"annotations": annotations})

    def writes(self) -> list[str]:
        told = self.hub.writes()
        self.hub.forget_requests()
        return told


@asynccontextmanager
async def working(hub: ContentHub | None = None, pacing: Pacing | None = None) -> AsyncIterator[Bench]:
    hub = hub or ContentHub()
    retry_policy = RetryPolicy(hub.clock, no_jitter)
    groups = ResourceSnapshots(
        hub.access(), (CLUSTER_SCOPED, NAMESPACED), retry_policy=retry_policy, pacing=pacing, part_bytes=PART
    )
    bench = Bench(hub, groups, hub.clock)
    groups.subscribe(bench.woken.append)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(groups.run(), name="groups")
        yield bench
        task.cancel()


# --- what a group looks like ------------------------------------------------------------------------------------------


@within(working)
async def test_a_small_selection_is_one_snapshot(bench: Bench) -> None:
    done = await bench.ensure(selection("a", "b"))
    assert done == EnsureResult(0, ("web-0-snapshot",))
    document = bench.snapshot("web-0-snapshot")
    assert document["metadata"]["labels"] == {PREFIX + "parent-CRP": "web", PREFIX + "resource-index": "0"} | {
        LATEST: "true"
    }
    assert document["metadata"]["annotations"] == {
        HASH: hash_of(selection("a", "b")),
        SIZE: "1",
        PREFIX + "number-of-enveloped-object": "0",
    }
    assert document["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacement",
            "name": "web",
            "uid": "uid-web",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert [one["metadata"]["name"] for one in document["spec"]["selectedResources"]] == ["a", "b"]


@within(working)
async def test_nothing_selected_is_a_group_as_well(bench: Bench) -> None:
    await bench.ensure(SelectionResult())
    assert bench.snapshot("web-0-snapshot")["spec"] == {"selectedResources": []}
    assert bench.annotation("web-0-snapshot", SIZE) == "1"
    assert bench.annotation("web-0-snapshot", HASH) == hash_of(SelectionResult())


@within(working)
async def test_a_large_selection_is_several_snapshots_of_which_only_the_first_says_more_than_its_place(
    bench: Bench,
) -> None:
    done = await bench.ensure(large("a", "b", "c"))
    assert done.names == ("web-0-snapshot", "web-0-0", "web-0-1")
    assert bench.annotation("web-0-snapshot", SIZE) == "3"
    metadata = bench.snapshot("web-0-1")["metadata"]
    assert metadata["labels"] == {PREFIX + "parent-CRP": "web", PREFIX + "resource-index": "0"}
    assert metadata["annotations"] == {PREFIX + "subindex-of-resource-snapshot": "1"}
    assert metadata["ownerReferences"][0]["controller"] is True


@within(working)
async def test_a_namespaced_placement_has_its_snapshots_beside_it(bench: Bench) -> None:
    done = await bench.ensure(selection("a"), namespace="shop")
    path = NAMESPACED.resource_snapshot.item("shop/web-0-snapshot")
    assert bench.hub.objects[path]["metadata"]["ownerReferences"][0]["kind"] == "ResourcePlacement"
    assert done.names == ("web-0-snapshot",)
    assert bench.snapshots() == []


@virtual
async def test_envelopes_are_counted() -> None:
    fleet = "placement.kubernetes-fleet.io"
    async with working() as bench:
        await bench.ensure(
            selection(
                an_object("e1", kind="ClusterResourceEnvelope", group=fleet),
                an_object("e2", kind="ResourceEnvelope", group=fleet),
                an_object("e3", annotations={PREFIX + "envelope-configmap": "true"}),
                an_object("e4", labels={PREFIX + "envelope-configmap": "true"}),
                an_object("e5", kind="ResourceEnvelope", group="example.com"),
            )
        )
        assert bench.annotation("web-0-snapshot", PREFIX + "number-of-enveloped-object") == "3"


@within(working)
async def test_external_placements_have_no_groups_of_ours(bench: Bench) -> None:
    with pytest.raises(ValueError, match="created by staged updates"):
        await bench.ensure(selection("a"), strategy="External")
    assert bench.snapshots() == []


# --- the same selection -----------------------------------------------------------------------------------------------


@within(working)
async def test_an_unchanged_selection_is_not_written_again(bench: Bench) -> None:
    first = await bench.ensure(large("a", "b"))
    bench.writes()
    assert await bench.ensure(large("a", "b")) == first
    assert bench.writes() == []


@within(working)
async def test_another_hash_for_the_same_objects_is_no_change(bench: Bench) -> None:
    await bench.ensure(large("a", "b"))
    bench.annotate("web-0-snapshot", **{HASH: "of-another-version"})
    bench.writes()
    assert (await bench.ensure(large("a", "b"))).index == 0
    assert (await bench.ensure(large("b", "a"))).wait_seconds is None
    assert bench.writes() == []


@within(working)
async def test_the_objects_of_a_group_are_read_once(bench: Bench) -> None:
    await bench.ensure(large("a", "b"))
    bench.annotate("web-0-snapshot", **{HASH: "of-another-version"})
    bench.hub.forget_requests()
    for _ in range(5):
        await bench.ensure(large("a", "b"))
    assert bench.hub.asked("web-0-") == 2


@within(working)
async def test_a_lost_latest_label_comes_back(bench: Bench) -> None:
    await bench.ensure(selection("a"))
    bench.hub.edit(f"{SNAPSHOTS.plural}/web-0-snapshot", metadata={"labels": {LATEST: "false"}})
    await bench.ensure(selection("a"))
    assert bench.label("web-0-snapshot", LATEST) == "true"


@within(working)
async def test_missing_parts_are_made_again(bench: Bench) -> None:
    await bench.ensure(large("a", "b", "c"))
    bench.hub.remove(f"{SNAPSHOTS.plural}/web-0-0")
    done = await bench.ensure(large("a", "b", "c"))
    assert done.names == ("web-0-snapshot", "web-0-0", "web-0-1")
    assert bench.snapshots() == ["web-0-0", "web-0-1", "web-0-snapshot"]


@within(working)
async def test_a_group_that_another_writer_began_with_other_parts_is_not_completed(bench: Bench) -> None:
    await bench.ensure(large("a", "b", "c"))
    bench.hub.remove(f"{SNAPSHOTS.plural}/web-0-0")
    whole = bench.snapshot("web-0-1")
    bench.hub.put(f"{SNAPSHOTS.plural}/web-0-1", {**whole, "spec": {"selectedResources": []}})
    assert (await bench.replace(large("a", "b", "c"))).index == 1


@within(working)
async def test_a_change_that_is_taken_back_leaves_no_trace(bench: Bench) -> None:
    await bench.ensure(selection("a"))
    assert (await bench.ensure(selection("b"))).wait_seconds
    assert bench.annotation("web-0-snapshot", SEEN_AT)
    assert (await bench.ensure(selection("a"))).wait_seconds is None
    assert bench.annotation("web-0-snapshot", SEEN_AT) is None
    assert bench.snapshots() == ["web-0-snapshot"]


# --- another selection ------------------------------------------------------------------------------------------------


@within(working)
async def test_a_changed_selection_is_a_new_group_and_the_old_one_stays(bench: Bench) -> None:
    await bench.ensure(selection("a"))
    done = await bench.replace(selection("b"))
    assert done == EnsureResult(1, ("web-1-snapshot",))
    assert bench.label("web-0-snapshot", LATEST) == "false"
    assert bench.label("web-1-snapshot", LATEST) == "true"
    assert bench.annotation("web-0-snapshot", SEEN_AT) is None


@within(working)
async def test_groups_are_at_least_thirty_seconds_apart(bench: Bench) -> None:
    await bench.ensure(selection("a"))
    waiting = await bench.ensure(selection("b"))
    assert waiting.index == 0
    assert waiting.wait_seconds is not None
    assert 29 < waiting.wait_seconds <= 30
    await asyncio.sleep(waiting.wait_seconds - 1)
    assert (await bench.ensure(selection("b"))).index == 0
    await asyncio.sleep(1)
    assert (await bench.ensure(selection("b"))).index == 1


@within(working)
async def test_changes_of_an_old_group_are_collected_for_fifteen_seconds_from_the_first(bench: Bench) -> None:
    await bench.ensure(selection("a"))
    await asyncio.sleep(1000)
    waiting = await bench.ensure(selection("b"))
    assert waiting.wait_seconds is not None
    assert 15 <= waiting.wait_seconds < 16
    await asyncio.sleep(10)
    again = await bench.ensure(selection("c"))
    assert again.wait_seconds is not None
    assert 4 < again.wait_seconds < 6
    await asyncio.sleep(again.wait_seconds)
    assert (await bench.ensure(selection("c"))).index == 1


@within(working)
async def test_waiting_writes_once(bench: Bench) -> None:
    await bench.ensure(selection("a"))
    await bench.ensure(selection("b"))
    assert bench.writes()
    await bench.ensure(selection("b"))
    await bench.ensure(selection("c"))
    assert bench.writes() == []


@within(working)
async def test_while_it_waits_the_old_group_can_be_described(bench: Bench) -> None:
    await bench.ensure(large("a", "b"))
    waiting = await bench.ensure(selection("c"))
    placement = a_placement()
    assert waiting.index == 0
    assert bench.groups.resources_of(placement, 0) == [
        {"version": "v1", "kind": "ConfigMap", "name": "a"},
        {"version": "v1", "kind": "ConfigMap", "name": "b"},
    ]
    assert bench.groups.index_of(placement, "web-0-0") == 0
    assert bench.groups.index_of(placement, "web-9-snapshot") is None


@virtual
async def test_without_pacing_there_is_nothing_to_remember() -> None:
    async with working(pacing=Pacing(minimum_interval=0, collection_time=0)) as bench:
        await bench.ensure(selection("a"))
        bench.writes()
        assert (await bench.ensure(selection("b"))).index == 1
        assert [write.partition(" ")[0] for write in bench.writes()] == ["PATCH", "POST"]


@pytest.mark.parametrize("text", ["soon", "2099-01-01T00:00:00Z"])
def test_a_time_that_cannot_be_does_not_hold_up_a_change(text: str) -> None:
    @virtual
    async def run() -> None:
        async with working() as bench:
            await bench.ensure(selection("a"))
            await asyncio.sleep(60)
            bench.annotate("web-0-snapshot", **{SEEN_AT: text})
            waiting = await bench.ensure(selection("b"))
            assert waiting.wait_seconds is not None
            assert waiting.wait_seconds < 16

    run()


@within(working)
async def test_a_group_that_lost_its_label_is_replaced_without_waiting(bench: Bench) -> None:
    await bench.ensure(selection("a"))
    bench.hub.edit(f"{SNAPSHOTS.plural}/web-0-snapshot", metadata={"labels": {LATEST: "false"}})
    assert (await bench.ensure(selection("b"))).index == 1


@within(working)
async def test_the_oldest_groups_go_with_all_their_parts(bench: Bench) -> None:
    for name in "abcd":
        await bench.replace(large(name, name + "2"), limit=2)
    assert bench.snapshots() == ["web-2-0", "web-2-snapshot", "web-3-0", "web-3-snapshot"]


@within(working)
async def test_with_a_limit_of_one_only_the_latest_group_is_left_and_indices_go_on(bench: Bench) -> None:
    for name in "abc":
        await bench.replace(selection(name), limit=1)
    assert bench.snapshots() == ["web-2-snapshot"]


@within(working)
async def test_indices_go_on_after_a_group_that_is_being_deleted(bench: Bench) -> None:
    await bench.ensure(selection("a"))
    bench.hub.edit(f"{SNAPSHOTS.plural}/web-0-snapshot", metadata={"finalizers": ["example.com/f"]})
    bench.hub.remove(f"{SNAPSHOTS.plural}/web-0-snapshot")
    assert (await bench.ensure(selection("a"))).index == 1


@within(working)
async def test_two_latest_groups_are_an_error_that_names_them(bench: Bench) -> None:
    await bench.ensure(selection("a"))
    await bench.replace(selection("b"))
    bench.hub.edit(f"{SNAPSHOTS.plural}/web-0-snapshot", metadata={"labels": {LATEST: "true"}})
    with pytest.raises(SeveralLatestGroups, match="web-0-snapshot, web-1-snapshot"):
        await bench.ensure(selection("b"))


@within(working)
async def test_what_a_deleted_placement_of_the_same_name_left_is_none_of_ours(bench: Bench) -> None:
    await bench.ensure(selection("a"), uid="uid-old")
    done = await bench.ensure(selection("a"), uid="uid-new")
    assert done == EnsureResult(1, ("web-1-snapshot",))
    assert bench.snapshot("web-1-snapshot")["metadata"]["ownerReferences"][0]["uid"] == "uid-new"


@virtual
async def test_a_conflict_asks_for_another_pass() -> None:
    async with working(pacing=Pacing(0, 0)) as bench:
        await bench.ensure(selection("a"))
        bench.hub.before_write.append(lambda: bench.annotate("web-0-snapshot", other="changed"))
        with pytest.raises(StaleInputs):
            await bench.ensure(selection("b"))
        assert (await bench.ensure(selection("b"))).index == 1


# --- others -----------------------------------------------------------------------------------------------------------


@within(working)
async def test_what_others_do_to_a_group_wakes_its_placement_and_what_we_do_wakes_nobody(bench: Bench) -> None:
    await bench.ensure(selection("a"))
    await asyncio.sleep(1)
    assert bench.woken == []
    bench.hub.remove(f"{SNAPSHOTS.plural}/web-0-snapshot")
    await asyncio.sleep(1)
    assert bench.woken == ["web"]


@virtual
async def test_groups_of_another_controller_are_taken_over() -> None:
    """Longer annotations, another split, another text for the hash: all of it complete."""
    hub = ContentHub()
    async with working(hub) as bench:
        await bench.ensure(large("a", "b", "c"))
        parts = [bench.snapshot(name)["spec"]["selectedResources"] for name in ("web-0-snapshot", "web-0-0", "web-0-1")]
        hub.edit(f"{SNAPSHOTS.plural}/web-0-snapshot", spec={"selectedResources": [*parts[0], *parts[1]]})
        hub.edit(f"{SNAPSHOTS.plural}/web-0-0", spec={"selectedResources": parts[2]})
        hub.remove(f"{SNAPSHOTS.plural}/web-0-1")
        bench.annotate("web-0-snapshot", **{HASH: "theirs", SIZE: "2"})
    async with working(hub) as bench:
        bench.writes()
        assert await bench.ensure(large("a", "b", "c")) == EnsureResult(0, ("web-0-snapshot", "web-0-0"))
        assert bench.writes() == []


# --- crashes ----------------------------------------------------------------------------------------------------------


def a_placement() -> Observed[Placement]:
    return Observed(Placement(metadata=Metadata(name="web", uid="uid-web")), b"")


SELECTIONS = (large("a", "b"), large("a", "b", "c"), selection("d"))


async def _try(bench: Bench, selected: SelectionResult, *, limit: int, reads_live: bool) -> EnsureResult | None:
    assert len(bench.hub.requests) < 1000, "this comes to no end"
    try:
        return await bench.ensure(selected, limit=limit, reads_live=reads_live)
    except (StaleInputs, Unavailable, ConnectionLost):
        return None


async def _restarting(hub: ContentHub, limit: int) -> None:
    """Three selections one after the other, each tried until it is done, by a new process every time."""
    for selected in SELECTIONS:
        done: EnsureResult | None = None
        while done is None or done.wait_seconds is not None:
            async with working(hub, Pacing(minimum_interval=5, collection_time=2)) as bench:
                done = await _try(bench, selected, limit=limit, reads_live=False)
            await asyncio.sleep((done and done.wait_seconds) or 0)


async def _going_on(hub: ContentHub, limit: int) -> None:
    """The same by one process, which looks twice after a failure."""
    async with working(hub, Pacing(minimum_interval=5, collection_time=2)) as bench:
        for selected in SELECTIONS:
            done: EnsureResult | None = None
            failed = False
            while done is None or done.wait_seconds is not None:
                done = await _try(bench, selected, limit=limit, reads_live=failed)
                failed = done is None
                await asyncio.sleep((done and done.wait_seconds) or 0)


Story = Callable[[ContentHub, int], Coroutine[Any, Any, None]]


def _play(story: Story, limit: int, fault: Any = None) -> ContentHub:
    hub = ContentHub() if fault is None else ContentHub(fault=fault)
    run_virtually(story(hub, limit))
    return hub


@dataclass
class AtWrite:
    """Four times in a row from the n-th write on, which is more than retry_policy allows."""

    number: int
    fault: Callable[[], Any]
    times: int = 4
    seen: int = 0

    def __call__(self, request: Request) -> Any:
        if not request.is_write:
            return None
        self.seen += 1
        return self.fault() if self.number <= self.seen < self.number + self.times else None


FAULTS = {
    "refused": (4, lambda: Refused(Unavailable("down", status=503))),
    "lost": (1, lambda: Lost(ConnectionLost("reset"))),
    "done but said to be refused": (1, lambda: Lost(Unavailable("down", status=503))),
}


@pytest.mark.parametrize("story", [_restarting, _going_on])
@pytest.mark.parametrize("limit", [1, 2, 10])
@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_write_fails_the_end_is_the_same(fault: str, limit: int, story: Story) -> None:
    times, make = FAULTS[fault]
    undisturbed = _play(story, limit)
    want = _without_times(undisturbed.state())
    assert want
    for number in range(1, len(undisturbed.writes()) + 1):
        hub = _play(story, limit, AtWrite(number, make, times))
        assert _without_times(hub.state()) == want, f"write {number} {fault}"


def _without_times(state: Json) -> Json:
    for document in state.values():
        document["metadata"].pop("creationTimestamp")
        document["metadata"].pop("generation")
    return state
