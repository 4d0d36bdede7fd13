"""Profiles of the product: plugins are refused at hooks that nothing runs."""

from __future__ import annotations

import pytest

from fleet.errors import ConfigurationError
from fleet.framework.profiles.profile import PluginRef
from fleet.scheduler import configured_profiles
from fleet.scheduler.profiles import build_compiled_profiles, build_configured_frameworks
from fleet.settings import Settings
from plugins.default_profile import DEFAULT_PLUGINS, default_profile


def with_plugin(monkeypatch: pytest.MonkeyPatch, hook: str, name: str) -> None:
    plugins = {**DEFAULT_PLUGINS, hook: (*DEFAULT_PLUGINS.get(hook, ()), PluginRef(name))}
    monkeypatch.setattr(
        configured_profiles, "default_profile", lambda **changes: default_profile(**({"plugins": plugins} | changes))
    )


@pytest.mark.parametrize("hook", ["preEnqueue", "reserve", "permit", "preBind", "postBind"])
@pytest.mark.parametrize("build", [build_configured_frameworks, build_compiled_profiles])
def test_a_plugin_at_a_hook_that_nothing_runs_is_refused(
    hook: str, build: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_plugin(monkeypatch, hook, "Guard")

    with pytest.raises(ConfigurationError) as refused:
        build(Settings())  # type: ignore[operator]  # both take the settings alone

    assert str(refused.value) == (
        f"profile DefaultScheduler: plugin Guard at {hook}: nothing runs this hook yet; remove it from {hook}"
    )


def test_another_bind_plugin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with_plugin(monkeypatch, "bind", "Courier")

    with pytest.raises(ConfigurationError, match="plugin Courier at bind: bindings are written without asking it"):
        build_configured_frameworks(Settings())


def test_the_default_profile_is_built() -> None:
    assert build_configured_frameworks(Settings()).default.profile.hooks["bind"][0].name == "HubBindingBinder"
