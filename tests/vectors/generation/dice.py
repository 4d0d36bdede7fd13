"""Random choices with names."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Generic, TypeVar

T = TypeVar("T")


class Weights(Generic[T]):
    """To draw by more than once."""

    def __init__(self, weights: Mapping[T, float]) -> None:
        self.items = list(weights)
        self.steps = list(accumulate(weights.values()))


class Dice(random.Random):
    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def weighed(self, weights: Mapping[T, float]) -> T:
        """One of `choices`, which takes twice as long for a single one."""
        return self.one_of(Weights(weights))

    def one_of(self, weights: Weights[T]) -> T:
        steps = weights.steps
        return weights.items[bisect(steps, self.random() * steps[-1], 0, len(steps) - 1)]

    def some(self, items: Sequence[T], *, least: int = 0, most: int | None = None) -> list[T]:
        """That many different items, in random order."""
        greatest = len(items) if most is None else min(most, len(items))
        return self.sample(items, self.randint(min(least, greatest), greatest))
