"""The bill of materials of the image: what the lock says, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[2]
LOCK: Final = ROOT / "requirements" / "image.txt"
SCRIPT: Final = ROOT / "requirements" / "sbom.py"
HASH: Final = "0" * 64


def written(lock: Path, folder: Path) -> str:
    target = folder / "sbom.cdx.json"
    subprocess.run([sys.executable, SCRIPT, lock, target], check=True, timeout=60)
    return target.read_text(encoding="utf-8")


def described(text: str, folder: Path) -> list[dict[str, Any]]:
    (folder / "lock.txt").write_text(text, encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(written(folder / "lock.txt", folder))["components"]
    return found


def test_every_package_that_is_installed_is_a_component_with_all_of_its_hashes(tmp_path: Path) -> None:
    bill = json.loads(written(LOCK, tmp_path))
    entries = re.split(r"^(?=[A-Za-z0-9])", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    locked: dict[str, set[str]] = {}
    for entry in entries:
        requirement = Requirement(entry.partition("\\")[0])
        if requirement.marker is None or requirement.marker.evaluate():
            (version,) = requirement.specifier
            locked[f"pkg:pypi/{requirement.name}@{version.version}"] = set(re.findall(r"sha256:(\w+)", entry))

    assert len(locked) > 20
    assert {one["purl"]: {each["content"] for each in one["hashes"]} for one in bill["components"]} == locked
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")


def test_the_same_lock_gives_the_same_bytes(tmp_path: Path) -> None:
    assert written(LOCK, tmp_path) == written(LOCK, tmp_path)


def test_names_are_those_of_the_index_and_packages_for_another_platform_are_left_out(tmp_path: Path) -> None:
    pinned = f" \\\n    --hash=sha256:{HASH}\n    # via x\n"
    found = described(f"Some_Name==1.0{pinned}other==2 ; sys_platform == 'none'{pinned}", tmp_path)

    assert [(one["purl"], one["scope"]) for one in found] == [("pkg:pypi/some-name@1.0", "required")]
    assert found[0]["hashes"] == [{"alg": "SHA-256", "content": HASH}]


@pytest.mark.parametrize(
    "text", ["a==1\n", "a>=1\n", "--index-url x\n", f"--hash=sha256:{HASH}\n", "a==1 ; python_version < '4'\n"]
)
def test_a_lock_that_is_not_complete_gives_no_bill(text: str, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        described(text, tmp_path)
    assert not (tmp_path / "sbom.cdx.json").exists()


def test_the_image_contains_it() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "python requirements/sbom.py requirements/image.txt /opt/fleet/sbom.cdx.json" in dockerfile
