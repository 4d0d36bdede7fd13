"""The product decides every random scenario exactly as the oracle does, explanations included.

A failure names seeds: `random_scenario(seed)` rebuilds the scenario.
"""

from __future__ import annotations

import pytest

from tests.oracle.reference import decide_scenario
from tests.strategies import random_scenario
from tests.tiers import in_tiers
from tests.vectors.comparison import Difference, compare_explanations, compare_outcomes
from tests.vectors.runner import ENGINES, engine_named

if "fleet" not in ENGINES:
    pytest.skip("the product is no engine of the vectors yet", allow_module_level=True)

BLOCKS = 20
IN_MEMORY = 8
"""Blocks of `make test`; the others run with the servers."""
SEEDS = {"normal": 2_000, "long": 20_000}
SHOWN = 5


def differences(seed: int) -> list[Difference]:
    scenario = random_scenario(seed)
    want, got = decide_scenario(scenario), engine_named("fleet")(scenario)
    return compare_outcomes(want, got) + compare_explanations(want, got)


@pytest.mark.parametrize("block", in_tiers(BLOCKS, IN_MEMORY))
def test_the_product_agrees_with_the_oracle(block: int, *, long: bool) -> None:
    size = SEEDS["long" if long else "normal"] // BLOCKS

    found = {seed: differences(seed) for seed in range(block * size, (block + 1) * size)}

    wrong = {seed: [str(each) for each in several[:SHOWN]] for seed, several in found.items() if several}
    assert not wrong, "\n".join(f"seed {seed}: {each}" for seed, several in wrong.items() for each in several)
