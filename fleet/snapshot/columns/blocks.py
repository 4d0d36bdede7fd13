"""One Python object per row, shared between frames in blocks: changing a row copies a block and not the fleet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_BITS: Final = 7
_BLOCK: Final = 1 << _BITS
_MASK: Final = _BLOCK - 1


class Blocks(Generic[T]):
    """A persistent list: `put` and `grow` return a new one and leave the old one as it was."""

    __slots__ = ("_blocks", "size")

    def __init__(self, items: Iterable[T]) -> None:
        flat = tuple(items)
        self.size = len(flat)
        self._blocks = [flat[start : start + _BLOCK] for start in range(0, len(flat), _BLOCK)]

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, row: int) -> T:
        return self._blocks[row >> _BITS][row & _MASK]

    def __iter__(self) -> Iterator[T]:
        for block in self._blocks:
            yield from block

    def put(self, row: int, item: T) -> Blocks[T]:
        changed: Blocks[T] = Blocks.__new__(Blocks)
        changed.size = self.size
        changed._blocks = self._blocks.copy()
        block, place = row >> _BITS, row & _MASK
        old = changed._blocks[block]
        changed._blocks[block] = (*old[:place], item, *old[place + 1 :])
        return changed

    def grow(self, size: int, fill: T) -> Blocks[T]:
        return Blocks((*self, *([fill] * (size - self.size))))

    def changed_since(self, earlier: Blocks[T]) -> Iterator[int]:
        """Rows that hold another object than they did, and rows that were not there; in ascending order."""
        for number, block in enumerate(self._blocks):
            before = earlier._blocks[number] if number < len(earlier._blocks) else ()
            if block is not before:
                start = number << _BITS
                for place, item in enumerate(block):
                    if place >= len(before) or item is not before[place]:
                        yield start + place
