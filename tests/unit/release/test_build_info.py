"""What a build says of itself: through `fleet --version`, `fleet version` and `GET /v1/version`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from fleet import __version__
from tests.unit.release.command import fleet

ROOT = Path(__file__).resolve().parents[3]
REVISION = "5f1c2f5e0d4b4c399a526a1f2f8d7a115f1c2f5e"


def build(folder: Path, tag: str) -> subprocess.CompletedProcess[str]:
    """A wheel of this tree."""
    given = {"FLEET_BUILD_TAG": tag, "FLEET_BUILD_REVISION": REVISION, "FLEET_BUILD_CREATED": "2021-11-01T12:00:00Z"}
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
        cwd=ROOT,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )


def installed(folder: Path, tag: str) -> dict[str, str]:
    """The environment in which the wheel comes before this tree."""
    done = build(folder, tag)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    assert wheel.name.split("-")[1] == tag.removeprefix("v")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return {**os.environ, "PYTHONPATH": str(folder / "site")}


def said(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-P", "-m", "fleet.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


@contextmanager
def an_api(folder: Path, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    ready = folder / "ready.json"
    command = [sys.executable, "-P", "-m", "fleet.cli", "up", "--quiet", "--clusters=1", f"--ready-file={ready}"]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        while not ready.exists():
            assert process.poll() is None, (folder / "output").read_text()
            time.sleep(0.02)
        yield json.loads(ready.read_text())
    finally:
        process.kill()
        process.wait()


def get_version(api: dict[str, str], accept: str = "application/json") -> Any:
    token = Path(api["tokenFile"]).read_text(encoding="utf-8").strip()
    headers = {"Authorization": f"Bearer {token}", "Accept": accept}
    with urlopen(Request(f"{api['api']}/v1/version", headers=headers), timeout=90) as answer:
        return answer.read().decode()


def test_a_tree_without_a_tag_is_a_local_build() -> None:
    assert fleet("--version").out == f"fleet {__version__}\n"
    assert fleet("version").out == f"fleet {__version__}\nlocal build, never published\n"
    assert fleet("version", "-o", "json").json["tag"]["kind"] == "local"


@pytest.mark.servers  # builds a wheel and starts a fleet from it
def test_G_11_a_wheel_of_a_snapshot_reports_its_tag(tmp_path: Path) -> None:
    environment = installed(tmp_path, "v0.0.2021110103")

    assert said(tmp_path, environment, "--version") == "fleet v0.0.2021110103\n"
    with an_api(tmp_path, environment) as api:
        text = get_version(api, "text/plain")
        assert text == "v0.0.2021110103: snapshot 3 of 2021-11-01, built 2021-11-01, bridge registry\n"
        assert json.loads(get_version(api)) == {
            "version": "v0.0.2021110103",
            "tag": "v0.0.2021110103",
            "kind": "snapshot",
            "description": "snapshot 3 of 2021-11-01, built 2021-11-01, bridge registry",
            "revision": REVISION,
            "created": "2021-11-01T12:00:00Z",
        }


def test_two_builds_of_a_wheel_are_the_same_bytes(tmp_path: Path) -> None:
    wheels = []
    for number in (1, 2):
        done = build(tmp_path / f"{number}", "v0.0.2021110103")
        assert done.returncode == 0, done.stderr
        (wheel,) = (tmp_path / f"{number}").glob("*.whl")
        wheels.append((wheel.name, wheel.read_bytes()))
    assert wheels[0] == wheels[1]


@pytest.mark.parametrize(
    "tag,description",
    [
        ("v0.20.1002", "branch fix 2 on upstream 0.20.10, built 2021-11-01, bridge registry"),
        (f"v{__version__}", f"upstream release {__version__}, built 2021-11-01, upstream registry"),
    ],
)
def test_a_build_says_from_what_and_by_which_registry(tmp_path: Path, tag: str, description: str) -> None:
    environment = installed(tmp_path, tag)

    assert said(tmp_path, environment, "version") == f"fleet {tag}\n{description}\nrevision {REVISION}\n"
    shown = json.loads(said(tmp_path, environment, "version", "-o", "json"))
    assert (shown["version"], shown["description"], shown["revision"]) == (tag, description, REVISION)


@pytest.mark.parametrize(
    "tag,reason",
    [
        ("0.20.1001", "is no release tag"),
        ("v0.0.0", "is a local tag, which no build has"),
        ("v0.34.4-rc", "is a prerelease tag, which no build has"),
        ("v99.0.0", f"is a release of 99.0.0, but fleet/__init__.py has {__version__}"),
    ],
)
def test_a_wheel_is_not_built_with_a_tag_that_does_not_fit(tmp_path: Path, tag: str, reason: str) -> None:
    done = build(tmp_path, tag)

    assert done.returncode != 0
    assert reason in done.stderr
    assert list(tmp_path.iterdir()) == []
