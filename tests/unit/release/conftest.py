from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.release.registry_server import Registry, a_registry
from tests.unit.release.repositories import IDENTITY, Clone, clone_remote, copy_remote, create_remote
from tests.unit.release.stage import Stage


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Upstream has released 0.20.0 and 0.20.10; two patches wait on release-0.20, and main has moved on."""
    folder = tmp_path_factory.mktemp("released")
    clone = clone_remote(create_remote(folder), folder / "clone")
    clone.git("checkout", "--quiet", "-B", "main")
    clone.commit("first")
    clone.release("v0.20.0")
    clone.checkout("release-0.20", "main")
    clone.commit("tenth")
    clone.release("v0.20.10")
    clone.commit("patch-1")
    clone.commit("patch-2")
    clone.checkout("main")
    clone.commit("second")
    return folder


@pytest.fixture
def clone(released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    """A remote and a clone of it of this test's own, as `released` left them."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    for name in ("FLEET_RELEASE_REGISTRY", "FLEET_RELEASE_UPSTREAM"):
        monkeypatch.delenv(name, raising=False)
    return copy_remote(released, tmp_path)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    with a_registry() as registry:
        yield registry


@pytest.fixture
def stage(clone: Clone, registry: Registry, tmp_path: Path) -> Stage:
    clone.checkout("release-0.20")
    return Stage(clone, registry, tmp_path)
