"""Profiles: the plugins that the settings configure, from construction to close."""

from __future__ import annotations

import structlog

from fleet.framework.profiles.profile import CompiledProfile, Profile, StatusLimits
from fleet.framework.runtime.framework import Framework
from fleet.framework.runtime.options import FrameworkOption
from fleet.settings import Settings
from plugins import in_tree_registry
from plugins.default_profile import compile_default, default_profile

log = structlog.get_logger(__name__)


def build_profile(settings: Settings) -> Profile:
    return default_profile(limits=StatusLimits(**settings.published_limits()), **settings.profile_changes())


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
