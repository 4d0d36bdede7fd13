"""`fleet plugins`: lists and checks plugins, and creates a distribution with a new one."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from string import Template
from typing import Final

from fleet.cli.output.console import print_rows
from fleet.errors import ConfigurationError
from fleet.framework.handle import NoWatches, OfflineHandle
from fleet.framework.profiles.adapter import adapt
from fleet.framework.profiles.discovery import list_installed, read_entries, register_installed
from fleet.framework.profiles.profile import METHODS
from fleet.framework.profiles.registry import Registry
from fleet.framework.testing.conformance import ConformanceError, check
from fleet.similarity import nearest
from plugins import in_tree_registry

FINE: Final = 0
DOES_NOT_CONFORM: Final = 1
BAD_INPUT: Final = 2
_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9]{1,62}")
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_PROJECT: Final = Template("""\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "$distribution"
version = "0.1"
description = "A scheduling plugin for Fleet: $name"
requires-python = ">=3.11"
dependencies = ["fleet-placement"]

# The name on the left is what profiles write, and what the plugin calls itself.
[project.entry-points."fleet.plugins"]
$name = "$module:$name"

[tool.hatch.build.targets.wheel]
packages = ["$module"]
""")
_MODULE: Final = Template('''\
"""$name: rejects clusters that have a label, and says so."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.scalar import ClusterView, ScalarPlugin
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status


@dataclass
class ${name}Args:
    label: str = "example.com/quarantine"


class $name(ScalarPlugin):
    ROW_LOCAL = True
    READS = ("labels",)

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del handle
        self._label = decode_into(raw, ${name}Args).label

    def name(self) -> str:
        return "$name"

    def filter_one(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, cluster: ClusterView
    ) -> Status | None:
        del ctx, state, placement
        if self._label not in cluster.labels:
            return None
        return Status.new(Code.UNSCHEDULABLE, f"cluster has the label {self._label}")
''')
_TESTS: Final = Template("""\
from fleet.framework.testing.conformance import check
from $module import $name


def test_it_conforms() -> None:
    check($name)
""")
_PROFILE: Final = Template("""\
# fleet up --config fleet.yaml
apiVersion: scheduling.fleet.dev/v1
kind: FleetSchedulerConfiguration
profiles:
- schedulerName: DefaultScheduler
  plugins:
    filter:
      enabled: [{name: $name}]
  pluginConfig:
  - name: $name
    args: {label: example.com/quarantine}
""")


def list_known_plugins() -> int:
    entries, registry, failed = read_entries(), in_tree_registry(), False
    rows = [(name, _list_hooks(registry, name), "in-tree") for name in sorted(registry)]
    for name, origin in list_installed(entries).items():
        try:
            register_installed(registry, only=[name], entries=entries)
            rows.append((name, _list_hooks(registry, name), origin))
        except ConfigurationError as error:
            failed = True
            sys.stderr.write(f"error: {error}\n")
    print_rows(("PLUGIN", "HOOKS", "FROM"), rows)
    return BAD_INPUT if failed else FINE


def _list_hooks(registry: Registry, name: str) -> str:
    try:
        plugin = adapt(registry[name](None, OfflineHandle(watches=NoWatches())))
    except Exception as error:
        return f"needs arguments: {error}".splitlines()[0]
    return ", ".join(hook for hook, method in METHODS.items() if callable(getattr(plugin, method, None)))


def check_conformance(name: str) -> int:
    registry = in_tree_registry()
    if name not in registry:
        try:
            register_installed(registry, only=[name])
        except ConfigurationError as error:
            return _refuse(str(error))
    if name not in registry:
        near = nearest(name, [*registry, *list_installed()])
        hint = f"did you mean {near}?" if near else "see `fleet plugins list`"
        return _refuse(f"no plugin named {name} exists; {hint}")
    try:
        check(registry[name])
    except ConformanceError as error:
        sys.stderr.write(f"{error}\n")
        return DOES_NOT_CONFORM
    sys.stdout.write(f"{name} conforms\n")
    return FINE


def create_plugin(name: str, folder: Path | None) -> int:
    if not _NAME.fullmatch(name):
        return _refuse(f"{name!r} is no name for a plugin: write it as RegionQuarantine")
    if name in in_tree_registry():
        return _refuse(f"a plugin named {name} exists in Fleet itself: choose another name")
    module = _WORD_START.sub("_", name).lower()
    target = folder or Path(name.lower())
    if target.exists() and any(target.iterdir()):
        return _refuse(f"{target} is not empty: choose another folder with --folder")
    values = {"name": name, "module": module, "distribution": f"fleet-{module.replace('_', '-')}"}
    files = {
        "pyproject.toml": _PROJECT,
        f"{module}/__init__.py": _MODULE,
        f"tests/test_{module}.py": _TESTS,
        "fleet.yaml": _PROFILE,
    }
    for path, content in files.items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content.substitute(values), encoding="utf-8")
    sys.stdout.write(
        f"created {target}\nnext: pip install -e {target}, fleet plugins check {name}, "
        f"fleet up --config {target}/fleet.yaml\n"
    )
    return FINE


def _refuse(problem: str) -> int:
    sys.stderr.write(f"error: {problem}\n")
    return BAD_INPUT
