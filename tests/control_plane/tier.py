"""The two tiers of tests: what a bare machine with Python runs, and what needs real servers.

A test needs servers if it says so (`@pytest.mark.servers`), if it is in a folder that is about them, if one of its
fixtures starts one, or if it is the variant for the real API server or for PostgreSQL. Tests that keep processes busy
for long are marked, too. `make test` leaves these out; `make test-servers` runs nothing else. Of the conformance suite
`make test` runs what needs neither kubectl nor a restart, on the embedded hub: the same tests hold the real API server.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

import pytest

from tests.control_plane.assets import assets

_FOLDERS: Final = {"chart", "control_plane", "image", "ui"}
_FIXTURES: Final = {"programs", "cluster_programs", "postgres", "image"}
_VARIANTS: Final = {("target", "real"), ("database", "postgresql")}
_current: list[pytest.Item] = []


def is_left_out(folder: Path) -> bool:
    return folder.name in _FOLDERS and folder.parent.name == "tests"


def mark(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and _starts_servers(item):
            item.add_marker(pytest.mark.servers)


def _starts_servers(item: pytest.Function) -> bool:
    if item.path.parent.name in _FOLDERS:
        return True
    parameters = item.callspec.params.items() if hasattr(item, "callspec") else ()
    return not _FIXTURES.isdisjoint(item.fixturenames) or not _VARIANTS.isdisjoint(
        (name, value) for name, value in parameters if isinstance(value, str)
    )


def order(items: list[pytest.Item]) -> None:
    """For workers that take one module after the other: those first that share a cluster, and small ones last. Those
    marked `early` are spread among the first: most of their time they wait, and others keep the processor busy."""
    sizes = Counter(item.path for item in items)
    early = {item.path for item in items if item.get_closest_marker("early")}
    ranked = sorted(sizes, key=lambda path: (path.parent.name != "chart", -sizes[path]))
    turns = zip_longest(filter(early.__contains__, ranked), (path for path in ranked if path not in early))
    place = {path: number for number, path in enumerate(chain.from_iterable(turns))}
    items.sort(key=lambda item: place[item.path])


def enter(item: pytest.Item) -> None:
    _current[:] = [item]


def built_programs() -> Path:
    """For a test on the embedded hub that uses kubectl."""
    if _current and not _current[0].get_closest_marker("servers"):
        pytest.fail(f"{_current[0].nodeid} uses a program that `make test` does not build: mark it `servers`")
    return assets()
