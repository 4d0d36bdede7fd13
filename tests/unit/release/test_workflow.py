"""The project's own way to a release: `.ci/release`, carried out with a builder that writes what docker would."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.package import package_chart
from fleet.release.oci.references import parse_repository
from fleet.release.oci.registry import open_client
from tests.unit.release.repositories import IDENTITY
from tests.unit.release.stage import PATH, TAG, Stage

ROOT = Path(__file__).resolve().parents[3]
BUILDER = """
import json, sys
from pathlib import Path
from tests.unit.release.images import write_layout

arguments = sys.argv[1:]
assert arguments[:2] == ["buildx", "build"] and arguments[-1] == "."
output = dict(part.split("=", 1) for part in arguments[arguments.index("--output") + 1].split(","))
assert (output["type"], output["tar"]) == ("oci", "false")
labels = [each.removeprefix("--label=") for each in arguments if each.startswith("--label=")]
write_layout(Path(output["dest"]), dict(each.split("=", 1) for each in labels), platforms=2)
built = [arguments[at + 1] for at, each in enumerate(arguments) if each == "--build-arg"]
attested = [arguments[at + 1] for at, each in enumerate(arguments) if each == "--attest"]
assert attested == ["type=sbom", "type=provenance,mode=max"]
Path("SEEN").write_text(json.dumps(dict(each.split("=", 1) for each in built)))
"""


def write_program(file: Path, *command: str) -> None:
    file.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n', encoding="utf-8")
    file.chmod(0o755)


@pytest.fixture
def environment(stage: Stage) -> dict[str, str]:
    clone = stage.clone
    (clone.folder / ".ci").mkdir()
    for name in (".ci/release", "Dockerfile"):
        shutil.copy2(ROOT / name, clone.folder / name)
    shutil.copytree(ROOT / "charts", clone.folder / "charts", ignore=shutil.ignore_patterns("__pycache__"))
    clone.git("add", ".")
    clone.git("commit", "--quiet", "-m", "how it is released")
    clone.push()
    programs = stage.folder / "programs"
    programs.mkdir()
    builder = BUILDER.replace("SEEN", str(stage.folder / "arguments.json"))
    (programs / "builder.py").write_text(builder, encoding="utf-8")
    write_program(programs / "docker", "env", f"PYTHONPATH={ROOT}", sys.executable, str(programs / "builder.py"))
    write_program(programs / "fleet", sys.executable, "-m", "fleet.cli")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    release = {
        "FLEET_RELEASE_REGISTRY": stage.target,
        "FLEET": str(programs / "fleet"),
        "PYTHON": sys.executable,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {**os.environ, **IDENTITY, **release, "PATH": path}


def run_release(stage: Stage, environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(stage.clone.folder / ".ci" / "release"), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_release_is_claimed_built_published_and_verified(stage: Stage, environment: dict[str, str]) -> None:
    reason = "a crash, with $(rm -rf /) and \"quotes\" = 'more'"
    ran = run_release(stage, environment, "--reason", reason, "--rebuild-reason", "")

    assert ran.returncode == 0, ran.stderr
    assert "FAILED" not in ran.stdout
    assert list(stage.registry.tags[PATH]) == [TAG]
    arguments = json.loads((stage.folder / "arguments.json").read_text())
    assert (arguments["TAG"], arguments["VERSION"], arguments["REVISION"]) == (TAG, TAG, stage.clone.head)
    message = stage.clone.git("tag", "-l", "--format=%(contents)", TAG)
    assert f"dev.fleet.build/reason: {reason}" in message
    (base,) = re.findall(r"^ARG PYTHON_DIGEST=(.+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert f"org.opencontainers.image.base.digest: {base}" in message
    assert stage.verify().code == 0
    assert arguments.keys() <= list_build_arguments()
    check_chart(stage)


def list_build_arguments() -> set[str]:
    """Those that the Dockerfile declares."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return {line.removeprefix("ARG ").partition("=")[0] for line in lines if line.startswith("ARG ")}


def check_chart(stage: Stage) -> None:
    """An artifact that Helm installs with its image."""
    charts = "bridge/charts/fleet"
    assert list(stage.registry.tags[charts]) == [TAG]
    client = open_client(parse_repository(f"{stage.registry.host}/{charts}"))
    manifest = client.get_manifest(charts, TAG).document
    (layer,) = manifest["layers"]
    assert (manifest["config"]["mediaType"], layer["mediaType"]) == (
        "application/vnd.cncf.helm.config.v1+json",
        "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
    )
    config = client.get_document(charts, manifest["config"]["digest"])
    assert (config["name"], config["version"], config["appVersion"]) == ("fleet", TAG, TAG)
    with client.open_blob(charts, layer["digest"]) as blob, tarfile.open(fileobj=io.BytesIO(blob.read())) as archive:
        names = archive.getnames()
        packed = archive.extractfile("fleet/Chart.yaml")
        assert packed is not None
        assert yaml.safe_load(packed.read())["version"] == TAG
    assert {"fleet/values.yaml", "fleet/templates/controller.yaml", "fleet/.helmignore"} <= set(names)
    assert not [name for name in names if name.startswith("fleet/ci/")]
    assert stage.verify(f"{stage.registry.host}/{charts}:{TAG}").code == 0


def test_a_chart_is_packaged_to_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        package_chart(ROOT / "charts/fleet", {"org.opencontainers.image.version": TAG}, tmp_path / name)
    assert (tmp_path / "a/index.json").read_bytes() == (tmp_path / "b/index.json").read_bytes()


def test_a_refused_release_builds_nothing(stage: Stage, environment: dict[str, str]) -> None:
    ran = run_release(stage, environment)

    assert ran.returncode == 3
    assert "--reason is missing" in ran.stderr
    assert not (stage.folder / "arguments.json").exists()
    assert stage.registry.writes == []


def test_a_release_needs_a_registry(stage: Stage, environment: dict[str, str]) -> None:
    del environment["FLEET_RELEASE_REGISTRY"]
    ran = run_release(stage, environment, "--reason=a crash")

    assert ran.returncode != 0
    assert "name the repository of bridge builds" in ran.stderr


def test_the_workflow_runs_it_on_the_whole_history_and_passes_texts_as_variables() -> None:
    workflow: Any = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["build"]["steps"]
    scripts = [step["run"] for step in steps if "run" in step]

    assert any(script.startswith(".ci/release ") for script in scripts)
    assert not [script for script in scripts if "${{" in script]
    assert next(step for step in steps if step.get("uses", "").startswith("actions/checkout"))["with"] == {
        "fetch-depth": 0
    }


def test_actions_are_pinned_by_commit() -> None:
    for file in sorted((ROOT / ".github/workflows").glob("*.yml")):
        used = re.findall(r"^ *- uses: (.+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        unpinned = [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[\d.]+", each)]
        assert used
        assert unpinned == [], file.name
