from __future__ import annotations

from tests.control_plane.fixtures import (
    cluster,
    cluster_programs,
    clusters,
    control_plane,
    programs,
    pytest_collection_finish,
    pytest_runtest_makereport,
)

__all__ = [
    "cluster",
    "cluster_programs",
    "clusters",
    "control_plane",
    "programs",
    "pytest_collection_finish",
    "pytest_runtest_makereport",
]
