"""`python -m charts.readme charts/fleet` writes the README of the chart: its values, as values.yaml describes them.

A comment that begins with `# --` describes the value below it, over as many lines as it takes; lines that begin with
`# @` say why the default is what it is. Values without a comment are told by the value that they are part of.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import yaml

_KEY: Final = re.compile(r"( *)([A-Za-z]\w*):(?: |$)")
_PROSE: Final = re.compile(r"# (\S.*)")
_GENERAL: Final = "general"
_PAGE: Final = """\
# The chart fleet

<!-- Generated from values.yaml by `make gen`. Change it there. -->

{description}. It needs Kubernetes {kubernetes} or newer and Helm 4 (3.17 or newer should do, but is not tested).

```console
$ helm install fleet charts/fleet --namespace fleet-system --create-namespace
```

How to install, and what to know before: [install](../../docs/install.md).

## Combinations

Each of these is rendered by the tests; take one with `--values charts/fleet/ci/NAME.yaml` and change it to your needs.

| Name | What it is |
| --- | --- |
{combinations}

## Values
{values}"""
_HEAD: Final = "| Value | Default | Meaning |\n| --- | --- | --- |\n"


@dataclass(frozen=True, slots=True)
class Described:
    """A value that people may set."""

    name: str
    default: Any
    meaning: str

    @property
    def section(self) -> str:
        first, dot, _ = self.name.partition(".")
        return first if dot else _GENERAL


def readme(chart: Path) -> str:
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    values = list(described((chart / "values.yaml").read_text(encoding="utf-8")))
    return _PAGE.format(
        description=about["description"],
        kubernetes=re.sub(r"^>=(\d+\.\d+).*", r"\1", about["kubeVersion"]),
        combinations="\n".join(map(_combination, sorted((chart / "ci").glob("*.yaml")))),
        values="".join(_tables(values)),
    )


def described(text: str) -> Iterator[Described]:
    """The values that a comment describes, in the order of the file."""
    values, path, comment = yaml.safe_load(text), list[str](), list[str]()
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment = _continued(comment, stripped)
            continue
        if key := _KEY.match(line):
            path = [*path[: len(key[1]) // 2], key[2]]
            if comment:
                yield Described(".".join(path), _at(values, path), " ".join(comment))
        comment = []


def _continued(comment: list[str], line: str) -> list[str]:
    """A comment of another kind describes nothing, but goes on with one that does."""
    if line.startswith("# -- "):
        return [line.removeprefix("# -- ")]
    return [*comment, re.sub(r"^# (@ )?", "", line)] if comment else []


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        values = values[key]
    return values


def _tables(values: Iterable[Described]) -> Iterator[str]:
    """What belongs to no section comes first, as it mostly does in the file."""
    ordered = sorted(values, key=lambda one: one.section != _GENERAL)
    for section, members in groupby(ordered, key=lambda one: one.section):
        yield f"\n### {section}\n\n{_HEAD}" + "".join(map(_row, members))


def _row(one: Described) -> str:
    default = one.default if isinstance(one.default, str) else json.dumps(one.default)
    return f"| `{one.name}` | {f'`{default}`' if default else 'none'} | {one.meaning} |\n"


def _combination(file: Path) -> str:
    """A file begins with what it is; what is indented there is for whoever opens it."""
    lines = map(_PROSE.fullmatch, file.read_text(encoding="utf-8").partition("\n\n")[0].splitlines())
    return f"| [`{file.stem}`](ci/{file.name}) | {' '.join(line[1] for line in lines if line)} |"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "README.md").write_text(readme(folder), encoding="utf-8")
