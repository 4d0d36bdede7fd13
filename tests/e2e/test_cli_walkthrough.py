"""What somebody new types after `fleet up`, with nothing set up: no address, no token, no kubeconfig."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fleet.cli.main import app
from tests.calm import CALM
from tests.control_plane.waiting import soon

WITHOUT = ("FLEET_API", "FLEET_TOKEN_FILE", "KUBECONFIG")
PLACEMENTS = ("storefront", "payments-ledger")


class Machine:
    """A home folder, and `fleet` in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        known = {name: value for name, value in os.environ.items() if name not in WITHOUT}
        self.environment = known | {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "COLUMNS": "200"}

    def fleet(self, *arguments: str) -> Result:
        """In this process: starting one for each command takes longer than what the commands do."""
        return CliRunner(env={**self.environment, **dict.fromkeys(WITHOUT)}).invoke(app, arguments)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """As a shell does, where how it ends is the question."""
        command = [sys.executable, "-m", "fleet.cli", *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=90, check=False)

    def start(self) -> subprocess.Popen[bytes]:
        """Returns when it is ready."""
        ready, output = self.home / "ready.json", self.home / "output"
        command = [sys.executable, "-c", CALM, "up", "--quiet", "--clusters=6", f"--ready-file={ready}"]
        with output.open("wb") as out:
            process = subprocess.Popen(command, env=self.environment, stdout=out, stderr=subprocess.STDOUT)
        while not ready.exists():
            assert process.poll() is None, output.read_text()
            time.sleep(0.05)
        return process


def is_recorded(machine: Machine, placement: str) -> bool:
    """The history knows of a decision a moment after it."""
    said = machine.fleet("history", placement, "-o", "json")
    return said.exit_code == 0 and bool(json.loads(said.stdout)["items"])


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    found = Machine(tmp_path_factory.mktemp("home"))
    process = found.start()
    try:
        for placement in PLACEMENTS:
            soon(partial(is_recorded, found, placement))
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=90)


def test_why_answers_and_its_exit_code_says_whether_it_is_scheduled(machine: Machine) -> None:
    for placement in PLACEMENTS:
        text, answer = machine.run("why", placement), machine.fleet("why", placement, "-o", "json")
        state = json.loads(answer.stdout)["verdict"]["state"]

        assert text.stdout.startswith(f"{placement}   {state}"), text.stderr
        assert text.returncode == answer.exit_code == (0 if state == "Scheduled" else 1)


def test_why_not_says_what_keeps_a_placement_from_a_cluster(machine: Machine) -> None:
    said = machine.fleet("why-not", "ams-1", "payments-ledger")

    assert said.exit_code in (0, 1), said.stderr
    assert "ams-1" in said.stdout


def test_the_past_is_listed_and_replays_as_recorded(machine: Machine) -> None:
    history = json.loads(machine.fleet("history", "storefront", "-o", "json").stdout)
    first = history["items"][-1]["id"]
    told = machine.fleet("decisions", "storefront", "-o", "json").stdout.splitlines()

    assert json.loads(told[0])["id"] == first
    assert machine.fleet("replay", first).stdout == "1 decided again: 1 the same, 0 different\n"


def test_an_edit_is_tried_without_changing_anything(machine: Machine) -> None:
    tried = machine.fleet("simulate", "--live", "storefront", "--edit", "setCount value=1", "-o", "json")
    wanted = [json.loads(machine.fleet("get", "crp", "storefront", "-o", "json").stdout)["spec"]["policy"]]

    assert json.loads(tried.stdout)["answer"]["verdict"]["wanted"] == 1
    assert wanted[0]["numberOfClusters"] > 1


def test_W_18_an_exported_snapshot_is_decided_as_on_the_hub(machine: Machine) -> None:
    """Of a placement by names: members drift in load and price, which moves the others."""
    file = machine.home / "fleet.json"
    assert machine.fleet("snapshot", "export", str(file)).exit_code == 0
    live = json.loads(machine.fleet("simulate", "--live", "payments-ledger", "-o", "json").stdout)

    elsewhere = machine.fleet("simulate", "--snapshot", str(file), "-o", "json")

    decided = {one["answer"]["placement"]["name"]: one for one in json.loads(elsewhere.stdout)["decisions"]}
    assert set(decided) >= {"storefront", "payments-ledger", "batch-reports", "node-agents"}
    assert decided["payments-ledger"]["answer"]["attempt"]["digest"] == live["answer"]["attempt"]["digest"]


def test_objects_are_listed_from_the_same_fleet(machine: Machine) -> None:
    said = machine.fleet("get", "clusters")

    assert said.exit_code == 0, said.stderr
    assert len(said.stdout.splitlines()) == 7


def test_a_misspelt_name_is_met_with_the_right_one(machine: Machine) -> None:
    said = machine.run("why", "storefornt")

    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.endswith("next: did you mean storefront?\n")


def test_without_a_fleet_it_is_said_how_to_get_one(tmp_path: Path) -> None:
    said = Machine(tmp_path).run("why", "storefront")

    assert said.returncode == 2
    assert said.stderr.startswith("error: no Fleet API found\nnext: try `fleet up`")
