"""`fleet why`, `why-not`, `history` and `snapshot export`: what is asked, shown, and said by the exit code."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.http.examples import get_example
from api.text.why import render_why
from api.why_models import WhyAnswer
from fleet.cli.client.requests import render_problem
from fleet.framework.status import Code
from fleet.text_table import Page
from tests.unit.cli.conftest import Fleet
from tests.unit.cli.scripted_api import Said, ScriptedApi, in_json, in_text, refused

WEB = "/v1/placements/-/web/why"
CHECKOUT = "/v1/placements/orders/checkout/why"
TEXT = "web   Scheduled since 09:14:03\n2/12 clusters selected\n"


def verdict(state: str) -> dict[str, Any]:
    return {"placement": {"name": "web"}, "verdict": {"state": state}}


# --- why ----------------------------------------------------------------------------------------------------------


def test_the_text_of_the_api_is_printed_as_it_is(api: ScriptedApi, fleet: Fleet) -> None:
    api.answers(WEB, verdict("Scheduled"), TEXT, state="Scheduled")

    assert fleet("why", "web") == (0, TEXT, "")
    assert len(api.asked) == 1


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed goes to one, 60 columns wide."""
    monkeypatch.setattr("fleet.cli.commands.why.page_of", lambda _: Page(width=60, color=True))
    monkeypatch.setattr("fleet.cli.commands.why._is_terminal", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_the_words_of_the_api_with_its_colors_and_its_width(api: ScriptedApi, fleet: Fleet) -> None:
    answer = get_example("why")
    api.answers(WEB, answer, "the text is not asked for")

    ran = fleet("why", "web")

    assert ran.code == (0 if answer["verdict"]["state"] == "Scheduled" else 1)
    assert "\x1b[1m" in ran.out
    plain = re.sub(r"\x1b\[[0-9]+m", "", ran.out)
    assert max(map(len, plain.split("\n"))) <= 60
    assert plain.split() == render_why(msgspec.convert(answer, WhyAnswer), page=Page(width=60)).split()
    assert len(api.asked) == 1


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_the_verdicts_on_one_cluster(api: ScriptedApi, fleet: Fleet) -> None:
    api.answers("/v1/clusters/osl-1/why-not", get_example("whyNot"), "the text is not asked for")

    assert "\x1b[31mreject\x1b[0m" in fleet("why-not", "osl-1", "web").out


@pytest.mark.usefixtures("terminal")
def test_an_answer_of_another_version_is_shown_in_its_own_words(api: ScriptedApi, fleet: Fleet) -> None:
    api.answers(WEB, verdict("Scheduled"), TEXT, state="Scheduled")

    assert fleet("why", "web") == (0, TEXT, "")


@pytest.mark.parametrize("state", ["Unschedulable", "Partial", "Queued", "Deleted"])
def test_a_placement_that_is_not_scheduled_ends_with_1(state: str, api: ScriptedApi, fleet: Fleet) -> None:
    api.answers(WEB, verdict(state), TEXT, state=state)

    assert fleet("why", "web").code == 1
    assert fleet("why", "web", "-o", "json").code == 1


def test_json_is_the_whole_answer_and_asked_for_once(api: ScriptedApi, fleet: Fleet) -> None:
    api.answers(WEB, verdict("Scheduled"), TEXT)

    ran = fleet("why", "web", "-o", "json")

    assert (ran.code, json.loads(ran.out)) == (0, verdict("Scheduled"))
    assert len(api.asked) == 1


@pytest.mark.parametrize("code", list(Code))
def test_F3_012_codes_are_printed_by_their_names(code: Code, api: ScriptedApi, fleet: Fleet) -> None:
    hooks = [{"plugin": "Quota", "code": str(code), "message": ""}]
    api.answers(WEB, {**verdict("Scheduled"), "attempt": {"preFilter": hooks}}, TEXT)

    assert json.loads(fleet("why", "web", "-o", "json").out)["attempt"]["preFilter"] == hooks


@pytest.mark.parametrize("state, code", [("Scheduled", 0), ("Unschedulable", 1)])
def test_a_state_that_does_not_come_with_the_text_is_asked_for(
    state: str, code: int, api: ScriptedApi, fleet: Fleet
) -> None:
    """Proxies drop headers that they do not know."""
    api.answers(WEB, verdict(state), TEXT)

    assert fleet("why", "web", "--limit=5") == (code, TEXT, "")
    assert [(one.wants_text, one.query) for one in api.asked] == [(True, {"limit": "5"}), (False, {"limit": "5"})]


@pytest.mark.parametrize(
    "document",
    [{}, {"verdict": {}}, {"verdict": None}, {"verdict": {"state": None}}, {"verdict": {"state": ""}}, ["verdict"]],
)
def test_whoever_does_not_say_how_the_placement_is_has_not_answered(
    document: Any, api: ScriptedApi, fleet: Fleet
) -> None:
    api.answers(WEB, document, TEXT)

    for options in (), ("-o", "json"):
        ran = fleet("why", "web", *options)

        assert ran.code == 2
        error, step = ran.err.splitlines()
        assert error == f"error: {api.url} is not a Fleet API: its response has no verdict.state"
        assert step.startswith("next: check the address")


def test_a_state_that_is_refused_is_no_answer(api: ScriptedApi, fleet: Fleet) -> None:
    api.says(WEB, in_text(TEXT), refused(429, "8 evaluations are under way already", next="try again in 4 s"))

    assert fleet("why", "web") == (
        2,
        TEXT,
        "error: 8 evaluations are under way already\nnext: try again in 4 s\n",
    )


def test_every_option_reaches_the_api(api: ScriptedApi, fleet: Fleet) -> None:
    api.answers(WEB, verdict("Scheduled"), TEXT)

    fleet("why", "web", "--cluster=ams-1", "--limit=5", "--cursor=abc", "--fixes=none", "-o", "json")

    assert api.asked[0].query == {"cluster": "ams-1", "limit": "5", "cursor": "abc", "fixes": "none"}


@pytest.mark.parametrize(
    "arguments", [("orders/checkout",), ("checkout", "-n", "orders"), ("orders/checkout", "-n", "orders")]
)
def test_a_placement_in_a_namespace_is_named_as_in_kubectl(
    arguments: tuple[str, ...], api: ScriptedApi, fleet: Fleet
) -> None:
    api.answers(CHECKOUT, verdict("Scheduled"), TEXT, state="Scheduled")

    assert fleet("why", *arguments).code == 0


@pytest.mark.parametrize("name", ["", "/web", "web/", "a/b/c"])
def test_what_is_no_name_of_a_placement_is_refused(name: str, api: ScriptedApi, fleet: Fleet) -> None:
    ran = fleet("why", name)

    assert (ran.code, ran.err) == (
        2,
        f"error: PLACEMENT: {name!r} is not a placement; write its name, or namespace/name\n"
        "next: see `fleet why --help`\n",
    )
    assert api.asked == []


def test_two_different_namespaces_are_refused(api: ScriptedApi, fleet: Fleet) -> None:
    assert "is not in namespace shop; name the namespace once" in fleet("why", "orders/web", "-n", "shop").err


def test_what_objects_say_does_not_steer_the_terminal(api: ScriptedApi, fleet: Fleet) -> None:
    api.answers(WEB, verdict("Scheduled"), "web\x1b[2J\ttab\r\nnext\x9b1m")

    assert fleet("why", "web").out == "web\ufffd[2J\ttab\ufffd\nnext\ufffd1m\n"


# --- why not ------------------------------------------------------------------------------------------------------


def test_why_not_asks_about_the_cluster_and_ends_by_the_placement(api: ScriptedApi, fleet: Fleet) -> None:
    api.answers("/v1/clusters/dub-1/why-not", verdict("Partial"), "dub-1 is full\n", state="Partial")

    assert fleet("why-not", "dub-1", "orders/checkout", "--fixes=deep") == (1, "dub-1 is full\n", "")
    assert [one.query for one in api.asked] == [{"placement": "orders/checkout", "fixes": "deep"}]


def test_why_not_in_json_is_the_answer_about_the_cluster(api: ScriptedApi, fleet: Fleet) -> None:
    api.answers("/v1/clusters/dub-1/why-not", verdict("Scheduled"), TEXT)

    ran = fleet("why-not", "dub-1", "web", "-o", "json")

    assert (ran.code, json.loads(ran.out)) == (0, verdict("Scheduled"))


# --- refused ------------------------------------------------------------------------------------------------------


def test_a_refusal_is_an_error_of_a_few_lines_and_exit_code_2(api: ScriptedApi, fleet: Fleet) -> None:
    api.says(WEB, refused(403, "jane may not get placement web", object="web", next="ask for the right"))

    assert fleet("why", "web") == (2, "", "error: jane may not get placement web\nnext: ask for the right\n")


def test_a_misspelt_name_is_met_with_the_one_that_was_meant(api: ScriptedApi, fleet: Fleet) -> None:
    api.says("/v1/placements", in_json({"items": [{"key": "storefront"}, {"key": "orders/web"}], "next": None}))

    ran = fleet("why", "storefornt")

    assert ran.code == 2
    assert ran.err.endswith("\nnext: did you mean storefront?\n")


def test_who_may_list_nothing_gets_the_refusal_alone(api: ScriptedApi, fleet: Fleet) -> None:
    api.says("/v1/placements", refused(403, "no"))

    assert fleet("why", "wbe").err == "error: /v1/placements/-/wbe/why was never seen here\n"


def test_a_cluster_that_is_not_there_is_not_blamed_on_the_placement(api: ScriptedApi, fleet: Fleet) -> None:
    api.says("/v1/clusters/dub-9/why-not", refused(404, "cluster dub-9 was never seen here"))
    api.says("/v1/placements", in_json({"items": [{"key": "web"}]}))

    assert fleet("why-not", "dub-9", "web").err == "error: cluster dub-9 was never seen here\n"


def test_a_misspelt_cluster_is_met_with_the_one_that_was_meant(api: ScriptedApi, fleet: Fleet) -> None:
    api.says("/v1/clusters/dub-l/why-not", refused(404, "cluster dub-l was never seen here"))
    api.says("/v1/placements", in_json({"items": [{"key": "web"}]}))
    api.says("/v1/clusters", in_json({"items": [{"name": "ams-1"}, {"name": "dub-1"}]}))

    assert fleet("why-not", "dub-l", "web").err.endswith("\nnext: did you mean dub-1?\n")


def test_two_names_that_changed_places_are_put_right(api: ScriptedApi, fleet: Fleet) -> None:
    api.says("/v1/clusters/web/why-not", refused(404, "placement dub-1 was never seen here"))
    api.says("/v1/placements", in_json({"items": [{"key": "web"}]}))
    api.says("/v1/clusters", in_json({"items": [{"name": "dub-1"}]}))

    assert fleet("why-not", "web", "dub-1").err == (
        "error: web is a placement, not a cluster\n"
        "next: the cluster comes first: did you mean `fleet why-not dub-1 web`?\n"
    )


@pytest.mark.parametrize("name", ["Web", "web_1", "Shop/web", "shop/web!"])
def test_what_cannot_be_a_name_is_not_asked_about(name: str, api: ScriptedApi, fleet: Fleet) -> None:
    ran = fleet("why", name)

    assert ran.code == 2
    assert f"{name!r} is not a placement; names consist of lower-case letters, digits, dashes and dots" in ran.err
    assert api.asked == []


def test_two_attempts_that_are_not_two_are_told_how_to_write_them(api: ScriptedApi, fleet: Fleet) -> None:
    ran = fleet("history", "web", "--diff", "3-4")

    assert (ran.code, api.asked) == (2, [])
    assert "--diff: '3-4' does not name two attempts; write their numbers, such as 3..4" in ran.err


@pytest.mark.parametrize(
    "step, want",
    [
        ("GET /v1/placements/-/web/history lists those that are", "`fleet history web` lists those that are"),
        ("GET /v1/placements/shop/web/history tells", "`fleet history shop/web` tells"),
        ("GET /v1/placements lists those that are there", "`fleet get placements` lists those that are there"),
        ("GET /v1/clusters lists those that are there", "`fleet get clusters` lists those that are there"),
    ],
)
def test_steps_of_the_api_become_commands(step: str, want: str) -> None:
    assert render_problem(404, {"detail": "no", "next": step}) == f"no\nnext: {want}"


def test_without_an_api_it_is_said_what_to_do(home: Path, fleet: Fleet) -> None:
    ran = fleet("why", "web")

    assert ran.code == 2
    assert ran.err.startswith("error: no Fleet API found\nnext: try `fleet up`")


# --- history ------------------------------------------------------------------------------------------------------


def test_the_history_is_shown_whatever_it_says(api: ScriptedApi, fleet: Fleet) -> None:
    api.answers("/v1/placements/-/web/history", {"items": [], "next": None}, "ATTEMPT  AT\n")

    assert fleet("history", "web") == (0, "ATTEMPT  AT\n", "")
    assert json.loads(fleet("history", "web", "-o", "json").out) == {"items": [], "next": None}


def test_two_attempts_are_compared_as_they_are_named(api: ScriptedApi, fleet: Fleet) -> None:
    api.answers("/v1/placements/-/web/history", {}, "3..4\n")

    fleet("history", "web", "--diff", "3..4", "--limit=2", "--cursor=x")

    assert api.asked[0].query == {"diff": "3..4", "limit": "2", "cursor": "x"}


# --- snapshot -----------------------------------------------------------------------------------------------------


def test_a_snapshot_goes_into_a_file_for_its_owner(api: ScriptedApi, fleet: Fleet, tmp_path: Path) -> None:
    api.says("/v1/snapshot", in_json({"kind": "FleetSnapshot"}))
    file = tmp_path / "fleet.json"

    ran = fleet("snapshot", "export", str(file))

    assert (ran.code, ran.out) == (0, "")
    assert json.loads(file.read_text()) == {"kind": "FleetSnapshot"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_snapshot_that_breaks_off_leaves_the_file_as_it_was(api: ScriptedApi, fleet: Fleet, tmp_path: Path) -> None:
    api.says("/v1/snapshot", Said(b'{"kind":', promised=100))
    file = tmp_path / "fleet.json"
    file.write_text("before")

    assert fleet("snapshot", "export", str(file)).code == 2
    assert file.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["fleet.json"]


def test_a_snapshot_that_cannot_be_written_is_told_with_the_path(
    api: ScriptedApi, fleet: Fleet, tmp_path: Path
) -> None:
    api.says("/v1/snapshot", in_json({}))
    file = tmp_path / "none" / "fleet.json"

    assert (
        fleet("snapshot", "export", str(file)).err
        == f"error: {file}: cannot be written: No such file or directory\nnext: see `fleet snapshot --help`\n"
    )
