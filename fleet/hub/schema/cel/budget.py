"""The cost that the rules of one request may have.

The API server estimates a cost per call. The library has no estimates: it bounds the iterations of one evaluation, and
the budget below bounds the processor time of all evaluations of a request, which cannot be interrupted otherwise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

MOST_SECONDS: Final = 2.0
"""Processor time of this thread: waiting for a busy machine does not count."""
SPENT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class _RuleBudget(threading.local):
    """Of the request that this thread validates; validation never yields to another request."""

    def __init__(self) -> None:
        self.clock: Callable[[], float] = time.thread_time
        self._until = float("inf")
        self.is_spent = False

    def start(self) -> None:
        self._until, self.is_spent = self.clock() + MOST_SECONDS, False

    def check(self) -> bool:
        """Whether another rule may be evaluated."""
        self.is_spent = self.is_spent or self.clock() > self._until
        return not self.is_spent

    def charge(self) -> None:
        """Called by functions that the library cannot interrupt; ends the evaluation when the budget is spent."""
        if not self.check():
            raise ValueError(SPENT)


BUDGET: Final = _RuleBudget()
