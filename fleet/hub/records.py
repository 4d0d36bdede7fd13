"""Data files of the hub: one record to a line, continued on indented lines. Lines that begin with `#` are comments.

Files are read strictly: a line that does not fit its format raises InputError with the file and the line number.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fleet.errors import InputError

_COMMENT: Final = "#"


class DataLine(NamedTuple):
    file: str
    number: int
    text: str

    def error(self, message: str) -> InputError:
        return InputError(message, field=f"{self.file}:{self.number}", value=self.text)


class Record(NamedTuple):
    head: DataLine
    continuation: list[DataLine]

    def lines(self) -> list[DataLine]:
        return [self.head, *self.continuation]

    def words(self) -> Iterator[tuple[DataLine, str]]:
        """The blank-separated words, each with the line it is on."""
        for line in self.lines():
            for word in line.text.split():
                yield line, word


def read_records(path: Path) -> list[Record]:
    records: list[Record] = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        line = DataLine(path.name, number, text.strip())
        if not line.text or text.startswith(_COMMENT):
            continue
        if not text[0].isspace():
            records.append(Record(line, []))
        elif records:
            records[-1].continuation.append(line)
        else:
            raise line.error("an indented line continues a record, and there is none before it")
    return records
