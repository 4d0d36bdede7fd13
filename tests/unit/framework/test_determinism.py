"""Equal inputs give equal decisions: in every process, under every supported numpy, at every moment."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.cli.main import app
from fleet.framework.cycle.cycle import decide
from fleet.framework.profiles.profile import CompiledProfile
from fleet.model.keys import SCHEDULER_NAME
from fleet.model.timestamps import SECOND, format_timestamp, parse_timestamp
from plugins.default_profile import compile_default, default_profile
from tests.conftest import LONG
from tests.control_plane.cache import filled_once
from tests.oracle.documents import Json
from tests.strategies import random_scenario
from tests.unit.cli.manifests import member, placement, written
from tests.unit.cli.profiled import HEAD
from tests.vectors.engine import decision_input

ROOT = Path(__file__).resolve().parents[3]
LOWEST = ROOT / ".cache" / "numpy-lowest"
LOCK = ROOT / "requirements" / "numpy-lowest.txt"
SEEDS = 150 if LONG else 60
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

# Run by other interpreters: the same decisions, and which numpy made them.
PROGRAM = f"""
import numpy
from tests.unit.framework.test_determinism import digests
print(numpy.__version__)
print(*digests(range({SEEDS})), sep="\\n")
"""


def profiles() -> list[CompiledProfile]:
    return [compile_default(), compile_default(default_profile(tie_break="hashed"))]


def digests(seeds: range) -> list[str]:
    inputs = [decision_input(random_scenario(seed)) for seed in seeds]
    return [decide(replace(inp, profile=profile)).digest for profile in profiles() for inp in inputs]


def elsewhere(*, hash_seed: str, path: Path | None = None) -> tuple[str, list[str]]:
    """The version of numpy and the digests of another process."""
    found = os.pathsep.join(str(one) for one in (path, ROOT) if one is not None)
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": found}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    version, *lines = done.stdout.split()
    return version, lines


@pytest.fixture(scope="session")
def lowest_numpy() -> Path:
    """The oldest numpy the project supports, from the hashed lock, installed once per checkout."""
    wanted = re.search(r"^numpy==(\S+)", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    assert wanted is not None
    installed = LOWEST / wanted[1]
    filled_once(installed, _install_lowest)
    return installed


def _install_lowest(folder: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    options = ("--require-hashes", "--no-deps", "--target", str(folder), "--requirement", str(LOCK))
    subprocess.run([*pip, *options], check=True, capture_output=True)


# --- processes and libraries ------------------------------------------------------------------------------------------


def test_F3_121_processes_with_different_hash_seeds_decide_alike() -> None:
    assert elsewhere(hash_seed="4242")[1] == digests(range(SEEDS))


@pytest.mark.servers  # installs another numpy
def test_F3_121_so_does_the_lowest_numpy_the_project_supports(lowest_numpy: Path) -> None:
    version, found = elsewhere(hash_seed="0", path=lowest_numpy)

    assert f"numpy=={version} " in LOCK.read_text(encoding="utf-8")
    assert found == digests(range(SEEDS))


def simulated(folder: Path) -> str:
    """What `fleet simulate` prints."""
    done = CliRunner().invoke(app, simulation_of(folder))
    assert done.exit_code in (0, 3), done.stderr
    return done.stdout


def simulation_of(folder: Path) -> list[str]:
    return ["simulate", "-f", str(folder / "fleet.yaml"), "--config", str(folder / "config.yaml"), "-o", "json"]


def simulated_elsewhere(folder: Path, *, hash_seed: str, path: Path | None = None) -> str:
    """The same in another process."""
    found = os.pathsep.join(str(one) for one in (path, ROOT) if one is not None)
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": found}
    command = [sys.executable, "-m", "fleet.cli", *simulation_of(folder)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Placements of every profile and tie-break on one fleet."""
    profiles = [
        {"schedulerName": f"{base}-{tie}".lower(), "base": base, "tieBreak": tie}
        for base in ("DefaultProfile", "ExtendedProfile")
        for tie in ("nameDescending", "hashed")
    ]
    placements = []
    for profile in profiles:
        spread = [{"topologyKey": "zone", "maxSkew": 1}]
        name = profile["schedulerName"]
        web = placement(name, placementType="PickN", numberOfClusters=7, topologySpreadConstraints=spread)
        web["metadata"] |= {"annotations": {SCHEDULER_NAME: name}, "uid": "uid-1"}
        placements.append(web)
    zones = ("x", "y", "z")
    clusters = [member(f"c{number:02d}", zone=zones[number % 3], tier=str(number % 2)) for number in range(20)]
    written(tmp_path, *clusters, *placements, name="fleet.yaml")
    written(tmp_path, {**HEAD, "profiles": profiles}, name="config.yaml")
    return tmp_path


def test_F3_121_simulations_in_processes_with_different_hash_seeds_say_the_same(example: Path) -> None:
    found = simulated(example)

    assert found == simulated_elsewhere(example, hash_seed="4242")
    assert [len(decision["operations"]) for decision in json.loads(found)["decisions"]] == [7, 7, 7, 7]


@pytest.mark.servers  # installs another numpy
def test_F3_121_so_does_a_simulation_with_the_lowest_numpy(example: Path, lowest_numpy: Path) -> None:
    assert simulated_elsewhere(example, hash_seed="0") == simulated_elsewhere(example, hash_seed="0", path=lowest_numpy)


def test_F3_121_deciding_again_gives_the_same_digest_and_texts() -> None:
    for seed in range(60):
        inp = decision_input(random_scenario(seed))
        first, second = decide(inp), decide(inp)
        assert (first.digest, first.published) == (second.digest, second.published)


def test_the_digests_tell_decisions_apart() -> None:
    found = digests(range(SEEDS))

    assert all(len(one) == 32 for one in found)
    assert len(set(found)) > SEEDS // 2


# --- time -------------------------------------------------------------------------------------------------------------


def shifted(value: Any, seconds: int) -> Any:
    """A document with every time in it moved."""
    match value:
        case str() if TIMES.fullmatch(value):
            return format_timestamp(parse_timestamp(value) + seconds * SECOND)
        case Mapping():
            return {key: shifted(one, seconds) for key, one in value.items()}
        case list():
            return [shifted(one, seconds) for one in value]
    return value


@pytest.mark.parametrize("seconds", [1, -1, 3600, 86_400 * 365, -86_400 * 3000])
def test_F3_122_moving_now_and_every_time_alike_changes_nothing(seconds: int) -> None:
    for seed in range(80):
        scenario = random_scenario(seed)
        before, after = decide(decision_input(scenario)), decide(decision_input(shifted(scenario, seconds)))
        assert [one.cluster for one in before.targets] == [one.cluster for one in after.targets], seed
        assert before.digest == after.digest, seed


def aged(scenario: Json) -> Json:
    """The same scenario ten minutes later: nobody was heard in between."""
    return {**copy.deepcopy(scenario), "now": shifted(scenario["now"], 600)}


def test_F3_122_moving_now_alone_does_change_something() -> None:
    later = [decide(decision_input(aged(random_scenario(seed)))).digest for seed in range(40)]
    sooner = [decide(decision_input(random_scenario(seed))).digest for seed in range(40)]

    assert later != sooner


def test_F3_124_inputs_are_left_as_they_were() -> None:
    for seed in range(60):
        inp = decision_input(random_scenario(seed))
        content, bindings = inp.frame.content_hash(), list(inp.bindings)

        decide(inp)

        assert inp.frame.content_hash() == content
        assert list(inp.bindings) == bindings
