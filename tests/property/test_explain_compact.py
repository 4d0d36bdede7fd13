"""The compact verdicts of random fleets are those of the whole answer, cell by cell."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.explain.answer.answer import build_answer
from fleet.explain.answer.parts import ClusterRow
from fleet.explain.facts.compact import (
    FITS,
    IN_USE,
    MOST_PHRASES,
    MOST_REASONS,
    NOT_EVALUATED,
    NOT_RUN,
    REJECTED,
    SELECTED,
    CompactVerdicts,
    build_compact_verdicts,
)
from fleet.explain.facts.redaction import STAND_IN, Hidden, Redaction
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.decision import Decision
from tests.builders import a_cluster, a_policy, clusters, label
from tests.unit.explain.questions import ask
from tests.unit.explain.scenarios import a_random_scenario

OUTCOMES = {
    SELECTED: "selected",
    IN_USE: "already-selected",
    FITS: "fit-not-selected",
    REJECTED: "rejected",
    NOT_EVALUATED: "not-evaluated",
}


@pytest.fixture
def seeds(*, long: bool) -> range:
    return range(2000 if long else 50)


def compact(scenario: Scenario, decision: Decision, hidden: Hidden | None = None) -> CompactVerdicts:
    return build_compact_verdicts(decision, scenario.question, Redaction(decision.frame, hidden))


def cells(verdicts: CompactVerdicts, place: int) -> dict[str, str | None]:
    """By plugin the phrase of a rejection, an empty text for a pass; None where it did not run."""
    width = len(verdicts.clusters)
    column = (verdicts.verdicts[row * width + place] for row in range(len(verdicts.plugins)))
    return {plugin: name(verdicts, plugin, value) for plugin, value in zip(verdicts.plugins, column, strict=True)}


def name(verdicts: CompactVerdicts, plugin: str, value: int) -> str | None:
    if value in (0, NOT_RUN):
        return None if value else ""
    reason = verdicts.reasons[value - 1]
    assert reason.plugin == plugin
    return reason.text


def expected(row: ClusterRow, plugins: tuple[str, ...]) -> dict[str, str | None]:
    judged: dict[str, Any] = {"pass": "", "skipped": None, "unknown": None}
    by_plugin = {verdict.plugin: judged.get(verdict.verdict, verdict.short) for verdict in row.rejections}
    return {plugin: by_plugin.get(plugin) for plugin in plugins}


def test_every_cell_is_that_of_the_whole_answer(seeds: range) -> None:
    for seed in seeds:
        scenario = a_random_scenario(seed)
        decision = scenario.decide()
        hidden = set(decision.frame.names.ordered[:: seed % 3 + 2]).__contains__ if seed % 2 else None
        answer = build_answer(scenario.question, decision, everything=True, limit=10_000, redact=hidden)
        rows = {row.name: row for row in answer.attempt.clusters}

        small = compact(scenario, decision, hidden)

        visible = [one for one in decision.frame.names.ordered if hidden is None or not hidden(one)]
        assert list(small.clusters) == visible, seed
        assert small.redacted == decision.frame.count - len(visible), seed
        assert len(small.verdicts) == len(small.plugins) * len(visible), seed
        for place, cluster in enumerate(visible):
            row = rows[cluster]
            where = f"seed {seed} {cluster}"
            assert cells(small, place) == expected(row, small.plugins), where
            assert {verdict.plugin for verdict in row.rejections} <= set(small.plugins), where
            assert OUTCOMES[small.outcomes[place]] == row.outcome, where
            assert (place in small.bound) is (row.outcome in ("selected", "already-selected")), where
            if decision.round is not None and row.outcome != "not-evaluated":
                total = row.total if row.key is None else sum(row.key)
                assert small.scores[place] == total, where


def test_no_hidden_name_is_in_a_reason(seeds: range) -> None:
    for seed in seeds:
        scenario = a_random_scenario(seed)
        decision = scenario.decide()
        hidden = set(decision.frame.names.ordered[::2])

        small = compact(scenario, decision, hidden.__contains__)

        words = " ".join(reason.text for reason in small.reasons).replace(STAND_IN, "").split()
        assert not hidden & {word.strip("{}:,;()") for word in words}, seed


def test_a_byte_is_enough_for_any_number_of_phrases() -> None:
    fleet = [a_cluster(f"c{number:03}").tainted(f"key-{number}") for number in range(400)]
    asked = ask(fleet, a_policy().pick_n(1))

    small = build_compact_verdicts(asked.decision, asked.inp, Redaction(asked.decision.frame, None))

    assert len(small.reasons) == MOST_PHRASES + 1 < MOST_REASONS
    assert small.reasons[-1].text == "untolerated taint"
    assert NOT_RUN not in small.verdicts[small.plugins.index("TaintToleration") * 400 :][:400]
    assert set(small.outcomes) == {REJECTED}


def test_an_empty_fleet_has_a_matrix_without_columns() -> None:
    asked = ask([], a_policy().pick_n(1).require(label("region", "In", "ams")))

    small = build_compact_verdicts(asked.decision, asked.inp, Redaction(asked.decision.frame, None))

    assert (small.clusters, small.verdicts, small.outcomes, small.bound) == ((), b"", "", ())


def test_clusters_that_the_policy_does_not_name_have_that_reason() -> None:
    asked = ask(clusters("a", "b", "c"), a_policy().pick_fixed("b"))

    small = build_compact_verdicts(asked.decision, asked.inp, Redaction(asked.decision.frame, None))

    assert small.outcomes == "rsr"
    assert cells(small, 0)["PickFixed"] == "not listed"
    assert cells(small, 1)["PickFixed"] is None
