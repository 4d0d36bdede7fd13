"""`fleet groups`: what it asks of the API, what it prints, and its exit codes."""

from __future__ import annotations

from tests.unit.cli.conftest import Fleet
from tests.unit.cli.scripted_api import ScriptedApi, in_json, in_text


def test_groups_are_listed(fleet: Fleet, api: ScriptedApi) -> None:
    api.says("/v1/groups", in_text("GROUP   STATE\nshards  Waiting\n"))

    answered = fleet("groups")

    assert (answered.code, answered.out) == (0, "GROUP   STATE\nshards  Waiting\n")


def test_a_group_is_explained_and_the_exit_code_tells_whether_it_is_scheduled(fleet: Fleet, api: ScriptedApi) -> None:
    api.says("/v1/groups/-/shards/why", in_text("shards: Waiting\n", state="Waiting"))
    api.says("/v1/groups/orders/shards/why", in_json({"group": {"state": "Scheduled"}}))

    assert (fleet("groups", "shards").code, fleet("groups", "shards").out) == (1, "shards: Waiting\n")
    answered = fleet("groups", "shards", "-n", "orders", "-o", "json")

    assert answered.code == 0
    assert '"state": "Scheduled"' in answered.out


def test_an_answer_of_another_build_and_a_bad_name_are_refused(fleet: Fleet, api: ScriptedApi) -> None:
    api.says("/v1/groups/-/shards/why", in_json({"status": "True"}))

    answered = fleet("groups", "shards", "-o", "json")

    assert answered.code == 2
    assert "group.state" in answered.err
    assert fleet("groups", "a/b/c").code == 2
