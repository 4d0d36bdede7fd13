"""Profiles: the plugins that the settings configure, from construction to close."""

from __future__ import annotations

from typing import Final

import structlog

from fleet.errors import ConfigurationError
from fleet.framework.profiles.profile import CompiledProfile, Profile, StatusLimits
from fleet.framework.runtime.framework import Framework, FrameworkOption
from fleet.settings import Settings
from plugins import in_tree_registry
from plugins.default_profile import compile_default, default_profile

log = structlog.get_logger(__name__)

_IDLE_HOOKS: Final = ("preEnqueue", "reserve", "permit", "preBind", "postBind")
"""Nothing runs these yet."""
_BINDER: Final = "HubBindingBinder"
"""Bindings are written by the dispatcher, which this name stands for: no other Bind plugin would be asked."""


def build_profile(settings: Settings) -> Profile:
    profile = default_profile(limits=StatusLimits(**settings.published_limits()), **settings.profile_changes())
    check_hooks_run(profile)
    return profile


def check_hooks_run(profile: Profile) -> None:
    """Refuses plugins at hooks that nothing runs: they would be listed and never asked."""
    for hook in _IDLE_HOOKS:
        for plugin in profile.plugins.get(hook, ()):
            message = f"plugin {plugin.name} at {hook}: nothing runs this hook yet; remove it from {hook}"
            raise ConfigurationError(f"profile {profile.scheduler_name}: {message}")
    for plugin in profile.plugins.get("bind", ()):
        if plugin.name != _BINDER:
            message = (
                f"plugin {plugin.name} at bind: bindings are written without asking it; leave {_BINDER} alone there"
            )
            raise ConfigurationError(f"profile {profile.scheduler_name}: {message}")


def build_compiled_profile(settings: Settings) -> CompiledProfile:
    """For decisions without a scheduler."""
    return compile_default(build_profile(settings))


def build_framework(settings: Settings, *options: FrameworkOption) -> Framework:
    return Framework.build(in_tree_registry(), build_profile(settings), *options)


def close_plugins(framework: Framework) -> None:
    """At the end of the process. An error of a plugin does not change how the process ends."""
    try:
        framework.close()
    except Exception as errors:
        log.error("plugins could not be closed", exc_info=errors)
