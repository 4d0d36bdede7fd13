"""Limits of the selected workloads, in the form of needs, so that overrides and nodes count as for requests.

`cpu` and `memory` are limits, or requests where there is no limit. The other names say what the use of cpu is expected
from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final, TypeVar

from fleet.snapshot.sidedata import CpuUse

LIMITED_RESOURCES: Final = ("cpu", "memory")
LIMITED: Final = "cpu-limited"
"""Thousandths."""
UNSIZED: Final = "cpu-unsized"
"""Containers."""
_REQUESTED: Final = "cpu-requested/"
"""Followed by the request of containers without a limit, in thousandths: how many there are."""
_MOST_SIZES: Final = 24
"""Further ones count as one container."""

Amount = TypeVar("Amount")


def name_size(thousandths: int) -> str:
    return f"{_REQUESTED}{thousandths}"


def list_sizes(amounts: Mapping[str, Amount]) -> Iterator[tuple[int, Amount]]:
    for name, count in amounts.items():
        size = name.removeprefix(_REQUESTED)
        if size != name and size.isdecimal():
            yield int(size), count


def merge_sizes(amounts: Mapping[str, Fraction | int]) -> dict[str, Fraction | int]:
    """With as many sizes as fit into a text; the commonest ones are kept apart."""
    sizes = sorted(list_sizes(amounts), key=lambda size: (-size[1], size))
    rest = sum(size * count for size, count in sizes[_MOST_SIZES:])
    merged = {name: count for name, count in amounts.items() if not name.startswith(_REQUESTED)}
    merged |= {name_size(size): count for size, count in sizes[:_MOST_SIZES]}
    if rest:
        merged[name_size(int(rest))] = merged.get(name_size(int(rest)), 0) + 1
    return merged


def read_cpu_use(amounts: Mapping[str, int]) -> CpuUse:
    return CpuUse(amounts.get(LIMITED, 0), tuple(list_sizes(amounts)), amounts.get(UNSIZED, 0))
