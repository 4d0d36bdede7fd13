"""`python -m charts.readme charts/fleet` writes the README of the chart: its values, as values.yaml describes them.

A comment that begins with `# --` describes the value below it, over as many lines as it takes; lines that begin with
`# @` give the reason for the default. A value without a comment is covered by the comment of its parent.
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

For installation and its prerequisites see [install](../../docs/install.md).

## Combinations

The tests render each of these. Start from one with `--values charts/fleet/ci/NAME.yaml` and adapt it.

| Name | Description |
| --- | --- |
{combinations}

## Values
{values}"""
_HEAD: Final = "| Value | Default | Meaning |\n| --- | --- | --- |\n"


@dataclass(frozen=True, slots=True)
class DocumentedValue:
    """A value that users may set."""

    name: str
    default: Any
    meaning: str

    @property
    def section(self) -> str:
        first, dot, _ = self.name.partition(".")
        return first if dot else _GENERAL


def render_readme(chart: Path) -> str:
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    values = list(parse_values((chart / "values.yaml").read_text(encoding="utf-8")))
    return _PAGE.format(
        description=about["description"],
        kubernetes=re.sub(r"^>=(\d+\.\d+).*", r"\1", about["kubeVersion"]),
        combinations="\n".join(map(_render_combination, sorted((chart / "ci").glob("*.yaml")))),
        values="".join(_render_tables(values)),
    )


def parse_values(text: str) -> Iterator[DocumentedValue]:
    """The values that a comment describes, in the order of the file."""
    values, path, comment = yaml.safe_load(text), list[str](), list[str]()
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment = _continue_comment(comment, stripped)
            continue
        if key := _KEY.match(line):
            path = [*path[: len(key[1]) // 2], key[2]]
            if comment:
                yield DocumentedValue(".".join(path), _at(values, path), " ".join(comment))
        comment = []


def _continue_comment(comment: list[str], line: str) -> list[str]:
    """A plain comment line continues a description, but does not start one."""
    if line.startswith("# -- "):
        return [line.removeprefix("# -- ")]
    return [*comment, re.sub(r"^# (@ )?", "", line)] if comment else []


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        values = values[key]
    return values


def _render_tables(values: Iterable[DocumentedValue]) -> Iterator[str]:
    """Values without a section come first, as they mostly do in the file."""
    ordered = sorted(values, key=lambda value: value.section != _GENERAL)
    for section, members in groupby(ordered, key=lambda value: value.section):
        yield f"\n### {section}\n\n{_HEAD}" + "".join(map(_render_row, members))


def _render_row(value: DocumentedValue) -> str:
    default = value.default if isinstance(value.default, str) else json.dumps(value.default)
    return f"| `{value.name}` | {f'`{default}`' if default else 'none'} | {value.meaning} |\n"


def _render_combination(file: Path) -> str:
    """The first comment of a file describes it; indented lines are for readers of the file itself."""
    lines = map(_PROSE.fullmatch, file.read_text(encoding="utf-8").partition("\n\n")[0].splitlines())
    return f"| [`{file.stem}`](ci/{file.name}) | {' '.join(line[1] for line in lines if line)} |"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "README.md").write_text(render_readme(folder), encoding="utf-8")
