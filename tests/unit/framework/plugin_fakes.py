"""Plugins whose hooks do as they are told, and the profiles, frameworks and effects made of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from inspect import iscoroutinefunction
from typing import Any

from fleet.framework.arguments import PluginFactory, RawArgs
from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import HookContext
from fleet.framework.handle import OfflineHandle
from fleet.framework.operations import Action, Operation, Target, WriteGroup
from fleet.framework.profiles.profile import METHODS, CompiledProfile, PluginRef, Profile, compile_profile
from fleet.framework.profiles.registry import Registry
from fleet.framework.runtime.effects import Effects
from fleet.framework.state import CycleState, StateData
from fleet.framework.status import Code, Status
from fleet.model.views import Binding
from fleet.snapshot import Frame
from plugins import in_tree_registry
from tests.builders import NOW, a_policy

BASIC_HOOKS: Mapping[str, tuple[str, ...]] = {
    "queueSort": ("PrioritySort",),
    "batch": ("DesiredBatch",),
    "sort": ("RankingSort",),
    "bind": ("HubBindingBinder",),
}


# --- plugins ----------------------------------------------------------------------------------------------------------


class Scripted:
    """Has exactly the methods it is given answers for, and notes every call in a journal that several may share.

    An answer is returned; an exception is raised; a function is called with what the hook was called with.
    """

    def __init__(self, name: str, journal: list[str] | None = None, **answers: Any) -> None:
        self._name = name
        self.journal: list[str] = [] if journal is None else journal
        for method, answer in answers.items():
            setattr(self, method, self._scripted(method, answer))

    def name(self) -> str:
        return self._name

    def _scripted(self, method: str, answer: Any) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            on = next((one.cluster for one in args if isinstance(one, Target)), "")
            self.journal.append(f"{self._name}.{method}({on})")
            if isinstance(answer, BaseException):
                raise answer
            return answer(*args) if callable(answer) else answer

        return call


class Counter(StateData):
    """A number in the cycle state, to be counted up in place."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def clone(self) -> Counter:
        return Counter(self.value)


def no(reason: str = "no", code: Code = Code.UNSCHEDULABLE) -> Status:
    return Status.new(code, reason)


def only_for(cluster: str, answer: Any) -> Callable[..., Any]:
    """An effect hook that answers for one target and has nothing against the others."""

    def hook(ctx: HookContext, state: CycleState, placement: Any, target: Target) -> Any:
        if target.cluster != cluster:
            return None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return hook


# --- profiles ---------------------------------------------------------------------------------------------------------


def a_registry(*plugins: Any, **factories: PluginFactory) -> Registry:
    """The in-tree plugins and these."""
    registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin.name(), giving(plugin))
    for name, factory in factories.items():
        registry.register(name, factory)
    return registry


def giving(plugin: Any) -> PluginFactory:
    return lambda raw, handle: plugin


def a_profile(*, called: str = "test", args: Iterable[tuple[str, Mapping[str, Any]]] = (), **given: Any) -> Profile:
    """The basics and, by hook, the plugins named; other keywords are fields of the profile."""
    hooks = {hook: given.pop(hook) for hook in METHODS if hook in given}
    plugins = {hook: [_ref(one) for one in named] for hook, named in {**BASIC_HOOKS, **hooks}.items()}
    config = [(name, RawArgs(content)) for name, content in args]
    return Profile(scheduler_name=called, plugins=plugins, plugin_config=config, **given)


def a_profile_with(hooks: Mapping[str, Any]) -> Profile:
    return a_profile(**hooks)


def _ref(one: str | PluginRef) -> PluginRef:
    return PluginRef(one) if isinstance(one, str) else one


def compiled(*plugins: Any, **given: Any) -> CompiledProfile:
    """A profile of the basics and these plugins, each at every hook it has a method for."""
    hooks: dict[str, Any] = {
        hook: [one.name() for one in plugins if hasattr(one, method)]
        for hook, method in METHODS.items()
        if any(hasattr(one, method) for one in plugins)
    }
    return compile_profile(a_registry(*plugins), a_profile(**hooks, **given), OfflineHandle())


# --- attempts ---------------------------------------------------------------------------------------------------------


def a_target(cluster: str, row: int = 0) -> Target:
    create = Operation(action=Action.CREATE, group=WriteGroup.CREATE, cluster=cluster, name=f"web-{cluster}")
    return Target(cluster, row, create, None)


def targets(*names: str) -> list[Target]:
    return [a_target(name, row) for row, name in enumerate(names)]


def an_attempt(now: int = NOW) -> HookContext:
    return HookContext(now=now, bindings=PlacementBindings())


def done(running: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        running.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


class DoneAtOnce:
    """Effects whose hooks wait for nothing, so that no event loop is needed."""

    def __init__(self, effects: Effects) -> None:
        self.__dict__["effects"] = effects

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__dict__["effects"], name)
        return (lambda *args: done(value(*args))) if iscoroutinefunction(value) else value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["effects"], name, value)


def effects_of(*plugins: Any, frame: Frame, now: int = NOW, **given: Any) -> Any:
    """The effect hooks of these plugins; a HubBindingBinder only if none of them binds."""
    profile, request = compiled(*plugins), a_policy().pick_n(2).request()
    effects = Effects(profile, ctx=an_attempt(now), state=CycleState(), placement=request, frame=frame, **given)
    return DoneAtOnce(effects)


NO_BINDINGS: tuple[Binding, ...] = ()
