"""Attempts that changed nothing are a number on the record before them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from fleet.history import History
from tests.builders import NOW
from tests.databases import OpenHistory
from tests.unit.history.sources import Fleet, Offered, an_attempt, keep


def repeats(history: History, key: str = "web") -> list[int]:
    return [one.repeats for one in reversed(history.attempts(key))]


def quiet(digest: str = "same") -> Offered:
    return an_attempt().unchanged().decided(digest)


def test_a_repetition_raises_the_count_and_the_time(history: History) -> None:
    keep(history, quiet().at(NOW), quiet().at(NOW + 1), quiet().at(NOW + 2))
    (found,) = history.attempts("web")
    assert (found.repeats, found.started, found.last_at) == (2, NOW, NOW + 2)
    assert history.counts().folded == 2


def test_repetitions_fold_over_several_transactions(history: History) -> None:
    for _ in range(3):
        keep(history, quiet(), quiet())
    assert repeats(history) == [5]


def test_repetitions_fold_over_a_restart(open_history: OpenHistory) -> None:
    first = open_history()
    keep(first, quiet())
    first.close()
    second = open_history()
    keep(second, quiet())
    assert repeats(second) == [1]


def test_an_attempt_that_wrote_something_is_kept_even_if_it_decided_the_same(history: History) -> None:
    keep(history, an_attempt().decided("same"), an_attempt().decided("same"))
    assert repeats(history) == [0, 0]


def test_the_quiet_attempt_after_a_loud_one_of_the_same_digest_is_folded_into_it(history: History) -> None:
    keep(history, an_attempt().decided("same"), quiet())
    assert repeats(history) == [1]


@pytest.mark.parametrize(
    "other",
    [
        quiet("other"),
        Offered(msgspec.structs.replace(quiet().told, ending="Short")),
        Offered(msgspec.structs.replace(quiet().told, error="Unavailable: 503")),
        Offered(msgspec.structs.replace(quiet().told, config_hash="c1")),
        Offered(msgspec.structs.replace(quiet().told, generation=8)),
        quiet().of("web", uid="another"),
    ],
    ids=["digest", "ending", "error", "configuration", "generation", "placement made anew"],
)
def test_what_differs_is_not_folded(history: History, other: Offered) -> None:
    again = replace(other, told=msgspec.structs.replace(other.told, id=f"{other.told.id}-{id(history)}"))
    keep(history, quiet(), again)
    assert repeats(history) == [0, 0]


def test_only_the_newest_record_is_folded_into(history: History) -> None:
    keep(history, quiet("a"), quiet("b"), quiet("a"))
    assert repeats(history) == [0, 0, 0]


def test_folded_attempts_count_in_the_numbers(history: History) -> None:
    keep(history, quiet("a"), quiet("a"), quiet("a"), quiet("b"))
    assert [one.number for one in history.attempts("web")] == [4, 1]
    placement = history.placement("web")
    assert placement is not None
    assert placement.attempts == 4


def test_any_number_finds_the_record_that_tells_of_it(history: History) -> None:
    keep(history, quiet("a"), quiet("a"), quiet("b"))
    found = [history.find_by_number("web", number) for number in (1, 2, 3, 4)]
    assert [one and one.digest for one in found] == ["a", "a", "b", None]


def test_a_folded_attempt_adds_nothing_to_the_journal(history: History) -> None:
    fleet = Fleet(a="{}")
    keep(history, quiet().on(fleet))
    size = history.size()
    fleet.change(a='{"changed":1}')
    keep(history, quiet().on(fleet))
    assert history.size() == size
