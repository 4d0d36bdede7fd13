"""Recorded decisions, decided again."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from fleet.errors import InputError
from fleet.explain.replay.replay import (
    Difference,
    Evidence,
    InMemoryInputs,
    build_evidence,
    load_recorded_scenario,
    redact_rehearsal,
    redact_replay,
    rehearse,
    replay,
)
from fleet.explain.whatif.edits import RemoveCluster, SetCount, Tolerate
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.decision import Decision
from fleet.framework.profiles.profile import StatusLimits
from fleet.history.entries import Columns, HistoryAttempt, Judgement, RecordedTarget
from fleet.model.views import PolicySnapshotStatus
from plugins.default_profile import compile_default, default_profile
from tests.builders import a_binding, a_cluster, a_policy, clusters, label
from tests.unit.explain.questions import DEFAULT
from tests.unit.explain.scenarios import a_scenario


def recorded(scenario: Scenario) -> InMemoryInputs:
    """As a history would hold it."""
    asked = scenario.question
    encode = msgspec.json.encode
    return InMemoryInputs(
        clusters=[encode(asked.frame.clusters[row]) for row in asked.frame.names.order.tolist()],
        request=encode(scenario.snapshot),
        placement_uid=asked.request.uid,
        bindings=[encode(one) for one in asked.bindings],
        previous=encode(asked.previous),
        now=asked.now,
        cursor=asked.cursor,
    )


def evidence(decision: Decision, **changes: object) -> Evidence:
    verdicts, order = decision.verdicts, decision.frame.names.order
    assert verdicts is not None
    known = Evidence(
        id="attempt-1",
        digest=decision.digest,
        config_hash=decision.config_hash,
        outcome=decision.outcome.value,
        targets=tuple(one.cluster for one in decision.targets),
        clusters=decision.frame.count,
        first=verdicts.first[order].tolist(),
        codes=verdicts.codes()[order].tolist(),
    )
    return replace(known, **changes)  # type: ignore[arg-type]


def a_past() -> Scenario:
    fleet = [a_cluster("a").labelled(tier="gold"), a_cluster("b"), a_cluster("t").tainted("gpu")]
    return a_scenario(fleet, a_policy().pick_n(2).prefer(10, label("tier", "Exists")), a_binding("b").obsolete())


# --- unchanged --------------------------------------------------------------------------------------------------------


def test_W_11_a_record_gives_the_same_digest_again() -> None:
    scenario = a_past()

    found = replay(recorded(scenario), evidence(scenario.decide()), DEFAULT)

    assert (found.same, found.digest, found.difference) == (True, scenario.decide().digest, None)


def test_the_status_published_before_comes_from_the_record() -> None:
    before = PolicySnapshotStatus(observed_crp_generation=7)
    past = replace(recorded(a_past()), previous=msgspec.json.encode(before))

    assert load_recorded_scenario(past, DEFAULT).question.previous == before


def test_a_record_that_cannot_be_read_is_an_input_error() -> None:
    with pytest.raises(InputError, match="the document is not JSON"):
        load_recorded_scenario(replace(recorded(a_past()), request=b"{"), DEFAULT)


@pytest.mark.parametrize(
    "changes, want",
    [
        ({"config_hash": "b61e"}, ("configuration", "", "b61e")),
        ({"clusters": 4}, ("fleet", "", "4")),
        ({"first": [-1, 3, 3]}, ("filter", "b", "TaintToleration")),
        ({"first": [-1, 0, 3], "judges": ("Curfew",)}, ("filter", "b", "Curfew")),
        ({"first": [-1, 99, 3]}, ("filter", "b", "filter 99")),
        ({"codes": [0, 0, 2]}, ("filter", "t", "TaintToleration")),
        ({"outcome": "Partial"}, ("outcome", "", "Partial")),
        ({"targets": ("b", "a")}, ("ranking", "b", "b")),
        ({"targets": ("a",)}, ("ranking", "b", "nothing")),
        ({}, ("operations", "", "0" * 32)),
    ],
    ids=["configuration", "fleet", "filter", "other filter", "unknown", "code", "outcome", "order", "missing", "other"],
)
def test_W_11_a_difference_is_told_by_its_first_stage_and_cluster(
    changes: dict[str, object], want: tuple[str, str, str]
) -> None:
    scenario = a_past()

    found = replay(recorded(scenario), evidence(scenario.decide(), digest="0" * 32, **changes), DEFAULT)

    assert found.difference is not None
    assert (found.difference.stage, found.difference.cluster, found.difference.recorded) == want


def test_evidence_comes_from_the_history() -> None:
    decision = a_past().decide()
    want = evidence(decision)
    assert decision.verdicts is not None
    attempt = HistoryAttempt(
        id="attempt-1",
        key="web",
        started=0,
        ending="Decided",
        outcome=decision.outcome.value,
        digest=decision.digest,
        config_hash=decision.config_hash,
        clusters=3,
        targets=(RecordedTarget(cluster="b", rank=2), RecordedTarget(cluster="a", rank=1)),
    )
    judgements = [Judgement(first, 0, code) for first, code in zip(want.first or (), want.codes or (), strict=True)]
    columns = Columns(
        names_hash="", judges=("X",), judgements=tuple(judgements), verdicts=bytes(range(len(judgements)))
    )

    found = build_evidence(attempt, columns)

    assert (found.targets, found.judges) == (("a", "b"), ("X",))
    assert (list(found.first or ()), list(found.codes or ())) == (want.first, want.codes)


# --- with changes -----------------------------------------------------------------------------------------------------


def test_a_rehearsal_tells_who_would_have_moved_and_why() -> None:
    scenario = a_past()

    found = rehearse([(evidence(scenario.decide()), recorded(scenario))], DEFAULT, edits=[Tolerate("gpu"), SetCount(3)])

    (changed,) = found.changed
    assert (found.attempts, found.same, changed.key, changed.cause) == (1, 0, "attempt-1", "filter")
    assert (set(changed.after) - set(changed.before), changed.outcome_after) == ({"t"}, "SELECTED")
    assert [(one.cluster, one.gained) for one in found.summary.clusters] == [("t", 1)]


def test_the_same_clusters_in_another_order_is_a_matter_of_ranking() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(1))
    other = compile_default(default_profile(tie_break="nameAscending"))

    found = rehearse([(evidence(scenario.decide()), recorded(scenario))], DEFAULT, changed_profile=other)

    assert [(one.cause, one.before, one.after) for one in found.changed] == [("ranking", ("b",), ("a",))]


def test_what_a_pick_does_to_others_is_no_matter_of_filters() -> None:
    fleet = [a_cluster(name).labelled(zone=zone) for name, zone in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "y"))]
    scenario = a_scenario(fleet, a_policy().pick_n(2).spread("zone"))
    other = compile_default(default_profile(tie_break="nameAscending"))

    found = rehearse([(evidence(scenario.decide()), recorded(scenario))], DEFAULT, changed_profile=other)

    assert [one.cause for one in found.changed] == ["ranking"]


def test_a_change_that_moves_nothing_counts_as_same() -> None:
    scenario = a_past()
    other = compile_default(default_profile(limits=StatusLimits(unselected_budget=1)))

    found = rehearse([(evidence(scenario.decide()), recorded(scenario))], DEFAULT, changed_profile=other)

    assert (found.same, found.changed) == (1, ())


def test_attempts_that_cannot_be_rehearsed_are_skipped_with_the_reason() -> None:
    scenario = a_past()
    known = evidence(scenario.decide())
    attempts = [(known, None), (replace(known, digest="0"), recorded(scenario)), (known, recorded(scenario))]

    found = rehearse(attempts, DEFAULT, edits=[RemoveCluster("zzz")])

    assert (found.attempts, found.same) == (3, 0)
    assert [one.because.partition(";")[0] for one in found.skipped] == [
        "the inputs are no longer retained",
        "the recorded decision cannot be reproduced with this configuration",
        "edits[0].cluster: no cluster is named 'zzz'",
    ]


def test_W_10_a_rehearsal_for_somebody_who_may_not_read_all_has_numbers_in_place_of_names() -> None:
    scenario = a_past()
    known = evidence(scenario.decide())
    moved = rehearse([(known, recorded(scenario)), (known, None)], DEFAULT, edits=[Tolerate("gpu"), SetCount(3)])
    skipped = rehearse([(known, recorded(scenario))], DEFAULT, edits=[RemoveCluster("zzz")])

    shown, told = redact_rehearsal(moved, {"t", "b"}.__contains__), redact_rehearsal(skipped, {"zzz"}.__contains__)

    (changed,) = shown.changed
    assert (set(changed.before), set(changed.after), changed.redacted) == ({"a"}, {"a"}, 2)
    assert (shown.summary.clusters, shown.summary.redacted) == ((), 1)
    assert shown.summary.outcomes == moved.summary.outcomes
    assert [one.because for one in shown.skipped] == ["the inputs are no longer retained"]
    assert [one.because for one in told.skipped] == ["an edit does not apply to it"]


@pytest.mark.parametrize("hidden, cluster", [("b", ""), ("a", "b")])
def test_W_10_a_difference_is_told_without_a_hidden_cluster(hidden: str, cluster: str) -> None:
    found = replay(recorded(a_past()), evidence(a_past().decide(), digest="0" * 32, targets=("a",)), DEFAULT)

    shown = redact_replay(found, {hidden}.__contains__).difference

    assert shown == Difference("ranking", cluster, "", "")


def test_a_difference_is_a_plain_value() -> None:
    assert msgspec.to_builtins(Difference("filter", "a", "fits", "TaintToleration")) == {
        "stage": "filter",
        "cluster": "a",
        "recorded": "fits",
        "replayed": "TaintToleration",
    }
