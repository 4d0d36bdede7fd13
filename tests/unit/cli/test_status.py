"""`fleet status` and `fleet why-not CLUSTER`: what the API answers, as text, JSON and YAML."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.unit.cli.conftest import Fleet
from tests.unit.cli.scripted_api import ScriptedApi, in_json, refused

TROUBLE = {
    "key": "orders/web",
    "type": "PickN",
    "wanted": 9,
    "selected": 7,
    "condition": "Scheduled",
    "reason": "SchedulingPolicyUnfulfilled",
    "why": "4 no affinity term matched",
    "since": "2026-03-02T08:00:00Z",
}
SILENT = {
    "name": "dub-1",
    "eligible": False,
    "state": "silent",
    "lastHeartbeat": "2026-03-02T08:55:00Z",
    "taints": [{"key": "down", "value": "", "effect": "NoSchedule"}],
    "placements": 3,
}
MOVE = {
    "at": "2026-03-02T08:58:00Z",
    "key": "web",
    "gained": ["ams-1"],
    "lost": ["dub-1"],
    "redacted": 1,
    "triggers": ["MemberCluster/Delete dub-1", "MemberCluster/UpdateTaints bom-1"],
}


def status(**changes: Any) -> dict[str, Any]:
    return {
        "at": "2026-03-02T09:00:00Z",
        "placements": {"total": 3, "fulfilled": 2, "short": 1, "undecided": 0},
        "trouble": [TROUBLE],
        "moreTrouble": 4,
        "clusters": {"total": 12, "eligible": 11, "tainted": 1, "redacted": 2},
        "troubledClusters": [SILENT],
        "moreClusters": 0,
        "movesSince": "2026-03-02T08:00:00Z",
        "moves": [MOVE],
        "moreMoves": 0,
        **changes,
    }


def test_the_status_is_one_screen(fleet: Fleet, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    api.says("/v1/status", in_json(status()))

    answered = fleet("status")

    assert answered.code == 1
    assert answered.out.splitlines() == [
        "3 placements: 2 have the clusters they want, 1 short",
        "12 clusters: 1 cannot take new work, 1 tainted; and 2 you may not read",
        "",
        "PLACEMENT   READY  FOR  WHY",
        "orders/web  7/9    1h   4 no affinity term matched",
        "and 4 more",
        "",
        "CLUSTER  STATE   HEARD  PLACEMENTS  TAINTS",
        "dub-1    silent  5m              3  down:NoSchedule",
        "",
        "MOVED   PLACEMENT  CLUSTERS                              BECAUSE",
        "2m ago  web        +ams-1 -dub-1 and 1 you may not read  Delete dub-1 and 1 more",
    ]


def test_changes_of_a_cluster_that_came_together_are_folded_between_words(
    fleet: Fleet, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = ["UpdateHealth", "UpdateProperties", "UpdateCapacity", "UpdateNamespaces"]
    move = MOVE | {"triggers": [f"MemberCluster/{'+'.join(changes)} iad-3"]}
    api.says("/v1/status", in_json(status(moves=[move])))
    monkeypatch.setenv("COLUMNS", "80")

    words = fleet("status").out.replace(",", "").split()

    assert {*changes, "iad-3"} <= {*words}


def test_a_fleet_in_order_says_so_and_has_no_empty_tables(fleet: Fleet, api: ScriptedApi) -> None:
    well = status(
        placements={"total": 3, "fulfilled": 3, "short": 0, "undecided": 0},
        trouble=[],
        moreTrouble=0,
        clusters={"total": 12, "eligible": 12, "tainted": 0, "redacted": 0},
        troubledClusters=[],
        moves=[],
    )
    api.says("/v1/status", in_json(well))

    answered = fleet("status")

    assert answered.code == 0
    assert answered.out.splitlines() == [
        "3 placements: all have the clusters they want",
        "12 clusters: all can take new work",
        "",
        "nothing moved in the last hour",
    ]


def test_without_a_history_the_status_does_not_claim_that_nothing_moved(fleet: Fleet, api: ScriptedApi) -> None:
    api.says("/v1/status", in_json(status(moves=[], movesSince=None)))

    assert fleet("status").out.endswith("\nno history here, so recent moves are not known\n")


@pytest.mark.parametrize("form, read", [("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_status_is_there_for_programs(fleet: Fleet, api: ScriptedApi, form: str, read: Any) -> None:
    api.says("/v1/status", in_json(status()))

    assert read(fleet("status", "-o", form).out) == status()


def test_an_answer_of_something_else_is_refused(fleet: Fleet, api: ScriptedApi) -> None:
    api.says("/v1/status", in_json({"status": "fine"}))

    answered = fleet("status")

    assert answered.code == 2
    assert "is not a Fleet API" in answered.err


# --- one cluster ------------------------------------------------------------------------------------------------------


def item(key: str, state: str, plugin: str = "", why: str = "") -> dict[str, str]:
    return {"key": key, "state": state, "plugin": plugin, "why": why}


def test_a_cluster_without_a_placement_is_asked_about_all_of_them(
    fleet: Fleet, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    first = [item("a", "rejected", "ClusterAffinity", "env In [prod] (is staging)"), item("b", "there")]
    rest = [item("c", "there", "TaintToleration", "down:NoSchedule"), item("d", "fits")]
    path = "/v1/clusters/dub-1/placements"
    api.says(
        path,
        in_json({"cluster": "dub-1", "items": first, "next": "more"}),
        in_json({"cluster": "dub-1", "items": rest, "next": None}),
    )

    answered = fleet("why-not", "dub-1")

    assert answered.code == 0
    assert [line.rstrip() for line in answered.out.splitlines()] == [
        "dub-1 has 2 of 4 placements",
        "",
        "PLACEMENT  THERE  PLUGIN           WHY",
        "b          there",
        "c          there  TaintToleration  stays, but would not be chosen now: down:NoSchedule",
        "a          no     ClusterAffinity  env In [prod] (is staging)",
        "d          fits                    nothing rejects it; others were chosen",
    ]
    assert [asked.query.get("cursor") for asked in api.asked] == [None, "more"]


def test_a_cluster_that_is_misspelt_is_met_with_the_nearest_name(fleet: Fleet, api: ScriptedApi) -> None:
    api.says("/v1/clusters/dub-l/placements", refused(404, "cluster dub-l was never seen here", next="look"))
    api.says("/v1/clusters", in_json({"items": [{"name": "dub-1"}]}))
    api.says("/v1/placements", in_json({"items": [{"key": "web"}]}))

    assert fleet("why-not", "dub-l").err == "error: cluster dub-l was never seen here\nnext: did you mean dub-1?\n"


def test_a_placement_in_place_of_the_cluster_is_recognized(fleet: Fleet, api: ScriptedApi) -> None:
    api.says("/v1/clusters", in_json({"items": [{"name": "dub-1"}]}))
    api.says("/v1/placements", in_json({"items": [{"key": "web"}]}))

    answered = fleet("why-not", "web")

    assert answered.err == "error: web is a placement, not a cluster\nnext: `fleet why web`\n"
