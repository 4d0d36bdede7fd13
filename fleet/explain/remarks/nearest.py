"""The nearest name: the one that was probably meant by a name that does not exist.

Nearness has four degrees, of which the first that applies counts: equal but for case and separators (`iad1`, `iad-1`),
equal after the prefix (`topology.kubernetes.io/region`, `region`), few letters apart (`shopp`, `shop`; two that are
exchanged, `evn`, are one mistake), and one an abbreviation of the other (`production`, `prod`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

_SEPARATORS: Final = str.maketrans("", "", "-_.")
_LETTERS_PER_MISTAKE: Final = 3
_MOST_MISTAKES: Final = 3
_SHORTEST_ABBREVIATION: Final = 3
_FEW_MISTAKES: Final = 2
"""The degree of names that are few letters apart."""

LONGEST_COMPARED: Final = 317
"""Letters of a word: as many as the key of a label may have. The comparison takes their square of memory."""
MOST_COMPARED: Final = 6_000
"""Names of one vocabulary that are compared letter by letter: some 50 ms."""
_SCANNED_PER_COMPARED: Final = 10
"""Names that are passed over in the time of one comparison."""

Nearness = tuple[int, int]
"""Degree, and how far apart within the degree."""


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    return Vocabulary(known).find_nearest(word)


class Vocabulary:
    """The names to choose from, for one search or several."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_whole: dict[str, str] = {}
        self._by_last: dict[str, str] = {}
        """The first in alphabetical order, by what is compared."""
        for name in sorted(names):
            whole = normalize(name)
            self._by_whole.setdefault(whole, name)
            self._by_last.setdefault(_take_last(whole), name)
        self._left = MOST_COMPARED

    def find_nearest(self, word: str) -> str | None:
        """Of equally near names the first in alphabetical order; None if none is near. Once as many names are compared
        as a vocabulary affords, only those that are equal but for case, separators and prefix."""
        whole = normalize(word)
        last = _take_last(whole)
        near = self._by_whole.get(whole) or self._by_last.get(last)
        return near or (self._find_similar(_Target(last)) if len(last) <= LONGEST_COMPARED else None)

    def _find_similar(self, target: _Target) -> str | None:
        best: tuple[Nearness, str] | None = None
        self._left -= len(self._by_last) // _SCANNED_PER_COMPARED
        for last, name in self._by_last.items():
            if self._left <= 0 or (best is not None and best[0] <= (_FEW_MISTAKES, 1)):
                break
            if target.may_be_near(last, best and best[0]):
                self._left -= 1
                nearness = target.compare(last)
                if nearness is not None and (best is None or nearness < best[0]):
                    best = (nearness, name)
        return None if best is None else best[1]


class _Target:
    """The last part of a word that names are compared with: its letters are looked up once."""

    def __init__(self, last: str) -> None:
        self.last = last
        self._most = min(max(len(self.last) // _LETTERS_PER_MISTAKE, 1), _MOST_MISTAKES)
        self._pieces = [_split(self.last, mistakes + 1) for mistakes in range(self._most + 1)]
        self._places: dict[str, int] = {}
        for place, letter in enumerate(self.last):
            self._places[letter] = self._places.get(letter, 0) | 1 << place
        self._exchanged = {
            f"{self.last[:at]}{second}{first}{self.last[at + 2 :]}"
            for at, (first, second) in enumerate(pairwise(self.last))
        }

    def may_be_near(self, name: str, best: Nearness | None) -> bool:
        """Cheap: false only for names that are no nearer than the best so far. With fewer mistakes than pieces, one
        piece has none."""
        most = self._most if best is None or best[0] > _FEW_MISTAKES else best[1] - 1
        if abs(len(name) - len(self.last)) <= most and (
            name in self._exchanged or any(piece in name for piece in self._pieces[most])
        ):
            return True
        return (best is None or best[0] > _FEW_MISTAKES) and name[:2] == self.last[:2]

    def compare(self, name: str) -> Nearness | None:
        if name in self._exchanged:
            return (_FEW_MISTAKES, 1)
        if abs(len(name) - len(self.last)) <= self._most:
            distance = self._count_mistakes(name)
            if distance <= self._most and distance < len(name):
                return (_FEW_MISTAKES, distance)
        return (3, abs(len(name) - len(self.last))) if is_abbreviation(name, self.last) else None

    def _count_mistakes(self, other: str) -> int:
        """The edit distance of the last parts, by Myers' algorithm: a column of the matrix is two integers."""
        size = len(self.last)
        if not size:
            return len(other)
        everything, end = (1 << size) - 1, 1 << (size - 1)
        rising, falling, distance = everything, 0, size
        for letter in other:
            equal = self._places.get(letter, 0)
            vertical = equal | falling
            horizontal = (((equal & rising) + rising) ^ rising) | equal
            up, down = falling | ~(horizontal | rising) & everything, rising & horizontal
            distance += bool(up & end) - bool(down & end)
            up, down = (up << 1 | 1) & everything, down << 1 & everything
            rising, falling = down | ~(vertical | up) & everything, up & vertical
        return distance


def normalize(name: str) -> str:
    """Without case and separators, except for the slash after a prefix."""
    return name.lower().translate(_SEPARATORS)


def _split(text: str, pieces: int) -> list[str]:
    ends = [len(text) * piece // pieces for piece in range(pieces + 1)]
    return [text[start:end] for start, end in pairwise(ends)]


def _take_last(normalized: str) -> str:
    return normalized.rpartition("/")[2]


def is_abbreviation(name: str, other: str) -> bool:
    """Whether the letters of the shorter are in the longer, in order, both begin alike, and end in the same digits."""
    shorter, longer = sorted((name, other), key=len)
    if len(shorter) < _SHORTEST_ABBREVIATION or shorter[:2] != longer[:2] or _digits(shorter) != _digits(longer):
        return False
    letters = iter(longer)
    return all(letter in letters for letter in shorter)


def _digits(name: str) -> str:
    return name[len(name.rstrip("0123456789")) :]
