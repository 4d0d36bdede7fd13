"""The promises the repository makes about itself: dependencies, locks, commands, and nothing of any one machine."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pip._internal.models.index import PyPI

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(PYPROJECT)
RUNTIME: list[str] = PROJECT["project"]["dependencies"]
DEVELOPMENT: list[str] = PROJECT["dependency-groups"]["dev"]
LOCKS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "requirements").glob("*.txt"))


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return found[0].lower().replace("_", "-").replace(".", "-")


def locked(lock: str) -> dict[str, str]:
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    return {name_of(name): version for name, version in re.findall(r"^([^\s#=]+)==([^\s;]+)", text, re.MULTILINE)}


def files_of_the_tree() -> Iterator[Path]:
    """Every file of the working tree, except what .gitignore names and git's own."""
    ignored = {line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()} | {".git"}

    def inside(folder: Path) -> Iterator[Path]:
        for path in folder.iterdir():
            if any(path.match(pattern) for pattern in ignored if pattern):
                continue
            if path.is_dir():
                yield from inside(path)
            else:
                yield path

    return inside(ROOT)


# --- dependencies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("requirement", RUNTIME + DEVELOPMENT, ids=str)
def test_a_dependency_says_what_it_is_for(requirement: str) -> None:
    assert re.search(rf'^    "{re.escape(requirement)}",  # .{{10,}}', PYPROJECT, re.MULTILINE)


@pytest.mark.parametrize("requirement", RUNTIME + DEVELOPMENT, ids=str)
def test_a_dependency_has_a_lower_bound(requirement: str) -> None:
    assert ">=" in requirement


@pytest.mark.parametrize("requirement", RUNTIME, ids=str)
def test_what_runs_is_in_the_runtime_lock(requirement: str) -> None:
    assert name_of(requirement) in locked("runtime.txt")


@pytest.mark.parametrize("requirement", DEVELOPMENT, ids=str)
def test_what_builds_and_checks_is_in_the_development_lock(requirement: str) -> None:
    assert name_of(requirement) in locked("dev.txt")


def test_the_build_backend_is_locked_because_the_install_is_not_isolated() -> None:
    assert {name_of(requirement) for requirement in PROJECT["build-system"]["requires"]} <= locked("dev.txt").keys()


def test_development_runs_on_the_versions_that_ship() -> None:
    assert locked("runtime.txt").items() <= locked("dev.txt").items()


def test_the_lowest_numpy_is_the_lower_bound() -> None:
    bounds = [requirement for requirement in RUNTIME if name_of(requirement) == "numpy"]
    lock = (ROOT / "requirements" / "numpy-lowest.txt").read_text(encoding="utf-8")
    lowest = re.findall(r"^numpy==(\S+)", lock, re.MULTILINE)
    assert bounds
    for bound, version in zip(bounds, lowest, strict=True):
        assert bound.startswith(f"numpy>={version.removesuffix('.0')}")


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_release_by_hash(lock: str) -> None:
    releases = re.split(r"^(?=\S+==)", (ROOT / lock).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert releases
    assert all("--hash=sha256:" in release for release in releases)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_place_to_download_from(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert not re.findall(r"://|^-|--(?!hash=)\S+|^\S+ @ ", text, re.MULTILINE)


# --- commands ---------------------------------------------------------------------------------------------------------


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):.*?## \S", makefile, re.MULTILINE))


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/compatibility.md", ".ci/run"])
def test_a_make_target_that_is_named_exists(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    named = {word for words in re.findall(r"(?:^|`)make((?: [a-z-]+)+)", text, re.MULTILINE) for word in words.split()}
    assert named
    assert named <= make_targets()


@pytest.mark.parametrize("version", [(3, 10), (3, 16)])
def test_a_python_that_is_too_old_or_too_new_is_named_before_anything_is_installed(
    tmp_path: Path, version: tuple[int, int]
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = {version}; $2"\n')
    python.chmod(0o755)
    command = ["make", f"VENV={tmp_path}/venv", f"PYTHONS={python}", f"{tmp_path}/venv/bin/python"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert made.returncode
    assert "Fleet needs Python 3.11 to 3.15 with its venv module" in made.stderr


def test_every_target_is_documented_and_phony() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == make_targets()


# --- nothing of any one machine ---------------------------------------------------------------------------------------


def test_no_file_names_a_registry_or_a_path_of_a_machine() -> None:
    hosts = "|".join(re.escape(host) for host in (PyPI.netloc, PyPI.file_storage_domain))
    paths = r"(?:^|[^\w.])/(?:work|farm|root)/|/tmp/bash_\w|/(?:home|Users)/[a-z]"
    forbidden = re.compile(f"{hosts}|{paths}".encode(), re.MULTILINE)
    stray = {
        f"{path.relative_to(ROOT)}: {found.group().decode()}"
        for path in files_of_the_tree()
        if (found := forbidden.search(path.read_bytes()))
    }
    assert stray == set()
