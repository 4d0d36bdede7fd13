"""The placement controller at work: what wakes it, what it does again, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from fleet.errors import NotLeading
from fleet.kube.api import Request
from fleet.model.keys import PLACEMENT_CLEANUP
from fleet.placement.controller import RECHECK, WORKERS
from tests.fake_hub import FakeHub, in_turn
from tests.faults.scripted import Refuse
from tests.faults.virtual import virtual, within
from tests.unit.placement.workbench import RUNNING, SNAPSHOT, WEB, Neighbours, Office, a_placement, pick_n

COPY: Final = "namespaces/shop/clusterresourceplacementstatuses/web"


@asynccontextmanager
async def a_quiet_placement(hub: FakeHub | None = None, **spec: Any) -> AsyncIterator[tuple[Office, Neighbours]]:
    """Everything that was to do is done, and nobody has looked since."""
    async with Office(hub) as office:
        a_placement(office.hub, policy=pick_n(1), **spec)
        await office.soon()
        others = Neighbours(office.hub)
        others.schedule("c1")
        others.report("c1", RUNNING)
        await office.soon()
        office.content.resolved.clear()
        office.hub.forget_requests()
        yield office, others


@virtual
async def test_what_was_begun_is_finished_before_more_is_begun() -> None:
    async with a_quiet_placement() as (office, _):
        office.content.meanwhile = lambda: asyncio.sleep(1)
        for number in range(60):
            a_placement(office.hub, f"clusterresourceplacements/new-{number}", policy=pick_n(1))
        await asyncio.sleep(0.5)
        before = len(office.content.resolved)
        office.controller.enqueue("web")
        await office.soon()
        assert before == WORKERS, "the others wait"
        assert office.content.resolved.index("web") <= before + 1


@virtual
async def test_of_a_placement_that_vanishes_in_spite_of_its_finalizer_nothing_is_left() -> None:
    async with a_quiet_placement() as (office, _):
        assert office.hub.get(WEB)["metadata"]["finalizers"] == [PLACEMENT_CLEANUP]
        office.hub.vanish(WEB)
        await office.soon()
        assert office.hub.names("clusterschedulingpolicysnapshots") == []
        assert office.hub.names("clusterresourcesnapshots") == []


# --- what wakes it ----------------------------------------------------------------------------------------------------


@virtual
async def test_from_a_placement_to_its_status() -> None:
    async with a_quiet_placement() as (office, _):
        assert office.condition("Available")[:2] == ("True", "ResourceAvailable")
        assert office.told.workers == {"clusterresourceplacements": 16, "resourceplacements": 16}


@virtual
async def test_a_restart_looks_at_everything_and_writes_nothing() -> None:
    async with a_quiet_placement() as (office, _):
        await office.stop()
        await office.start()
        await office.soon()
        assert office.content.resolved == ["web"]
        assert office.hub.writes() == []


@virtual
@pytest.mark.parametrize(
    "change",
    [
        lambda office: office.hub.edit(WEB, spec={"revisionHistoryLimit": 3}),
        lambda office: office.hub.edit(WEB, metadata={"finalizers": []}),
        lambda office: office.hub.edit(SNAPSHOT, status={"observedCRPGeneration": 7}),
        lambda office: office.hub.remove(SNAPSHOT),
        lambda office: office.hub.remove("clusterresourcesnapshots/web-0-snapshot"),
        lambda office: office.hub.remove(Neighbours(office.hub).binding("c1")),
        lambda office: office.content.enqueue("web"),
        lambda office: office.controller.enqueue("web"),
    ],
    ids=["spec", "finalizers", "snapshot status", "snapshot", "content snapshot", "binding", "content", "asked"],
)
async def test_changes_that_matter_wake_it(change: Any) -> None:
    async with a_quiet_placement() as (office, _):
        change(office)
        await office.soon()
        assert set(office.content.resolved) == {"web"}


@virtual
@pytest.mark.parametrize("field", ["status", "reason", "message", "observedGeneration"])
async def test_a_binding_that_reports_something_else_wakes_it(field: str) -> None:
    async with a_quiet_placement() as (office, others):
        change_report(office, others, field, 0 if field == "observedGeneration" else "False")
        await office.soon()
        assert office.content.resolved == ["web"]


@virtual
@pytest.mark.parametrize("field", ["failedPlacements", "driftedPlacements", "diffedPlacements"])
async def test_a_binding_with_another_list_wakes_it(field: str) -> None:
    async with a_quiet_placement() as (office, others):
        status = office.hub.get(others.binding("c1"))["status"]
        listed = [{"version": "v1", "kind": "ConfigMap", "name": "a"}]
        office.hub.edit(others.binding("c1"), status={**status, field: listed})
        await office.soon()
        assert office.content.resolved == ["web"]


@virtual
@pytest.mark.parametrize(
    "change",
    [
        lambda office, others: office.hub.edit(WEB, metadata={"labels": {"a": "b"}}),
        lambda office, others: office.hub.edit(WEB, status={"novelty": 1}),
        lambda office, others: office.hub.edit(others.binding("c1"), metadata={"labels": {"a": "b"}}),
        lambda office, others: change_report(office, others, "lastTransitionTime", "2026-05-05T00:00:00Z"),
        lambda office, others: a_binding_of_nobody(office.hub),
    ],
    ids=["labels", "placement status", "labels of a binding", "times", "binding without a placement"],
)
async def test_changes_that_do_not_matter_wake_nobody(change: Any) -> None:
    async with a_quiet_placement() as (office, others):
        change(office, others)
        await office.soon()
        assert office.content.resolved == []


def change_report(office: Office, others: Neighbours, field: str, value: Any) -> None:
    path = others.binding("c1")
    first, *rest = office.hub.get(path)["status"]["conditions"]
    office.hub.edit(path, status={"conditions": [{**first, field: value}, *rest]})


def a_binding_of_nobody(hub: FakeHub) -> None:
    said = {"type": "Applied", "status": "True", "reason": "Ok", "message": ""}
    hub.put("clusterresourcebindings/stray", {"spec": {}, "status": {"conditions": [said]}})


@virtual
async def test_many_reports_at_once_are_one_look() -> None:
    async with a_quiet_placement() as (office, others):
        for _ in range(20):
            others.report("c1", {**RUNNING, "Applied": ("False", "ApplyInProgress")})
            others.report("c1", RUNNING)
        await office.soon()
        assert office.content.resolved == ["web"]


@virtual
async def test_a_deleted_copy_of_the_status_is_made_again() -> None:
    async with a_quiet_placement(statusReportingScope="NamespaceAccessible") as (office, _):
        office.hub.remove(COPY)
        await office.soon()
        assert office.hub.names("clusterresourceplacementstatuses") == ["web"]


@virtual
async def test_every_placement_is_looked_at_again_after_half_an_hour() -> None:
    async with a_quiet_placement() as (office, _):
        await asyncio.sleep(RECHECK - 10)
        assert office.content.resolved == []
        await asyncio.sleep(20)
        assert office.content.resolved == ["web"]
        assert office.hub.writes() == []


@virtual
async def test_a_change_of_content_is_rolled_out_when_it_has_been_collected() -> None:
    async with a_quiet_placement() as (office, _):
        office.content.selected = type(office.content.selected)(office.content.selected.objects[:1])
        office.content.enqueue("web")
        await office.soon()
        assert office.status()["observedResourceIndex"] == "0"
        assert len(office.status()["selectedResources"]) == 2
        assert office.told.passes[-1] == ("clusterresourceplacements", "requeue_after")
        await asyncio.sleep(60)
        assert office.told.passes[-1] == ("clusterresourceplacements", "success")
        assert office.status()["observedResourceIndex"] == "1"
        assert len(office.status()["selectedResources"]) == 1


@virtual
async def test_a_deleted_placement_is_cleaned_up() -> None:
    async with a_quiet_placement() as (office, _):
        office.hub.remove(WEB)
        await office.soon()
        assert office.hub.names("clusterresourceplacements") == []
        assert "web" in office.content.forgotten
        await asyncio.sleep(RECHECK * 2)
        assert office.content.resolved == []


# --- failures and the end ---------------------------------------------------------------------------------------------


@within(Office)
async def test_a_failed_pass_is_made_again_and_reads_live_then(office: Office) -> None:
    office.hub.fault = in_turn(*[Refuse(500, "InternalError")] * 2, to=lambda request: request.method == "POST")
    a_placement(office.hub, policy=pick_n(1))
    await office.soon()
    assert office.hub.names("clusterschedulingpolicysnapshots") == ["web-0"]
    assert [result for _, result in office.told.passes][:2] == ["error", "error"]
    assert any(one.path == f"/apis/placement.kubernetes-fleet.io/v1beta1/{WEB}" for one in reads(office.hub))


def reads(hub: FakeHub) -> list[Request]:
    return [one for one in hub.requests if not one.is_write]


@within(Office)
async def test_a_mistake_of_ours_stops_one_placement_and_not_the_others(office: Office) -> None:
    office.content.failure = ZeroDivisionError("a bug")
    with capture_logs() as logs:
        a_placement(office.hub)
        await office.soon()
    office.content.failure = None
    a_placement(office.hub, "clusterresourceplacements/other")
    await office.soon()
    assert "other-0" in office.hub.names("clusterschedulingpolicysnapshots")
    assert {(one["log_level"], one["placement"]) for one in logs} == {("error", "web")}


@within(Office)
async def test_asked_to_stop_it_finishes_what_it_has_begun(office: Office) -> None:
    a_placement(office.hub)
    while not office.hub.names("clusterschedulingpolicysnapshots"):
        await asyncio.sleep(0)
    office.stopping.set()
    await office.running
    assert office.condition("Scheduled")[0] == "Unknown"


@within(Office)
async def test_without_the_right_to_write_it_ends(office: Office) -> None:
    office.content.failure = NotLeading("the lease is lost")
    a_placement(office.hub)
    with pytest.raises(ExceptionGroup) as found:
        await office.running
    assert found.group_contains(NotLeading)
