"""What conditions say in words."""

from __future__ import annotations

import pytest

from fleet.placement.status import messages
from fleet.placement.status.conditions import APPLYING, DIFF_REPORTED, Stage


@pytest.mark.parametrize(
    "names, text",
    [
        (["b"], "b"),
        (["c", "a", "b"], "a, b, c"),
        (["d", "c", "a", "b"], "a, b, c and 1 more"),
        ([f"c{number}" for number in range(10)], "c0, c1, c2 and 7 more"),
    ],
    ids=["one", "three", "four", "ten"],
)
def test_up_to_three_clusters_are_named_in_alphabetical_order(names: list[str], text: str) -> None:
    assert messages.join_names(names) == text


@pytest.mark.parametrize("stage", [*APPLYING, DIFF_REPORTED], ids=lambda stage: stage.name)
def test_every_stage_names_its_clusters_or_their_number(stage: Stage) -> None:
    assert "east-1" in messages.describe_waiting(stage.name, ["east-1"])
    assert "east-1" in messages.describe_failure(stage.name, ["east-1"], cause="disk full")
    assert "7 cluster(s)" in messages.describe_success(stage.name, 7)


def test_a_cause_with_braces_is_quoted_as_it_is() -> None:
    assert messages.describe_failure("Overridden", ["c1"], cause="{clusters} {0}").endswith("on c1: {clusters} {0}")


def test_the_runs_in_control_are_named() -> None:
    assert messages.describe_external_control(["run-b", "run-a"]).endswith("run-a, run-b")


def test_without_a_run_the_next_step_is_to_create_one() -> None:
    assert "create a staged update run" in messages.describe_external_control([])
