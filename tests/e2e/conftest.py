"""Hubs of both targets for whole-system tests, emptied before each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.targets import targets
from tests.control_plane.access import Access
from tests.control_plane.fixtures import programs, pytest_collection_finish, pytest_runtest_makereport
from tests.e2e.hub import Hub, fresh_access

FOLDER: Final = Path(__file__).parent
__all__ = ["programs", "pytest_collection_finish", "pytest_runtest_makereport"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only tests are timed here: the first one of a worker starts a hub, which has a deadline of its own."""
    for item in items:
        if item.path.parent == FOLDER and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(func_only=True))


@pytest.fixture(scope="session", params=targets())
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def access(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A hub for the tests of this worker: member clusters have no namespace, so workers cannot share one."""
    with fresh_access(target, tmp_path_factory.mktemp(f"e2e-{target}") / "hub") as access:
        yield access


@pytest.fixture
def hub(target: str, access: Access) -> Hub:
    """Without anything of Fleet's on it."""
    found = Hub(target, access)
    found.empty()
    return found
