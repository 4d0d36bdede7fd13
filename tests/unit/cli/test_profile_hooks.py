"""What plugins of an installed distribution do at the hooks of a profile, as `fleet simulate` shows it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.errors import ConfigurationError
from fleet.framework.profiles.adapter import LegacyPostFilterAdapter
from fleet.framework.profiles.registry import Registry
from fleet.framework.scalar import ScalarPlugin
from fleet.framework.scores import NamedScore, default_normalize
from fleet.framework.status import Code, Status
from fleet.framework.types import PostFilterResult, Verdict
from fleet.model.keys import MIN_TARGETS
from plugins import in_tree_registry
from tests.doubles import Rejecting, RejectingOneByOne, Scoring, limited_to, narrowing_to
from tests.installed import an_installed_package
from tests.unit.cli.conftest import Fleet
from tests.unit.cli.manifests import placement
from tests.unit.cli.profiled import Noting, Report, Simulator, calls, error_of, row_of, simulating, targets

MANY = [f"c{number:02d}" for number in range(12)]
NO = Status.new(Code.UNSCHEDULABLE, "no")


@pytest.fixture
def simulator(tmp_path: Path, fleet: Fleet) -> Iterator[Simulator]:
    yield from simulating(tmp_path, fleet)


def answering(code: Code, *reasons: str) -> tuple[None, Status]:
    return None, Status.new(code, *reasons)


def messages(decision: Report) -> dict[str, str]:
    """Of the first rejection of each cluster."""
    return {
        row["name"]: f"{rejection['plugin']}: {rejection['message']}"
        for row in decision["answer"]["attempt"]["clusters"]
        for rejection in row["rejections"]
        if row["first"] == rejection["plugin"]
    }


def one_at_a_time() -> Noting:
    return Noting("OneByOne", post_batch=limited_to(1))


# --- profiles that are refused ----------------------------------------------------------------------------------------


def test_F3_034_a_plugin_has_the_name_it_is_listed_under(simulator: Simulator) -> None:
    other = {"Listed": lambda raw, handle: Noting("Other", pre_filter=(None, None))}

    ran = simulator.run(hooks={"preFilter": ["Listed"]}, factories=other)

    assert ran.code == 2
    assert "plugin registered as Listed calls itself Other" in ran.err


def test_F3_035_a_factory_that_fails_keeps_the_scheduler_from_starting(simulator: Simulator, fleet: Fleet) -> None:
    def factory(raw: Any, handle: Any) -> Any:
        raise OSError("no such socket")

    for args in ([], [{"name": "Dialing", "args": {"to": "x"}}]):
        config = simulator.configure(
            hooks={"preFilter": ["Dialing"]}, factories={"Dialing": factory}, pluginConfig=args
        )
        ran = fleet("controller", "--config", str(config))

        assert ran.code == 2
        assert 'error initializing plugin "Dialing": no such socket' in ran.err


def both_forms() -> Any:
    plugin = RejectingOneByOne("Both")
    plugin.filter = lambda *args: None  # type: ignore[attr-defined]
    return plugin


@pytest.mark.parametrize(
    "hooks, fields, text",
    [
        ({"filter": ["Ghost"]}, {}, "plugins.filter.enabled[0].name: no plugin named Ghost exists"),
        ({"filter": ["Second"]}, {}, "plugins.filter.enabled[0]: Second has no filter hook; it has batch, sort"),
        ({"filter": ["TaintToleration"] * 2}, {}, "plugins.filter.enabled[1].name: TaintToleration is listed twice"),
        ({"queueSort": []}, {}, "exactly one queueSort plugin is needed, 0 configured"),
        ({"batch": []}, {}, "exactly one batch plugin is needed, 0 configured"),
        ({"batch": ["DesiredBatch", "Second"]}, {}, "exactly one batch plugin is needed, 2 configured"),
        ({"sort": []}, {}, "exactly one sort plugin is needed, 0 configured"),
        ({"sort": ["RankingSort", "Second"]}, {}, "exactly one sort plugin is needed, 2 configured"),
        ({"bind": []}, {}, "at least one bind plugin is needed"),
        ({}, {"pluginConfig": [{"name": "Second"}] * 2}, "pluginConfig[1].name: Second is listed twice"),
        ({"filter": ["Both"]}, {}, 'error initializing plugin "Both": Both defines both filter_one and filter'),
    ],
    ids=str,
)
def test_F3_041_a_profile_that_breaks_a_rule_is_refused(
    simulator: Simulator, hooks: dict[str, Any], fields: dict[str, Any], text: str
) -> None:
    second = Noting("Second", batch=0, sort=None)
    factories = {"Second": lambda raw, handle: second, "Both": lambda raw, handle: both_forms()}

    ran = simulator.run(hooks=hooks, factories=factories, **fields)

    assert (ran.code, ran.out) == (2, "")
    assert text in ran.err


def test_F3_041_a_weight_of_zero_counts_as_one(simulator: Simulator) -> None:
    decision = simulator.decide(Scoring("Own", {"a": 7}), weights={"Own": 0}, ranking="weighted")

    assert [(score["weight"], score["final"]) for score in row_of(decision, "a")["scores"]] == [(1, 7)]


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> list[Registry]:
    """Those that profiles are built from."""
    built: list[Registry] = []

    def build() -> Registry:
        built.append(in_tree_registry())
        return built[-1]

    monkeypatch.setattr("fleet.scheduler.profiles.configuration.in_tree_registry", build)
    return built


@pytest.mark.parametrize("change", ["register", "unregister", "merge"])
def test_F3_036_the_plugins_of_a_decision_are_settled(
    simulator: Simulator, registries: list[Registry], change: str
) -> None:
    simulator.decide(Noting("Own", pre_filter=(None, None)))
    (registry,) = [each for each in registries if "Own" in each]
    before = dict(registry)
    changes = {
        "register": lambda: registry.register("Late", registry["Own"]),
        "unregister": lambda: registry.unregister("Own"),
        "merge": lambda: registry.merge({"Late": registry["Own"]}),
    }

    with pytest.raises(ConfigurationError, match="the registry is sealed"):
        changes[change]()

    assert registry == before


def test_F3_038_what_a_program_takes_out_no_profile_can_name(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that embeds the commands does, before any profile is built."""
    taken_out = ["ResourceFit"]

    def build() -> Registry:
        registry = in_tree_registry()
        for name in taken_out:
            registry.unregister(name)
        return registry

    monkeypatch.setattr("fleet.scheduler.profiles.configuration.in_tree_registry", build)

    assert targets(simulator.decide(Rejecting("Own", "a"))) == ["c", "b"]
    named = simulator.run(Noting("Own"), hooks={"filter": ["ResourceFit"]})
    assert (named.code, named.out) == (2, "")
    assert "no plugin named ResourceFit exists" in named.err

    taken_out.append("Nobody")
    unknown = simulator.run(Noting("Own"))
    assert (unknown.code, unknown.out) == (2, "")
    assert "no plugin named Nobody exists" in unknown.err


def test_F3_037_F3_039_of_two_plugins_with_one_name_nothing_is_added_and_those_of_fleet_stay(
    simulator: Simulator, fleet: Fleet, registries: list[Registry], tmp_path: Path
) -> None:
    config = simulator.configure(Rejecting("Own", "a"))
    other = tmp_path / "other"
    other.mkdir()
    source = "def make(raw=None, handle=None):\n    raise AssertionError('made')\n"
    with an_installed_package(other, source, dict.fromkeys(["Own", "New", "TaintToleration"], "make")):
        ran, listed = fleet("config", "check", str(config)), fleet("plugins", "list")

    assert (ran.code, listed.code) == (2, 2)
    assert "a plugin named Own already exists (distribution plugins_of_other 1.0)" in ran.err
    assert all(registry == in_tree_registry() for registry in registries)
    assert "entry point TaintToleration = plugins_of_other:make: a plugin named TaintToleration already exists" in (
        listed.err
    )
    assert re.search(r"^TaintToleration +filter +in-tree$", listed.out, re.MULTILINE)
    assert targets(simulator.decide(Rejecting("Own", "a"), number=1)) == ["c"]


@pytest.mark.parametrize(
    "other",
    [
        {"pluginConfig": [{"name": "PrioritySort", "args": {"oldest": "first"}}]},
        {"plugins": {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "Elders"}]}}},
    ],
    ids=["other arguments", "another plugin"],
)
def test_F3_048_profiles_cannot_sort_the_one_queue_differently(simulator: Simulator, other: dict[str, Any]) -> None:
    elders = {"Elders": lambda raw, handle: Noting("Elders", key=0)}

    ran = simulator.run(factories=elders, others=[{"schedulerName": "other", **other}], schedulerName="mine")

    assert ran.code == 2
    assert "profiles mine and other sort the one queue differently" in ran.err


@pytest.mark.parametrize(
    "hook, methods",
    [("reserve", {"reserve": None}), ("reserve", {"unreserve": None}), ("preBind", {"pre_bind_preflight": None})],
    ids=["only reserves", "only unreserves", "only looks"],
)
def test_F3_063_F3_069_half_of_what_a_hook_needs_is_refused(
    simulator: Simulator, hook: str, methods: dict[str, Any]
) -> None:
    ran = simulator.run(hooks={hook: ["Half"]}, factories={"Half": lambda raw, handle: Noting("Half", **methods)})

    assert ran.code == 2
    either = (f"plugin Half does not extend {hook} plugin", f"plugins.{hook}.enabled[0]: Half has no {hook} hook")
    assert any(text in ran.err for text in either)


def test_F3_140_a_slow_filter_before_a_quick_one_is_a_warning_that_names_both(
    simulator: Simulator, fleet: Fleet
) -> None:
    config = simulator.configure(RejectingOneByOne("Slow"), Rejecting("Quick"), Rejecting("Other"))

    ran = fleet("config", "check", str(config))

    warning = "filter Slow works cluster by cluster: put Quick before it, which judges all at once"
    assert (ran.code, ran.err) == (0, f"warning: profile DefaultScheduler: {warning}\n")


# --- PreFilter --------------------------------------------------------------------------------------------------------


def test_F3_050_F3_062_filters_and_scores_are_prepared_once_per_round(simulator: Simulator) -> None:
    def normalize(ctx: Any, state: Any, req: Any, raw: Any) -> Any:
        ctx.note("seen", [*ctx.notes["Own"].get("seen", ()), raw.tolist()])
        return raw

    own = Noting("Own", score=lambda ctx, state, req, frame, rows: rows * 0 + 7, normalize=normalize)
    counted = Noting("Counted", pre_filter=(None, None))

    decision = simulator.decide(counted, own, Scoring("Other"), one_at_a_time(), number=3, ranking="weighted")

    assert decision["answer"]["attempt"]["rounds"] == 3
    assert calls(decision)["Counted"] == {"pre_filter": 3}
    assert calls(decision)["Own"] == {"score": 3, "normalize": 3, "seen": [[7, 7, 7], [7, 7], [7]]}


def test_F3_051_candidates_are_narrowed_and_a_cluster_left_out_names_the_plugin(simulator: Simulator) -> None:
    near, cheap = (Noting(name, pre_filter=narrowing_to(*left)) for name, left in (("Near", "ab"), ("Cheap", "bc")))

    decision = simulator.decide(near, cheap, number=1)

    assert targets(decision) == ["b"]
    assert messages(decision)["c"] == "Near: cluster(s) didn't satisfy plugin(s) [Near]"


def test_F3_051_F3_094_what_leaves_no_candidate_rejects_every_cluster(simulator: Simulator) -> None:
    near, cheap = (Noting(name, pre_filter=narrowing_to(left)) for name, left in (("Near", "a"), ("Cheap", "b")))
    later = Noting("Later", filter=Verdict(ok=-1))

    decision = simulator.decide(near, cheap, later, number=1)

    assert set(messages(decision)) == {"a", "b", "c"}
    assert {message.partition(": ")[2] for message in messages(decision).values()} == {
        "cluster(s) didn't satisfy plugin(s) [Near Cheap] simultaneously"
    }
    assert "Later" not in calls(decision)


@pytest.mark.parametrize(
    "code, second", [(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, {}), (Code.UNSCHEDULABLE, {"pre_filter": 1})], ids=str
)
def test_F3_051_F3_076_F3_094_a_refusal_of_the_placement_names_its_plugin_for_every_cluster(
    simulator: Simulator, code: Code, second: dict[str, int]
) -> None:
    quota = Noting("Quota", pre_filter=answering(code, "3 of 3 used", "ask finance"))
    others = Noting("Second", pre_filter=(None, None)), Noting("Eviction", post_filter=(None, NO))

    decision = simulator.decide(quota, *others)

    assert messages(decision) == dict.fromkeys("abc", "Quota: 3 of 3 used, ask finance")
    (group,) = decision["answer"]["attempt"]["groups"]
    assert (group["plugin"], group["code"], group["count"]) == ("Quota", str(code), 3)
    assert calls(decision).get("Second", {}) == second
    assert calls(decision)["Eviction"] == {"post_filter": 1}


def test_F3_011_F3_051_L_09_skip_switches_the_filter_of_the_plugin_off_and_is_shown(simulator: Simulator) -> None:
    skipping = Rejecting("Skipping", "abc")
    skipping.pre_filter = lambda *_: answering(Code.SKIP)  # type: ignore[attr-defined]

    decision = simulator.decide(skipping)

    assert len(targets(decision)) == 2
    assert decision["answer"]["attempt"]["skipped"] == [{"hook": "filter", "plugin": "Skipping"}]


# --- Filter -----------------------------------------------------------------------------------------------------------


class Watched(Rejecting):
    """Notes with the decision which clusters it was asked about."""

    def filter(self, ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        ctx.note("alive", sorted(frame.name(row) for row in range(frame.size) if alive >> row & 1))
        return super().filter(ctx, state, req, frame, alive)


@pytest.mark.parametrize("seed", range(3))
def test_F3_055_F3_131_filters_judge_in_their_order_what_is_left(simulator: Simulator, seed: int) -> None:
    dice = random.Random(seed)
    plugins = [Watched(name, dice.sample(MANY, dice.randrange(7))) for name in dice.sample(["A", "B", "C", "D"], 4)]

    decision = simulator.decide(*plugins, clusters=MANY, number=12)

    left, first = list(MANY), dict.fromkeys(MANY, "")
    for plugin in plugins:
        assert calls(decision)[plugin.name()] == {"alive": left}
        first |= {name: plugin.name() for name in left if name in plugin.rejected}
        left = [name for name in left if name not in plugin.rejected]
    assert {name: row_of(decision, name)["first"] for name in MANY} == first


class OneByOne(ScalarPlugin):
    def filter_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> Status | None:
        if cluster.name == "b":
            raise LookupError("no such room")
        return None


def test_F3_130_a_filter_cluster_by_cluster_decides_like_its_twin_over_columns(simulator: Simulator) -> None:
    twins = [Rejecting("Twin", "ac"), RejectingOneByOne("Twin", "ac")]

    digests = [simulator.decide(twin, percentageOfClustersToScore=100)["answer"]["attempt"]["digest"] for twin in twins]

    assert digests[0] == digests[1]
    failed = error_of(simulator.decide(OneByOne()))
    assert failed == "OneByOne at filter: cluster b: LookupError: no such room"


@pytest.mark.parametrize(
    "hook, answer, text",
    [
        ("filter", Verdict(ok=np.ones(2, dtype=np.bool_)), "mask should be bool[3] or an int, not bool[2]"),
        ("filter", Verdict(ok=np.ones(3, dtype=np.int8)), "mask should be bool[3] or an int, not int8[3]"),
        ("filter", Verdict(ok=0, reason=7), "undeclared reason 7 (it declares 0)"),
        ("filter", True, "answered bool, not a Verdict"),
        ("filter", Status(Code.WAIT, ("later",)), "invalid code Wait at Filter"),
        ("score", np.zeros(2, dtype=np.int64), "scores should be int64[3], not [2]"),
        ("score", np.full(3, np.nan), "scores should be int64, not NaN"),
        ("score", np.zeros(3, dtype=np.int32), "scores should be int64, not int32"),
        ("score", ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
        ("preScore", NO, "invalid code Unschedulable at PreScore"),
    ],
    ids=str,
)
def test_F3_010_F3_059_F3_077_F3_080_F3_125_F3_133_an_answer_of_the_wrong_form_ends_the_attempt(
    simulator: Simulator, hook: str, answer: Any, text: str
) -> None:
    method = {"preScore": "pre_score"}.get(hook, hook)
    odd, later = Noting("Odd", **{method: answer}), Noting("Zlater", **{method: answer})

    decision = simulator.decide(odd, later)

    assert error_of(decision) == f"Odd at {hook}: {text}"
    assert "Zlater" not in calls(decision)


def test_F3_077_unknown_codes_are_errors(simulator: Simulator) -> None:
    class Odd(ScalarPlugin):
        def filter_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> Any:
            return Status(9, ("what?",))  # type: ignore[arg-type]

    assert "invalid code 9 at Filter" in error_of(simulator.decide(Odd()))


# --- PostFilter and PreScore ------------------------------------------------------------------------------------------


def test_F3_008_a_plan_sees_unschedulable_clusters_as_candidates_and_others_not(simulator: Simulator) -> None:
    def post_filter(ctx: Any, state: Any, placement: Any, frame: Any, verdicts: Any) -> Any:
        rows = np.flatnonzero(verdicts.codes() == int(Code.UNSCHEDULABLE))
        ctx.note("candidates", sorted(frame.name(int(row)) for row in rows))
        return None, NO

    picky = Rejecting("Picky", {"a": 1, "b": 1, "c": 2})

    decision = simulator.decide(picky, Noting("Planning", post_filter=post_filter), number=1)

    assert calls(decision)["Planning"] == {"post_filter": 1, "candidates": ["a", "b"]}


def test_F3_006_none_is_success(simulator: Simulator) -> None:
    silent = Noting("Silent", pre_filter=None, pre_score=None, post_batch=None, post_filter=None, pre_enqueue=None)

    decision = simulator.decide(silent, Scoring("Own", {"a": 1}))

    assert len(targets(decision)) == 2
    assert decision["answer"]["attempt"]["skipped"] == []
    assert {"pre_filter", "pre_score", "post_batch"} <= set(calls(decision)["Silent"])


def test_F3_080_of_several_plans_the_first_counts(simulator: Simulator) -> None:
    hopeless = Noting("Hopeless", post_filter=(None, NO))
    planning = Noting("Planning", post_filter=(PostFilterResult(nomination=("a",)), None))
    later = Noting("Zlater", post_filter=(PostFilterResult(nomination=("b",)), None))

    decision = simulator.decide(Rejecting("Picky", "abc"), hopeless, planning, later, number=1)

    assert calls(decision) == {"Hopeless": {"post_filter": 1}, "Planning": {"post_filter": 1}}
    assert decision["answer"]["attempt"]["postFilter"]["nomination"] == ["a"]


@pytest.mark.parametrize("rejected, expected", [("abc", {"post_filter": 1, "shortfall": 1}), ("ab", {})], ids=str)
def test_F3_058_plans_are_made_only_where_too_few_clusters_qualify(
    simulator: Simulator, rejected: str, expected: dict[str, int]
) -> None:
    def post_filter(ctx: Any, *args: Any) -> Any:
        ctx.note("shortfall", ctx.shortfall)
        return PostFilterResult(nomination=("a",)), None

    decision = simulator.decide(Rejecting("Picky", rejected), Noting("Planning", post_filter=post_filter), number=3)

    assert calls(decision).get("Planning", {}) == expected
    plan = decision["answer"]["attempt"]["postFilter"]
    assert (plan and plan["nomination"]) == (["a"] if expected else None)


@pytest.mark.parametrize("least, expected", [("3", {"post_filter": 1, "shortfall": 2}), ("1", {})])
def test_F3_058_plans_are_made_where_fewer_qualify_than_min_targets(
    simulator: Simulator, least: str, expected: dict[str, int]
) -> None:
    def post_filter(ctx: Any, *args: Any) -> Any:
        ctx.note("shortfall", ctx.shortfall)
        return PostFilterResult(nomination=("a",)), None

    web = placement("web", placementType="PickN", numberOfClusters=3)
    web["metadata"]["annotations"] = {MIN_TARGETS: least}
    decision = simulator.decide(
        Rejecting("Picky", "ab"), Noting("Planning", post_filter=post_filter), number=3, objects=[web]
    )

    assert calls(decision).get("Planning", {}) == expected
    assert targets(decision) == ([] if expected else ["c"])


def test_F3_057_older_plugins_see_who_passed_and_why_the_others_did_not(simulator: Simulator) -> None:
    def post_filter(ctx: Any, state: Any, placement: Any, clusters: Any, statuses: Any) -> None:
        ctx.note("passed", [cluster.name for cluster in clusters])
        ctx.note("failed", {name: status.reasons for name, status in statuses.items()})

    older = LegacyPostFilterAdapter(Noting("Older", post_filter=post_filter))

    decision = simulator.decide(Rejecting("Picky", "b"), older, number=1)

    noted = {"post_filter": 1, "passed": ["a", "c"], "failed": {"b": ["refused by Picky"]}}
    assert calls(decision) == {"Older": noted}


def test_F3_011_F3_114_L_09_skip_before_scoring_switches_that_score_off_and_is_shown(simulator: Simulator) -> None:
    skipping = Scoring("Skipping", {"a": 50})
    skipping.pre_score = lambda *_: Status.new(Code.SKIP)  # type: ignore[attr-defined]

    decision = simulator.decide(skipping, Scoring("Other", {"b": 1}), number=1)

    assert targets(decision) == ["b"]
    assert [score["plugin"] for score in row_of(decision, "b")["scores"]] == ["Other"]
    assert decision["answer"]["attempt"]["skipped"] == [{"hook": "score", "plugin": "Skipping"}]


# --- Score ------------------------------------------------------------------------------------------------------------


def test_F3_081_F3_093_F3_138_W_02_weights_count_after_the_range_check_and_totals_are_sums(
    simulator: Simulator,
) -> None:
    heavy, light = Scoring("Heavy", {"a": 200, "b": 100}), Scoring("Light", {"b": 3, "c": 100})
    heavy.normalize = lambda ctx, state, req, raw: raw // 2  # type: ignore[attr-defined]

    decision = simulator.decide(heavy, light, weights={"Heavy": 1_000_000}, number=3, ranking="weighted")

    found = {
        name: [
            (score["raw"], score["normalized"], score["weight"], score["final"])
            for score in row_of(decision, name)["scores"]
        ]
        for name in "abc"
    }
    assert found == {
        "a": [(200, 100, 1_000_000, 100_000_000), (0, 0, 1, 0)],
        "b": [(100, 50, 1_000_000, 50_000_000), (3, 3, 1, 3)],
        "c": [(0, 0, 1_000_000, 0), (100, 100, 1, 100)],
    }
    totals = {name: row_of(decision, name)["total"] for name in "abc"}
    assert totals == {name: sum(final for *_, final in scores) for name, scores in found.items()}
    assert targets(decision) == ["a", "b", "c"]


@pytest.mark.parametrize("weight, chosen, totals", [(1, "a", {"a": 60, "b": 40}), (10, "b", {"a": 60, "b": 220})])
def test_W_02_a_weight_turns_the_choice_and_the_parts_add_up(
    simulator: Simulator, weight: int, chosen: str, totals: dict[str, int]
) -> None:
    one, other = Scoring("One", {"a": 60, "b": 20}), Scoring("Other", {"b": 20})

    decision = simulator.decide(one, other, weights={"Other": weight}, number=1, ranking="weighted")

    assert targets(decision) == [chosen]
    assert {name: row_of(decision, name)["total"] for name in "ab"} == totals
    for name in "ab":
        assert sum(score["final"] for score in row_of(decision, name)["scores"]) == totals[name]


@pytest.mark.parametrize("ranking, outcome", [("weighted", "Error"), ("lexicographic", "Selected")])
def test_F3_061_without_normalize_the_column_has_to_be_in_range_already(
    simulator: Simulator, ranking: str, outcome: str
) -> None:
    decision = simulator.decide(Scoring("Wild", {"a": 101}), number=1, ranking=ranking)

    assert decision["outcome"] == outcome
    assert simulator.decide(Scoring("Tame", {"a": 100}), number=1, ranking=ranking)["outcome"] == "Selected"


def test_F3_062_a_column_is_spread_over_the_range_and_may_be_turned(simulator: Simulator) -> None:
    class Distance(Scoring):
        def normalize(self, ctx: Any, state: Any, req: Any, raw: Any) -> Any:
            return default_normalize(raw, maximum=10, reverse=True)

    decision = simulator.decide(Distance("Distance", {"a": 400, "b": 200}), number=3, ranking="weighted")

    assert {name: row_of(decision, name)["scores"][0]["normalized"] for name in "abc"} == {"a": 0, "b": 5, "c": 10}
    assert targets(decision) == ["c", "b", "a"]


class Listing(ScalarPlugin):
    def score_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> int:
        return {"a": 10, "b": 20, "c": 30}[cluster.name]

    def normalize_list(self, ctx: Any, state: Any, placement: Any, scores: Any) -> Any:
        return [NamedScore(score.name, score.score + position) for position, score in enumerate(scores)]


def test_F3_092_a_list_of_scores_is_aligned_with_the_clusters_that_qualify(simulator: Simulator) -> None:
    decision = simulator.decide(Rejecting("Picky", "b"), Listing(), number=2, ranking="weighted")

    assert {name: row_of(decision, name)["total"] for name in "abc"} == {"a": 10, "b": None, "c": 31}
