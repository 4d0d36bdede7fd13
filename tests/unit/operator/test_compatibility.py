"""The matrix of versions: published as it is read, and true of this release."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

from fleet import __version__
from fleet.operator.compatibility import HUB_GROUP, MATRIX, MEMBER_GROUP, find_skew, insert_matrix
from fleet.release.tags import parse_tag

ROOT: Final = Path(__file__).resolve().parents[3]
SERVED: Final = {HUB_GROUP: ["v1", "v1beta1"], MEMBER_GROUP: ["v1"]}


def test_O_15_the_matrix_is_published_as_it_is_read() -> None:
    page = (ROOT / "docs/secondary-schedulers.md").read_text(encoding="utf-8")
    assert insert_matrix(page) == page, "run make gen"
    assert f"| {MATRIX[-1].fleet}.x | v1 | v1 | 3.11, 3.12, 3.13, 3.14, 3.15 |" in page


def test_the_present_release_has_a_row_with_its_versions_of_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    prefix = "Programming Language :: Python :: 3."
    versions = [item.rpartition(" ")[2] for item in project["classifiers"] if item.startswith(prefix)]
    (row,) = [row for row in MATRIX if f"{row.fleet}." == __version__[: len(row.fleet) + 1]]
    assert list(row.python) == versions
    assert project["requires-python"] == f">={versions[0]},<3.{int(versions[-1].removeprefix('3.')) + 1}"
    (cel,) = [item for item in project["dependencies"] if item.startswith("cel-expr-python")]
    watch = (ROOT / ".github/workflows/newer-python.yml").read_text(encoding="utf-8")
    *_, without = re.findall(r"\bdownload (3\.\d+)", watch)
    assert without in versions
    assert cel.endswith(f"python_version < '{without}'")
    ci = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert f"python: {json.dumps(versions)}" in ci


@pytest.mark.parametrize("tag", ["v0.1.0", "v0.1.101", "v0.1.200", "v0.1.3-rc", "v0.0.2026111501", "v0.0.0"])
def test_O_15_builds_of_a_known_line_fit(tag: str) -> None:
    assert find_skew(parse_tag(tag), SERVED) is None


@pytest.mark.parametrize(
    "tag, served, reason",
    [
        ("v0.2.0", SERVED, "v0.2.0 is of Fleet 0.2.x, and this operator knows 0.1.x only"),
        ("v0.1.0", {HUB_GROUP: ["v1"]}, f"{MEMBER_GROUP}/v1, and the hub serves no version of {MEMBER_GROUP}"),
        ("v0.0.0", {**SERVED, HUB_GROUP: ["v2"]}, f"{HUB_GROUP}/v1, and the hub serves v2 of {HUB_GROUP}"),
    ],
)
def test_O_15_other_pairs_do_not(tag: str, served: dict[str, list[str]], reason: str) -> None:
    assert reason in str(find_skew(parse_tag(tag), served))
