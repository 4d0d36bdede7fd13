"""A cluster to install into, and a release that is not there yet."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.chart.helm import helm
from tests.chart.release import CHART, DEFINITIONS, Release, make_restricted, provide_volume
from tests.conformance.crds import is_established
from tests.control_plane.cluster import ClearedCluster
from tests.control_plane.fixtures import (
    cluster,
    cluster_programs,
    clusters,
    pytest_collection_finish,
    pytest_runtest_makereport,
)
from tests.control_plane.http_client import HttpClient
from tests.control_plane.waiting import soon
from tests.postgres import postgres

__all__ = [
    "cluster",
    "cluster_programs",
    "clusters",
    "helm",
    "postgres",
    "pytest_collection_finish",
    "pytest_runtest_makereport",
]

FOLDER: Final = Path(__file__).parent
SECONDS: Final = 600
"""For a cluster, which the first test of a module starts, and for Helm, which waits a minute or more if it has to."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == FOLDER and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(scope="session")
def small_chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart with two of its definitions: there are many, and to make and forget them takes its time."""
    chart = tmp_path_factory.mktemp("small") / "fleet"
    shutil.copytree(CHART, chart)
    for file in chart.glob("files/crds/*.yaml"):
        if not file.stem.endswith(("_clusterresourceplacements", "_memberclusters")):
            file.unlink()
    return chart


@pytest.fixture
def release(clusters: ClearedCluster, small_chart: Path, tmp_path: Path) -> Release:
    """On a hub that knows nothing of Fleet."""
    found = Release(clusters.cleared().access, tmp_path, chart=small_chart)
    make_restricted(found.hub, found.namespace)
    provide_volume(found.hub, "history")
    return found


def settle(hub: HttpClient) -> None:
    """Until the objects of every kind can be listed. To delete a kind that was made a moment ago, the API server lists
    them too early, and after that failure may not look at the kind again for minutes."""
    for one in hub.get(DEFINITIONS).ok()["items"]:
        if is_established(one):
            soon(partial(is_listed, hub, objects_of(one)))


def objects_of(definition: dict[str, Any]) -> str:
    spec = definition["spec"]
    (stored,) = (version["name"] for version in spec["versions"] if version["storage"])
    return f"/apis/{spec['group']}/{stored}/{spec['names']['plural']}"


def is_listed(hub: HttpClient, collection: str) -> bool:
    return hub.get(collection).status == 200
