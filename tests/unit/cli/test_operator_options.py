"""Options of `fleet operator` that need each other: a mistake is named before anything starts."""

from __future__ import annotations

import pytest

from fleet.cli.operator_commands import ResourceGroup
from fleet.model.keys import OPENSHIFT_OPERATOR_GROUP, OPERATOR_GROUP
from tests.unit.cli.conftest import Fleet

RUN = ("operator", "run", "--namespace", "second")


@pytest.mark.parametrize(
    "options, refusal",
    [
        (["--target", "local"], "--state: --target local keeps its objects there"),
        (["--state", "here"], "--state: needs --target local"),
        (["--image", "registry.example/scheduler:v0.1.6=here"], "--image: needs --target local"),
        (
            ["--target", "local", "--state", "here", "--image", "registry.example/scheduler:v0.1.6"],
            "--image: 'registry.example/scheduler:v0.1.6' names no Python environment: give IMAGE=DIR",
        ),
        (
            ["--target", "local", "--state", "here", "--image", "registry.example/scheduler:v0.1.6=/nowhere"],
            "--image: 'registry.example/scheduler:v0.1.6=/nowhere' names no Python environment: give IMAGE=DIR",
        ),
    ],
)
def test_O_13_options_of_the_local_target_need_each_other(fleet: Fleet, options: list[str], refusal: str) -> None:
    answer = fleet(*RUN, *options)

    assert answer.code == 2
    assert answer.err.startswith(f"error: {refusal}\n")


def test_the_groups_of_the_resource_are_those_that_the_operator_watches() -> None:
    assert set(ResourceGroup) == {OPERATOR_GROUP, OPENSHIFT_OPERATOR_GROUP}
