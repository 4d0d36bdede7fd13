"""Which hubs the suite runs against."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Final

REAL: Final = "real"
EMBEDDED: Final = "embedded"
VARIABLE: Final = "TARGET"


def targets() -> list[str]:
    """TARGET names one, or both; both is the default. Only hubs that exist are tested."""
    chosen = os.environ.get(VARIABLE) or "both"
    known = [EMBEDDED, REAL] if _is_there("fleet.hub.__main__") else [REAL]
    if chosen == "both":
        return known
    if chosen not in known:
        raise ValueError(f"{VARIABLE} is {chosen}: choose one of {', '.join(known)}, or both")
    return [chosen]


def _is_there(module: str) -> bool:
    package = module.rpartition(".")[0]
    return find_spec(package) is not None and find_spec(module) is not None
