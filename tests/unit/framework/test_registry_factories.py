"""Making plugins: the name they must have, the arguments they get, and what happens when a factory fails."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import ConfigurationError
from fleet.framework.arguments import RawArgs
from fleet.framework.handle import EmptyWaitingRoom
from fleet.framework.runtime.framework import Framework
from tests.unit.framework.plugin_fakes import Scripted, a_profile, a_registry, giving


class Nameless:
    def pre_filter(self, *args: Any) -> None:
        return None


def test_F3_034_a_plugin_without_a_name_is_refused() -> None:
    registry = a_registry(Nameless=giving(Nameless()))
    with pytest.raises(ConfigurationError, match=r'"Nameless": .* no attribute .name.$'):
        Framework.build(registry, a_profile(preFilter=["Nameless"]))


def test_F3_034_a_factory_that_makes_nothing_is_refused() -> None:
    registry = a_registry(Nothing=giving(None))
    with pytest.raises(ConfigurationError, match='error initializing plugin "Nothing": '):
        Framework.build(registry, a_profile(preFilter=["Nothing"]))


def test_F3_035_a_failing_factory_keeps_the_framework_from_being_built() -> None:
    cause = ValueError("no such zone")

    def failing(raw: Any, handle: Any) -> Any:
        raise cause

    with pytest.raises(ConfigurationError, match=r'^error initializing plugin "Failing": no such zone$') as refused:
        Framework.build(a_registry(Failing=failing), a_profile(preFilter=["Failing"]))
    assert refused.value.__cause__ is cause


def test_F3_035_a_factory_gets_the_arguments_configured_for_its_plugin_and_the_handle() -> None:
    given: list[tuple[Any, Any]] = []

    def factory(raw: Any, handle: Any) -> Any:
        given.append((raw, handle))
        return Scripted("Picky", pre_filter=None)

    registry = a_registry(Scripted("Plain", pre_filter=None), Picky=factory)
    profile = a_profile(preFilter=["Plain", "Picky"], args=[("Picky", {"zone": "cet"})])
    framework = Framework.build(registry, profile)
    assert given == [(RawArgs({"zone": "cet"}), framework)]


def test_F3_035_a_plugin_without_configured_arguments_gets_none() -> None:
    given: list[Any] = []

    def factory(raw: Any, handle: Any) -> Any:
        given.append(raw)
        return Scripted("Picky", pre_filter=None)

    Framework.build(a_registry(Picky=factory), a_profile(preFilter=["Picky"]))
    assert given == [None]


def test_F3_035_a_plugin_at_several_hooks_is_made_once() -> None:
    made: list[Scripted] = []

    def factory(raw: Any, handle: Any) -> Any:
        made.append(Scripted("Busy", pre_filter=None, pre_score=None))
        return made[-1]

    framework = Framework.build(a_registry(Busy=factory), a_profile(preFilter=["Busy"], preScore=["Busy"]))
    (plugin,) = made
    hooks = framework.profile.hooks
    assert hooks["preFilter"][0].plugin is hooks["preScore"][0].plugin is plugin


def test_F3_035_a_plugin_that_no_hook_names_is_not_made() -> None:
    made: list[Any] = []
    Framework.build(a_registry(Idle=lambda raw, handle: made.append(raw)), a_profile())
    assert made == []


def test_nothing_is_parked_without_a_waiting_room() -> None:
    room = EmptyWaitingRoom()
    visited: list[Any] = []
    room.for_each(visited.append)
    assert (visited, room.get("uid"), room.reject("uid", "P", "no")) == ([], None, False)
