"""`python -m fleet.settings.reference docs/settings.md` writes the page of all settings, as the code knows them."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from fleet.settings.names import Known, known_settings, shown
from fleet.settings.tree import DECIDING, Settings

_OPENING = """\
# Settings of the controller

<!-- Generated from the package fleet.settings by `make gen`. Change it there. -->

`fleet controller` reads its settings once, when it starts: **a change of any of them needs a restart.** Each has one
name, which may be written in three places. What comes first here counts more than what comes later:

1. the command line: `--set queue.maxDelay=30s`, as often as needed. A few settings have an option of their own besides,
   such as `--health-address`, which counts more than `--set`;
2. the environment: `FLEET_QUEUE__MAX_DELAY=30s`. Two underscores stand for the dot;
3. a YAML file named with `--config`:

   ```yaml
   queue:
     maxDelay: 30s
   workers: 8
   ```

Whatever does not make sense ends the start with exit code 2: names that do not exist, values that do not fit, a name
given twice in the file. Every problem of all three places is told at once, each with the place where it stands and the
name or value that was probably meant.

Variables that begin with `FLEET_` and are not meant for the controller are left alone: those that Kubernetes makes for
services (`FLEET_API_SERVICE_HOST`, `FLEET_API_PORT_443_TCP`), and those without two underscores in a row that do not
resemble a setting.

| Values | How they are written |
| --- | --- |
| durations | `250ms`, `90s`, `5m`, `1h30m`; `0` |
| rates | `10/s`, `600/m` |
| addresses | `:8080` for all interfaces, `127.0.0.1:8080`, `[::1]:8080`; port 0 takes a free one; `off`: not at all |
| namespaces | `a,b` or `a;b`; in the file also a YAML list |
| kinds | `apps`, `apps/v1`, `apps/v1/Deployment,StatefulSet`, `v1/ConfigMap`; several with `;`, or a YAML list |

Settings of the sections {deciding} are read by [`fleet simulate`](simulate.md), too.
"""

_CLOSING = """
## Names that are taken

For these only the default is accepted, because nothing reads them yet. Another value is refused rather than ignored.

"""

_HEAD = "| Setting | Default | Environment variable | Meaning |\n| --- | --- | --- | --- |\n"


def reference() -> str:
    deciding = [f"`{name}`" for name in DECIDING]
    page = _OPENING.replace("{deciding}", f"{', '.join(deciding[:-1])} and {deciding[-1]}")
    known = known_settings().values()
    ready = sorted((one for one in known if not one.is_planned), key=_position)
    for section, members in groupby(ready, key=_section):
        page += f"\n## {_title(section)}\n\n{_HEAD}{''.join(map(_row, members))}"
    return page + _CLOSING + _HEAD + "".join(_row(one) for one in known if one.is_planned)


def _position(one: Known) -> int:
    """Sections in the order of the tree, what has none first."""
    return list(dict.fromkeys(["", *map(_section, known_settings().values())])).index(_section(one))


def _section(one: Known) -> str:
    name, dot, _ = one.name.partition(".")
    return name if dot else ""


def _title(section: str) -> str:
    if not section:
        return "Without a section"
    model = next(field.annotation for field in Settings.model_fields.values() if field.alias == section)
    assert model is not None
    meaning = (model.__doc__ or "").strip().removesuffix(".")
    return f"{section}: {meaning[0].lower()}{meaning[1:]}"


def _row(one: Known) -> str:
    default = shown(one.default)
    cells = (f"`{one.name}`", f"`{default}`" if default else "none", f"`{one.variable}`", one.meaning)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
