"""What is offered is found again, as it was."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from fleet.history import History, PartState, RecordedRejection, RecordedTarget, RecordedWarning, RecordedWrite
from fleet.history.entries import NOT_CARRIED_OUT
from fleet.scheduler.attempt_record import AttemptResult
from tests.databases import OpenHistory
from tests.unit.history.sources import Fleet, Offered, an_attempt, ids, keep


def test_an_attempt_is_read_as_it_was_told(history: History) -> None:
    told = msgspec.structs.replace(
        an_attempt().told,
        key="shop/web",
        error="Conflict: ünlösbar",
        wanted=3,
        active=2,
        clusters=12,
        triggers=("Placement/Add", "MemberCluster/UpdateTaints"),
        phases={"read": 0.25, "decide": 0.125},
        generation=7,
        placement_type="PickN",
        targets=(
            RecordedTarget(
                cluster="c2", action="create", binding="web-c2", affinity=-5, topology=2**40, step=1, rank=1
            ),
            RecordedTarget(cluster="c1", rank=2),
        ),
        writes=(
            RecordedWrite(action="create", cluster="c2", binding="web-c2", result="failed", error="Conflict: newer"),
        ),
        warnings=(RecordedWarning(kind="SurplusBinding", subject="web-x", clusters=3),),
        groups=(RecordedRejection(plugin="TaintToleration", reason="UntoleratedTaint", count=4),),
        invalid=("c9",),
        missing=("nowhere",),
        notes=b'{"Plugin":{"said":1}}',
        published=b"{}" * 500,
        status_written=True,
        rounds=2,
        process_number=41,
    )
    keep(history, Offered(told))
    found = history.attempt(told.id)
    assert found is not None
    assert found == msgspec.structs.replace(told, seq=found.seq, number=1, last_at=told.started, session=found.session)


def test_attempts_are_numbered_per_placement_and_in_all(history: History) -> None:
    keep(history, an_attempt("web"), an_attempt("db"), an_attempt("web"))
    assert [(one.key, one.number) for one in history.since(0)] == [("web", 1), ("db", 1), ("web", 2)]
    assert [one.seq for one in history.since(0)] == [1, 2, 3]


def test_numbers_go_on_after_a_restart(open_history: OpenHistory) -> None:
    first = open_history()
    keep(first, an_attempt(), an_attempt())
    first.close()
    second = open_history()
    keep(second, an_attempt())
    assert [(one.seq, one.number) for one in second.attempts("web")] == [(3, 3), (2, 2), (1, 1)]


def test_columns_come_back_and_name_their_clusters_where_no_fleet_does(history: History) -> None:
    fleet = Fleet(b="{}", a="{}")
    with_fleet, without = an_attempt().on(fleet).judged(), replace(an_attempt().judged(), frame=fleet.clusters)
    keep(history, with_fleet, without)
    found = history.columns(with_fleet.told.id)
    assert found == with_fleet.kept_columns
    alone = history.columns(without.told.id)
    assert alone is not None
    assert alone.names == ("a", "b")


def test_parts_say_what_became_of_them(history: History) -> None:
    plain, full = an_attempt("plain"), an_attempt("full").on(Fleet(a="{}")).judged()
    keep(history, plain, full)
    assert [(one.columns, one.inputs) for one in history.since(0)] == [
        (PartState.NONE, PartState.NONE),
        (PartState.KEPT, PartState.KEPT),
    ]


def test_no_inputs_are_kept_where_they_are_not_wanted(open_history: OpenHistory) -> None:
    history = open_history(keeps_inputs=False)
    offered = an_attempt().on(Fleet(a="{}"))
    keep(history, offered)
    assert history.inputs(offered.told.id) is None
    assert history.size() < 1000


def test_an_attempt_whose_inputs_cannot_be_made_is_kept_without_them(history: History) -> None:
    class Broken(Fleet):
        def changes(self, now: object, *, anew: bool) -> list[tuple[str, bytes | None]]:
            raise ValueError("no fleet")

    broken, whole = an_attempt().on(Broken(a="{}")), an_attempt().on(Fleet(a="{}"))
    keep(history, broken, whole)
    assert [one.inputs for one in history.since(0)] == [PartState.SHED, PartState.KEPT]


def test_one_that_cannot_be_told_costs_no_other(history: History) -> None:
    class Untold(Offered):
        def attempt(self) -> None:  # type: ignore[override]
            raise ValueError("nothing to tell")

    good = an_attempt()
    keep(history, Untold(an_attempt().told), good)
    assert [one.id for one in history.since(0)] == ids(good)
    assert history.counts().failed == 1


def test_one_that_the_database_refuses_costs_no_other(history: History) -> None:
    before, after = an_attempt("a").on(Fleet(a="{}")), an_attempt("b").on(Fleet(a="{}"))
    twice = Offered(msgspec.structs.replace(an_attempt("c").told, id=before.told.id))
    keep(history, before, twice, after)
    assert [one.id for one in history.since(0)] == ids(before, after)
    assert history.counts().failed == 1
    assert history.state().unavailable_since is None


def test_recording_goes_on_with_inputs_after_one_was_refused(history: History) -> None:
    fleet = Fleet(a="{}")
    first = an_attempt("a").on(fleet)
    keep(history, first)
    keep(history, Offered(msgspec.structs.replace(an_attempt("c").told, id=first.told.id)))
    later = an_attempt("d").on(fleet)
    keep(history, later)
    recorded = history.inputs(later.told.id)
    assert recorded is not None
    assert recorded.clusters == (b"{}",)


def test_closing_writes_what_waits(open_history: OpenHistory) -> None:
    history = open_history(started=False)
    offered = [an_attempt(f"p{number}") for number in range(500)]
    for one in offered:
        history.offer(one)
    history.start()
    history.close(seconds=60)
    assert len(open_history(started=False).since(0, limit=1000)) == 500


def test_what_is_offered_after_the_end_is_counted(open_history: OpenHistory) -> None:
    history = open_history()
    history.close()
    history.offer(an_attempt())
    assert history.counts().shed_attempts == 1


def test_what_was_not_carried_out_is_named_by_its_ending() -> None:
    attempt = an_attempt().told
    assert {result.value for result in AttemptResult} > NOT_CARRIED_OUT
    for ending in ("Decided", "Short", "BadInput"):
        assert msgspec.structs.replace(attempt, ending=ending).result == "Selected"
    for ending in ("Rejected", "Waiting", "BindFailed", "Transient", "Internal"):
        assert msgspec.structs.replace(attempt, ending=ending).result == ending
    assert msgspec.structs.replace(attempt, ending="Gone", outcome="").result == "Gone"
