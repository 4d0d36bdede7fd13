"""Rules for every decision and every plugin, as `fleet simulate` and `fleet plugins check` hold them: nothing but the
inputs counts, and no input is changed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pytest

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.handle import OfflineHandle
from fleet.framework.profiles.profile import METHODS
from fleet.framework.scalar import ScalarPlugin
from fleet.framework.status import Code, Status
from fleet.framework.types import Component, Reason, ReasonTable, Verdict
from plugins import IN_TREE
from tests.doubles import Answering, Rejecting, Scoring, limited_to
from tests.fast_yaml import safe_dump, safe_dump_all
from tests.oracle.documents import Json
from tests.property.test_plugins_reference import REFERENCES, Case, Reference
from tests.unit.cli.conftest import Fleet
from tests.unit.cli.manifests import LONG_AGO, NOW, Manifest, binding, member, placement, snapshot
from tests.unit.cli.profiled import HEAD, Noting, Report, Simulator, calls, error_of, row_of, simulating, targets
from tests.unit.framework.test_purity import Impure, sealed

WANTED: Final = {
    "clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"tier": "gold"}}}]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 40, "preference": {"labelSelector": {"matchLabels": {"price": "low"}}}}
        ],
    }
}
SPREAD: Final = [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]


@pytest.fixture
def simulator(tmp_path: Path, fleet: Fleet) -> Iterator[Simulator]:
    yield from simulating(tmp_path, fleet)


Decide = Callable[..., Report]


@pytest.fixture
def simulate(tmp_path: Path, fleet: Fleet) -> Decide:
    def simulated(*manifests: Manifest, base: str = "DefaultProfile", **plugins: Any) -> Report:
        files, config = tmp_path / "objects.yaml", tmp_path / "profile.yaml"
        files.write_text(safe_dump_all(manifests), encoding="utf-8")
        config.write_text(safe_dump({**HEAD, "profiles": [{"base": base, "plugins": plugins}]}), encoding="utf-8")
        ran = fleet("simulate", "-f", str(files), "--config", str(config), "--now", NOW, "-o", "json")
        (decision,) = json.loads(ran.out)["decisions"]
        found: Report = decision
        return found

    return simulated


def a_fleet(seed: int, size: int = 24) -> list[Manifest]:
    """With something to say for every filter."""
    dice = Random(seed)
    return [
        member(
            f"c{number:02d}",
            heard=dice.choice([NOW, NOW, NOW, LONG_AGO]),
            taints=[{"key": "gpu", "effect": "NoSchedule"}] if dice.random() < 0.2 else None,
            tier=dice.choice(["gold", "gold", "tin"]),
            price=dice.choice(["low", "high"]),
            zone=dice.choice("xyz"),
        )
        for number in range(size)
    ]


def web(number: int = 6, **policy: Any) -> Manifest:
    found = placement("web", placementType="PickN", numberOfClusters=number, affinity=WANTED, **policy)
    found["metadata"]["uid"] = "uid-1"
    return found


def judged(decision: Report) -> dict[str, Any]:
    """By cluster: all that is found about it, but for its place."""
    return {
        row["name"]: [row["first"], row["rejections"], row["scores"]]
        for row in decision["answer"]["attempt"]["clusters"]
    }


def digest_of(decision: Report) -> str:
    found: str = decision["answer"]["attempt"]["digest"]
    return found


# --- nothing but the inputs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["DefaultProfile", "ExtendedProfile"])
def test_F3_120_a_simulation_decides_without_clock_chance_files_and_threads(
    simulate: Decide, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    ways: list[AbstractContextManager[None]] = [nullcontext(), sealed()]

    def decide_in_isolation(inp: DecisionInput) -> Decision:
        with ways.pop(0):
            decision = decide(inp)
            _ = decision.published, decision.digest
        return decision

    monkeypatch.setattr("fleet.cli.input.simulation.decide", decide_in_isolation)
    fleet = [*a_fleet(1), web(topologySpreadConstraints=SPREAD)]

    assert simulate(*fleet, base=base) == simulate(*fleet, base=base)
    assert ways == []


def test_F3_120_a_plugin_that_reads_the_clock_is_noticed_there(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decide_in_isolation(inp: DecisionInput) -> Decision:
        with sealed():
            return decide(inp)

    monkeypatch.setattr("fleet.cli.input.simulation.decide", decide_in_isolation)
    with pytest.raises(Impure):
        simulator.decide(Noting("Watching", pre_filter=lambda *_: (None, time.time() and None)))


# --- the fleet is only read -------------------------------------------------------------------------------------------


def test_F3_124_the_columns_of_the_fleet_cannot_be_written_and_stay_as_they_were(simulator: Simulator) -> None:
    def write(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        frame.labels("region").ids[:] = 0
        return Verdict(ok=-1)

    def note(hook: str, answer: Any) -> Callable[..., Any]:
        def call(ctx: Any, state: Any, req: Any, frame: Any, *args: Any) -> Any:
            ctx.note(f"before {hook}", frame.content_hash())
            return answer

        return call

    decision = simulator.decide(Noting("Writing", filter=write))
    assert error_of(decision) == "Writing at filter: ValueError: assignment destination is read-only"

    noting = Noting("Noting", pre_filter=note("filter", (None, None)), post_batch=note("rounds", (1, None)))
    noting.sort = note("end", None)  # type: ignore[attr-defined]
    decision = simulator.decide(noting, Rejecting("Picky", "a"), Scoring("Points", {"b": 1}), number=2)
    hashes = {text for name, text in calls(decision)["Noting"].items() if name.startswith("before")}
    assert len(hashes) == 1


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("base", ["DefaultProfile", "ExtendedProfile"])
def test_F3_127_the_order_of_clusters_does_not_matter(simulate: Decide, base: str, seed: int) -> None:
    fleet, policy = a_fleet(seed), web(topologySpreadConstraints=SPREAD)
    shuffled = Random(seed).sample(fleet, len(fleet))

    first, second = (simulate(*each, policy, base=base) for each in (fleet, shuffled))

    assert digest_of(first) == digest_of(second)
    assert targets(first) == targets(second) != []
    assert judged(first) == judged(second)


FILTERS: Final = ["ClusterEligibility", "ClusterAffinity", "TaintToleration", "SamePlacementAntiAffinity"]


@pytest.mark.parametrize("seed", range(3))
def test_F3_126_what_is_judged_of_a_cluster_does_not_depend_on_those_that_were_rejected(
    simulate: Decide, seed: int
) -> None:
    fleet, policy = a_fleet(seed), placement("web", placementType="PickAll", affinity=WANTED)
    orders = [FILTERS, FILTERS[::-1], Random(seed).sample(FILTERS, len(FILTERS))]

    verdicts = []
    for order in orders:
        enabled = [{"name": name} for name in order]
        decision = simulate(*fleet, policy, filter={"disabled": [{"name": "*"}], "enabled": enabled})
        verdicts.append({row["name"]: row for row in decision["answer"]["attempt"]["clusters"]})

    for name in verdicts[0]:
        rows = [found[name] for found in verdicts]
        assert len({row["outcome"] for row in rows}) == 1
        by_plugin: dict[str, set[str]] = {}
        for row in rows:
            for each in row["rejections"]:
                if each["plugin"] == row["first"]:
                    by_plugin.setdefault(each["plugin"], set()).add(each["message"])
        assert all(len(messages) == 1 for messages in by_plugin.values())
    assert len({row["first"] for found in verdicts for row in found.values()}) > 3


@pytest.mark.parametrize("seed", range(3))
def test_F3_128_a_part_of_the_fleet_is_judged_like_the_part_of_the_whole(simulate: Decide, seed: int) -> None:
    fleet, policy = a_fleet(seed), placement("web", placementType="PickAll", affinity=WANTED)
    part = fleet[::3]

    whole, alone = (judged(simulate(*each, policy)) for each in (fleet, part))

    assert alone == {name: whole[name] for name in alone}
    assert len(alone) == len(part)


# --- per-cluster references -------------------------------------------------------------------------------------------


class Twin(ScalarPlugin):
    """Says of each cluster what the reference of a plugin says."""

    def __init__(self, original: Any, reference: Reference, case: Case, clusters: Sequence[Manifest]) -> None:
        setattr(self, "SCORE_COMPONENT", getattr(original, "SCORE_COMPONENT", Component.AFFINITY))  # noqa: B010
        self._reference, self._case = reference, case
        self._clusters = {cluster["metadata"]["name"]: cluster for cluster in clusters}
        if reference.score is not None:
            self.score_one = self._score_one

    def filter_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> Status | None:
        message = self._reference.rejection(self._case, self._clusters[cluster.name])
        return None if message is None else Status.new(Code.UNSCHEDULABLE, message)

    def _score_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> int:
        assert self._reference.score is not None
        return self._reference.score(self._case, self._clusters[cluster.name])


def scenario_of(seed: int, size: int) -> Json:
    """With as many clusters wanted as there are and one more, so that there is one round."""
    dice, fleet = Random(seed), a_fleet(seed, size)
    for cluster in fleet:
        cluster["status"]["namespaces"] = {"shop": "work"} if dice.random() < 0.7 else {"other": "work"}
        collected = {"type": "NamespaceCollectionSucceeded", "status": "True", "reason": "Fine", "message": ""}
        cluster["status"]["conditions"] = [{**collected, "lastTransitionTime": LONG_AGO}]
    names = [cluster["metadata"]["name"] for cluster in fleet]
    policy: dict[str, Any] = {"placementType": "PickN", "numberOfClusters": 9, "affinity": WANTED}
    policy["topologySpreadConstraints"] = [
        *SPREAD,
        {"topologyKey": "tier", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
    ]
    there = [binding(name, of="web", snapshot="web-1") for name in dice.sample(names, min(3, size // 4))]
    obsolete = [binding(name, of="web", snapshot="web-0") for name in names[:2] if size > 8]
    held = {each["spec"]["targetCluster"] for each in there}
    wanted = snapshot("web-1", "web", number=len(there) + 1, **policy)
    wanted["kind"] = "SchedulingPolicySnapshot"
    bindings = [*there, *(each for each in obsolete if each["spec"]["targetCluster"] not in held)]
    for each in (wanted, *bindings):
        each["kind"] = each["kind"].removeprefix("Cluster")
        each["metadata"]["namespace"] = "shop"
    return {
        "now": NOW,
        "options": {},
        "memberClusters": fleet,
        "policySnapshot": wanted,
        "bindings": bindings,
        "placementUid": "",
    }


@pytest.mark.parametrize("size", [0, 12, 40])
@pytest.mark.parametrize("name", REFERENCES)
def test_F3_060_F3_129_a_plugin_of_fleet_and_its_reference_cluster_by_cluster_agree(
    simulator: Simulator, name: str, size: int
) -> None:
    even = Scoring("Even")  # without scores, a search cluster by cluster would end with the first
    scenario = scenario_of(size, size)
    original, fleet = dict(IN_TREE)[name](None, OfflineHandle()), scenario["memberClusters"]
    twin = Twin(original, REFERENCES[name], Case(scenario), fleet)
    objects = [scenario["policySnapshot"], *scenario["bindings"]]
    judging = ("preFilter", "filter", "preScore", "score")
    hooks = {hook: [name] for hook in judging if callable(getattr(original, METHODS[hook], None))}

    decisions = [
        simulator.decide(*plugins, even, clusters=fleet, objects=objects, hooks=given)
        for plugins, given in (([], hooks | {"score": [*hooks.get("score", ()), "Even"]}), ([twin], {}))
    ]

    found, outcomes = [], set()
    for decision in decisions:
        rows = decision["answer"]["attempt"]["clusters"]
        outcomes = {row["outcome"] for row in rows}
        rejections = {
            row["name"]: [each["message"] for each in row["rejections"] if each["plugin"] == row["first"]]
            for row in rows
            if row["first"] in (name, "Twin")
        }
        scores = {row["name"]: (row["outcome"], [each["raw"] for each in row["scores"]]) for row in rows}
        found.append((rejections, scores))
    assert found[0] == found[1]
    assert decisions[0]["operations"] == decisions[1]["operations"]
    if size > 30:
        assert outcomes & {"rejected", "already-selected"}
        assert len({str(raw) for _, raw in found[0][1].values() if raw}) > 1 or REFERENCES[name].score is None


# --- plugins are checked for it ---------------------------------------------------------------------------------------

NO: Final = ReasonTable(Reason("No", Code.UNSCHEDULABLE, "no"))


def write_a_column(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
    frame.labels("region").ids[:] = 0
    return Verdict(ok=-1)


def count_the_others(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
    return Verdict(ok=-1 if alive.bit_count() > 3 else 0)


def reject_the_first_row(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
    return Verdict(ok=~1)


def count_the_fleet(ctx: Any, state: Any, req: Any, frame: Any, rows: Any) -> Any:
    return np.full(len(rows), len(rows), dtype=np.int64)


@pytest.mark.parametrize(
    "row, hook, answer",
    [
        ("F3-124", "filter", write_a_column),
        ("F3-126", "filter", count_the_others),
        ("F3-127", "filter", reject_the_first_row),
        ("F3-128", "score", count_the_fleet),
        ("F3-133", "filter", lambda *_: Verdict(ok=0, reason=2)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_F3_124_F3_126_F3_127_F3_128_F3_133_a_plugin_that_breaks_a_rule_does_not_conform(
    simulator: Simulator, fleet: Fleet, row: str, hook: str, answer: Any
) -> None:
    simulator.configure(Answering("Odd", traits={"REASONS": NO, "ROW_LOCAL": row == "F3-128"}, **{hook: answer}))

    ran = fleet("plugins", "check", "Odd")

    assert ran.code == 1
    assert "Odd does not conform" in ran.err
    assert f"  {row}: {hook}: " in ran.err


@pytest.mark.parametrize("name", [name for name, _ in IN_TREE])
def test_F3_124_F3_126_F3_127_F3_128_F3_133_every_plugin_of_fleet_conforms(fleet: Fleet, name: str) -> None:
    ran = fleet("plugins", "check", name)

    assert (ran.code, ran.out) == (0, f"{name} conforms\n")


@pytest.mark.parametrize(
    "name, hint", [("ClusterAfinity", "did you mean ClusterAffinity?"), ("Nope", "see `fleet plugins list`")]
)
def test_a_plugin_that_is_not_there_is_named_with_what_helps(fleet: Fleet, name: str, hint: str) -> None:
    ran = fleet("plugins", "check", name)

    assert (ran.code, ran.err) == (2, f"error: no plugin named {name} exists; {hint}\n")


# --- the state of an attempt ------------------------------------------------------------------------------------------


def test_F3_033_every_value_of_an_attempt_is_kept_under_its_hook_and_plugin(simulator: Simulator, fleet: Fleet) -> None:
    keys: dict[str, object] = {}

    def pre_score(ctx: Any, state: Any, *args: Any) -> None:
        keys.update(state._values)

    seer = Noting("Seer", pre_score=pre_score)
    config = simulator.configure(seer, base="ExtendedProfile")
    objects = config.parent / "objects.yaml"
    objects.write_text(safe_dump_all([*a_fleet(1), web(topologySpreadConstraints=SPREAD)]), encoding="utf-8")

    ran = fleet("simulate", "-f", str(objects), "--config", str(config))

    assert "error" not in ran.err
    assert len(keys) >= 3
    known = {(hook, name) for hook in ("preFilter", "filter", "preScore", "score") for name, _ in IN_TREE}
    assert all(tuple(key.split("/")[:2]) in known for key in keys)


# --- stages and rounds ------------------------------------------------------------------------------------------------


def test_F3_118_plugins_decide_how_many_are_wanted_how_many_at_a_time_and_which_go_first(
    simulator: Simulator,
) -> None:
    def worst_first(ctx: Any, state: Any, req: Any, frame: Any, rows: Any, scores: Any) -> Any:
        return rows[np.argsort(scores.totals())]

    three, worst = Noting("Three", batch=3), Noting("Worst", sort=worst_first)
    points = Scoring("Points", {"a": 5, "b": 4, "c": 3, "d": 2, "e": 1})

    decision = simulator.decide(
        three, Noting("Pairs", post_batch=limited_to(2)), worst, points, clusters="abcde", number=5, ranking="weighted"
    )

    assert {name: row_of(decision, name)["step"] for name in "abcde"} == {"a": None, "b": None, "c": 2, "d": 1, "e": 1}
    assert calls(decision) == {"Three": {"batch": 1}, "Pairs": {"post_batch": 1}, "Worst": {"sort": 2}}


def grown(simulate: Decide, fleet: Sequence[Manifest], wanted: int, **policy: Any) -> list[str]:
    """One cluster more at a time, with all earlier ones bound."""
    picked: list[str] = []
    for number in range(1, wanted + 1):
        there = [binding(name, of="web", snapshot="web-0") for name in picked]
        given = snapshot("web-0", "web", number=number, placementType="PickN", numberOfClusters=number, **policy)
        decision = simulate(*fleet, given, *there)
        picked += [operation["cluster"] for operation in decision["operations"] if operation["action"] == "create"]
    return picked


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spread", [SPREAD, []], ids=["spread", "not spread"])
def test_F3_139_rounds_pick_what_attempts_for_one_cluster_each_pick(
    simulate: Decide, seed: int, spread: list[Any]
) -> None:
    fleet = a_fleet(seed, 12)
    policy: dict[str, Any] = {"topologySpreadConstraints": spread, "affinity": WANTED}
    given = snapshot("web-0", "web", number=5, placementType="PickN", numberOfClusters=5, **policy)

    together = [operation["cluster"] for operation in simulate(*fleet, given)["operations"]]

    assert together == grown(simulate, fleet, 5, **policy)
    assert len(together) > 1
