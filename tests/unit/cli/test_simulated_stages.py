"""How many clusters a placement gets, which, and in how many rounds, as `fleet simulate` shows it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fleet.framework.scalar import ScalarPlugin
from fleet.framework.status import Code, Status
from fleet.framework.types import Component, PluginTraits, Reason, ReasonTable, Verdict
from tests.doubles import Rejecting, Scoring, limited_to
from tests.extender import an_extender, forbid
from tests.fast_yaml import safe_dump, safe_dump_all
from tests.unit.cli.conftest import Fleet
from tests.unit.cli.manifests import NOW, Manifest, binding, member, placement, snapshot
from tests.unit.cli.profiled import HEAD, Noting, Report, Simulator, error_of, row_of, simulating, targets

FIVE = "abcde"


@pytest.fixture
def simulator(tmp_path: Path, fleet: Fleet) -> Iterator[Simulator]:
    yield from simulating(tmp_path, fleet)


@pytest.fixture
def decide(tmp_path: Path, fleet: Fleet) -> Any:
    """With the default profile."""

    def decided(*manifests: Manifest, now: str = NOW, options: Sequence[str] = ()) -> Report:
        files = tmp_path / "fleet.yaml"
        files.write_text(safe_dump_all(manifests), encoding="utf-8")
        ran = fleet("simulate", "-f", str(files), "--now", now, "-o", "json", *options)
        (decision,) = json.loads(ran.out)["decisions"]
        found: Report = decision
        return found

    return decided


def operations(decision: Report) -> list[tuple[str, str]]:
    return [(operation["action"], operation["cluster"]) for operation in decision["operations"]]


def counts(decision: Report) -> Mapping[str, int]:
    found: Mapping[str, int] = decision["answer"]["verdict"]["counts"]
    return found


def scored(each: Manifest, affinity: int, topology: int = 0) -> Manifest:
    each["spec"]["clusterDecision"]["clusterScore"] = {"affinityScore": affinity, "priorityScore": topology}
    return each


# --- how many ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number, outcome, expected",
    [
        (6, "Selected", [("create", "f")]),
        (5, "Unchanged", []),
        (4, "Shrink", [("unschedule", "c")]),
        (1, "Shrink", [("unschedule", name) for name in "cdba"]),
        (0, "Shrink", [("unschedule", name) for name in "cdbae"]),
    ],
)
def test_L_01_what_is_wanted_and_not_there_is_looked_for_and_what_is_too_much_goes_in_order(
    decide: Any, number: int, outcome: str, expected: list[tuple[str, str]]
) -> None:
    """Scheduled before bound, the lowest stored score, the smaller name."""
    there = [
        scored(binding("a", of="web", snapshot="web-0"), 1),
        scored(binding("b", of="web", snapshot="web-0", state="Scheduled"), -5, 1),
        scored(binding("c", of="web", snapshot="web-0", state="Scheduled"), 9),
        scored(binding("d", of="web", snapshot="web-0", state="Scheduled"), 9),
        scored(binding("e", of="web", snapshot="web-0"), 2),
    ]
    policy = snapshot("web-0", "web", number=number, placementType="PickN", numberOfClusters=number)

    decision = decide(*map(member, "abcdef"), policy, *there)

    assert (decision["outcome"], operations(decision)) == (outcome, expected)
    assert decision["published"] is not None


def test_L_01_bindings_of_an_earlier_policy_go_first(decide: Any) -> None:
    there = [
        binding("a", of="web", snapshot="web-1", state="Scheduled"),
        binding("b", of="web", snapshot="web-1"),
        scored(binding("c", of="web", snapshot="web-0"), 99),
    ]
    policy = snapshot("web-1", "web", number=2, placementType="PickN", numberOfClusters=2)

    decision = decide(*map(member, "abc"), policy, *there)

    assert (decision["outcome"], operations(decision)) == ("Shrink", [("unschedule", "c")])


@pytest.mark.parametrize(
    "offers, per_round",
    [((), [4]), ((2,), [2, 2]), ((3, 1, 2), [1, 1, 1, 1]), ((2, -1), [2, 2]), ((3,), [3, 1]), ((0, 3), [])],
    ids=str,
)
def test_F3_011_L_02_the_smallest_limit_counts_and_full_rounds_are_followed_by_another(
    simulator: Simulator, offers: tuple[int, ...], per_round: list[int]
) -> None:
    limits = [Noting(f"Limit{offer}".replace("-", "Minus"), post_batch=limited_to(offer)) for offer in offers]
    skipping = Noting("Skipping", post_batch=(1, Status.new(Code.SKIP)))

    decision = simulator.decide(skipping, *limits, clusters=FIVE, number=4)

    steps = Counter(row_of(decision, name)["step"] for name in FIVE)
    assert [steps[step] for step in sorted(step for step in steps if step)] == per_round
    assert decision["answer"]["attempt"]["skipped"] == [{"hook": "postBatch", "plugin": "Skipping"}]


def test_L_02_other_codes_are_errors(simulator: Simulator) -> None:
    odd = Noting("Odd", post_batch=(1, Status.new(Code.UNSCHEDULABLE, "hm")))

    assert error_of(simulator.decide(odd)) == "Odd at postBatch: invalid code Unschedulable at PostBatch"


class Alternating(PluginTraits):
    """Allows names with an even letter while an even number is placed, and the others otherwise."""

    REASONS = ReasonTable(Reason("NotYet", Code.UNSCHEDULABLE, "not its turn"))

    def name(self) -> str:
        return "Alternating"

    def filter(self, ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        turn = ctx.placed.bit_count() % 2
        return Verdict(ok=sum(1 << row for row in range(frame.size) if ord(frame.name(row)) % 2 == turn))


def test_L_02_the_next_round_sees_the_earlier_picks_and_one_without_picks_is_the_last(simulator: Simulator) -> None:
    decision = simulator.decide(Alternating(), Noting("OneByOne", post_batch=limited_to(1)), clusters=FIVE, number=5)

    assert [row_of(decision, name)["step"] for name in FIVE] == [None, 3, 4, 1, 2]
    assert decision["answer"]["attempt"]["rounds"] == 5


# --- which ------------------------------------------------------------------------------------------------------------


class Topology(Scoring):
    SCORE_COMPONENT = Component.TOPOLOGY


class Obsolete(Scoring):
    SCORE_COMPONENT = Component.OBSOLETE


@pytest.mark.parametrize(
    "ranking, tie_break, order",
    [
        ("lexicographic", "nameDescending", "dabec"),
        ("lexicographic", "nameAscending", "dabce"),
        ("lexicographic", "hashed", "dabec"),
        ("weighted", "nameDescending", "adbec"),
        ("weighted", "nameAscending", "abdce"),
        ("weighted", "hashed", "adbec"),
    ],
)
def test_L_03_W_02_ranks_follow_ranking_and_tie_break_which_are_stated(
    simulator: Simulator, ranking: str, tie_break: str, order: str
) -> None:
    web = placement("web", placementType="PickN", numberOfClusters=5)
    web["metadata"]["uid"] = "uid-1"
    plugins = Obsolete("Obsolete", {"b": 1}), Scoring("Affinity", {"a": 9}), Topology("Topology", {"d": 1})

    decision = simulator.decide(*plugins, clusters=FIVE, objects=[web], ranking=ranking, tieBreak=tie_break)

    attempt = decision["answer"]["attempt"]
    assert "".join(targets(decision)) == order
    assert (attempt["ranking"], attempt["tieBreak"]) == (ranking, tie_break)


def test_L_05_a_cluster_in_use_is_counted_apart_from_rejections(decide: Any) -> None:
    policy = snapshot("web-0", "web", number=3, placementType="PickN", numberOfClusters=3)

    decision = decide(*map(member, "abc"), policy, binding("a", of="web", snapshot="web-0"))

    assert operations(decision) == [("create", "c"), ("create", "b")]
    assert (counts(decision)["alreadySelected"], counts(decision)["rejected"]) == (1, 0)
    assert row_of(decision, "a")["outcome"] == "already-selected"
    assert decision["answer"]["attempt"]["groups"] == []


def test_L_07_one_profile_serves_all_types_and_named_clusters_are_valid_invalid_or_missing(decide: Any) -> None:
    gone = "2026-01-01T00:00:00Z"
    fleet = member("a", zone="x"), member("b", heard=gone), member("c")
    policies = (
        {"placementType": "PickAll"},
        {"placementType": "PickN", "numberOfClusters": 1},
        {"placementType": "PickFixed", "clusterNames": ["b", "nowhere", "a", "else"]},
    )

    decisions = [decide(*fleet, placement("web", **policy)) for policy in policies]

    assert [operations(decision) for decision in decisions] == [
        [("create", "a"), ("create", "c")],
        [("create", "c")],
        [("create", "a")],
    ]
    assert len({decision["answer"]["attempt"]["configHash"] for decision in decisions}) == 1
    fixed = decisions[-1]["answer"]["verdict"]
    assert [each["cluster"] for each in fixed["invalid"]] == ["b"]
    assert fixed["missing"] == ["nowhere", "else"]


def test_L_08_what_was_decided_stays_but_for_a_cluster_that_is_lost(decide: Any) -> None:
    preferred = {
        "clusterAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 90, "preference": {"labelSelector": {"matchLabels": {"price": "low"}}}}
            ]
        }
    }
    policy = snapshot("web-0", "web", number=2, placementType="PickN", numberOfClusters=2, affinity=preferred)
    before = member("a", price="low"), member("b", price="low"), member("c"), member("d")
    first = decide(*before, policy)
    there = [binding(cluster, of="web", snapshot="web-0") for _, cluster in operations(first)]
    drifted = member("a"), member("b"), member("c", price="low"), member("d")

    assert {cluster for _, cluster in operations(first)} == {"a", "b"}
    assert operations(decide(*before, policy, *there)) == []
    assert operations(decide(*drifted, policy, *there)) == []
    assert operations(decide(*drifted[1:], policy, *there)) == [("unschedule", "a"), ("create", "c")]


def test_a_domain_without_a_usable_cluster_is_not_named_where_it_does_not_count(decide: Any) -> None:
    taint = [{"key": "gpu", "effect": "NoSchedule"}]
    fleet = member("a1", zone="a"), member("a2", zone="a"), member("b1", zone="b"), member("c1", zone="c", taints=taint)
    spread = [{"topologyKey": "zone", "maxSkew": 1}]
    policy: dict[str, Any] = {"placementType": "PickN", "numberOfClusters": 2, "topologySpreadConstraints": spread}
    there = snapshot("web-0", "web", number=2, **policy), binding("a1", of="web", snapshot="web-0")

    lowest = [
        row_of(decide(*fleet, *there, options=options), "a2")["rejections"][-1]["details"]["lowest"]
        for options in ((), ("--set", "spread.usableDomainsOnly=true"))
    ]

    assert lowest == [["b", "c"], ["b"]]


def test_F3_122_a_year_later_everything_is_decided_alike(decide: Any) -> None:
    fleet = [
        member("fresh"),
        member("late", heard="2026-03-10T08:57:00Z"),
        member("silent", heard="2026-03-10T08:00:00Z"),
        placement("web", placementType="PickN", numberOfClusters=3),
    ]
    later = json.loads(json.dumps(fleet).replace('"2026-', '"2027-'))

    decisions = [decide(*fleet), decide(*later, now=NOW.replace("2026", "2027"))]

    first, second = (
        [(row["name"], row["outcome"]) for row in each["answer"]["attempt"]["clusters"]] for each in decisions
    )
    assert first == second
    assert ("silent", "rejected") in first
    assert operations(decisions[0]) == operations(decisions[1]) != []


# --- what an answer shows ---------------------------------------------------------------------------------------------


class Vector(Rejecting):
    REASONS = ReasonTable(Reason("Full", Code.UNSCHEDULABLE, "{free} of {size} free"))

    def filter(self, ctx: Any, *args: Any) -> Verdict:
        ctx.note("budget", {"left": 3, "names": ["x"]})
        return super().filter(ctx, *args)

    def explain_row(self, req: Any, frame: Any, row: int, reason: int) -> dict[str, object]:
        return {"free": 1, "size": 8, "racks": {"r1": [1, 2]}}


class Scalar(ScalarPlugin):
    def filter_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> Status | None:
        ctx.note("seen", True)
        details = {"free": 2, "racks": {"r2": [3]}}
        return Status(Code.UNSCHEDULABLE, ("full",), details=details) if cluster.name == "b" else None


def test_W_13_details_and_notes_of_a_plugin_appear_under_its_name(simulator: Simulator) -> None:
    decision = simulator.decide(Vector("Vector", "a"), Scalar(), number=3)

    rejections = {
        name: {
            each["plugin"]: each["details"]
            for each in row_of(decision, name)["rejections"]
            if each["verdict"] == "reject"
        }
        for name in "ab"
    }
    assert rejections == {
        "a": {"Vector": {"free": 1, "size": 8, "racks": {"r1": [1, 2]}}},
        "b": {"Scalar": {"free": 2, "racks": {"r2": [3]}}},
    }
    notes = {"Vector": {"budget": {"left": 3, "names": ["x"]}}, "Scalar": {"seen": True}}
    assert decision["answer"]["attempt"]["notes"] == notes


def test_W_08_one_cluster_and_none_are_answered_in_the_same_form(simulator: Simulator) -> None:
    plugins = Rejecting("Picky"), Scoring("Points")
    answers = [simulator.decide(*plugins, clusters=clusters)["answer"] for clusters in ("ab", "a", "")]
    shapes = [{name: sorted(part) for name, part in each.items() if isinstance(part, dict)} for each in answers]
    texts = [simulator.run(*plugins, clusters=clusters, output=()).out for clusters in ("a", "")]

    assert shapes[0] == shapes[1] == shapes[2]
    assert [len(answer["attempt"]["clusters"]) for answer in answers] == [2, 1, 0]
    assert "1/1 clusters selected, need 2" in texts[0]
    assert "0/0 clusters selected, need 2" in texts[1]
    one = simulator.run(*plugins, clusters="a", output=("--why", "a")).out
    assert re.search(r"^PLUGIN +VERDICT .*\nPicky +pass", one, re.MULTILINE)


def test_F3_135_extenders_are_asked_when_the_user_says_so(fleet: Fleet, tmp_path: Path) -> None:
    objects, config = tmp_path / "fleet.yaml", tmp_path / "config.yaml"
    web = placement("web", placementType="PickN", numberOfClusters=2)
    objects.write_text(safe_dump_all([*map(member, "abc"), web]), encoding="utf-8")
    with an_extender() as extender:
        extender.answer = forbid("b", because="over budget in July")
        extenders = [{"name": "budget", "urlPrefix": extender.url, "filterVerb": "filter"}]
        config.write_text(safe_dump({**HEAD, "extenders": extenders}), encoding="utf-8")
        command = ["simulate", "-f", str(objects), "--config", str(config), "-o", "json"]
        silent, asked = fleet(*command), fleet(*command, "--ask-extenders")

    (decision,) = json.loads(silent.out)["decisions"]
    assert (silent.code, error_of(decision)) == (3, "extender budget was not asked about this")
    (decision,) = json.loads(asked.out)["decisions"]
    assert (asked.code, sorted(targets(decision))) == (0, ["a", "c"])
    rejected = {each["plugin"]: each["message"] for each in row_of(decision, "b")["rejections"]}
    assert (row_of(decision, "b")["first"], rejected["budget"]) == ("budget", "over budget in July")
