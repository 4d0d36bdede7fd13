"""Data sets and images that a placement's copy on a cluster reads, by name, with their sizes in bytes.

As text they read `models=40Gi,base=2Gi`. A cluster says how much of one it has in the property
`locality.fleet.dev/<name>`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from fleet.framework.policy.resource_requests import split_requests
from fleet.model.labels import is_qualified_name
from fleet.model.quantity import parse_quantity, quantity_or_none

PRESENT_PROPERTY: Final = "locality.fleet.dev/"
"""Of a cluster, followed by the name of a data set: how many bytes of it are there."""
MOST_DATA_SETS: Final = 16
_LARGEST: Final = 2**60


def parse_locality(text: str) -> Mapping[str, int]:
    """In bytes. Nothing for a text with problems: such a placement is refused."""
    sizes = split_requests(text)
    return {} if any(find_locality_problems(sizes)) else {name: _read_size(sizes[name]) for name in sizes}


def find_locality_problems(sizes: Mapping[str, str | int | float]) -> Iterator[str]:
    if len(sizes) > MOST_DATA_SETS:
        yield f"{len(sizes)} data sets are more than {MOST_DATA_SETS}: list the largest"
    for name, text in sizes.items():
        if "/" in name or not is_qualified_name(name):
            yield f"{name!r} is no name of a data set: use letters, digits, dashes, dots and underscores"
            continue
        exact = quantity_or_none(text)
        if exact is None:
            yield f"{text!r} is no size for {name}: write {name}=40Gi"
        elif exact <= 0:
            yield f"{text} for {name} is no size: write more than 0"
        elif exact > _LARGEST:
            yield f"{text} for {name} is more than any cluster has"


def _read_size(text: str | int | float) -> int:
    return math.ceil(parse_quantity(text))
