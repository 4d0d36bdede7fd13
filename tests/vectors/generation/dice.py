"""Random choices with names."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice(random.Random):
    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def weighed(self, weights: Mapping[T, float]) -> T:
        return self.choices(list(weights), weights=list(weights.values()))[0]

    def some(self, items: Sequence[T], *, least: int = 0, most: int | None = None) -> list[T]:
        """That many different items, in random order."""
        greatest = len(items) if most is None else min(most, len(items))
        return self.sample(items, self.randint(min(least, greatest), greatest))
