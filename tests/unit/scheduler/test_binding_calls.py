"""What is decided about bindings is carried out in order, and new bindings find a name."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from fleet.errors import (
    DeadlineExceeded,
    InternalError,
    NotLeading,
    StaleInputs,
    TooManyRequests,
    Unavailable,
)
from fleet.framework.operations import Action, build_binding_name, drop_finalizer, unschedule
from fleet.kube.api import Request
from fleet.model.keys import (
    BOUND,
    SCHEDULED,
    UNSCHEDULED,
)
from fleet.scheduler.dispatch.binding_calls import WriteResult, raise_failure
from fleet.scheduler.dispatch.call_queue import QUANTUM
from tests.fake_hub import (
    CONFLICT,
    INTERNAL,
    LATE,
    LOST,
    TIMEOUT,
    TOO_MANY,
    UNAVAILABLE,
    UNREACHABLE,
    FakeHub,
    Fault,
    Json,
    Lost,
    Refused,
    Slow,
)
from tests.faults.virtual import virtual, within
from tests.unit.scheduler.desk import (
    UID,
    WEB,
    Desk,
    a_desk,
    a_document,
    create,
    failing,
    only_error,
    path_of,
    update,
)

# --- whose turn it is -------------------------------------------------------------------------------------------------


@virtual
async def test_a_placement_with_few_bindings_waits_for_its_turn_and_not_for_one_with_many() -> None:
    slots = 2
    async with a_desk(FakeHub(lambda _: Slow(1.0)), concurrency=slots) as desk:
        many = asyncio.create_task(desk.write(*(create(f"many{number}") for number in range(100))), name="many")
        await asyncio.sleep(0.5)
        desk.request = replace(WEB, placement="few", uid="another")
        await desk.write(*(create(f"few{number}") for number in range(3)))
        assert len(desk.server.objects) <= slots + QUANTUM + 3 + slots
        await many


# --- creating ---------------------------------------------------------------------------------------------------------


@within(a_desk)
async def test_a_new_binding_is_written_as_decided_and_seen_at_once(desk: Desk) -> None:
    (result,) = await desk.write(create("c7"))
    assert result.written is not None
    assert desk.site.kinds.bindings.store.get("web-c7-029abe88") == result.written
    assert desk.server.writes() == ["POST clusterresourcebindings"]
    assert desk.stored("web-c7-029abe88")["spec"]["clusterDecision"]["clusterScore"] == {
        "affinityScore": 3,
        "priorityScore": 0,
    }
    assert desk.told == [(Action.CREATE, "written")]


@virtual
async def test_a_binding_of_a_namespaced_placement_is_written_into_its_namespace() -> None:
    async with a_desk(namespaced=True) as desk:
        (result,) = await desk.write(create("c7"))
        assert desk.server.writes() == ["POST namespaces/shop/resourcebindings"]
        assert result.written is not None
        assert result.written.view.metadata.namespace == "shop"


@within(a_desk)
@pytest.mark.parametrize("state", [SCHEDULED, BOUND])
async def test_D24_a_name_held_by_what_was_to_be_created_counts_as_created(desk: Desk, state: str) -> None:
    desk.server.put(path_of("web-c7-029abe88"), a_document("c7", state=state, snapshot="web-1"))
    (result,) = await desk.write(create("c7"))
    assert result.error is None
    assert result.written == desk.site.kinds.bindings.store.get("web-c7-029abe88")
    assert desk.clusters() == ["c7"]


@within(a_desk)
@pytest.mark.parametrize(
    "holder",
    [a_document("c7", snapshot="web-0"), a_document("c7", state=UNSCHEDULED, snapshot="web-1")],
    ids=["an older snapshot", "unscheduled"],
)
async def test_D24_a_name_held_for_the_same_cluster_in_another_way_means_stale_inputs(desk: Desk, holder: Json) -> None:
    desk.server.put(path_of("web-c7-029abe88"), holder)
    error = only_error(await desk.write(create("c7")))
    assert isinstance(error, StaleInputs)
    assert "web-c7-029abe88" in str(error)
    assert desk.clusters() == ["c7"]
    assert desk.site.kinds.bindings.store.get("web-c7-029abe88") is not None


@within(a_desk)
@pytest.mark.parametrize(
    "holder",
    [
        a_document("c7", deleted=True),
        a_document("c7", snapshot="web-1", deleted=True),
        a_document("c7", placement="other", snapshot="web-1"),
        a_document("c8", snapshot="web-1"),
    ],
    ids=["terminating", "terminating, current", "another placement", "another cluster"],
)
async def test_D24_a_name_held_by_another_gives_way_to_a_name_made_of_the_holder(desk: Desk, holder: Json) -> None:
    uid = "9a1d7c44-0d2c-4f8e-8a3b-6f1f5a0b2c33"
    holder = {**holder, "metadata": {**holder["metadata"], "uid": uid}}
    desk.server.put(path_of("web-c7-029abe88"), holder)
    (result,) = await desk.write(create("c7"))
    assert result.written is not None
    assert result.written.view.metadata.name == "web-c7-d6f302cd"


def occupy(server: FakeHub, *, times: int) -> None:
    """Takes the name for c7, and every name that follows from who has the one before."""
    uid = None
    for number in range(times):
        name = build_binding_name(placement="web", placement_uid=UID, cluster="c7", holder_uid=uid)
        uid = f"holder-{number}"
        server.put(path_of(name), a_document("c7", deleted=True, uid=uid))


@within(a_desk)
async def test_D24_five_other_names_are_tried(desk: Desk) -> None:
    occupy(desk.server, times=5)
    assert only_error(await desk.write(create("c7"))) is None
    assert len(desk.server.objects) == 6


@within(a_desk)
async def test_D24_the_sixth_other_name_is_not_tried(desk: Desk) -> None:
    occupy(desk.server, times=6)
    error = only_error(await desk.write(create("c7")))
    assert isinstance(error, StaleInputs)
    assert "every name" in str(error)
    assert len(desk.server.objects) == 6


@within(a_desk)
async def test_a_holder_that_leaves_between_two_requests_frees_its_name(desk: Desk) -> None:
    path = path_of("web-c7-029abe88")
    desk.server.put(path, a_document("c7", deleted=True))

    def fault(request: Request) -> Fault:
        if not request.is_write:
            desk.server.objects.pop(path, None)
        return None

    desk.server.fault = fault
    (result,) = await desk.write(create("c7"))
    assert result.written is not None
    assert result.written.view.metadata.name == "web-c7-029abe88"


# --- groups -----------------------------------------------------------------------------------------------------------


@within(a_desk)
async def test_groups_are_written_one_after_the_other_and_each_at_once(desk: Desk) -> None:
    leaving = await desk.holds("leaving", a_document("c0", deleted=True))
    old = await desk.holds("old", a_document("c3"))
    gone = await desk.holds("gone", a_document("c4"))
    desk.server.fault = lambda _: Slow(1.0)
    await desk.write(drop_finalizer(leaving), create("c1"), create("c2"), update(Action.REFRESH, old), unschedule(gone))
    methods = [(str(one.method), at) for one, at in zip(desk.server.requests, desk.server.times[-5:], strict=True)]
    assert methods == [("PATCH", 0.0), ("POST", 1.0), ("POST", 1.0), ("PATCH", 2.0), ("PATCH", 3.0)]


@virtual
async def test_after_a_failure_the_rest_of_the_group_is_finished_and_the_next_group_left_out() -> None:
    async with a_desk(failing(Refused(INTERNAL))) as desk:
        old = await desk.holds("old", a_document("c3"))
        results = await desk.write(create("c1"), create("c2"), unschedule(old))
        assert [one.result for one in results] == ["failed", "written"]
        assert desk.told == [(Action.CREATE, "failed"), (Action.CREATE, "written")]
        assert desk.clusters() == ["c2", "c3"]
        assert desk.stored("old")["spec"]["state"] == SCHEDULED
        with pytest.raises(InternalError):
            raise_failure(results)


@within(a_desk)
async def test_requests_are_paid_from_the_budgets_of_binding_and_evicting(desk: Desk) -> None:
    old = await desk.holds("old", a_document("c3"))
    gone = await desk.holds("gone", a_document("c4"))
    await desk.write(create("c1"), update(Action.REFRESH, old), unschedule(gone))
    assert [one.call_class for one in desk.server.requests] == ["bind", "bind", "evict"]


def test_what_speaks_against_going_on_is_raised_before_what_may_heal() -> None:
    operation = create("c1")
    results = [WriteResult(operation, error=error) for error in (CONFLICT, NotLeading("deposed"), UNAVAILABLE)]
    with pytest.raises(NotLeading):
        raise_failure(results)


def test_nothing_is_raised_without_a_failure() -> None:
    raise_failure([WriteResult(create("c1"))])


# --- repeating --------------------------------------------------------------------------------------------------------


@virtual
@pytest.mark.parametrize("error", [UNAVAILABLE, TIMEOUT, LOST, UNREACHABLE], ids=lambda error: type(error).__name__)
async def test_a_write_is_repeated_for_want_of_a_server(error: Exception) -> None:
    async with a_desk(failing(*[Refused(error)] * 3)) as desk:
        assert only_error(await desk.write(create("c1"))) is None
        assert desk.server.times == pytest.approx([0, 0.01, 0.06, 0.31])


@virtual
async def test_a_write_is_attempted_four_times() -> None:
    async with a_desk(failing(*[Refused(UNAVAILABLE)] * 4)) as desk:
        assert isinstance(only_error(await desk.write(create("c1"))), Unavailable)
        assert len(desk.server.requests) == 4


@virtual
@pytest.mark.parametrize(
    "error, want", [(INTERNAL, InternalError), (TOO_MANY, TooManyRequests), (LATE, DeadlineExceeded)]
)
async def test_what_milliseconds_cannot_heal_is_left_to_the_back_off(error: Exception, want: type[Exception]) -> None:
    async with a_desk(failing(Refused(error))) as desk:
        assert isinstance(only_error(await desk.write(create("c1"))), want)
        assert len(desk.server.requests) == 1


@virtual
@pytest.mark.parametrize("error", [UNAVAILABLE, TIMEOUT, LOST])
async def test_D24_a_create_whose_answer_was_lost_makes_no_second_binding(error: Exception) -> None:
    async with a_desk(failing(Lost(error))) as desk:
        (result,) = await desk.write(create("c1"))
        assert result.result == "written"
        assert desk.clusters() == ["c1"]
