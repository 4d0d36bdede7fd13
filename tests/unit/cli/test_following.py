"""`fleet decisions`: lines as they come, also over the end of a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.cli.client.connection import ApiConnection
from fleet.cli.commands import decisions as following
from fleet.cli.commands.decisions import DecisionsOptions, render_decision, show_decisions
from tests.unit.cli.conftest import Fleet
from tests.unit.cli.scripted_api import Said, ScriptedApi, in_lines, refused

DECISIONS = "/v1/decisions"


def decision(seq: int, **changes: Any) -> dict[str, Any]:
    return {
        "seq": seq,
        "at": "2026-03-02T09:14:03Z",
        "key": "orders/web",
        "outcome": "Selected",
        "ending": "Decided",
        "error": "",
        "targets": [{"cluster": "ams-1"}, {"cluster": "dub-1"}],
        "redacted": 0,
        "triggers": ["MemberCluster/Add dub-1"],
        **changes,
    }


# --- lines --------------------------------------------------------------------------------------------------------


def test_a_line_says_when_what_where_and_because_of_what() -> None:
    assert render_decision(decision(1)) == (
        "2026-03-02T09:14:03Z  orders/web: Selected, ams-1, dub-1 [MemberCluster/Add dub-1]"
    )


@pytest.mark.parametrize(
    "changes, want",
    [
        ({"targets": [], "triggers": []}, "Selected, no cluster"),
        ({"targets": [], "active": 3, "triggers": []}, "Selected, no new cluster, 3 in use"),
        ({"redacted": 2, "triggers": []}, "Selected, ams-1, dub-1, 2 that you may not read"),
        (
            {"outcome": "", "ending": "BadInput", "error": "no such key", "targets": [], "triggers": []},
            "BadInput: no such key, no cluster",
        ),
    ],
    ids=["nowhere", "as before", "hidden clusters", "no decision"],
)
def test_a_line_tells_what_there_is(changes: dict[str, Any], want: str) -> None:
    assert render_decision(decision(1, **changes)) == f"2026-03-02T09:14:03Z  orders/web: {want}"


def test_W_10_a_placement_that_may_not_be_read_has_no_name_in_a_line() -> None:
    assert render_decision(decision(1, key="", triggers=[])) == (
        "2026-03-02T09:14:03Z  a placement you may not read: Selected, ams-1, dub-1"
    )


# --- all that are kept --------------------------------------------------------------------------------------------


def test_without_following_all_is_told_once(api: ScriptedApi, fleet: Fleet) -> None:
    api.says(DECISIONS, in_lines(decision(1), decision(2, key="web")))

    ran = fleet("decisions")

    assert ran.code == 0
    assert [line.split()[1] for line in ran.out.splitlines()] == ["orders/web:", "web:"]
    assert len(api.asked) == 1


def test_what_to_tell_is_chosen_by_the_api(api: ScriptedApi, fleet: Fleet) -> None:
    api.says(DECISIONS, in_lines())

    fleet("decisions", "web", "-n", "orders", "--since=7", "--outcome=Unschedulable", "--limit=3")

    assert api.asked[0].query == {"placement": "orders/web", "since": "7", "outcome": "Unschedulable", "limit": "3"}


def test_json_is_one_object_in_a_line(api: ScriptedApi, fleet: Fleet) -> None:
    api.says(DECISIONS, in_lines(decision(1), decision(2)))

    lines = fleet("decisions", "-o", "json").out.splitlines()

    assert [json.loads(line)["seq"] for line in lines] == [1, 2]


def test_a_stream_that_breaks_off_is_an_error_when_nobody_follows(api: ScriptedApi, fleet: Fleet) -> None:
    api.says(DECISIONS, Said(json.dumps(decision(1)).encode() + b"\n{", promised=9))

    ran = fleet("decisions")

    assert ran.code == 2
    assert len(ran.out.splitlines()) == 1
    assert "broke off its response" in ran.err


def test_what_is_no_decision_is_no_api_of_ours(api: ScriptedApi, fleet: Fleet) -> None:
    api.says(DECISIONS, Said(b"<html>\n"))

    assert "is not a Fleet API: b'<html>'" in fleet("decisions").err


# --- following ----------------------------------------------------------------------------------------------------


def followed(api: ScriptedApi, *, until: int, **selection: Any) -> tuple[int, list[float]]:
    """The exit code, and the pauses; Ctrl-C comes in the last of them."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == until:
            raise KeyboardInterrupt

    chosen = DecisionsOptions(follow=True, **selection)
    return show_decisions(ApiConnection(api.url), chosen, as_json=False, pause=pause), pauses


def test_following_goes_on_after_the_last_line_when_a_stream_ends(
    api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.says(DECISIONS, in_lines(decision(5)), in_lines(decision(6), decision(7)), in_lines())

    code, pauses = followed(api, until=3)

    assert (code, len(pauses)) == (0, 3)
    assert [one.query.get("since") for one in api.asked] == [None, "5", "7"]
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_following_survives_a_connection_that_breaks(api: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    half = Said(json.dumps(decision(5)).encode() + b'\n\n{"seq":6', promised=50)
    api.says(DECISIONS, half, in_lines(decision(6)))

    code, _ = followed(api, until=2)

    assert code == 0
    assert [one.query for one in api.asked] == [{"follow": "true"}, {"follow": "true", "since": "5"}]
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_limit_counts_over_all_streams(api: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.says(DECISIONS, in_lines(decision(5)), in_lines(decision(6)))

    code, pauses = followed(api, until=9, limit=2)

    assert (code, len(pauses)) == (0, 1)
    assert [one.query["limit"] for one in api.asked] == ["2", "1"]


def test_an_api_that_refuses_ends_the_following(
    api: ScriptedApi, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_PAUSE", 0)
    api.says(DECISIONS, in_lines(decision(5)), refused(401, "the token ended"))

    ran = fleet("decisions", "--follow")

    assert ran.code == 2
    assert ran.err.startswith("error: the token ended\n")
