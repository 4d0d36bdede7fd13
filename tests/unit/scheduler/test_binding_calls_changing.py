"""Changes of existing bindings: what stands on what was read, and what goes on with the object as it is."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import (
    Conflict,
    StaleInputs,
)
from fleet.framework.operations import Action, drop_finalizer, unschedule
from fleet.model.keys import (
    BOUND,
    PREVIOUS_BINDING_STATE,
    SCHEDULED,
    SCHEDULER_BINDING_CLEANUP,
    UNSCHEDULED,
    WORK_CLEANUP,
)
from fleet.scheduler.dispatch.binding_calls import WriteResult
from tests.fake_hub import DELETED_AT, LOST, TIMEOUT, UNAVAILABLE, Json, Lost
from tests.faults.virtual import virtual, within
from tests.unit.scheduler.desk import (
    WEB,
    Desk,
    a_desk,
    a_document,
    failing,
    only_error,
    path_of,
    update,
)

# --- refreshing and reviving ------------------------------------------------------------------------------------------


@within(a_desk)
@pytest.mark.parametrize("state", [SCHEDULED, BOUND])
async def test_a_refresh_keeps_the_state_and_what_others_wrote(desk: Desk, state: str) -> None:
    annotations = {"theirs": "1"}
    binding = await desk.holds("b", a_document("c1", state=state, annotations=annotations))
    (result,) = await desk.write(update(Action.REFRESH, binding))
    assert result.result == "written"
    stored = desk.stored("b")
    assert stored["spec"]["state"] == state
    assert stored["spec"]["schedulingPolicySnapshotName"] == "web-1"
    assert stored["spec"]["clusterDecision"]["clusterScore"] == {"affinityScore": 7, "priorityScore": -1}
    assert stored["spec"]["resourceSnapshotName"] == "theirs"
    assert stored["metadata"]["annotations"] == annotations
    assert stored["status"] == {"theirs": True}


@within(a_desk)
async def test_D5_a_revival_restores_the_state_and_forgets_the_note(desk: Desk) -> None:
    note = {PREVIOUS_BINDING_STATE: BOUND, "theirs": "1"}
    binding = await desk.holds("b", a_document("c1", state=UNSCHEDULED, annotations=note))
    await desk.write(update(Action.REVIVE, binding))
    assert desk.stored("b")["spec"]["state"] == BOUND
    assert desk.stored("b")["metadata"]["annotations"] == {"theirs": "1"}


@within(a_desk)
@pytest.mark.parametrize("action", [Action.REFRESH, Action.REVIVE])
async def test_a_conflict_of_a_refresh_or_revival_is_returned_at_once(desk: Desk, action: Action) -> None:
    state = UNSCHEDULED if action is Action.REVIVE else SCHEDULED
    binding = await desk.holds("b", a_document("c1", state=state))
    desk.server.before_write = [lambda: desk.server.edit(path_of("b"), spec={"resourceSnapshotName": "new"})]
    (result,) = await desk.write(update(action, binding))
    assert isinstance(result.error, StaleInputs)
    assert result.result == "conflict"
    assert len(desk.server.requests) == 1
    assert desk.stored("b")["spec"]["schedulingPolicySnapshotName"] == "web-0"


@within(a_desk)
async def test_a_refresh_of_a_binding_that_is_gone_means_stale_inputs(desk: Desk) -> None:
    binding = await desk.holds("b", a_document("c1"))
    desk.server.objects.clear()
    assert isinstance(only_error(await desk.write(update(Action.REFRESH, binding))), StaleInputs)


@within(lambda: a_desk(concurrency=1))
async def test_a_waiting_refresh_is_rebased_on_a_fresh_object(desk: Desk) -> None:
    binding = await desk.holds("b", a_document("c1"))
    other = await desk.holds("a", a_document("c2"))
    async with desk.writing_after(update(Action.REFRESH, other), update(Action.REFRESH, binding)) as writing:
        desk.others_write("b", {"spec": {"state": BOUND}})
    assert [one.result for one in await writing] == ["written", "written"]
    assert desk.stored("b")["spec"]["state"] == BOUND
    assert desk.stored("b")["spec"]["schedulingPolicySnapshotName"] == "web-1"


@within(lambda: a_desk(concurrency=1))
async def test_Q_29_a_waiting_refresh_that_was_made_meanwhile_is_not_sent(desk: Desk) -> None:
    binding = await desk.holds("b", a_document("c1"))
    other = await desk.holds("a", a_document("c2"))
    refresh = update(Action.REFRESH, binding)
    async with desk.writing_after(update(Action.REFRESH, other), refresh) as writing:
        desk.others_write("b", {"spec": refresh.document(WEB)["spec"]})
    _, result = await writing
    assert (result.result, result.error) == ("skipped", None)
    assert desk.server.writes() == ["PATCH clusterresourcebindings/a"]


@within(lambda: a_desk(concurrency=1))
@pytest.mark.parametrize(
    "meanwhile",
    [{"spec": {"state": UNSCHEDULED}}, {"metadata": {"deletionTimestamp": DELETED_AT}}],
    ids=["unscheduled", "terminating"],
)
async def test_a_waiting_refresh_is_not_rebased_on_what_was_not_decided_about(desk: Desk, meanwhile: Json) -> None:
    binding = await desk.holds("b", a_document("c1"))
    other = await desk.holds("a", a_document("c2"))
    async with desk.writing_after(update(Action.REFRESH, other), update(Action.REFRESH, binding)) as writing:
        desk.others_write("b", meanwhile)
    _, result = await writing
    assert isinstance(result.error, StaleInputs)
    assert desk.stored("b")["spec"]["schedulingPolicySnapshotName"] == "web-0"


# --- unscheduling and dropping the finalizer --------------------------------------------------------------------------


@within(a_desk)
async def test_D5c_unscheduling_notes_the_state_and_keeps_everything_else(desk: Desk) -> None:
    binding = await desk.holds("b", a_document("c1", state=BOUND, annotations={"theirs": "1"}))
    await desk.write(unschedule(binding))
    stored = desk.stored("b")
    assert stored["spec"] == {**a_document("c1")["spec"], "state": UNSCHEDULED}
    assert stored["metadata"]["annotations"] == {"theirs": "1", PREVIOUS_BINDING_STATE: BOUND}
    assert stored["metadata"]["finalizers"] == [SCHEDULER_BINDING_CLEANUP]


@within(a_desk)
async def test_D5b_the_state_of_the_fresh_copy_is_noted_after_a_conflict(desk: Desk) -> None:
    binding = await desk.holds("b", a_document("c1", state=SCHEDULED))
    desk.server.before_write = [lambda: desk.server.edit(path_of("b"), spec={"state": BOUND})]
    (result,) = await desk.write(unschedule(binding))
    assert result.result == "written"
    assert desk.stored("b")["spec"]["state"] == UNSCHEDULED
    assert desk.stored("b")["metadata"]["annotations"] == {PREVIOUS_BINDING_STATE: BOUND}


@within(a_desk)
async def test_D5b_a_binding_that_is_unscheduled_already_keeps_its_note(desk: Desk) -> None:
    binding = await desk.holds("b", a_document("c1", state=SCHEDULED))
    note = {"metadata": {"annotations": {PREVIOUS_BINDING_STATE: BOUND}}, "spec": {"state": UNSCHEDULED}}
    desk.server.before_write = [lambda: desk.server.edit(path_of("b"), **note)]
    (result,) = await desk.write(unschedule(binding))
    assert result.error is None
    assert desk.stored("b")["metadata"]["annotations"] == {PREVIOUS_BINDING_STATE: BOUND}


@virtual
@pytest.mark.parametrize("error", [UNAVAILABLE, TIMEOUT, LOST])
async def test_D5b_an_unscheduling_whose_answer_was_lost_is_not_made_twice(error: Exception) -> None:
    async with a_desk(failing(Lost(error))) as desk:
        binding = await desk.holds("b", a_document("c1", state=BOUND))
        (result,) = await desk.write(unschedule(binding))
        assert result.error is None
        assert desk.stored("b")["metadata"]["annotations"] == {PREVIOUS_BINDING_STATE: BOUND}


@within(a_desk)
async def test_unscheduling_what_is_terminating_meanwhile_only_drops_the_finalizer(desk: Desk) -> None:
    finalizers = [WORK_CLEANUP, SCHEDULER_BINDING_CLEANUP]
    binding = await desk.holds("b", a_document("c1", finalizers=finalizers))
    desk.server.before_write = [lambda: desk.server.edit(path_of("b"), metadata={"deletionTimestamp": DELETED_AT})]
    await desk.write(unschedule(binding))
    assert desk.stored("b")["spec"]["state"] == SCHEDULED
    assert desk.stored("b")["metadata"]["finalizers"] == [WORK_CLEANUP]


@within(a_desk)
async def test_a_state_that_nobody_knows_is_left_alone(desk: Desk) -> None:
    binding = await desk.holds("b", a_document("c1"))
    desk.server.before_write = [lambda: desk.server.edit(path_of("b"), spec={"state": "Odd"})]
    assert isinstance(only_error(await desk.write(unschedule(binding))), StaleInputs)
    assert desk.stored("b")["spec"]["state"] == "Odd"


@within(a_desk)
async def test_another_binding_under_the_same_name_is_not_unscheduled(desk: Desk) -> None:
    binding = await desk.holds("b", a_document("c1"))
    del desk.server.objects[path_of("b")]
    desk.server.put(path_of("b"), a_document("c1", snapshot="web-1", uid="a-new-one"))
    (result,) = await desk.write(unschedule(binding))
    assert result.error is None
    assert desk.stored("b")["spec"]["state"] == SCHEDULED


@within(a_desk)
@pytest.mark.parametrize("action", [unschedule, drop_finalizer], ids=["unschedule", "drop finalizer"])
async def test_a_removal_of_what_is_gone_is_done(desk: Desk, action: Any) -> None:
    binding = await desk.holds("b", a_document("c1", deleted=True))
    desk.server.objects.clear()
    assert await desk.write(action(binding)) == [WriteResult(action(binding))]


@within(a_desk)
async def test_dropping_the_finalizer_leaves_those_of_others_also_after_a_conflict(desk: Desk) -> None:
    binding = await desk.holds("b", a_document("c1", deleted=True))
    ours_and_theirs = {"metadata": {"finalizers": [SCHEDULER_BINDING_CLEANUP, WORK_CLEANUP]}}
    desk.server.before_write = [lambda: desk.server.edit(path_of("b"), **ours_and_theirs)]
    await desk.write(drop_finalizer(binding))
    assert desk.stored("b")["metadata"]["finalizers"] == [WORK_CLEANUP]


@within(a_desk)
async def test_endless_conflicts_of_a_removal_end_after_four_attempts(desk: Desk) -> None:
    binding = await desk.holds("b", a_document("c1"))
    counter = iter(range(9))
    desk.server.before_write = [lambda: desk.server.edit(path_of("b"), status={"n": next(counter)})] * 9
    assert isinstance(only_error(await desk.write(unschedule(binding))), Conflict)
    assert len(desk.server.writes()) == 4


@within(lambda: a_desk(concurrency=1))
async def test_a_waiting_removal_that_was_made_meanwhile_is_not_sent(desk: Desk) -> None:
    other = await desk.holds("a", a_document("c2", deleted=True))
    binding = await desk.holds("b", a_document("c1", deleted=True, finalizers=[SCHEDULER_BINDING_CLEANUP, "x"]))
    async with desk.writing_after(drop_finalizer(other), drop_finalizer(binding)) as writing:
        desk.others_write("b", {"metadata": {"finalizers": ["x"]}})
    _, result = await writing
    assert (result.result, result.error) == ("skipped", None)


@within(lambda: a_desk(concurrency=1))
async def test_D5b_a_waiting_unscheduling_notes_the_state_of_the_fresh_object(desk: Desk) -> None:
    other = await desk.holds("a", a_document("c2"))
    binding = await desk.holds("b", a_document("c1", state=SCHEDULED))
    async with desk.writing_after(unschedule(other), unschedule(binding)):
        desk.others_write("b", {"spec": {"state": BOUND}})
    assert desk.stored("b")["metadata"]["annotations"] == {PREVIOUS_BINDING_STATE: BOUND}
    assert [write.split()[0] for write in desk.server.writes()] == ["PATCH", "PATCH"]
