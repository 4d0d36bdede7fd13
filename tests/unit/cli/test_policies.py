"""Policies with mistakes in `fleet simulate`: each is refused with the field to change, or remarked."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner, Result

from fleet.cli.main import app
from tests.policies import REFUSED, REMARKED, TOLD, path_of

FLEET = "examples/fleet"


def simulated(name: str, *options: str) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, ["simulate", "-f", FLEET, "-f", path_of(name), *options])


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_of_form_is_refused(name: str) -> None:
    result = simulated(name)

    assert (result.exit_code, result.stdout) == (2, "")
    for text in REFUSED[name]:
        assert text in result.stderr


@pytest.mark.parametrize("name", REMARKED)
def test_a_mistake_of_meaning_is_remarked_in_text_and_json(name: str) -> None:
    text, document = simulated(name), simulated(name, "-o", "json")
    answer = json.loads(document.stdout)["decisions"][0]["answer"]

    assert text.exit_code == document.exit_code == (1 if TOLD[name].state == "InputError" else 0)
    assert [remark["message"] for remark in answer["remarks"]] == REMARKED[name]
    folded = re.sub(r"\s+", " ", text.stdout)
    assert ("POLICY" in text.stdout) is bool(REMARKED[name])
    for message in REMARKED[name]:
        assert message in folded
