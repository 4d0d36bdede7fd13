"""What the tree of errors offers beside its classes."""

from __future__ import annotations

import pytest

from fleet.errors import find_first_error

LOST, WRONG = KeyError("lost"), ValueError("wrong")


@pytest.mark.parametrize(
    "group",
    [
        BaseExceptionGroup("alone", [LOST]),
        BaseExceptionGroup("first", [LOST, WRONG]),
        BaseExceptionGroup("far inside", [BaseExceptionGroup("", [BaseExceptionGroup("", [LOST])]), WRONG]),
    ],
    ids=lambda group: group.message,
)
def test_the_first_error_of_a_group_is_told_without_the_groups_around_it(
    group: BaseExceptionGroup[BaseException],
) -> None:
    assert find_first_error(group) is LOST
