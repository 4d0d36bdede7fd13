"""The image, built once for all tests of a worker, and a hub that has the chart's objects."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.conformance.crds import install_crds
from tests.control_plane.access import Access
from tests.control_plane.assets import assets
from tests.control_plane.cache import filled_once
from tests.control_plane.fixtures import programs, pytest_collection_finish, pytest_runtest_makereport
from tests.control_plane.instance import ControlPlane
from tests.image.building import Building
from tests.image.dockerfile import ROOT, context
from tests.image.pods import NAMESPACE, Machine, rendered
from tests.image.room import why_not
from tests.postgres import postgres

__all__ = ["postgres", "programs", "pytest_collection_finish", "pytest_runtest_makereport"]

SECONDS_TO_BUILD: Final = 600


@dataclass(frozen=True)
class Image:
    source: Path
    """What it was built from."""
    opt: Path

    @property
    def tree(self) -> Path:
        """What the image has under `/opt/fleet`."""
        return self.opt / "fleet"

    @property
    def packages(self) -> Path:
        (found,) = (self.tree / "lib").glob("python3.*/site-packages")
        return found


@pytest.fixture(scope="session")
def rooms() -> None:
    reason = why_not()
    if reason:
        pytest.skip(f"no image can be tried here: {reason}")


@pytest.fixture(scope="session")
def image(rooms: None, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Image:
    """One for all workers: who comes first builds it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "image"
    filled_once(folder, _fill)
    return Image(folder / "context", folder / "opt")


def _fill(folder: Path) -> None:
    built(_copied(folder / "context"), folder)


def _copied(folder: Path) -> Path:
    """The tree as a build would get it, at one moment: somebody may be editing it."""
    for path in context():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target)
    return folder


def built(source: Path, folder: Path) -> Image:
    building = Building(folder, source=source)
    building.build()
    return Image(source, building.opt)


@pytest.fixture
def machine(image: Image, programs: Path, tmp_path: Path) -> Iterator[Machine]:
    """With a hub of its own, on which the chart's objects are, but nothing that runs pods."""
    documents = rendered(assets("helm") / "helm")
    with ControlPlane(tmp_path / "hub", programs=programs) as hub:
        install_crds(hub.access)
        _apply(hub.access, documents)
        yield Machine.set_up(image=image.tree, folder=tmp_path / "machine", documents=documents, access=hub.access)


def _apply(access: Access, documents: list[dict[str, object]]) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    command = [str(access.kubectl), f"--kubeconfig={access.kubeconfig}"]
    apply = [*command, "apply", "--server-side", "--force-conflicts", "--filename=-"]
    stream = yaml.safe_dump_all([namespace, *documents])
    done = subprocess.run(apply, input=stream, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
