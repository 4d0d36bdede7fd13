"""Upgrade and downgrade: the data directory of `fleet up` as older versions left it, with three clusters.

The folder `states` has one for each older revision of the history, written by the last version with that revision.
"""

from __future__ import annotations

import json
import lzma
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from fleet import __version__
from fleet.cli.commands.serve.migrate import run_migrate
from fleet.history.storage.schema import REVISIONS
from tests.unit.cli.test_up import CLUSTERS, PLACEMENTS, running, uids

ROOT: Final = Path(__file__).resolve().parents[2]
HUB_REVISION: Final = "0001"
STATES: Final = Path(__file__).parent / "states"
OLDER: Final = tuple(sorted(each.name[8:12] for each in STATES.glob("history-*.sqlite.xz")))
BINDINGS: Final = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcebindings"


@pytest.fixture(params=OLDER)
def revision(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def data(tmp_path: Path, revision: str) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("hub", "history"):
        content = lzma.decompress((STATES / f"{name}-{revision}.sqlite.xz").read_bytes())
        (folder / f"{name}.sqlite").write_bytes(content)
    return folder


def query(file: Path, text: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(text).fetchall()


def list_stored(data: Path, resource: str) -> set[str]:
    """The uids of the objects of a kind."""
    bodies = query(data / "hub.sqlite", f"SELECT body FROM objects WHERE resource LIKE '{resource}.%'")
    return {json.loads(body)["metadata"]["uid"] for (body,) in bodies}


def list_attempts(data: Path) -> set[tuple[Any, ...]]:
    return set(query(data / "history.sqlite", "SELECT id, key, number, outcome FROM attempts"))


def describe_tables(data: Path) -> dict[str, list[tuple[Any, ...]]]:
    names = [row[0] for row in query(data / "history.sqlite", "SELECT name FROM sqlite_master WHERE type = 'table'")]
    columns = "SELECT name, type, [notnull], pk FROM pragma_table_info('{}') ORDER BY name"
    return {name: query(data / "history.sqlite", columns.format(name)) for name in names}


def migrate(data: Path, to: str = REVISIONS[-1]) -> int:
    url = f"sqlite:///{data / 'history.sqlite'}"
    return run_migrate(url=url, to=to, unless_newer=False, config=None, settings=())


def test_there_is_a_state_of_every_older_revision_that_a_version_had() -> None:
    """The first two came with one version."""
    assert REVISIONS[1:-1] == OLDER


def test_the_page_about_upgrades_names_the_revisions_of_this_version() -> None:
    page = (ROOT / "docs/upgrade.md").read_text(encoding="utf-8")
    assert f"| {__version__.rpartition('.')[0]} | {REVISIONS[-1]} | {HUB_REVISION} |" in page
    assert all(f"| {older} | {HUB_REVISION} |" in page for older in OLDER)


@pytest.mark.servers  # it starts a whole fleet
def test_an_upgrade_keeps_placements_bindings_and_what_was_decided(
    data: Path, revision: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clusters, placements, bindings = (
        list_stored(data, kind) for kind in ("memberclusters", "clusterresourceplacements", "clusterresourcebindings")
    )
    decided = list_attempts(data)
    assert bindings
    assert decided
    assert migrate(data) == 0
    assert capsys.readouterr().out == f"the history was migrated from {revision} to {REVISIONS[-1]}\n"
    with running(tmp_path, f"--data-dir={data}") as upgraded:
        assert uids(upgraded.items(CLUSTERS)) == clusters
        assert uids(upgraded.items(PLACEMENTS)) == placements
        assert uids(upgraded.items(BINDINGS)) == bindings
        assert upgraded.end(signal.SIGTERM) == 0
        assert "Traceback" not in upgraded.output.read_text()
    assert list_attempts(data) >= decided


def test_a_downgrade_gives_the_older_version_its_tables_and_attempts(
    data: Path, revision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, decided = describe_tables(data), list_attempts(data)
    migrate(data)
    assert describe_tables(data) != tables
    assert migrate(data, revision) == 0
    assert f"the history was migrated from {REVISIONS[-1]} to {revision}\n" in capsys.readouterr().out
    assert describe_tables(data) == tables
    assert list_attempts(data) == decided
    assert query(data / "hub.sqlite", "SELECT version_num FROM alembic_version") == [(HUB_REVISION,)]
