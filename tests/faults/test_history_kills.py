"""A process killed while it records leaves a whole history: every attempt with all that belongs to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
import sqlalchemy as sql

from fleet.history import History, PartState, migrate
from fleet.history.storage.database import HistoryDatabase
from tests.control_plane.waiting import soon
from tests.databases import database, postgres, url

pytestmark = pytest.mark.servers  # processes that are killed again and again

__all__ = ["database", "postgres", "url"]

ROOT: Final = Path(__file__).resolve().parents[2]
ROUNDS: Final = (1, 4, 9)
"""After how many reports of progress the process is killed, in the rounds of one history."""
MOST: Final = 300
"""Attempts of a round. Whoever kills may be late, and all rounds together have to fit on a page of the history."""

PROGRAM: Final = """
import signal, sys
from fleet.history.retention import RetentionLimits
from tests.databases import recording
from tests.unit.history.sources import Fleet, an_attempt

url, run, most, *keeps_house = sys.argv[1:]
few = RetentionLimits(per_placement=3, columns_per_placement=2, max_attempts=12)
with recording(url, limits=few if keeps_house else None) as history:
    fleet = Fleet(a="a")
    for number in range(int(most)):
        name = f"{run}-{number}"
        fleet.change(**{"a": name, f"c{number % 10}": name if number % 3 else None})
        offered = an_attempt(f"p{number % 7}").on(fleet, bindings=[name.encode()]).judged().choosing("a")
        history.offer(offered.renamed(name))
        if number % 5 == 0:
            history.flush(seconds=90)
            print(number, flush=True)
            if keeps_house:
                history.run_retention()
    signal.pause()
"""
"""Records and waits for its death; with another argument it keeps little and removes the rest."""


def record_and_die(url: str, name: str, *, after: int, keeps_house: bool = False) -> int:
    """Returns the number of the last attempt that is certain to be written."""
    command = [sys.executable, "-c", PROGRAM, url, name, str(MOST), *(["keep house"] if keeps_house else [])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        last = 0
        for _ in range(after):
            last = int(process.stdout.readline())
        process.kill()
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            soon(lambda: is_alone(connection))
    return last


def is_alone(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server has noticed that nobody else is there: until then it carries out what it was sent."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    return connection.execute(others).fetchone() == (0,)


@pytest.mark.timeout(300)
def test_a_history_survives_the_death_of_who_writes_it(url: str, database: str) -> None:
    migrate(url)
    written = {f"r{round_}": record_and_die(url, f"r{round_}", after=after) for round_, after in enumerate(ROUNDS)}
    history = History.open(url)
    try:
        attempts = history.since(0, limit=1000)
        assert [one.seq for one in attempts] == list(range(1, len(attempts) + 1))
        for name, last in written.items():
            found = [one.id for one in attempts if one.id.startswith(name)]
            assert found == [f"{name}-{number}" for number in range(len(found))]
            assert len(found) > last
        for one in attempts:
            recorded, columns = history.inputs(one.id), history.columns(one.id)
            assert (one.inputs, one.columns) == (PartState.KEPT, PartState.KEPT)
            assert recorded is not None
            assert columns is not None
            assert recorded.clusters[0] == recorded.bindings[0] == one.id.encode()
            assert [target.cluster for target in one.targets] == ["a"]
        placements = {one.key: one for one in history.placements()}
        assert {key: one.newest for key, one in placements.items()} == {one.key: one.seq for one in attempts}
        assert sum(one.attempts for one in placements.values()) == len(attempts)
    finally:
        history.close()
    if database == "sqlite":
        check_the_file(url)


@pytest.mark.timeout(300)
def test_a_death_while_old_attempts_are_removed_leaves_the_others_whole(url: str, database: str) -> None:
    migrate(url)
    for round_, after in enumerate(ROUNDS):
        record_and_die(url, f"r{round_}", after=after, keeps_house=True)
    history = History.open(url)
    try:
        kept = {one.seq: one for one in history.since(0, limit=1000)}
        placements = history.placements()
        assert {one.key for one in placements} == {f"p{number}" for number in range(7)}
        assert all(kept[one.newest].key == one.key for one in placements)
        for one in kept.values():
            recorded = history.inputs(one.id)
            assert recorded is not None
            assert recorded.clusters[0] == recorded.bindings[0] == one.id.encode()
            assert (history.columns(one.id) is None) == (one.columns is PartState.EXPIRED)
            assert [target.cluster for target in one.targets] == ["a"]
    finally:
        history.close()
    if database == "sqlite":
        check_the_file(url)


def check_the_file(url: str) -> None:
    file = HistoryDatabase(url)
    with file.reading() as connection:
        assert connection.execute(sql.text("PRAGMA integrity_check")).scalars().all() == ["ok"]
    file.close()
