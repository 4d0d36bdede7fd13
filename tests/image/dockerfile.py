"""The Dockerfile as a list of instructions, so that tests carry out these and no others.

Knows the forms that the file uses; another one is refused here before a test can take it for something else.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FILE: Final = ROOT / "Dockerfile"
IGNORES: Final = ROOT / ".dockerignore"

_CACHE: Final = re.compile(r"--mount=type=cache,target=(\S+)\s+")
_REFERENCE: Final = re.compile(r"\$\{(\w+)(?::\+([^{}]*(?:\$\{\w+\})?[^{}]*))?\}")
_KNOWN: Final = frozenset(["FROM", "ARG", "LABEL", "ENV", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "ENTRYPOINT"])


@dataclass(frozen=True)
class Instruction:
    keyword: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Copy:
    sources: tuple[str, ...]
    target: str
    stage: str = ""
    """The stage that it copies from; else from the tree."""


@dataclass(frozen=True, kw_only=True)
class Run:
    command: str
    caches: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Stage:
    name: str
    base: str
    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    steps: list[Copy | Run] = field(default_factory=list)
    folder: str = "/"
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()


def stages(text: str | None = None) -> dict[str, Stage]:
    """By name, in order, with the defaults of all arguments."""
    found: dict[str, Stage] = {}
    arguments: dict[str, str] = {}
    for instruction in instructions(FILE.read_text(encoding="utf-8") if text is None else text):
        if instruction.keyword == "ARG":
            name, _, value = instruction.text.partition("=")
            arguments[name] = value.strip('"')
        elif instruction.keyword == "FROM":
            base, _, name = instruction.text.partition(" AS ")
            found[name] = Stage(name=name, base=filled(base, arguments))
        else:
            _apply(instruction, list(found.values())[-1], arguments)
    return found


def instructions(text: str) -> Iterator[Instruction]:
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        keyword, _, rest = line.partition(" ")
        if keyword not in _KNOWN:
            raise ValueError(f"Dockerfile: {keyword} is nothing that the tests can carry out")
        yield Instruction(keyword, rest.strip())


def filled(text: str, values: Mapping[str, str]) -> str:
    """With `${NAME}` and `${NAME:+text}` replaced."""

    def one(found: re.Match[str]) -> str:
        value = values.get(found[1], "")
        if found[2] is None:
            return value
        return filled(found[2], values) if value else ""

    return _REFERENCE.sub(one, text)


def _apply(instruction: Instruction, stage: Stage, arguments: Mapping[str, str]) -> None:
    text = instruction.text
    match instruction.keyword:
        case "ENV":
            stage.environment.update(_pairs(filled(text, arguments)))
        case "LABEL":
            stage.labels.update(_pairs(filled(text, arguments)))
        case "WORKDIR":
            stage.folder = text
        case "USER":
            stage.user = text
        case "ENTRYPOINT":
            stage.entrypoint = tuple(json.loads(text))
        case "COPY":
            stage.steps.append(_copy(text))
        case "RUN":
            stage.steps.append(Run(command=_CACHE.sub("", text), caches=tuple(_CACHE.findall(text))))


def _pairs(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(text))


def _copy(text: str) -> Copy:
    words = text.split()
    stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else ""
    return Copy(sources=tuple(words[:-1]), target=words[-1], stage=stage)


# --- what is copied ---------------------------------------------------------------------------------------------------


def context() -> Iterator[Path]:
    """The files that a build may copy, relative to the tree."""
    lines = [line for line in IGNORES.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    kept = {line.removeprefix("!/") for line in lines if line.startswith("!")}
    for path in sorted(ROOT.rglob("*")) if "/*" not in lines else _below(kept):
        relative = path.relative_to(ROOT)
        if path.is_file() and not any(_ignores(line, relative) for line in lines if line.startswith("**/")):
            yield relative


def _below(names: set[str]) -> Iterator[Path]:
    for name in sorted(names):
        path = ROOT / name
        yield from sorted(path.rglob("*")) if path.is_dir() else [path]


def _ignores(line: str, path: Path) -> bool:
    return any(fnmatch(part, line.removeprefix("**/")) for part in path.parts)
