"""Settings of `selection` in simulations: a placement that the controller would reject is rejected there, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleet.cli.main import app
from tests.api.stage import ADMIN, Json, a_stage
from tests.unit.cli.manifests import NOW, member, placement, written

REFUSED = "cannot be selected on this hub, because selection.secrets is false"


def a_placement_of_secrets() -> Json:
    selectors = [{"group": "", "version": "v1", "kind": "Secret", "name": "key"}]
    manifest = placement("keys", namespace="shop")
    return manifest | {"spec": {"resourceSelectors": selectors}}


@pytest.mark.parametrize("secrets, code", [("true", 0), ("false", 1)])
def test_fleet_simulate_rejects_what_the_controller_rejects(tmp_path: Path, secrets: str, code: int) -> None:
    file = str(written(tmp_path, member("c1"), a_placement_of_secrets()))
    setting = f"--set=selection.secrets={secrets}"
    answer = CliRunner().invoke(app, ["simulate", "-f", file, setting, f"--now={NOW}", "--expect-fulfilled"])

    assert answer.exit_code == code, answer.output
    assert (REFUSED in " ".join(answer.stdout.split())) is (secrets == "false")


def test_the_api_rejects_what_the_controller_rejects(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("selection: {secrets: false}\n")

    async def scene() -> None:
        async with a_stage(file=file) as stage:
            answer = await stage.post("/v1/simulate", {"placement": a_placement_of_secrets()}, ADMIN)
            assert answer.status_code == 200, answer.text
            assert REFUSED in answer.text

    asyncio.run(scene())
