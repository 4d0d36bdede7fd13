"""`python -m fleet.settings.reference docs/settings.md` writes the reference page of all settings."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from fleet.settings.names import SettingInfo, known_settings, render_value
from fleet.settings.tree import DECIDING, Settings

_INTRODUCTION = """\
# Settings of the controller

<!-- Generated from the package fleet.settings by `make gen`. Change it there. -->

`fleet controller` reads its settings once, when it starts: **changing a setting requires a restart.** Each setting can
be written in three places. Earlier entries of this list take precedence over later ones:

1. the command line: `--set queue.maxDelay=30s`, repeatable. A few settings also have an option of their own, such as
   `--health-address`, which takes precedence over `--set`;
2. the environment: `FLEET_QUEUE__MAX_DELAY=30s`. Two underscores replace the dot;
3. a YAML file passed with `--config`:

   ```yaml
   queue:
     maxDelay: 30s
   workers: 8
   ```

Invalid settings (unknown names, invalid values, a name given twice in the file) stop the start with exit code 2. All
problems of all three places are reported at once, each with its location and, for a name, the most similar valid one.

Variables that begin with `FLEET_` but are not settings are ignored: those that Kubernetes sets for Services
(`FLEET_API_SERVICE_HOST`, `FLEET_API_PORT_443_TCP`), and those without two consecutive underscores that do not resemble
a setting.

| Values | Format |
| --- | --- |
| durations | `250ms`, `90s`, `5m`, `1h30m`; `0` |
| rates | `10/s`, `600/m` |
| addresses | `:8080` for all interfaces, `127.0.0.1:8080`, `[::1]:8080`; port 0 picks a free port; `off` disables |
| namespaces | `a,b` or `a;b`; in the file also a YAML list |
| kinds | `apps`, `apps/v1`, `apps/v1/Deployment,StatefulSet`, `v1/ConfigMap`; several with `;`, or a YAML list |

[`fleet simulate`](simulate.md) also accepts the settings of the sections {deciding}.
"""

_PLANNED_HEADING = """
## Reserved names

Nothing reads these settings yet, so only the default is accepted: any other value is rejected rather than ignored.

"""

_HEAD = "| Setting | Default | Environment variable | Meaning |\n| --- | --- | --- | --- |\n"


def render_reference() -> str:
    deciding = [f"`{name}`" for name in DECIDING]
    page = _INTRODUCTION.replace("{deciding}", f"{', '.join(deciding[:-1])} and {deciding[-1]}")
    known = known_settings().values()
    ready = sorted((setting for setting in known if not setting.is_planned), key=_section_index)
    for section, members in groupby(ready, key=_section):
        page += f"\n## {_title(section)}\n\n{_HEAD}{''.join(map(_render_row, members))}"
    return page + _PLANNED_HEADING + _HEAD + "".join(_render_row(setting) for setting in known if setting.is_planned)


def _section_index(setting: SettingInfo) -> int:
    """Sections in the order of the tree, after the settings without a section."""
    return list(dict.fromkeys(["", *map(_section, known_settings().values())])).index(_section(setting))


def _section(setting: SettingInfo) -> str:
    name, dot, _ = setting.name.partition(".")
    return name if dot else ""


def _title(section: str) -> str:
    if not section:
        return "General"
    model = next(field.annotation for field in Settings.model_fields.values() if field.alias == section)
    assert model is not None
    meaning = (model.__doc__ or "").strip().removesuffix(".")
    return f"{section}: {meaning[0].lower()}{meaning[1:]}"


def _render_row(setting: SettingInfo) -> str:
    default = render_value(setting.default)
    cells = (f"`{setting.name}`", f"`{default}`" if default else "none", f"`{setting.variable}`", setting.meaning)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_reference(), encoding="utf-8")
