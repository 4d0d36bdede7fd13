"""Options of placements, and quotas, in the files of `fleet simulate` and `fleet diff`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.fast_yaml import safe_dump
from tests.unit.cli.conftest import Fleet
from tests.unit.cli.manifests import (
    NOW,
    Manifest,
    binding,
    companion,
    member,
    options,
    placement,
    snapshot,
    written,
)
from tests.unit.cli.profiled import HEAD, Decide, Report, Run, deciding, simulate_profile, targets

PREFIX = "scheduling.fleet.dev/"


@pytest.fixture
def run(tmp_path: Path, fleet: Fleet) -> Run:
    return simulate_profile(tmp_path, fleet, NOW, "QuotaFit")


@pytest.fixture
def decide(run: Run) -> Decide:
    return deciding(run)


def sized(name: str, cpu: int) -> Manifest:
    cluster = member(name)
    amounts = {"cpu": str(cpu)}
    usage = {"capacity": amounts, "allocatable": amounts, "available": amounts, "observationTime": NOW}
    cluster["status"]["resourceUsage"] = usage
    return cluster


def wanting(
    name: str,
    number: int = 1,
    annotations: Mapping[str, str] = MappingProxyType({}),
    *,
    labels: Mapping[str, str] = MappingProxyType({}),
    requests: str = "",
) -> Manifest:
    said = {**annotations, **({"requests": requests} if requests else {})}
    made = placement(name, placementType="PickN", numberOfClusters=number)
    made["metadata"] |= {"labels": dict(labels), "annotations": {PREFIX + key: text for key, text in said.items()}}
    return made


def chosen(decisions: list[Report]) -> dict[str, list[str]]:
    """In the order of the decisions."""
    return {each["answer"]["placement"]["name"]: targets(each) for each in decisions}


# --- what options say -------------------------------------------------------------------------------------------------

SPREAD_OUT = {"required": [{"placements": {}, "anti": True, "topologyKey": "kubernetes.io/hostname"}]}


@pytest.mark.parametrize(
    "annotations, said",
    [
        ({"requests": "cpu=3"}, {"requests": {"cpu": "3"}}),
        ({"min-targets": "3"}, {"minTargets": 3}),
        ({"locality": "models=40Gi"}, {"locality": [{"name": "models", "bytes": "40Gi"}]}),
        ({"affinity": json.dumps(SPREAD_OUT)}, {"affinity": SPREAD_OUT}),
    ],
    ids=["requests", "minTargets", "locality", "affinity"],
)
def test_options_count_as_the_annotation_does(
    decide: Decide, annotations: dict[str, str], said: dict[str, Any]
) -> None:
    clusters = [sized("a", 2), sized("b", 4)]
    (without,) = decide(*clusters, wanting("web", 2))
    (annotated,) = decide(*clusters, wanting("web", 2, annotations))
    (with_options,) = decide(*clusters, wanting("web", 2), options("web", **said))

    assert with_options["answer"]["attempt"] == annotated["answer"]["attempt"]
    assert with_options["answer"]["attempt"] != without["answer"]["attempt"]


def test_options_come_before_the_annotation(decide: Decide) -> None:
    (decided,) = decide(sized("a", 4), wanting("web", requests="cpu=5"), options("web", requests={"cpu": "3"}))

    assert targets(decided) == ["a"]


def test_options_of_a_namespaced_placement_count(decide: Decide) -> None:
    web = wanting("web")
    web |= {"kind": "ResourcePlacement", "metadata": {"name": "web", "namespace": "shop"}}
    web["spec"]["resourceSelectors"] = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "x"}]
    (decided,) = decide(sized("a", 4), web, options("web", requests={"cpu": "5"}))
    assert targets(decided) == ["a"]

    (decided,) = decide(sized("a", 4), web, options("shop/web", requests={"cpu": "5"}))
    assert targets(decided) == []


def test_the_most_important_placement_comes_first(decide: Decide) -> None:
    placements = [wanting(name, requests="cpu=3") for name in ("a", "b", "c")]

    assert chosen(decide(sized("one", 4), *placements)) == {"a": ["one"], "b": [], "c": []}
    assert chosen(decide(sized("one", 4), *placements, options("b", priority=5), options("c", priority=10))) == {
        "c": ["one"],
        "b": [],
        "a": [],
    }


def test_a_hint_counts_until_it_ends(decide: Decide) -> None:
    def hinted(until: str) -> Manifest:
        return options("web", placementHints=[{"cluster": "b", "owner": "planner", "expiresAt": until}])

    clusters = [sized("a", 4), sized("b", 4)]
    assert chosen(decide(*clusters, wanting("web"))) == {"web": ["a"]}
    assert chosen(decide(*clusters, wanting("web"), hinted("2026-03-10T10:00:00Z"))) == {"web": ["b"]}
    assert chosen(decide(*clusters, wanting("web"), hinted(NOW))) == {"web": ["a"]}


def test_options_name_the_profile(run: Run) -> None:
    ran = run(sized("a", 4), wanting("web"), options("web", schedulerName="other"))

    assert "placement web: left alone, because its scheduler is other" in ran.err


def test_options_that_cannot_be_used_refuse_the_placement(run: Run) -> None:
    selector = {"matchExpressions": [{"key": "x", "operator": "In", "values": []}]}
    affinity = {"required": [{"placements": selector, "anti": True}]}
    ran = run(sized("a", 4), wanting("web"), options("web", affinity=affinity))

    (decided,) = json.loads(ran.out)["decisions"]
    assert (ran.code, targets(decided)) == (1, [])
    assert "spec.affinity" in json.dumps(decided["answer"]["verdict"])


# --- what would hold the placement ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotations, said, note",
    [
        ({"gates": "freeze"}, {"gates": [{"name": "audit"}]}, "holds it until its gates are cleared: freeze, audit"),
        (
            {},
            {"approvals": [{"name": "prod", "approvers": {"users": ["ann"]}}]},
            "the scheduler holds it: its options ask for approvals, and profile DefaultScheduler has no plugin",
        ),
        ({"group": "shards"}, {}, "decide all members of group shards together"),
        ({}, {"group": "shards"}, "decide all members of group shards together"),
        ({"options": "required"}, None, "asks for options, and the files have none"),
        ({}, {"priorityClassName": "high"}, "decided with priority 0: files have no PriorityClass high"),
    ],
)
def test_what_the_scheduler_would_wait_for_is_noted(
    run: Run, annotations: dict[str, str], said: dict[str, Any] | None, note: str
) -> None:
    files = [] if said is None else [options("web", **said)]
    ran = run(sized("a", 4), wanting("web", annotations=annotations), *files)

    (line,) = ran.err.splitlines()
    assert line.startswith("note: placement web: ")
    assert note in line


def test_approvals_are_noted_where_the_profile_asks_for_them(tmp_path: Path, fleet: Fleet) -> None:
    run = simulate_profile(tmp_path, fleet, NOW, "PlacementApproval")
    ran = run(
        sized("a", 4), wanting("web"), options("web", approvals=[{"name": "prod", "approvers": {"users": ["ann"]}}])
    )

    assert ran.err == "note: placement web: nothing is bound before approvals by prod\n"


def test_options_without_their_placement_are_noted(run: Run) -> None:
    ran = run(sized("a", 4), wanting("web"), options("wbe", minTargets=1))

    assert ran.err == "note: options belong to placement wbe, which is not in the files\n"


# --- quotas -----------------------------------------------------------------------------------------------------------


def quota(key: str, **spec: Any) -> Manifest:
    return companion("PlacementQuota", key, **spec)


def test_a_quota_counts_bindings_and_decisions(decide: Decide) -> None:
    team = {"team": "red"}
    files = [
        *(sized(name, 8) for name in ("a", "b", "c")),
        wanting("api", labels=team, requests="cpu=2"),
        snapshot("api-0", "api", number=1, placementType="PickN", numberOfClusters=1),
        binding("a", of="api", snapshot="api-0"),
        wanting("jobs", 3, labels=team, requests="cpu=2"),
        wanting("web", 3, requests="cpu=2"),
    ]
    reds = quota("reds", placements={"matchLabels": team}, max={"cpu": "6"})

    decisions = decide(*files, reds)

    sizes = {name: len(clusters) for name, clusters in chosen(decisions).items()}
    assert (sizes["jobs"], sizes["web"]) == (2, 3)
    rejected = json.dumps(decisions[1]["answer"])
    assert "quota reds: cpu 6 of 6 used, asked 2, 2 short" in rejected


@pytest.mark.parametrize("gone", [{"deletionTimestamp": NOW}, {"annotations": {f"{PREFIX}scheduler-name": "other"}}])
def test_bindings_of_placements_that_are_not_decided_count(decide: Decide, gone: dict[str, Any]) -> None:
    old = wanting("old", requests="cpu=3")
    old["metadata"] |= {**gone, "annotations": {**old["metadata"]["annotations"], **gone.get("annotations", {})}}
    bound = [
        snapshot("old-0", "old", number=1, placementType="PickN", numberOfClusters=1),
        binding("a", of="old", snapshot="old-0"),
    ]
    files = [sized("a", 4), sized("b", 4), wanting("web", requests="cpu=3"), quota("all", max={"cpu": "4"})]

    assert chosen(decide(*files)) == {"web": ["a"]}
    assert chosen(decide(*files, old, *bound)) == {"web": []}
    assert chosen(decide(*files[:-1], old, *bound)) == {"web": ["b"]}  # and so does their room


def test_what_a_profile_does_not_read_changes_nothing(tmp_path: Path, fleet: Fleet) -> None:
    files = [sized("a", 8), wanting("web", requests="cpu=2")]

    def decide(*more: Manifest) -> str:
        """With the default profile."""
        return fleet("simulate", "-f", str(written(tmp_path, *files, *more)), "--now", NOW, "-o", "json").out

    assert decide(quota("all", max={"cpu": "1"})) == decide()


def test_the_diff_of_options_and_of_a_quota(tmp_path: Path, fleet: Fleet) -> None:
    hub = [sized("a", 8), sized("b", 2), wanting("web", requests="cpu=2"), quota("all", max={"cpu": "1"})]
    config = tmp_path / "config.yaml"
    profile = {"base": "ExtendedProfile", "plugins": {"multiPoint": {"enabled": [{"name": "QuotaFit"}]}}}
    config.write_text(safe_dump({**HEAD, "profiles": [profile]}), encoding="utf-8")

    def diff(*change: Manifest) -> dict[str, list[str]]:
        base, files = written(tmp_path, *hub, name="hub.yaml"), written(tmp_path, *change, name="change.yaml")
        ran = fleet("diff", "--base", str(base), "-f", str(files), "--config", str(config), "--now", NOW, "-o", "json")
        assert "error: " not in ran.err, ran.err
        report = json.loads(ran.out)
        assert {each["change"] for each in report["objects"]} <= {"new", "changed", "same"}
        return {each["key"]: [move["cluster"] for move in each["gained"]] for each in report["placements"]}

    assert diff(quota("all", max={"cpu": "2"})) == {"web": ["a"]}
    assert diff(options("web", requests={"cpu": "1"})) == {"web": ["a"]}
    assert diff(quota("all", max={"cpu": "2"}), options("web", requests={"cpu": "3"})) == {}


# --- preemption -------------------------------------------------------------------------------------------------------


EVICTING = {"base": "ExtendedProfile", "plugins": {"multiPoint": {"enabled": [{"name": "DefaultPreemption"}]}}}


def list_low() -> list[Any]:
    return [
        wanting("low", requests="cpu=3"),
        snapshot("low-0", "low", number=1, placementType="PickN", numberOfClusters=1),
        binding("a", of="low", snapshot="low-0"),
    ]


def test_what_an_extender_leaves_open_is_listed_once(tmp_path: Path, fleet: Fleet) -> None:
    config = tmp_path / "config.yaml"
    extenders = [{"name": "budget", "urlPrefix": "http://127.0.0.1:9", "filterVerb": "filter"}]
    config.write_text(safe_dump({**HEAD, "profiles": [EVICTING], "extenders": extenders}), encoding="utf-8")
    base = written(tmp_path, sized("a", 4), *list_low(), name="hub.yaml")
    files = written(tmp_path, wanting("vip", requests="cpu=1"), options("vip", priority=100), name="change.yaml")
    ran = fleet("diff", "--base", str(base), "-f", str(files), "--config", str(config), "--now", NOW)
    assert ran.code == 2
    errors = [line for line in ran.err.splitlines() if line.startswith("error")]
    assert errors == ["error: placement vip cannot be decided: extender budget was not asked about this"]


def test_that_room_may_be_made_is_noted_and_the_diff_cannot_tell(tmp_path: Path, fleet: Fleet) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(safe_dump({**HEAD, "profiles": [EVICTING]}), encoding="utf-8")
    base = written(tmp_path, sized("a", 4), *list_low(), name="hub.yaml")
    vip = wanting("vip", requests="cpu=3")
    decided = ("--config", str(config), "--now", NOW)

    def ask(**said: Any) -> tuple[str, tuple[int | str | None, str]]:
        files = written(tmp_path, vip, options("vip", **said), name="change.yaml")
        noted = fleet("simulate", "-f", str(base), "-f", str(files), *decided).err
        ran = fleet("diff", "--base", str(base), "-f", str(files), *decided)
        return noted, (ran.code, ran.err)

    noted, (code, errors) = ask(priority=100)
    note = "note: placement vip: may make room by evicting less important placements"
    assert note in noted
    assert code == 2
    assert "error: placement vip cannot be decided: it lacks clusters and may evict" in errors

    noted, (code, errors) = ask(priority=100, preemptionPolicy="Never")
    assert note not in noted
    assert (code, "error: " in errors) == (0, False)
