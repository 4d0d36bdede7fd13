"""What is wrong with the input, gathered while reading on, so that one run shows all of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

_CLOSE: Final = 0.75


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """Where something was read. Lines and documents count from 1; a line of 0 is not known."""

    file: str
    line: int = 0
    document: int = 0

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where} (document {self.document})" if self.document > 1 else where


@dataclass(frozen=True, slots=True)
class Problem:
    place: Place | None
    message: str
    """Names field, value and what is expected instead."""
    subject: str = ""
    """The object, as `MemberCluster ams-1`."""

    def __str__(self) -> str:
        return ": ".join(str(part) for part in (self.place, self.subject, self.message) if part)


@dataclass(slots=True)
class Findings:
    """Problems stop a run after everything was read; notes do not."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    """Notes only for those who ask for more."""

    def wrong(self, place: Place, message: str, *, subject: str = "") -> None:
        self.problems.append(Problem(place, message, subject))

    def complain(self, message: str) -> None:
        """About what no file is to blame for."""
        self.problems.append(Problem(None, message))

    def in_order(self) -> list[Problem]:
        """File by file as they were read, and from top to bottom in each."""
        files = list(dict.fromkeys(one.place.file for one in self.problems if one.place))

        def position(one: Problem) -> tuple[int, int]:
            return (files.index(one.place.file), one.place.line) if one.place else (-1, 0)

        return sorted(self.problems, key=position)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def detail(self, text: str) -> None:
        self.details.append(text)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant: letters count, case and separators do not."""
    by_letters = {_letters(one): one for one in known}
    close = difflib.get_close_matches(_letters(word), by_letters, n=1, cutoff=_CLOSE)
    return by_letters[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean clusterAffinity?`, or nothing."""
    found = nearest(word, known)
    return f"; did you mean {found}?" if found else ""


def _letters(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
