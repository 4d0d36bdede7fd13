"""The files a user names: folders searched, order fixed, contents as text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleet.cli.input.problems import Findings, Place

STDIN: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Text:
    file: str
    content: str

    @property
    def is_json(self) -> bool:
        return self.file.endswith(".json")


def read_texts(names: Iterable[str], findings: Findings) -> Iterator[Text]:
    """Every file once, in the order given; a folder's files in the order of their paths."""
    seen: set[str] = set()
    for name in names:
        for path in _files(name, findings):
            identity = STDIN if path == STDIN else str(Path(path).resolve())
            if identity not in seen:
                seen.add(identity)
                yield from _read(path, findings)


def _files(name: str, findings: Findings) -> list[str]:
    if name == STDIN:
        return [STDIN]
    path = Path(name)
    if path.is_dir():
        inside = sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES and one.is_file())
        if not inside:
            findings.wrong(Place(name), f"no {', '.join(f'*{suffix}' for suffix in SUFFIXES)} in this folder")
        return [str(one) for one in inside]
    return [name]


def _read(name: str, findings: Findings) -> Iterator[Text]:
    try:
        raw = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        yield Text("standard input" if name == STDIN else name, raw.decode("utf-8-sig"))
    except OSError as error:
        findings.wrong(Place(name), f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        findings.wrong(Place(name), f"is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}")
