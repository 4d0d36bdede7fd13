"""`fleet migrate`: what it says, and how it ends."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fleet.cli.commands.serve.migrate import run_migrate
from fleet.errors import ConfigurationError
from migrations.history import versions

NEWEST = max(file.name.partition("_")[0] for file in Path(versions.__file__).parent.glob("0*.py"))


def migrated(
    url: str | None = None, *, to: str = "", unless_newer: bool = False, settings: tuple[str, ...] = ()
) -> int:
    return run_migrate(url=url, to=to, unless_newer=unless_newer, config=None, settings=settings)


def test_it_says_from_where_to_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    assert [migrated(url), migrated(url), migrated(url, to="base")] == [0, 0, 0]
    assert capsys.readouterr().out.splitlines() == [
        f"the history was migrated from base to {NEWEST}",
        f"the history is already at {NEWEST}",
        f"the history was migrated from {NEWEST} to base",
    ]


def test_the_database_may_come_from_the_settings(tmp_path: Path) -> None:
    assert migrated(settings=(f"history.url=sqlite:///{tmp_path / 'from-settings.sqlite'}",)) == 0
    assert (tmp_path / "from-settings.sqlite").exists()


def test_without_a_database_it_says_where_to_name_one() -> None:
    with pytest.raises(ConfigurationError, match=r"set --url or history\.url"):
        migrated()


def test_a_database_that_cannot_be_reached_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert migrated("postgresql://fleet@127.0.0.1:1/history") == 1
    assert "error: the history postgresql://fleet@127.0.0.1:1/history cannot be migrated" in capsys.readouterr().err


def test_a_newer_schema_is_a_failure_unless_it_is_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "history.sqlite"
    migrated(f"sqlite:///{file}")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE history_version SET version_num = '9999'")

    with pytest.raises(ConfigurationError, match="9999"):
        migrated(f"sqlite:///{file}")
    assert migrated(f"sqlite:///{file}", unless_newer=True) == 0
    assert capsys.readouterr().err.startswith("warning: the history sqlite:///")
