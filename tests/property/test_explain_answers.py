"""Answers about decisions nobody thought of: they add up, agree with the record, and change nothing."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from fleet.explain.answer.answer import build_answer
from fleet.explain.answer.parts import Answer
from fleet.explain.answer.rendering import render
from fleet.explain.answer.simulate import simulate
from fleet.explain.fixes.fixes import find_fixes, find_fixes_for_cluster
from fleet.explain.whatif.edits import AddTaint
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.cycle import decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.cycle.inspection import consider_newcomers
from fleet.snapshot.table import overlay
from plugins.default_profile import compile_default, default_profile
from tests.unit.explain.scenarios import a_random_scenario


@pytest.fixture
def seeds(*, long: bool) -> range:
    return range(500 if long else 30)


def whole(scenario: Scenario, decision: Decision) -> Answer:
    """With every row and every verdict."""
    return build_answer(scenario.question, decision, everything=True, limit=10_000)


def test_W_05_counts_groups_and_rows_add_up_also_with_hidden_clusters(seeds: range) -> None:
    for seed in seeds:
        scenario = a_random_scenario(seed)
        decision = scenario.decide()
        hidden = set(decision.frame.names.ordered[::3])
        found = build_answer(scenario.question, decision, limit=10_000, redact=hidden.__contains__)
        counts = found.verdict.counts

        total = counts.selected + counts.fit + counts.already_selected + counts.rejected + counts.not_evaluated
        assert total == counts.total == decision.frame.count, seed
        assert sum(group.count for group in found.attempt.groups) == counts.rejected, seed
        for group in found.attempt.groups:
            assert group.count == len(group.clusters) + group.more + group.hidden, seed
        assert len(found.attempt.clusters) + found.redacted == counts.total, seed
        assert not hidden & {row.name for row in found.attempt.clusters}, seed


def test_W_05_the_rows_of_an_answer_are_what_it_counts(seeds: range) -> None:
    for seed in seeds:
        scenario = a_random_scenario(seed)
        found = build_answer(scenario.question, scenario.decide(), limit=10_000)
        outcomes = Counter(row.outcome for row in found.attempt.clusters)

        counts = found.verdict.counts
        assert outcomes["selected"] == counts.selected, seed
        assert outcomes["already-selected"] == counts.already_selected, seed
        assert outcomes["fit-not-selected"] == counts.fit, seed
        assert outcomes["rejected"] == counts.rejected, seed
        assert outcomes["not-evaluated"] == counts.not_evaluated, seed


def test_W_14_the_first_rejector_is_the_recorded_one_and_the_whole_matrix_agrees(seeds: range) -> None:
    for seed in seeds:
        scenario = a_random_scenario(seed)
        decision, _ = consider_newcomers(scenario.decide(), scenario.question)
        for row in whole(scenario, scenario.decide()).attempt.clusters:
            number = decision.frame.row_of(row.name)
            assert number is not None
            recorded = None if decision.verdicts is None else decision.verdicts.rejector(number)
            rejecting = [one.plugin for one in row.rejections if one.verdict == "reject"]
            if row.outcome == "rejected":
                assert row.first == (recorded or "PickFixed") == rejecting[0], (seed, row.name)
            elif row.outcome in ("selected", "fit-not-selected"):
                assert (row.first, rejecting) == ("", []), (seed, row.name)


def test_W_02_ranks_are_those_of_the_selection_and_finals_add_up(seeds: range) -> None:
    weighted = compile_default(default_profile(ranking="weighted"))
    for seed in seeds:
        scenario = a_random_scenario(seed)
        for question in (scenario.question, replace(scenario.question, profile=weighted)):
            decision = decide(question)
            found = build_answer(question, decision, limit=10_000)
            ranked = [row for row in found.attempt.clusters if row.rank is not None]
            assert [row.rank for row in ranked] == list(range(1, len(ranked) + 1)), seed
            if ranked:
                chosen = [target.cluster for target in decision.targets]
                assert [row.name for row in ranked if row.outcome == "selected"] == chosen, seed
            for row in ranked:
                if row.total is not None and row.scores:
                    assert sum(one.final for one in row.scores) == row.total, (seed, row.name)


def test_W_07_explaining_leaves_decision_digest_and_fleet_as_they_were(seeds: range) -> None:
    for seed in seeds[:20]:
        scenario = a_random_scenario(seed)
        decision = scenario.decide()
        before = (decision.digest, scenario.question.frame.content_hash(), msgspec.json.encode(scenario.snapshot))

        render(whole(scenario, decision))
        find_fixes(scenario, decision, mode="deep")
        for name in decision.frame.names.ordered[:2]:
            find_fixes_for_cluster(scenario, decision, name)

        after = (
            scenario.decide().digest,
            scenario.question.frame.content_hash(),
            msgspec.json.encode(scenario.snapshot),
        )
        assert after == before, seed


def test_W_08_every_answer_has_one_shape(seeds: range) -> None:
    answers = []
    for seed in seeds[:30]:
        scenario = a_random_scenario(seed)
        for names in (scenario.question.frame.names.ordered[:1], []):
            gone = [name for name in scenario.question.frame.names.ordered if name not in names]
            smaller = replace(scenario.question, frame=overlay(scenario.question.frame, remove=gone))
            answers.append(build_answer(smaller, decide(smaller)))

    shapes = {tuple(msgspec.to_builtins(one.attempt)) for one in answers}
    assert len(shapes) == 1
    assert {one.verdict.counts.total for one in answers} <= {0, 1}
    assert all(("REJECTED BY" in render(one)) == bool(one.attempt.groups) for one in answers)


def test_pages_put_together_are_the_whole_list(seeds: range) -> None:
    for seed in seeds[:20]:
        scenario = a_random_scenario(seed)
        decision = scenario.decide()
        names, cursor = list[str](), ""
        while True:
            page = build_answer(scenario.question, decision, limit=3, cursor=cursor).attempt
            names += [row.name for row in page.clusters]
            cursor = page.next_cursor
            if not cursor:
                break

        assert sorted(names) == list(decision.frame.names.ordered), seed


def test_W_10_a_hidden_name_is_nowhere_in_an_answer_or_a_simulation(seeds: range) -> None:
    for seed in seeds:
        scenario = a_random_scenario(seed)
        decision = scenario.decide()
        names = decision.frame.names.ordered
        hidden = {*names[seed % 3 :: 3], *decision.missing[:1]}
        found = build_answer(
            scenario.question,
            decision,
            everything=True,
            limit=10_000,
            redact=hidden.__contains__,
            fixes=find_fixes(scenario, decision),
        )
        edits = [AddTaint(name, "new") for name in names[:4]]
        simulated = simulate(scenario, edits, redact=hidden.__contains__)

        for text in (msgspec.json.encode(found).decode(), msgspec.json.encode(simulated).decode(), render(found)):
            told = {name for name in hidden if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text)}
            assert not told, (seed, told)
