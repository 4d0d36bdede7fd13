"""Inputs for tests that need many: whole scenarios from a seed.

Scenarios come from `random.Random(seed)` and not from Hypothesis, so that tens of thousands are affordable. A failing
one is named by its seed and can be rebuilt anywhere: `random_scenario(seed)`.
"""

from __future__ import annotations

from tests.vectors.generation.scenarios import random_scenario

__all__ = ["random_scenario"]
