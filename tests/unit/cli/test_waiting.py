"""`fleet waiting`, `approve`, `deny` and `gates clear`: what they ask of the API, and what they say."""

from __future__ import annotations

from tests.unit.cli.conftest import Fleet
from tests.unit.cli.scripted_api import ScriptedApi, in_json, in_text

WAITING = {"items": [{"key": "web", "uid": "u-1", "cluster": "ams-1", "rule": "owners"}]}


def test_F3_107_what_waits_is_listed(fleet: Fleet, api: ScriptedApi) -> None:
    api.says("/v1/waiting", in_text("PLACEMENT  CLUSTER\nweb        ams-1\n"))

    answered = fleet("waiting", "--cluster", "ams-1")

    assert (answered.code, answered.out) == (0, "PLACEMENT  CLUSTER\nweb        ams-1\n")
    assert api.asked[-1].query == {"cluster": "ams-1"}
    fleet("waiting", "--profile", "cheap", "--plugin", "PlacementApproval")
    assert api.asked[-1].query == {"profile": "cheap", "plugin": "PlacementApproval"}


def test_a_placement_is_approved_by_its_name(fleet: Fleet, api: ScriptedApi) -> None:
    api.says("/v1/waiting", in_json(WAITING))
    api.says("/v1/waiting/u-1/allow", in_json({"remaining": [{"cluster": "dub-1", "rule": "owners"}]}))

    answered = fleet("approve", "web", "--cluster", "ams-1", "-m", "tested in staging")

    assert (answered.code, answered.out) == (0, "web approved; still waiting for dub-1 (owners)\n")
    assert api.asked[-1].body == {
        "plugin": "PlacementApproval",
        "reason": "tested in staging",
        "target": "ams-1",
    }


def test_a_placement_is_denied_with_a_reason_only(fleet: Fleet, api: ScriptedApi) -> None:
    api.says("/v1/waiting", in_json(WAITING))
    api.says("/v1/waiting/u-1/reject", in_json({}))

    assert fleet("deny", "web").code == 2
    answered = fleet("deny", "web", "-m", "not before the release")

    assert (answered.code, answered.out) == (0, "web denied\n")
    assert api.asked[-1].body == {"plugin": "PlacementApproval", "message": "not before the release"}


def test_a_gate_is_cleared(fleet: Fleet, api: ScriptedApi) -> None:
    api.says("/v1/placements/-/web/gates/review/clear", in_json({"remaining": ["budget"]}))

    answered = fleet("gates", "clear", "web", "review")

    assert (answered.code, answered.out) == (0, "gate review of web cleared; it still waits for budget\n")
