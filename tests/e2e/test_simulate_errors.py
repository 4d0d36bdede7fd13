"""Wrong input: all of it is told in one run, with place, object, field, value and remedy, and nothing is decided."""

from __future__ import annotations

import json
import os
from errno import EACCES
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fleet.cli.main import app
from tests.unit.cli.manifests import Manifest, binding, member, placement, snapshot, written


def simulated(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, ["simulate", *arguments])


def errors(*arguments: str) -> list[str]:
    """What goes to standard error, of a run that decides nothing."""
    result = simulated(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    *problems, last = result.stderr.splitlines()
    assert last == f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'}, nothing was decided"
    return [problem.removeprefix("error: ") for problem in problems]


def file_of(folder: Path, text: str, *, name: str = "x.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "nowhere.yaml")

    assert errors("-f", path) == [f"{path}: cannot be read: No such file or directory"]


def test_a_folder_without_files(tmp_path: Path) -> None:
    file_of(tmp_path, "hello", name="notes.txt")

    assert errors("-f", str(tmp_path)) == [f"{tmp_path}: no *.yaml, *.yml, *.json in this folder"]


def test_a_folder_below_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An account that may read everything could not make one."""
    written(tmp_path, member("a"), placement("web"))
    hidden, scan = tmp_path / "hidden", os.scandir
    hidden.mkdir()

    def refuse(path: str) -> Any:
        if str(path) == str(hidden):
            raise PermissionError(EACCES, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)

    assert errors("-f", str(tmp_path)) == [f"{hidden}: cannot be read: Permission denied"]


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"a: \xff")

    assert errors("-f", str(path)) == [f"{path}: is not UTF-8 text: byte 3 is 0xff"]


def test_a_file_that_is_no_yaml(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a: [1\nb: 2\n")

    assert errors("-f", path) == [f"{path}:2: is not YAML: did not find expected ',' or ']' at column 2"]


def test_a_file_that_is_no_json(tmp_path: Path) -> None:
    path = file_of(tmp_path, "{", name="x.json")

    assert errors("-f", path) == [
        f"{path}:1: is not JSON: Expecting property name enclosed in double quotes at column 2"
    ]


def test_everything_wrong_in_all_files_is_told_in_one_run(tmp_path: Path) -> None:
    one = member("a")
    one["spec"]["taints"] = [{"key": "x", "effect": "Never"}]
    two = placement("web", placementType="PickSome")
    two["metadata"]["lables"] = {}
    first = written(tmp_path, one, member("b"), name="a.yaml")
    second = written(tmp_path, two, member("b"), name="b.yaml")
    third = file_of(tmp_path, "x: [", name="c.yaml")

    found = errors("-f", str(tmp_path), "--set", "x.y=1", "--now", "soon")

    assert [problem.split(": ", 1)[0].partition(":")[0] for problem in found] == [
        "--set", "--now", str(first), str(second), str(second), str(second), third,
    ]  # fmt: skip
    line = first.read_text(encoding="utf-8").splitlines().index("---") + 2
    assert f"{second}:" in found[-2]
    assert found[-2].endswith(f"MemberCluster b: is also in {first}:{line} (document 2); keep one of the two")


# --- questions --------------------------------------------------------------------------------------------------------


def test_nothing_to_decide(tmp_path: Path) -> None:
    assert errors("-f", str(written(tmp_path, member("a")))) == [
        "there is nothing to decide: the files hold no placement and no latest policy snapshot"
    ]


def test_a_cluster_that_is_not_there_cannot_be_explained(tmp_path: Path) -> None:
    path = str(written(tmp_path, member("ams-1"), placement("web")))

    assert errors("-f", path, "--why", "asm-1") == ["--why: no cluster named 'asm-1' in the files; did you mean ams-1?"]


@pytest.mark.parametrize(
    "option, value, want",
    [
        ("--set", "spread.key=Exclude", "no setting named 'spread.key'; did you mean spread.missingKey?"),
        ("--set", "spread.missingKey", "setting 'spread.missingKey' has no value: write spread.missingKey=VALUE"),
        ("--set", "spread.missingKey=No", "setting spread.missingKey: 'No' should be 'Neutral' or 'Exclude'"),
        ("--now", "noon", "'noon' is not an RFC 3339 time such as 2026-01-05T10:00:00Z, nor the word now"),
    ],
    ids=["unknown setting", "no value", "wrong value", "no time"],
)
def test_options_that_make_no_sense(tmp_path: Path, option: str, value: str, want: str) -> None:
    path = str(written(tmp_path, member("a"), placement("web")))

    assert errors("-f", path, option, value) == [f"{option}: {want}"]


# --- policies that cannot be evaluated are an answer, not an error ----------------------------------------------------


def puzzling() -> Manifest:
    return snapshot("web-0", "web", placementType="PickN")


def test_a_policy_that_cannot_be_evaluated_is_shown_with_the_others(tmp_path: Path) -> None:
    path = str(written(tmp_path, member("a"), placement("api"), puzzling()))

    result = simulated("-f", path)

    assert result.exit_code == 1
    assert (
        "\nmetadata.annotations[kubernetes-fleet.io/number-of-clusters]: the annotation is missing\n" in result.stdout
    )
    assert "\napi   Scheduled   profile DefaultScheduler\n" in result.stdout


def test_a_policy_that_cannot_be_evaluated_is_not_fulfilled(tmp_path: Path) -> None:
    path = str(written(tmp_path, member("a"), puzzling()))

    assert simulated("-f", path, "--expect-fulfilled").exit_code == 1


def test_all_problems_of_a_policy_are_in_the_report(tmp_path: Path) -> None:
    manifest = puzzling()
    del manifest["metadata"]["annotations"]

    result = simulated("-f", str(written(tmp_path, member("a"), manifest)), "-o", "json")

    fields = [one["field"] for one in json.loads(result.stdout)["decisions"][0]["answer"]["verdict"]["problems"]]
    assert fields == [
        "metadata.annotations[kubernetes-fleet.io/CRP-generation]",
        "metadata.annotations[kubernetes-fleet.io/number-of-clusters]",
    ]


# --- notes ------------------------------------------------------------------------------------------------------------


def test_notes_go_to_standard_error_and_change_no_exit_code(tmp_path: Path) -> None:
    result = simulated("-f", str(written(tmp_path, placement("web"))))

    assert (result.exit_code, result.stderr) == (
        0,
        "note: there is no MemberCluster in the files: the fleet is empty\n",
    )


def test_objects_of_others_are_told_only_when_asked(tmp_path: Path) -> None:
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}
    path = str(written(tmp_path, member("a"), placement("web"), other))

    assert simulated("-f", path).stderr == ""
    assert simulated("-f", path, "-v").stderr == "note: ignored, not Fleet's own: 1 Deployment.apps/v1\n"


def test_a_name_outside_the_fleet_that_a_binding_holds_can_be_explained(tmp_path: Path) -> None:
    path = str(written(tmp_path, member("a"), placement("web"), binding("gone", of="web", snapshot="web-0")))

    assert (
        "gone is not in the fleet any more, and its binding is given up"
        in simulated("-f", path, "--why", "gone").stdout
    )


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = str(written(tmp_path, member("a"), placement("web")))

    assert simulated("-f", path, "-f", str(tmp_path), path).exit_code == 0
