"""`fleet simulate --live` and `fleet replay`: what is supposed, and what comes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.cli.input.edits import read_edits
from fleet.errors import InputError
from fleet.explain.whatif.edits import parse_edits, to_documents
from tests.fast_yaml import safe_dump
from tests.unit.cli import manifests
from tests.unit.cli.conftest import Fleet
from tests.unit.cli.scripted_api import ScriptedApi, in_json, in_text

SIMULATE = "/v1/simulate"
REPLAY = "/v1/replay"
PLACEMENT = """
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: new}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: new}]
  policy: {placementType: PickN, numberOfClusters: 2}
"""


# --- edits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, want",
    [
        ("setCount value=4", {"op": "setCount", "value": 4}),
        ("setReady cluster=dub-1 value=false", {"op": "setReady", "cluster": "dub-1", "value": False}),
        (
            "labelCluster cluster=dub-1 key=tier value=4",
            {"op": "labelCluster", "cluster": "dub-1", "key": "tier", "value": "4"},
        ),
        ("relaxSpread key=region maxSkew=2", {"op": "relaxSpread", "key": "region", "maxSkew": 2}),
        (
            "relaxAffinity term=0 expression='tier In [gold, silver]'",
            {"op": "relaxAffinity", "term": 0, "expression": "tier In [gold, silver]"},
        ),
        (
            "addCluster name=x labels=env=prod,region=eu properties=example.com/rating=5",
            {
                "op": "addCluster",
                "name": "x",
                "labels": {"env": "prod", "region": "eu"},
                "properties": {"example.com/rating": "5"},
            },
        ),
        ('{"op": "addCluster", "name": "x", "like": "y"}', {"op": "addCluster", "name": "x", "like": "y"}),
        (
            "patch patch='{\"numberOfClusters\": 3}'",
            {"op": "patch", "patch": {"numberOfClusters": 3}},
        ),
    ],
)
def test_an_edit_is_written_in_words_or_in_json(text: str, want: dict[str, Any]) -> None:
    found = read_edits([text])

    assert found == [want]
    assert to_documents(parse_edits(found)) == [want]


def test_taints_of_a_new_cluster_are_written_as_kubectl_writes_them() -> None:
    (edit,) = read_edits(["addCluster name=x taints=gpu=a100:NoSchedule,edge"])

    assert edit["taints"] == [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}, {"key": "edge", "value": ""}]


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "should be an operation and its values, as in setCount value=4"),
        ("setCount 4", "'4' should be a value with its name, as in value=4"),
        ("setCount value=many", "value should be a whole number, not 'many'"),
        ("setReady value=yes", "value should be true or false, not 'yes'"),
        ("tolerate key='x", "cannot be split: No closing quotation"),
        ('{"op"', "is not JSON: "),
        ("patch patch={x", "patch is not JSON: "),
    ],
)
def test_an_edit_that_cannot_be_read_is_told_with_its_text(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_edits([text])

    assert str(refused.value).startswith(f"--edit {text!r}: {message}")


# --- simulate -----------------------------------------------------------------------------------------------------


def simulated(state: str, **more: Any) -> dict[str, Any]:
    return {"from": "current", "answer": {"verdict": {"state": state}}, "compare": None, "impact": None, **more}


def test_a_placement_is_tried_with_edits(api: ScriptedApi, fleet: Fleet) -> None:
    api.answers(SIMULATE, simulated("Scheduled"), "web   Scheduled\n", state="Scheduled")

    ran = fleet("simulate", "--live", "orders/web", "--edit", "setCount value=4", "--edit", "evict cluster=a")

    assert ran == (0, "web   Scheduled\n", "")
    assert len(api.asked) == 1
    assert api.asked[0].body == {
        "placement": {"ref": "orders/web"},
        "from": "current",
        "edits": [{"op": "setCount", "value": 4}, {"op": "evict", "cluster": "a"}],
        "explain": "first",
    }


def test_every_option_of_a_live_simulation_reaches_the_api(api: ScriptedApi, fleet: Fleet) -> None:
    api.answers(SIMULATE, simulated("Partial"), "")

    options = ("--from=a-7", "--explain", "--fixes=deep", "--impact", "--why=dub-1", "-o", "json")
    ran = fleet("simulate", "--live", "web", *options)

    assert (ran.code, json.loads(ran.out)) == (1, simulated("Partial"))
    assert api.asked[0].body == {
        "placement": {"ref": "web"},
        "from": "a-7",
        "edits": [],
        "explain": "all",
        "fixes": "deep",
        "impact": True,
        "cluster": "dub-1",
    }


def test_a_placement_that_does_not_exist_yet_comes_from_a_file(api: ScriptedApi, fleet: Fleet, tmp_path: Path) -> None:
    api.answers(SIMULATE, simulated("Scheduled"), "new\n", state="Scheduled")
    (tmp_path / "new.yaml").write_text(PLACEMENT)

    assert fleet("simulate", "--live", "-f", str(tmp_path / "new.yaml")).code == 0
    assert api.asked[0].body["placement"]["metadata"] == {"name": "new"}


def test_what_is_beside_the_placement_in_the_file_is_noted(api: ScriptedApi, fleet: Fleet, tmp_path: Path) -> None:
    api.answers(SIMULATE, simulated("Scheduled"), "new\n", state="Scheduled")
    options = safe_dump(manifests.options("new", minTargets=1))
    (tmp_path / "new.yaml").write_text(f"{PLACEMENT}\n---\n{options}")

    ran = fleet("simulate", "--live", "-f", str(tmp_path / "new.yaml"))

    assert ran.err == (
        "note: --live takes the placement alone: left out ClusterPlacementOptions new; `fleet diff` reads them, too\n"
    )


def test_a_file_that_is_wrong_is_not_sent(api: ScriptedApi, fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(PLACEMENT.replace("PickN,", "PickSome,"))

    ran = fleet("simulate", "--live", "-f", str(tmp_path / "new.yaml"))

    assert ran.code == 2
    assert "spec.policy.placementType: 'PickSome' should be" in ran.err
    assert api.asked == []


def test_what_other_placements_would_do_is_asked_for_together_with_the_rest(api: ScriptedApi, fleet: Fleet) -> None:
    text = "web   Partial\n\nIMPACT     9 placements decided: 8 the same, 1 would move\n"
    api.answers(SIMULATE, simulated("Partial"), text, state="Partial")

    assert fleet("simulate", "--live", "web", "--impact") == (1, text, "")
    assert [one.body["impact"] for one in api.asked] == [True]


@pytest.mark.parametrize("state, code", [("Scheduled", 0), ("Partial", 1)])
def test_a_state_that_does_not_come_with_the_text_of_a_simulation_is_asked_for(
    state: str, code: int, api: ScriptedApi, fleet: Fleet
) -> None:
    api.answers(SIMULATE, simulated(state), "web\n")

    assert fleet("simulate", "--live", "web") == (code, "web\n", "")
    assert [one.wants_text for one in api.asked] == [True, False]
    assert api.asked[0].body == api.asked[1].body


@pytest.mark.parametrize(
    "arguments",
    [("--live",), ("--live", "a", "b"), ("--live", "a", "-f", "x.yaml"), ("--live", "a", "--why=b", "--why=c")],
    ids=["nothing", "two placements", "a placement and a file", "two clusters"],
)
def test_a_live_simulation_is_about_one_placement(arguments: tuple[str, ...], api: ScriptedApi, fleet: Fleet) -> None:
    assert fleet("simulate", *arguments).code == 2
    assert api.asked == []


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--live", "web", "--now=now"), "--now: cannot be combined with --live"),
        (("--live", "web", "--expect-fulfilled"), "--expect-fulfilled: cannot be combined with --live"),
        (("-f", "x.yaml", "--edit", "setCount value=1"), "--edit: needs --live"),
        ((), "--filename: give files with -f, or use --live"),
    ],
)
def test_options_of_the_other_form_are_refused(arguments: tuple[str, ...], said: str, fleet: Fleet) -> None:
    ran = fleet("simulate", *arguments)

    assert ran.code == 2
    assert said in " ".join(ran.err.split())


# --- replay -------------------------------------------------------------------------------------------------------


def report(attempts: int, **changes: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"different": [], "changed": [], "skipped": [], "summary": None, "next": None}
    return {"attempts": attempts, "same": attempts, **empty, **changes}


def test_a_record_that_tells_the_truth_ends_with_0(api: ScriptedApi, fleet: Fleet) -> None:
    api.says(REPLAY, in_json(report(12)))

    assert fleet("replay") == (0, "12 decided again: 12 the same, 0 different\n", "")
    assert api.asked[0].body == {"select": {"limit": 1000}}


def test_pages_are_asked_for_until_the_end_and_told_as_one(api: ScriptedApi, fleet: Fleet) -> None:
    skipped = {"id": "a-3", "because": "its inputs are not kept"}
    api.says(REPLAY, in_json(report(2, next=7, skipped=[skipped])), in_json(report(3)))

    ran = fleet("replay", "--since=2026-03-02T08:00:00Z", "-o", "json")

    assert json.loads(ran.out) == {k: v for k, v in report(5, skipped=[skipped]).items() if k != "next"}
    assert [one.body["select"].get("after") for one in api.asked] == [None, 7]
    assert all(one.body["select"]["since"] == "2026-03-02T08:00:00Z" for one in api.asked)


def test_a_limit_counts_over_all_pages(api: ScriptedApi, fleet: Fleet) -> None:
    api.says(REPLAY, in_json(report(2, next=7)), in_json(report(1, next=9)))

    fleet("replay", "--limit=3")

    assert [one.body["select"]["limit"] for one in api.asked] == [3, 1]


def test_a_record_that_does_not_is_shown_and_ends_with_1(api: ScriptedApi, fleet: Fleet) -> None:
    difference = {"stage": "filter", "cluster": "dub-1", "recorded": "ResourceFit", "replayed": "fits"}
    found = {"id": "a-7", "same": False, "digest": "d", "recorded": "c", "difference": difference}
    api.says(REPLAY, in_json(report(1, same=0, different=[found, found | {"id": "a-8", "difference": None}])))

    ran = fleet("replay", "a-7", "a-8")

    assert ran.code == 1
    assert [line.split() for line in ran.out.splitlines()[1:] if line] == [
        ["DIFFERENT", "FROM", "STAGE", "CLUSTER", "RECORDED", "REPLAYED"],
        ["a-7", "filter", "dub-1", "ResourceFit", "fits"],
        ["a-8", "digest", "c", "d"],
    ]
    assert api.asked[0].body["select"]["ids"] == ["a-7", "a-8"]


def test_of_many_differences_the_first_are_listed(api: ScriptedApi, fleet: Fleet) -> None:
    found = [{"id": f"a-{n}", "same": False, "digest": "d", "recorded": "c", "difference": None} for n in range(25)]
    api.says(REPLAY, in_json(report(25, same=0, different=found)))

    lines = fleet("replay").out.splitlines()

    assert lines[-2:] == ["a-19       digest               c         d", "… and 5 more"]


def test_a_rehearsal_tells_what_would_change_and_sums_it_up(api: ScriptedApi, fleet: Fleet) -> None:
    changed = {"placement": "web", "key": "a-7", "before": ["a"], "after": ["b"], "cause": "ranking"}
    changed |= {"outcomeBefore": "SELECTED", "outcomeAfter": "SELECTED"}
    summary = {
        "clusters": [{"cluster": "a", "gained": 0, "lost": 1}, {"cluster": "b", "gained": 1, "lost": 0}],
        "outcomes": [{"outcome": "SELECTED", "before": 1, "after": 1}],
    }
    page = report(1, same=0, changed=[changed], summary=summary)
    api.says(REPLAY, in_json({**page, "next": 7}), in_json(page))

    ran = fleet("replay", "--edit", "setWeight plugin=ResourceFit value=3")

    assert ran.code == 0
    assert ran.out.startswith("2 decided again: 0 the same, 2 would change\n")
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["a", "0", "2"] in rows
    assert ["SELECTED", "2", "2"] in rows
    assert ["web", "a-7", "a", "b", "ranking"] in rows
    assert api.asked[0].body["change"] == {"edits": [{"op": "setWeight", "plugin": "ResourceFit", "value": 3}]}


def test_W_10_clusters_that_pages_count_without_a_name_are_counted_in_the_whole(api: ScriptedApi, fleet: Fleet) -> None:
    """Pages may count the same ones: of the whole it is known that there are at least so many."""

    def page(redacted: int) -> dict[str, Any]:
        return report(1, same=1, summary={"clusters": [], "outcomes": [], "redacted": redacted})

    api.says(REPLAY, in_json({**page(3), "next": 7}), in_json(page(2)))

    found = json.loads(fleet("replay", "--edit", "setCount value=4", "-o", "json").out)

    assert found["summary"]["redacted"] == 3


def test_what_is_no_report_is_no_api_of_ours(api: ScriptedApi, fleet: Fleet) -> None:
    api.says(REPLAY, in_text("[]"))

    assert fleet("replay").code == 2
