"""The status of a placement in the namespace it selects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from fleet.errors import Unavailable
from fleet.placement.selection.resolution import SelectionResult
from tests.fake_hub import Faults, Json
from tests.faults.scripted import Refuse
from tests.faults.virtual import virtual, within
from tests.unit.placement.workbench import (
    NAMESPACE_TERM,
    RUNNING,
    WEB,
    Neighbours,
    Workbench,
    a_placement,
    an_object,
    pick_n,
)

COPY: Final = "namespaces/shop/clusterresourceplacementstatuses/web"
COPIES: Final = "clusterresourceplacementstatuses"
SYNCED: Final = ("True", "StatusSyncSucceeded", "the status is shown in namespace shop")
CONFIG_TERM: Final = {"group": "", "version": "v1", "kind": "ConfigMap"}


@asynccontextmanager
async def accessible(**spec: Any) -> AsyncIterator[Workbench]:
    async with Workbench() as bench:
        a_placement(bench.hub, **{"statusReportingScope": "NamespaceAccessible", "policy": pick_n(1), **spec})
        yield bench


def selecting(namespace: str) -> Json:
    return {"spec": {"resourceSelectors": [{**NAMESPACE_TERM, "name": namespace}]}}


@within(accessible)
async def test_the_copy_is_the_status_without_the_condition_about_the_copy(bench: Workbench) -> None:
    await bench.settle()
    Neighbours(bench.hub).schedule("c1")
    Neighbours(bench.hub).report("c1", RUNNING)
    await bench.settle()
    status = bench.status()
    conditions = [one for one in status["conditions"] if not one["type"].endswith("StatusSynced")]
    assert bench.hub.get(COPY)["sourceStatus"] == {**status, "conditions": conditions}
    assert bench.condition("StatusSynced") == SYNCED


@within(accessible)
async def test_the_copy_belongs_to_the_placement(bench: Workbench) -> None:
    await bench.settle()
    owners = bench.hub.get(COPY)["metadata"]["ownerReferences"]
    assert [one["uid"] for one in owners] == [bench.hub.get(WEB)["metadata"]["uid"]]


@virtual
async def test_nothing_is_shown_unless_asked_for() -> None:
    async with accessible(statusReportingScope="ClusterScopeOnly") as bench:
        await bench.settle()
        assert bench.hub.names(COPIES) == []
        assert bench.conditions() == {"Scheduled": "Unknown"}


@within(accessible)
async def test_a_deleted_copy_is_made_again(bench: Workbench) -> None:
    await bench.settle()
    bench.hub.remove(COPY)
    await bench.settle()
    assert bench.hub.names(COPIES) == ["web"]


@within(accessible)
async def test_a_copy_of_a_former_placement_becomes_ours(bench: Workbench) -> None:
    owner = {"kind": "ClusterResourcePlacement", "name": "web", "uid": "of-the-former"}
    bench.hub.put(COPY, {"metadata": {"ownerReferences": [owner]}, "sourceStatus": {"conditions": []}})
    await bench.settle()
    owners = bench.hub.get(COPY)["metadata"]["ownerReferences"]
    assert [one["uid"] for one in owners] == [bench.hub.get(WEB)["metadata"]["uid"]]
    assert bench.condition("StatusSynced") == SYNCED


@virtual
async def test_a_namespace_that_does_not_exist_is_told_and_not_an_error() -> None:
    async with accessible(resourceSelectors=[{**NAMESPACE_TERM, "name": "nowhere"}]) as bench:
        await bench.settle()
        status, reason, message = bench.condition("StatusSynced")
        assert (status, reason) == ("False", "StatusSyncFailed")
        assert message.startswith("the status cannot be shown in namespace nowhere: ")
        assert bench.told.reasons() == ["PlacementStatusSyncFailed"]


@within(accessible)
@pytest.mark.parametrize("code, reason", [(403, "Forbidden"), (422, "Invalid")])
async def test_a_refused_copy_is_told_and_not_an_error(bench: Workbench, code: int, reason: str) -> None:
    bench.hub.fault = _refusing_copies(Refuse(code, reason))
    await bench.settle()
    assert bench.condition("StatusSynced")[:2] == ("False", "StatusSyncFailed")


@within(accessible)
async def test_a_hub_that_is_down_for_a_while_says_nothing_about_the_copy(bench: Workbench) -> None:
    bench.hub.fault = _refusing_copies(Refuse(503, "ServiceUnavailable"))
    with pytest.raises(Unavailable):
        await bench.settle()
    assert bench.conditions() == {"Scheduled": "Unknown"}


def _refusing_copies(refusal: Refuse) -> Faults:
    return lambda request: refusal if request.is_write and COPIES in request.path else None


@virtual
@pytest.mark.parametrize(
    "terms",
    [[CONFIG_TERM], [NAMESPACE_TERM, {**NAMESPACE_TERM, "name": "other"}]],
    ids=["no namespace", "two namespaces"],
)
async def test_PL_14_without_exactly_one_namespace_there_is_nowhere_to_show_it(terms: list[Json]) -> None:
    async with accessible(resourceSelectors=terms) as bench:
        await bench.settle()
        text = "PL-14: status can be shown in exactly one namespace: select exactly one"
        assert bench.condition("StatusSynced") == ("False", "StatusSyncFailed", text)


@virtual
@pytest.mark.parametrize("found, shown", [(["shop"], ["web"]), (["shop", "other"], []), ([], [])])
async def test_a_namespace_selected_by_label_counts_if_it_is_the_only_one(found: list[str], shown: list[str]) -> None:
    term = {"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": {"a": "b"}}}
    async with accessible(resourceSelectors=[term]) as bench:
        bench.content.selected = SelectionResult(tuple(an_object(one, kind="Namespace", namespace="") for one in found))
        await bench.settle()
        assert bench.hub.names(COPIES) == shown


@within(accessible)
async def test_an_invalid_selector_is_shown_where_the_users_of_the_namespace_look(bench: Workbench) -> None:
    bench.content.reject("PL-05: kind Widget does not exist on the hub")
    await bench.settle()
    assert bench.condition("StatusSynced") == SYNCED
    shown = bench.hub.get(COPY)["sourceStatus"]["conditions"]
    assert [(condition["reason"], condition["message"]) for condition in shown] == [
        ("InvalidResourceSelectors", "PL-05: kind Widget does not exist on the hub")
    ]


@within(accessible)
@pytest.mark.parametrize("memory", ["copy", "status"])
async def test_PL_16_another_namespace_than_at_first_is_refused(bench: Workbench, memory: str) -> None:
    await bench.settle()
    if memory == "status":
        bench.hub.remove(COPY)
    bench.hub.namespaces.add("other")
    bench.hub.edit(WEB, **selecting("other"))
    await bench.settle()
    text = "PL-16: the namespace shop cannot be replaced by other"
    assert bench.condition("Scheduled") == ("False", "InvalidResourceSelectors", text)
    assert [path for path in bench.hub.objects if COPIES in path and "other" in path] == []
    assert bench.hub.get(COPY)["sourceStatus"]["conditions"][0]["message"] == text


@within(accessible)
async def test_the_first_namespace_may_be_selected_again(bench: Workbench) -> None:
    await bench.settle()
    for namespace in ("other", "shop"):
        bench.hub.edit(WEB, **selecting(namespace))
        await bench.settle()
    assert bench.condition("Scheduled")[1] == "SchedulePending"


@virtual
async def test_an_invalid_selector_is_not_shown_where_no_namespace_is_selected() -> None:
    async with accessible(resourceSelectors=[CONFIG_TERM]) as bench:
        bench.content.reject("PL-06: ConfigMap is namespaced; select its namespace or use a ResourcePlacement")
        await bench.settle()
        assert bench.hub.names(COPIES) == []
        assert bench.conditions() == {"Scheduled": "False"}


@within(accessible)
async def test_a_quiet_placement_has_a_quiet_copy(bench: Workbench) -> None:
    await bench.settle()
    bench.hub.forget_requests()
    await bench.pass_over()
    assert bench.hub.writes() == []
