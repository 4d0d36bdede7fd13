"""The recorded attempt that explains the present state of a placement."""

from __future__ import annotations

from typing import Any

from api.services.decisions.attempts import find_explaining_attempt
from fleet.history import HistoryAttempt, PartState
from fleet.history.entries import SnapshotReference

POLICY = SnapshotReference(name="web-0", uid="u", generation=1)
OTHER_POLICY = SnapshotReference(name="web-1", uid="v", generation=1)


def an_attempt(outcome: str, *, wanted: int = 2, active: int = 2, **more: Any) -> HistoryAttempt:
    given: dict[str, Any] = {"snapshot": POLICY, "inputs": PartState.KEPT, "fulfilled": active >= wanted} | more
    return HistoryAttempt(
        id=outcome, key="web", started=1, ending="", outcome=outcome, wanted=wanted, active=active, **given
    )


def explain(*attempts: HistoryAttempt) -> HistoryAttempt | None:
    """Of attempts, the oldest first."""
    return find_explaining_attempt(list(reversed(attempts)))


def test_without_a_decision_nothing_tells() -> None:
    assert explain() is None
    assert explain(an_attempt("")) is None


def test_the_newest_decision_tells() -> None:
    first, second = an_attempt("Partial", active=1), an_attempt("Selected")

    assert explain(first, second) is second


def test_an_attempt_that_found_everything_in_place_leaves_it_to_the_one_that_chose() -> None:
    chose = an_attempt("Selected")

    assert explain(chose, an_attempt("Unchanged"), an_attempt("Unchanged")) is chose


def test_an_attempt_that_ended_before_a_decision_is_passed_over() -> None:
    chose = an_attempt("Selected")

    assert explain(chose, an_attempt("Error", active=0), an_attempt("Unchanged")) is chose


def test_what_was_given_up_is_not_told_as_chosen() -> None:
    """As many are wanted as when it chose, but which of more were kept, it cannot know."""
    newest = an_attempt("Unchanged")

    assert (
        explain(an_attempt("Selected"), an_attempt("Selected", wanted=4, active=4), an_attempt("Shrink"), newest)
        is newest
    )


def test_a_choice_of_other_size_or_for_another_policy_does_not_tell() -> None:
    newest = an_attempt("Unchanged")

    assert explain(an_attempt("Partial", wanted=5), newest) is newest
    assert explain(an_attempt("Selected", active=3), newest) is newest
    assert explain(an_attempt("Selected", snapshot=OTHER_POLICY), newest) is newest


def test_a_choice_that_cannot_be_made_again_does_not_tell() -> None:
    newest = an_attempt("Unchanged")

    assert explain(an_attempt("Selected", inputs=PartState.SHED), newest) is newest
