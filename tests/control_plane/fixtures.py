"""The fixtures that give a test a real control plane, and the server's log with the report of a failed test.

A conftest imports all names of `__all__`; they work where they are imported.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.control_plane.access import Access
from tests.control_plane.assets import assets
from tests.control_plane.cluster import PROGRAMS, ClearedCluster, Cluster
from tests.control_plane.failures import AssetsUnavailable
from tests.control_plane.process import end_of
from tests.control_plane.sharing import shared_control_plane

__all__ = [
    "cluster",
    "cluster_programs",
    "clusters",
    "control_plane",
    "programs",
    "pytest_collection_finish",
    "pytest_runtest_makereport",
]

_BUILT_FOR: Final = {"programs": (), "cluster_programs": PROGRAMS}
"""By fixture, the programs it needs beside the usual ones."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the programs if a test will ask for them: that takes longer than a test may."""
    needed = [item for item in session.items if item.get_closest_marker("servers")]
    asked_for = {name for item in needed for name in _fixtures(item)} & _BUILT_FOR.keys()
    if session.config.option.collectonly or not needed:
        return
    try:
        with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            assets(*{program for name in asked_for for program in _BUILT_FOR[name]})
    except AssetsUnavailable as failure:
        raise pytest.UsageError(str(failure)) from failure


def _fixtures(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder with etcd, kube-apiserver and kubectl."""
    return assets()


@pytest.fixture(scope="session")
def control_plane(programs: Path, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Access]:
    """The control plane that all workers share. Use names of your own, and leave it running."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "control-plane"
    with shared_control_plane(folder, programs=programs) as access:
        yield access


@pytest.fixture(scope="session")
def cluster_programs() -> Path:
    """The same folder, with what a cluster and an installation need besides."""
    return assets(*PROGRAMS)


@pytest.fixture(scope="package")
def clusters(cluster_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClearedCluster]:
    """For tests that need several clusters, one after the other."""
    with ClearedCluster(lambda: Cluster(tmp_path_factory.mktemp("cluster"), programs=cluster_programs)) as clusters:
        yield clusters


@pytest.fixture(scope="module")
def cluster(clusters: ClearedCluster) -> Cluster:
    """A cluster that pretends to run pods, with nothing in it of the tests of other modules."""
    return clusters.cleared()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for log in sorted(set(_logs(item))):
            text = end_of(log)
            if text:
                report.sections.append((f"End of {log.name}", text))
    return report


def _logs(item: pytest.Item) -> Iterator[Path]:
    """The logs of the servers the test was given: any argument that is an Access or has one."""
    for value in getattr(item, "funcargs", {}).values():
        access = getattr(value, "access", value)
        if isinstance(access, Access) and access.log:
            yield access.log
