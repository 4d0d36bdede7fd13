"""`fleet simulate` with plugins of an installed distribution in a profile of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from fleet.framework.context import HookContext
from fleet.framework.profiles.adapter import adapt
from fleet.framework.profiles.profile import METHODS
from tests.fast_yaml import safe_dump, safe_dump_all
from tests.installed import installed_doubles
from tests.unit.cli.conftest import Fleet, Ran
from tests.unit.cli.manifests import Manifest, member, placement
from tests.unit.framework.plugin_fakes import BASIC_HOOKS

HEAD = {"apiVersion": "scheduling.fleet.dev/v1", "kind": "FleetSchedulerConfiguration"}
Report = dict[str, Any]


class Noting:
    """Has exactly the methods it is given answers for, and notes with the decision how often each was called.

    An answer is given as it is, raised if it is an error, and called with what the hook was called with if it can be.
    """

    def __init__(self, name: str, **answers: Any) -> None:
        self._name = name
        for method, answer in answers.items():
            setattr(self, method, self._noted(method, answer))

    def name(self) -> str:
        return self._name

    def _noted(self, method: str, answer: Any) -> Callable[..., Any]:
        def call(ctx: HookContext, *args: Any) -> Any:
            ctx.note(method, ctx.notes.get(self._name, {}).get(method, 0) + 1)
            if isinstance(answer, Exception):
                raise answer
            return answer(ctx, *args) if callable(answer) else answer

        return call


def calls(decision: Report) -> dict[str, dict[str, Any]]:
    """How often the methods of plugins were called for the decision: explanations of it do not count."""
    found: dict[str, dict[str, Any]] = decision["answer"]["attempt"]["notes"]
    return found


def targets(decision: Report) -> list[str]:
    """In the order of their ranks."""
    ranked = [row for row in decision["answer"]["attempt"]["clusters"] if row["rank"] and row["outcome"] == "selected"]
    return [row["name"] for row in sorted(ranked, key=lambda row: row["rank"])]


def error_of(decision: Report) -> str:
    """Of an attempt that a plugin ended."""
    verdict = decision["answer"]["verdict"]
    assert (verdict["state"], decision["operations"]) == ("SchedulerError", [])
    message: str = verdict["error"]
    return message


def row_of(decision: Report, cluster: str) -> Report:
    """What the answer has about a cluster."""
    found: Report = next(row for row in decision["answer"]["attempt"]["clusters"] if row["name"] == cluster)
    return found


class Simulator:
    """Every plugin is at each hook that it has a method for."""

    def __init__(self, folder: Path, fleet: Fleet, stack: ExitStack) -> None:
        self._folder, self._fleet, self._stack = folder, fleet, stack
        self._count = 0

    def decide(
        self, *plugins: Any, clusters: Sequence[str | Manifest] = ("a", "b", "c"), number: int = 2, **profile: Any
    ) -> Report:
        """The decision on a placement that wants that number of clusters."""
        ran = self.run(*plugins, clusters=clusters, number=number, **profile)
        assert "error: " not in ran.err, ran.err
        (decision,) = json.loads(ran.out)["decisions"]
        found: Report = decision
        return found

    def run(
        self,
        *plugins: Any,
        clusters: Sequence[str | Manifest] = ("a", "b", "c"),
        number: int = 2,
        output: Sequence[str] = ("-o", "json"),
        objects: Sequence[Manifest] = (),
        **profile: Any,
    ) -> Ran:
        files = [member(each) if isinstance(each, str) else each for each in clusters]
        files += objects or [placement("web", placementType="PickN", numberOfClusters=number)]
        fleet = self._write("fleet.yaml", safe_dump_all(files))
        return self._fleet("simulate", "-f", str(fleet), "--config", str(self.configure(*plugins, **profile)), *output)

    def configure(
        self,
        *plugins: Any,
        hooks: Mapping[str, Sequence[Any]] | None = None,
        weights: Mapping[str, int] | None = None,
        factories: Mapping[str, Callable[..., Any]] | None = None,
        others: Sequence[Mapping[str, Any]] = (),
        **fields: Any,
    ) -> Path:
        """A document with a profile of these plugins, and others. `hooks` are in place of what the methods of the
        plugins say; `factories` make plugins that are at no hook yet."""
        self._install({plugin.name(): _giving(plugin) for plugin in plugins} | dict(factories or {}))
        lists: dict[str, Any] = {**BASIC_HOOKS}
        for hook, method in METHODS.items():
            names = [plugin.name() for plugin in plugins if callable(getattr(adapt(plugin), method, None))]
            if names:
                lists[hook] = names
        enabled = {
            hook: {"enabled": [{"name": name, "weight": (weights or {}).get(name, 1)} for name in names]}
            for hook, names in {**lists, **(hooks or {})}.items()
        }
        document = {**HEAD, "profiles": [{"base": "Empty", "plugins": enabled, **fields}, *others]}
        return self._write("config.yaml", safe_dump(document, sort_keys=False))

    def _install(self, factories: Mapping[str, Callable[..., Any]]) -> None:
        self._count += 1
        folder = self._folder / f"plugins{self._count}"
        folder.mkdir()
        self._stack.close()
        self._stack.enter_context(installed_doubles(folder, factories))

    def _write(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.write_text(text, encoding="utf-8")
        return path


def _giving(plugin: Any) -> Callable[..., Any]:
    return lambda raw, handle: plugin


def simulating(folder: Path, fleet: Fleet) -> Iterator[Simulator]:
    with ExitStack() as stack:
        yield Simulator(folder, fleet, stack)


# --- the extended profile ---------------------------------------------------------------------------------------------


Run = Callable[..., Ran]
"""Of manifests, `options` of the command, and by the name of a plugin its arguments."""


class Decide(Protocol):
    def __call__(self, *manifests: Manifest, **args: Mapping[str, Any]) -> list[Report]: ...


def simulate_profile(folder: Path, fleet: Fleet, now: str, *more: str) -> Run:
    """`fleet simulate` with `ExtendedProfile`, and more plugins."""

    def simulated(*manifests: Manifest, options: Sequence[str] = ("-o", "json"), **args: Mapping[str, Any]) -> Ran:
        files, config = folder / "fleet.yaml", folder / "config.yaml"
        files.write_text(safe_dump_all(manifests), encoding="utf-8")
        given = [{"name": name, "args": dict(content)} for name, content in args.items()]
        profile: dict[str, Any] = {"base": "ExtendedProfile", **({"pluginConfig": given} if given else {})}
        if more:
            profile["plugins"] = {"multiPoint": {"enabled": [{"name": name} for name in more]}}
        config.write_text(safe_dump({**HEAD, "profiles": [profile]}), encoding="utf-8")
        return fleet("simulate", "-f", str(files), "--config", str(config), "--now", now, *options)

    return simulated


def deciding(run: Run) -> Decide:
    def decided(*manifests: Manifest, **args: Mapping[str, Any]) -> list[Report]:
        ran = run(*manifests, **args)
        assert "error: " not in ran.err, ran.err
        decisions: list[Report] = json.loads(ran.out)["decisions"]
        return decisions

    return decided


def rejection(decision: Report, cluster: str) -> tuple[str, str]:
    rejected = [each for each in row_of(decision, cluster)["rejections"] if each["verdict"] == "reject"]
    return rejected[0]["reason"], rejected[0]["message"]


# --- whether it fits --------------------------------------------------------------------------------------------------


def score_of(decision: Report, cluster: str, plugin: str) -> int:
    found: int = next(score["raw"] for score in row_of(decision, cluster)["scores"] if score["plugin"] == plugin)
    return found
