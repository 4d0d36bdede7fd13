"""Parts of a test that is too long for `make test`: the first run there, the others beside the servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet


def in_tiers(parts: int, first: int) -> list[int | ParameterSet]:
    return [part if part < first else pytest.param(part, marks=pytest.mark.servers) for part in range(parts)]
