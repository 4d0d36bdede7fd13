"""Problems of the input, collected so that one run reports all of them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, order=True, slots=True)
class SourceLocation:
    """A location in the input. Lines and documents count from 1; line 0 means unknown."""

    file: str
    line: int = 0
    document: int = 0

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where} (document {self.document})" if self.document > 1 else where


@dataclass(frozen=True, slots=True)
class InputProblem:
    place: SourceLocation | None
    message: str
    """Field, value and expected value."""
    subject: str = ""
    """The object, as `MemberCluster ams-1`."""

    def __str__(self) -> str:
        return ": ".join(str(part) for part in (self.place, self.subject, self.message) if part)


@dataclass(slots=True)
class Findings:
    """Problems stop a run after all input was read; notes do not."""

    problems: list[InputProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    """Notes for verbose output."""

    def report(self, place: SourceLocation, message: str, *, subject: str = "") -> None:
        self.problems.append(InputProblem(place, message, subject))

    def add(self, message: str) -> None:
        """A problem without a location."""
        self.problems.append(InputProblem(None, message))

    def in_order(self) -> list[InputProblem]:
        """By file, in the order of reading, and by line."""
        files = list(dict.fromkeys(problem.place.file for problem in self.problems if problem.place))

        def position(problem: InputProblem) -> tuple[int, int]:
            return (files.index(problem.place.file), problem.place.line) if problem.place else (-1, 0)

        return sorted(self.problems, key=position)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def detail(self, text: str) -> None:
        self.details.append(text)
