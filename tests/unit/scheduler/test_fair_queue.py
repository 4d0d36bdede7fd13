"""Whose call is sent next, where several placements have some."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduler.dispatch.call_queue import QUANTUM, FairQueue


def a_line(*owners: str) -> FairQueue:
    """Entered in this order. Keys name the owner and say which of its calls it is."""
    line, counts = FairQueue(), dict.fromkeys(owners, 0)
    for ticket, owner in enumerate(owners):
        line.push(owner, ticket=ticket, key=f"{owner}{counts[owner]}")
        counts[owner] += 1
    return line


def keys(line: FairQueue, *, without: str = "") -> list[str]:
    """In the order in which they are taken; those with this beginning turn out to be withdrawn."""
    taken = []
    while key := line.pop(lambda _, key: None if without and key.startswith(without) else key):
        taken.append(key)
    return taken


def test_a_usual_placement_is_through_before_the_next_begins() -> None:
    assert keys(a_line(*"abab")) == ["a0", "a1", "b0", "b1"]


def test_a_large_one_lets_others_go_first_after_its_turn() -> None:
    taken = keys(a_line(*["a"] * (2 * QUANTUM + 1), "b", "c"))

    assert taken[:QUANTUM] == [f"a{number}" for number in range(QUANTUM)]
    assert taken[QUANTUM : QUANTUM + 2] == ["b0", "c0"]
    assert taken[QUANTUM + 2 :] == [f"a{number}" for number in range(QUANTUM, 2 * QUANTUM + 1)]


def test_a_turn_begins_anew_for_everybody() -> None:
    """What the one before did not use is nobody's."""
    taken = keys(a_line("a", *["b"] * (QUANTUM + 1), "c"))

    assert taken == ["a0", *(f"b{number}" for number in range(QUANTUM)), "c0", f"b{QUANTUM}"]


def test_of_one_placement_the_lowest_ticket_goes_first_whenever_it_came() -> None:
    line = a_line("a", "a")
    line.push("a", ticket=-1, key="inherited")

    assert keys(line) == ["inherited", "a0", "a1"]


def test_calls_that_are_not_wanted_any_more_do_not_count() -> None:
    line = a_line(*["a"] * (QUANTUM + 1), "b")
    for number in range(QUANTUM):
        line.push("a", ticket=-1, key=f"withdrawn{number}")

    assert keys(line, without="withdrawn")[: QUANTUM + 1] == [*(f"a{number}" for number in range(QUANTUM)), "b0"]


def test_a_placement_of_which_nothing_is_left_is_passed_over() -> None:
    assert keys(a_line(*"aab"), without="a") == ["b0"]


@given(st.lists(st.sampled_from("abc"), max_size=4 * QUANTUM))
def test_everybody_is_taken_once_and_in_the_own_order(owners: list[str]) -> None:
    taken = keys(a_line(*owners))

    assert len(taken) == len(set(taken)) == len(owners)
    for owner in "abc":
        assert [key for key in taken if key[0] == owner] == [f"{owner}{n}" for n in range(owners.count(owner))]
