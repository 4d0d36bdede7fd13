"""Sets of rows, as Python integers and as numpy arrays, and the ways between the two.

Bit *i* of the integer is row *i*. Integers make and, or, not and count cheap (one machine word per 30 rows, no
temporary arrays); arrays are for arithmetic. A negative integer is a complement and means "all other rows".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

Mask = int | BoolArray

_Scalar = TypeVar("_Scalar", bound=np.generic)


def all_rows(size: int) -> int:
    return (1 << size) - 1


def to_bools(bits: int, size: int) -> BoolArray:
    raw = np.frombuffer(bits.to_bytes((size + 7) >> 3, "little"), dtype=np.uint8)
    return np.unpackbits(raw, count=size, bitorder="little").view(np.bool_)


def from_bools(mask: BoolArray) -> int:
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def to_rows(bits: int, size: int) -> Rows:
    return np.flatnonzero(to_bools(bits, size))


def from_rows(rows: Iterable[int]) -> int:
    bits = 0
    for row in rows:
        bits |= 1 << row
    return bits


def each_row(bits: int) -> Iterator[int]:
    """Rows of a small set in ascending order, without an array."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def as_bits(mask: Mask, valid: int) -> int:
    """Any mask as an integer within `valid`."""
    return (mask if isinstance(mask, int) else from_bools(mask)) & valid


def split_by_count(sets: Iterable[int], rows: int) -> list[int]:
    """`rows` divided by how many of the sets a row is in: position n holds the rows that are in exactly n."""
    digits: list[int] = []  # digit n of the count of every row, in base two
    sets_counted = 0
    for members in sets:
        sets_counted += 1
        carry = members & rows
        for place, digit in enumerate(digits):
            digits[place], carry = digit ^ carry, digit & carry
            if not carry:
                break
        if carry:
            digits.append(carry)
    divided = [0] * (sets_counted + 1)
    parts = [(0, rows)]
    for place, digit in enumerate(digits):
        parts = [
            part
            for count, members in parts
            for part in ((count, members & ~digit), (count | 1 << place, members & digit))
            if part[1]
        ]
    for count, members in parts:
        divided[count] = members
    return divided


def writable(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """The array itself, or a copy if it is read-only because a frozen frame shares it."""
    return array if array.flags.writeable else array.copy()


def enlarge(array: npt.NDArray[_Scalar], size: int, fill: object) -> npt.NDArray[_Scalar]:
    longer = np.full(size, fill, dtype=array.dtype)
    longer[: len(array)] = array
    return longer
