"""From the scheduler's attempts to entries of the history: what is told, what is left out, what of a fleet counts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fleet.errors import Conflict
from fleet.framework.cycle.cycle import decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.handle import OfflineHandle
from fleet.framework.profiles.profile import compile_profile
from fleet.framework.scores import PluginScores as Scored
from fleet.framework.types import Component
from fleet.history import AttemptSource, History, HistoryAttempt
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import SECOND
from fleet.model.views import MemberCluster, Observed, PolicySnapshot
from fleet.recorder.attempt_summary import summarize_attempt
from fleet.recorder.columns import columns_of, hash_of_names, packed_score
from fleet.recorder.fleet_changes import HeartbeatUse, RecordedFleet, find_heartbeat_use, reads_heartbeats
from fleet.recorder.recorder import CombinedRecorder, HistoryRecorder, open_history
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.dispatch.binding_calls import WriteResult
from fleet.settings import Settings
from fleet.snapshot import Table
from fleet.snapshot.columns.packing import number_values
from fleet.snapshot.recorded_sidedata import restore_sidedata
from fleet.snapshot.sidedata import Nomination, PlacedBinding
from plugins import in_tree_registry
from plugins.capacity.pool_topology import PoolTopologyMatch
from plugins.default_profile import compile_default, default_profile
from tests.builders import (
    NOW,
    UID,
    ClusterBuilder,
    PolicyBuilder,
    a_cluster,
    a_frame,
    a_policy,
    a_table,
    ago,
    clusters,
    label,
)
from tests.doubles import Named, inputs, profile_of
from tests.unit.framework.plugin_fakes import a_profile
from tests.vectors.engine import profile_for

MINUTES_5 = 300 * SECOND

WEB = PlacementKey("", "web")


class Desk:
    """Stands where the history would be, and keeps what is offered."""

    def __init__(self) -> None:
        self.offered: list[AttemptSource] = []

    def offer(self, source: AttemptSource) -> None:
        self.offered.append(source)


def a_record(policy: PolicyBuilder | None = None, *members: ClusterBuilder, **told: Any) -> AttemptRecord:
    chosen = policy or a_policy()
    asked = inputs(a_frame(*(members or clusters("c1", "c2"))), chosen, profile=profile_for(()))
    snapshot: Observed[PolicySnapshot] = Observed(chosen.snapshot(), b"{}")
    return AttemptRecord(key=WEB, started=NOW, snapshot=snapshot, inputs=asked, decision=decide(asked), **told)


def offered(record: AttemptRecord, settings: Settings | None = None) -> AttemptSource:
    desk = Desk()
    HistoryRecorder(desk, settings or Settings()).record(record)  # type: ignore[arg-type]
    return desk.offered[0]


def told(record: AttemptRecord) -> HistoryAttempt:
    return summarize_attempt(record, "a-1")


def decision_of(record: AttemptRecord) -> Decision:
    assert record.decision is not None
    return record.decision


# --- what is told -----------------------------------------------------------------------------------------------------


def test_an_attempt_tells_its_decision() -> None:
    record = a_record(a_policy().pick_n(1), triggers=("Placement/Add",), number=4, seconds={"decide": 0.5})
    found = told(record)
    assert (found.outcome, found.digest) == ("Selected", decision_of(record).digest)
    assert (found.wanted, found.active, found.clusters, found.fulfilled) == (1, 1, 2, True)
    assert (found.triggers, found.process_number, found.phases) == (("Placement/Add",), 4, {"decide": 0.5})
    assert (found.placement_uid, found.placement_type, found.generation) == (UID, "PickN", 1)


def test_targets_are_told_in_their_order() -> None:
    found = told(a_record(a_policy().pick_n(2)))
    assert [(one.rank, one.cluster, one.action, one.affinity) for one in found.targets] == [
        (1, "c2", "create", 0),
        (2, "c1", "create", 0),
    ]


def test_groups_count_clusters_by_plugin_and_reason() -> None:
    record = a_record(a_policy(), a_cluster("c1").tainted("gpu"), a_cluster("c2").tainted("gpu"), a_cluster("c3"))
    assert [(one.plugin, one.reason, one.count) for one in told(record).groups] == [
        ("TaintToleration", "UntoleratedTaint", 2)
    ]


def test_writes_are_told_with_what_became_of_them() -> None:
    (operation, *_) = decision_of(a_record()).operations
    record = a_record(writes=(WriteResult(operation, error=Conflict("newer", status=409)),))
    (found,) = told(record).writes
    assert (found.action, found.cluster, found.result) == ("create", "c1", "conflict")
    assert found.error.startswith("Conflict: ")


def test_an_attempt_without_a_decision_tells_its_ending_and_error() -> None:
    record = AttemptRecord(
        key=WEB,
        started=NOW,
        result=AttemptResult.TRANSIENT,
        error=ValueError("\ud800" + "x" * 5000),
    )
    found = told(record)
    assert (found.ending, found.outcome, found.digest) == ("Transient", "", "")
    assert found.error.startswith("ValueError: ?xxx")
    assert len(found.error) < 2100


def test_a_policy_that_cannot_be_evaluated_tells_what_is_wrong_with_it() -> None:
    record = a_record(replace(a_policy(), policy=msgspec.structs.replace(a_policy().policy, placement_type="PickSome")))
    assert "PickSome" in told(record).error


@pytest.mark.parametrize("ending", [AttemptResult.GONE, AttemptResult.CLEANED_UP])
def test_a_placement_that_is_gone_is_told_to_be(ending: AttemptResult) -> None:
    assert told(AttemptRecord(key=WEB, started=NOW, result=ending)).is_end


def test_every_attempt_has_an_id_of_its_own() -> None:
    desk = Desk()
    recorder = HistoryRecorder(desk, Settings())  # type: ignore[arg-type]
    record = a_record()
    for _ in range(3):
        recorder.record(record)
    assert len({one.attempt().id for one in desk.offered}) == 3


def test_nothing_that_goes_wrong_reaches_the_scheduler() -> None:
    class Broken(Desk):
        def offer(self, source: AttemptSource) -> None:
            raise RuntimeError("no room")

    HistoryRecorder(Broken(), Settings()).record(a_record())  # type: ignore[arg-type]


def test_several_recorders_hear_of_every_attempt() -> None:
    one, other = Desk(), Desk()
    recorders = [HistoryRecorder(desk, Settings()) for desk in (one, other)]  # type: ignore[arg-type]
    CombinedRecorder(*recorders).record(a_record())
    assert len(one.offered) == len(other.offered) == 1


# --- columns and inputs -----------------------------------------------------------------------------------------------


def test_columns_are_in_the_order_of_names_whatever_the_rows() -> None:
    members = [a_cluster("c1").tainted("gpu"), a_cluster("c2"), a_cluster("c3").labelled(region="eu")]
    policy = a_policy().pick_n(1).prefer(20, label("region", "In", "eu"))
    found = [columns_of(decision_of(a_record(policy, *order)), with_names=True) for order in (members, members[::-1])]
    assert found[0] == found[1]
    assert found[0] is not None
    first = [one.first for one in found[0].by_cluster()]
    assert [found[0].judges[one] if one >= 0 else None for one in first] == ["TaintToleration", None, None]
    assert found[0].names == ("c1", "c2", "c3")
    assert found[0].feasible == bytes([0b01100000])
    assert found[0].names[memoryview(found[0].order).cast("i")[0]] == "c3"


def test_every_cluster_keeps_its_own_verdict() -> None:
    members = [a_cluster(f"c{number}").labelled(region=("eu", "us")[number % 2]) for number in range(9)]
    members[3], members[5] = members[3].tainted("gpu"), members[5].tainted("other")
    decision = decision_of(a_record(a_policy().require(label("region", "In", "eu")), *members[::-1]))
    found = columns_of(decision, with_names=False)
    assert found is not None
    assert decision.verdicts is not None
    order, verdicts = decision.frame.names.order, decision.verdicts
    columns = (verdicts.first[order], verdicts.reason[order], verdicts.codes()[order])
    assert [(one.first, one.reason, one.code) for one in found.by_cluster()] == list(zip(*columns, strict=True))
    assert 1 < len(found.judgements) < 9


@pytest.mark.parametrize("kinds, width", [(1, 1), (256, 1), (257, 2), (70_000, 4)])
def test_verdicts_take_as_many_bytes_as_there_are_kinds_of_them(kinds: int, width: int) -> None:
    known, numbers = number_values(np.arange(kinds, dtype=np.intp)[::-1] * 3)
    assert known.tolist() == list(range(0, kinds * 3, 3))
    assert (numbers.itemsize, numbers.tolist()) == (width, list(range(kinds))[::-1])


@pytest.mark.parametrize("numbers, width", [((0, 127), 1), ((-129, 0), 2), ((0, 2**15), 4), ((2**40, 0), 8)])
def test_scores_take_as_many_bytes_as_the_largest_needs(numbers: tuple[int, int], width: int) -> None:
    raw, final = np.array([1, 2]), np.array(numbers)
    found = packed_score(Scored("P", Component.AFFINITY, 1, raw, raw, final), np.array([1, 0]))
    assert (found.width, found.normalized) == (width, b"")
    assert np.frombuffer(found.raw, f"<i{width}").tolist() == [2, 1]
    assert np.frombuffer(found.final, f"<i{width}").tolist() == list(numbers)[::-1]


def test_scores_that_are_equal_are_kept_once() -> None:
    record = a_record(a_policy().pick_n(1).prefer(20, label("region", "In", "eu")), *clusters("c1", "c2"))
    found = columns_of(decision_of(record), with_names=False)
    assert found is not None
    assert found.scores
    assert all(one.width == 1 and one.normalized == one.final == b"" for one in found.scores)


def test_frames_with_the_same_clusters_have_the_same_hash_of_names() -> None:
    one, other = a_frame(*clusters("a", "b")), a_frame(*clusters("b", "a"))
    assert hash_of_names(one.names) == hash_of_names(other.names)
    assert hash_of_names(one.names) != hash_of_names(a_frame(*clusters("a", "c")).names)


def test_a_sample_of_attempts_gets_columns() -> None:
    desk = Desk()
    recorder = HistoryRecorder(desk, Settings.model_validate({"recorder": {"sampleDetail": 25}}))  # type: ignore[arg-type]
    for _ in range(8):
        recorder.record(a_record())
    assert [one.columns(with_names=False) is not None for one in desk.offered] == [False, False, False, True] * 2


def test_inputs_leave_out_the_status_of_the_snapshot() -> None:
    found = offered(a_record()).inputs()
    assert found is not None
    assert "status" not in msgspec.json.decode(found.request)
    assert (found.now, found.placement_uid) == (NOW, UID)


@pytest.mark.parametrize("is_read", [False, True])
def test_room_that_is_kept_and_bindings_are_recorded_where_a_plugin_reads_them(*, is_read: bool) -> None:
    plugins = ("ResourceFit", "DefaultPreemption") if is_read else ("ClusterEligibility",)
    profile = a_profile(filter=plugins, postFilter=plugins[1:])
    table = a_table(*clusters("c1"))
    table.nominate([Nomination("c1", "web", priority=0, requests={"cpu": 1}, victims=("other",))])
    table.set_placed("c1", [PlacedBinding("other", requests=(("cpu", 1),), disruptions=2)])
    asked = inputs(
        table.freeze(), a_policy().pick_n(2), profile=compile_profile(in_tree_registry(), profile, OfflineHandle())
    )
    record = replace(a_record(), inputs=asked, decision=decide(asked))
    found = offered(record).inputs()
    assert found is not None
    again = a_table(*clusters("c1"))
    restore_sidedata(again, found.sidedata)
    assert (again.freeze().content_hash() == asked.frame.content_hash()) is is_read
    assert bool(found.sidedata) is is_read


def test_what_is_shed_lets_go_of_the_decision_but_keeps_what_it_says() -> None:
    source = offered(a_record())
    lighter, lightest = source.without_columns(), source.without_inputs()
    assert lighter.attempt() == lightest.attempt() == source.attempt()
    assert (lighter.columns(with_names=False), lightest.columns(with_names=False)) == (None, None)
    assert lighter.inputs() == source.inputs()
    assert lightest.inputs() is None
    assert [sorted(one.shed) for one in (lighter, lightest)] == [["columns"], ["columns", "inputs"]]
    assert source.weight > lighter.weight > 0


def test_a_fleet_that_changed_weighs_as_much_as_its_changed_clusters() -> None:
    desk, table = Desk(), a_table(*clusters("c1", "c2", "c3"))
    recorder = HistoryRecorder(desk, Settings())  # type: ignore[arg-type]

    def weight(*changed: ClusterBuilder) -> int:
        for one in changed:
            table.put(one.build())
        record = a_record()
        asked = inputs(table.freeze(), a_policy(), profile=profile_for(()))
        recorder.record(replace(record, inputs=asked, decision=None))
        return desk.offered[-1].weight

    again = itertools.count()

    def changed(*names: str) -> list[ClusterBuilder]:
        return [a_cluster(name).labelled(again=str(next(again))) for name in names]

    weight()
    one, two, three = (weight(*changed(*names)) for names in (["c1"], ["c1", "c2"], ["c1", "c2", "c3"]))
    assert three - two == two - one > 3_000


# --- which clusters are written down ----------------------------------------------------------------------------------


class Course:
    """A fleet, and who remembers what was written down of it."""

    def __init__(self, *members: ClusterBuilder, exactly: bool = False) -> None:
        self.table: Table = a_table(*members)
        self.exactly, self.recent, self.recent_pools = exactly, MINUTES_5, 0
        self.recorded = RecordedFleet()
        self.now = NOW

    def written(self, *, anew: bool = False) -> list[str]:
        use = HeartbeatUse(exactly=self.exactly, recent=self.recent, recent_pools=self.recent_pools)
        rows = self.recorded.collect_changes(self.table.freeze(), now=self.now, anew=anew, heartbeats=use)
        return [f"-{name}" if document is None else name for name, document in rows]

    def put(self, *members: ClusterBuilder) -> None:
        for one in members:
            self.table.put(one.build())


def test_the_whole_fleet_is_written_first_and_on_request() -> None:
    course = Course(*clusters("b", "a"))
    assert course.written() == ["a", "b"]
    assert course.written() == []
    assert course.written(anew=True) == ["a", "b"]


def test_after_that_what_changed_is() -> None:
    course = Course(*clusters("a", "b", "c"))
    course.written()
    course.put(a_cluster("b").labelled(region="eu"), a_cluster("d"))
    course.table.remove("a")
    assert course.written() == ["-a", "b", "d"]
    assert course.written() == []


def test_a_change_that_is_taken_back_is_written_again() -> None:
    course = Course(a_cluster("a"))
    course.written()
    course.put(a_cluster("a").tainted("gpu"))
    assert course.written() == ["a"]
    course.put(a_cluster("a"))
    assert course.written() == ["a"]


def test_heartbeats_of_a_healthy_fleet_cost_nothing() -> None:
    course = Course(*clusters("a", "b"))
    course.written()
    for seconds in (9, 5, 1):
        course.put(a_cluster("a").heard(seconds), a_cluster("b").heard(seconds))
        assert course.written() == []


def test_a_heartbeat_counts_once_the_one_written_down_would_be_too_old() -> None:
    course = Course(a_cluster("a").heard(100))
    course.written()
    course.put(a_cluster("a").heard(0))
    course.now = NOW + 200 * SECOND
    assert course.written() == []
    course.now += 1
    assert course.written() == ["a"]
    assert course.written() == []


def test_a_heartbeat_counts_for_the_profile_that_would_judge_it_otherwise() -> None:
    course = Course(a_cluster("a").heard(100))
    course.written()
    course.put(a_cluster("a").heard(0))
    course.now = NOW + 30 * SECOND
    assert course.written() == []
    course.recent = MINUTES_5 // 5
    assert course.written() == ["a"]


def test_T_14_a_report_of_pools_counts_once_the_one_written_down_would_be_too_old() -> None:
    def reporting(seconds: int) -> ClusterBuilder:
        return a_cluster("a").pooled({"a": {"cpu": (4, 4)}}, ago(seconds))

    course = Course(reporting(100))
    course.recent_pools = 200 * SECOND
    course.written()
    course.put(reporting(50))
    course.now = NOW + 100 * SECOND
    assert course.written() == []
    course.now += 1
    assert course.written() == ["a"]
    assert course.written() == []
    course.put(reporting(0))
    course.recent_pools = 0
    assert course.written() == []
    course.recent_pools = 100 * SECOND
    assert course.written() == ["a"]


def test_T_14_the_profile_says_which_reports_of_pools_are_alike() -> None:
    assert find_heartbeat_use(profile_of(PoolTopologyMatch())).recent_pools == 300 * SECOND
    assert find_heartbeat_use(compile_default()).recent_pools == 0


def test_the_profile_says_which_heartbeats_are_alike() -> None:
    def recent(**args: str) -> int:
        profile = default_profile(args={"ClusterEligibility": {"heartbeatTimeout": "5m", **args}})
        return find_heartbeat_use(compile_default(profile)).recent

    assert recent() == MINUTES_5
    assert recent(heartbeatTimeout="1m") == MINUTES_5 // 5
    assert recent(retention="1m") == MINUTES_5 // 5
    assert recent(retention="10m") == MINUTES_5


def test_a_silent_cluster_is_written_with_its_last_heartbeat() -> None:
    course = Course(a_cluster("a").heard(100))
    course.written()
    course.put(a_cluster("a").heard(50))
    course.now = NOW + 1000 * SECOND
    assert course.written() == ["a"]


def test_a_row_that_another_cluster_took_over_is_written() -> None:
    course = Course(*clusters("a", "b"))
    course.written()
    course.table.remove("a")
    course.put(a_cluster("z").heard(10))
    assert course.written() == ["-a", "z"]


def test_clusters_that_changed_rows_are_written_once_they_did() -> None:
    course = Course(*clusters("a", "b"))
    course.written()
    course.table.remove("a")
    course.table.remove("b")
    course.put(a_cluster("b"), a_cluster("a"))
    assert sorted(course.written()) == ["a", "b"]
    assert course.written() == []


def test_more_clusters_than_the_columns_had_room_for() -> None:
    course = Course(*clusters("a"))
    course.written()
    names = [f"n{number:03d}" for number in range(200)]
    course.put(*clusters(*names))
    assert sorted(course.written()) == names


def test_every_heartbeat_is_written_where_a_plugin_may_look_at_it() -> None:
    course = Course(a_cluster("a").heard(9), exactly=True)
    course.written()
    course.put(a_cluster("a").heard(5))
    assert course.written() == ["a"]


def test_a_profile_that_begins_to_look_at_heartbeats_gets_those_that_were_left_out() -> None:
    course = Course(a_cluster("a").heard(9))
    course.written()
    course.put(a_cluster("a").heard(5))
    course.written()
    course.exactly = True
    assert course.written() == ["a"]


def test_plugins_of_others_may_look_at_heartbeats_unless_they_say_what_they_read() -> None:
    class Quiet(Named):
        READS = ("labels",)

        def filter(self, *given: Any) -> Any: ...

    class Silent(Quiet):
        READS = ("*",)

    assert not reads_heartbeats(profile_for(()))
    assert not reads_heartbeats(profile_of(Quiet("Quiet")))
    assert reads_heartbeats(profile_of(Silent("Silent")))


def test_documents_are_read_back_as_the_same_clusters() -> None:
    cluster = a_cluster("a").labelled(region="eu").tainted("gpu").measured({"p": "1"}).with_namespaces("shop").build()
    use = HeartbeatUse(exactly=False, recent=MINUTES_5)
    ((_, document),) = RecordedFleet().collect_changes(a_frame(cluster), now=NOW, anew=True, heartbeats=use)
    assert document is not None
    assert msgspec.json.decode(document, type=MemberCluster) == cluster


# --- as settings want it ----------------------------------------------------------------------------------------------


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    settings = Settings.model_validate({"history": {"url": f"sqlite:///{tmp_path / 'history.sqlite'}"}})
    found = open_history(settings)
    assert found is not None
    yield found
    found.close()


def test_a_history_is_opened_where_settings_say(history: History, tmp_path: Path) -> None:
    assert history.state().unavailable_since is None  # waits for the first look, which may last longer than the start
    assert (tmp_path / "history.sqlite").exists()
    assert history.placements() == []


def test_without_a_url_there_is_no_history() -> None:
    assert open_history(Settings()) is None
