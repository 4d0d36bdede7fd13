"""Input files: searches folders, keeps a fixed order, and decodes text."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleet.cli.input.problems import Findings, SourceLocation

STDIN: Final = "-"
STDIN_NAME: Final = "standard input"
SUFFIXES: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class SourceText:
    file: str
    content: str

    @property
    def is_json(self) -> bool:
        return self.file.endswith(".json")


def read_texts(names: Iterable[str], findings: Findings, seen: set[str] | None = None) -> Iterator[SourceText]:
    """Every file once, in the given order; files of a folder in the order of their paths. `seen` are those that were
    read before."""
    seen = set() if seen is None else seen
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
        unreadable: list[OSError] = []
        folders = os.walk(path, onerror=unreadable.append)
        paths = (Path(folder, file) for folder, _, files in folders for file in files)
        inside = sorted(file for file in paths if file.suffix in SUFFIXES and file.is_file())
        for error in unreadable:
            findings.report(SourceLocation(error.filename or name), f"cannot be read: {error.strerror}")
        if not inside and not unreadable:
            findings.report(SourceLocation(name), f"no {', '.join(f'*{suffix}' for suffix in SUFFIXES)} in this folder")
        return [str(file) for file in inside]
    return [name]


def _read(name: str, findings: Findings) -> Iterator[SourceText]:
    try:
        raw = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        yield SourceText(STDIN_NAME if name == STDIN else name, raw.decode("utf-8-sig"))
    except OSError as error:
        findings.report(SourceLocation(name), f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        findings.report(
            SourceLocation(name), f"is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}"
        )
