"""Pages, filters and cursors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fleet.history import History
from fleet.history.queries import Queries
from tests.builders import NOW
from tests.unit.history.sources import Fleet, an_attempt, ids, keep


def test_attempts_come_newest_first_and_page_by_page(history: History) -> None:
    offered = [an_attempt("web") for _ in range(5)]
    keep(history, an_attempt("db"), *offered)
    first = history.attempts("web", limit=2)
    second = history.attempts("web", before=(0, first[-1].seq), limit=2)
    third = history.attempts("web", before=(0, second[-1].seq), limit=2)
    assert [one.id for one in (*first, *second, *third)] == ids(*reversed(offered))


def test_followers_get_what_is_new_oldest_first(history: History) -> None:
    keep(history, an_attempt())
    seen = history.last_seq()
    later = [an_attempt("db"), an_attempt("web")]
    keep(history, *later)
    assert [one.id for one in history.since(seen)] == ids(*later)
    assert [one.id for one in history.since(seen, limit=1)] == ids(later[0])
    assert history.since(history.last_seq()) == []


def test_followers_may_ask_for_one_placement_or_outcome(history: History) -> None:
    web, short = an_attempt("web"), an_attempt("db").decided("d", outcome="Partial")
    keep(history, web, short)
    assert [one.id for one in history.since(0, key="web")] == ids(web)
    assert [one.id for one in history.since(0, outcome="Partial")] == ids(short)
    assert history.since(0, key="web", outcome="Partial") == []


def test_attempts_are_found_by_when_they_began(history: History) -> None:
    early, late = an_attempt().at(NOW), an_attempt().at(NOW + 100)
    keep(history, early, late)
    assert [one.id for one in history.started_since(NOW + 1)] == ids(late)
    assert [one.id for one in history.started_since(NOW)] == ids(early, late)


def test_the_latest_attempt_of_a_placement(history: History) -> None:
    older, newer = an_attempt(), an_attempt()
    keep(history, older, newer)
    latest = history.latest("web")
    assert latest is not None
    assert latest.id == newer.told.id
    assert history.latest("nobody") is None


def test_the_latest_attempts_of_many_placements_are_read_at_once(history: History) -> None:
    newer = {name: an_attempt(name) for name in ("db", "web")}
    keep(history, an_attempt("web"), *newer.values())
    entered = []

    @contextmanager
    def count() -> Iterator[None]:
        entered.append(1)
        yield

    queries = Queries(history._database, guard=count)
    latest = queries.list_latest({"web", "db", "nobody", *(f"p{number}" for number in range(900))})
    assert {key: attempt.id for key, attempt in latest.items()} == {key: one.told.id for key, one in newer.items()}
    assert len(entered) == 1


def test_placements_tell_how_they_are(history: History) -> None:
    keep(history, an_attempt("web").at(NOW), an_attempt("web").at(NOW + 5).decided("d", outcome="Partial"))
    (found,) = history.placements()
    assert (found.key, found.uid, found.attempts) == ("web", "uid-of-web", 2)
    assert (found.first_at, found.last_at, found.outcome) == (NOW, NOW + 5, "Partial")


def test_placements_come_page_by_page(history: History) -> None:
    keep(history, *(an_attempt(f"shop/p{number}") for number in range(5)), an_attempt("other"))
    first = history.placements(prefix="shop/", limit=3)
    second = history.placements(prefix="shop/", after=first[-1].key, limit=3)
    assert [one.key for one in (*first, *second)] == [f"shop/p{number}" for number in range(5)]


def test_a_prefix_is_taken_literally(history: History) -> None:
    keep(history, an_attempt("a_b"), an_attempt("axb"), an_attempt("a%"))
    assert [one.key for one in history.placements(prefix="a_")] == ["a_b"]


def test_a_placement_that_is_gone_is_listed_on_request_only(history: History) -> None:
    keep(history, an_attempt("web"), an_attempt("web").found_gone().at(NOW + 9))
    assert history.placements() == []
    (found,) = history.placements(deleted=True)
    assert (found.deleted_at, found.ending) == (NOW + 9, "Gone")


def test_a_placement_made_anew_is_listed_again(history: History) -> None:
    keep(history, an_attempt("web").found_gone(), an_attempt("web").of("web", uid="second"))
    (found,) = history.placements()
    assert (found.uid, found.deleted_at) == ("second", None)


def test_targets_are_found_by_cluster(history: History) -> None:
    one, two, other = an_attempt().choosing("c1", "c2"), an_attempt("db").choosing("c2"), an_attempt().choosing("c3")
    keep(history, one, two, other)
    found = history.targets_of("c2")
    assert [(attempt.id, target.rank) for attempt, target in found] == [(two.told.id, 1), (one.told.id, 2)]
    assert [attempt.id for attempt, _ in history.targets_of("c2", before=found[0][0].seq)] == ids(one)


def test_names_of_the_clusters_that_columns_are_about(history: History) -> None:

    told, nobody = an_attempt().on(Fleet(b='{"metadata":{"name":"b"}}', a='{"metadata":{"name":"a"}}')), an_attempt()
    keep(history, told.judged(), nobody)
    assert history.cluster_names(told.told.id) == ("a", "b")
    assert history.cluster_names(nobody.told.id) is None


@pytest.mark.parametrize("limit", [0, -1, 10**9])
def test_no_page_is_empty_or_endless(history: History, limit: int) -> None:
    keep(history, an_attempt())
    assert len(history.since(0, limit=limit)) == 1
