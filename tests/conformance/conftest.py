"""The hubs under test, and a namespace for each test."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import pytest

from tests.conformance.crds import install_crds
from tests.conformance.embedded import EmbeddedHub, new_hub
from tests.conformance.hub import Hub
from tests.conformance.targets import REAL, targets
from tests.control_plane.access import Access
from tests.control_plane.fixtures import (
    control_plane,
    programs,
    pytest_collection_finish,
    pytest_runtest_makereport,
)

__all__ = [
    "control_plane",
    "programs",
    "pytest_collection_finish",
    "pytest_runtest_makereport",
]


@pytest.fixture(scope="session", params=targets())
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def embedded_access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """The embedded hub that the tests of one worker share."""
    with EmbeddedHub(tmp_path_factory.mktemp("embedded") / "hub") as hub:
        yield hub.access


@pytest.fixture(scope="session")
def installed(request: pytest.FixtureRequest, target: str, tmp_path_factory: pytest.TempPathFactory) -> Hub:
    """The hub of this target, with Fleet's kinds."""
    access: Access = request.getfixturevalue("control_plane" if target == REAL else "embedded_access")
    install_crds(access)
    return Hub(target, access, cache=tmp_path_factory.mktemp(f"kubectl-{target}"))


@pytest.fixture
def hub(installed: Hub) -> Hub:
    """A namespace of the test's own on the shared hub."""
    namespace = f"test-{secrets.token_hex(4)}"
    installed.http.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).ok()
    return replace(installed, namespace=namespace)


@pytest.fixture
def unique() -> str:
    """A name nobody else uses, for objects without a namespace."""
    return f"x{secrets.token_hex(4)}"


class Restartable(Protocol):
    """A hub that can be restarted, with its data, and can crash and forget."""

    @property
    def access(self) -> Access: ...

    def restart(self) -> None: ...

    def crash(self) -> None: ...

    def forget_history(self) -> None: ...


@pytest.fixture(scope="module")
def restartable(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    """A hub of this target for the tests of one module, which leave it running and use names of their own."""
    with new_hub(target, tmp_path_factory.mktemp("restartable") / "hub") as hub:
        yield hub
