"""`make audit`: locked versions are compared with a copy of advisories, and a missing copy is no success in silence."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest

SCRIPT: Final = Path(__file__).resolve().parents[2] / "requirements" / "audit.py"
RECENT: Final = "2999-01-01T00:00:00Z"


def audited(advisories: Path, folder: Path, *, locked: str = "Some_Name==1.5") -> tuple[int, str]:
    """Exit code and output."""
    lock = folder / "lock.txt"
    lock.write_text(f"{locked} \\\n    --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    command = [sys.executable, str(SCRIPT), str(advisories), str(lock)]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def write_advisory(folder: Path, *, modified: str = RECENT, withdrawn: bool = False, **affected: Any) -> Path:
    package = {"ecosystem": "PyPI", "name": "some.name"}
    advisory = {"id": "OSV-1", "modified": modified, "affected": [{"package": package, **affected}]}
    content = advisory | ({"withdrawn": RECENT} if withdrawn else {})
    (folder / "advisories").mkdir(exist_ok=True)
    (folder / "advisories" / "OSV-1.json").write_text(json.dumps(content), encoding="utf-8")
    return folder / "advisories"


def within(*events: dict[str, str]) -> dict[str, Any]:
    return {"ranges": [{"type": "ECOSYSTEM", "events": list(events)}]}


@pytest.mark.parametrize(
    "affected, version",
    [
        (within({"introduced": "0"}, {"fixed": "1.6"}), "1.5"),
        (within({"introduced": "0"}), "0.0a1"),
        (within({"introduced": "1.0"}, {"last_affected": "1.5"}), "1.5"),
        (within({"fixed": "1.1"}, {"introduced": "1.4"}, {"introduced": "0"}), "1.5"),
        (within({"introduced": "not a version"}), "1.5"),
        ({"versions": ["1.5"]}, "1.5"),
    ],
)
def test_a_vulnerable_version_ends_with_1(tmp_path: Path, affected: dict[str, Any], version: str) -> None:
    code, output = audited(write_advisory(tmp_path, **affected), tmp_path, locked=f"Some_Name=={version}")
    assert (code, output.startswith(f"lock.txt: Some_Name {version}: OSV-1")) == (1, True)


def test_the_version_that_helps_is_named(tmp_path: Path) -> None:
    events = ({"introduced": "0"}, {"fixed": "1.2"}, {"introduced": "1.4"}, {"fixed": "1.10"}, {"fixed": "1.9"})
    _, output = audited(write_advisory(tmp_path, **within(*events)), tmp_path)
    assert output == "lock.txt: Some_Name 1.5: OSV-1, fixed in 1.9\n"


@pytest.mark.parametrize(
    "affected",
    [
        within({"introduced": "0"}, {"fixed": "1.5"}),
        within({"introduced": "1.6"}),
        within({"introduced": "0"}, {"last_affected": "1.4.9"}),
        {"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]},
        {"withdrawn": True, "versions": ["1.5"]},
    ],
)
def test_other_versions_are_fine(tmp_path: Path, affected: dict[str, Any]) -> None:
    advisories = write_advisory(tmp_path, **affected)
    other = {"id": "OSV-2", "modified": RECENT, "affected": [{"package": {"ecosystem": "PyPI", "name": "other"}}]}
    (advisories / "OSV-2.json").write_text(json.dumps(other), encoding="utf-8")
    code, output = audited(advisories, tmp_path)
    assert (code, output.startswith("no known vulnerability in 1 locks")) == (0, True)


def test_an_archive_is_read_like_a_folder(tmp_path: Path) -> None:
    advisories = write_advisory(tmp_path, versions=["1.5"])
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(advisories / "OSV-1.json", "OSV-1.json")
    assert audited(tmp_path / "all.zip", tmp_path)[0] == 1


def test_without_advisories_it_says_that_nothing_was_audited(tmp_path: Path) -> None:
    code, output = audited(tmp_path / "none", tmp_path)
    assert (code, output.startswith("NOT AUDITED: there is no copy of advisories at ")) == (0, True)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"modified": "2999-01-01T00:00:00Z", "id": "x"}'])
def test_a_copy_that_cannot_be_used_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "advisories").mkdir()
    (tmp_path / "advisories" / "a.json").write_text(content, encoding="utf-8")
    code, output = audited(tmp_path / "advisories", tmp_path)
    assert (code, output.startswith("NOT AUDITED: ")) == (2, True)


@pytest.mark.parametrize("locked, expected", [("Some_Name==1.5", 1), ("Some_Name==1.6", 2)])
def test_an_advisory_that_cannot_be_read_is_reported_beside_the_others(
    tmp_path: Path, locked: str, expected: int
) -> None:
    advisories = write_advisory(tmp_path, versions=["1.5"])
    (advisories / "A.json").write_text("{", encoding="utf-8")
    code, output = audited(advisories, tmp_path, locked=locked)
    broken, result = output.splitlines()
    assert code == expected
    assert broken.startswith(f"NOT READ: {advisories / 'A.json'} is no advisory")
    assert ("OSV-1" in result) == (expected == 1)


def test_an_old_copy_is_warned_of(tmp_path: Path) -> None:
    _, output = audited(write_advisory(tmp_path, modified="2020-01-01T00:00:00Z", versions=["9"]), tmp_path)
    assert output.startswith("WARNING: the newest advisory is ")
