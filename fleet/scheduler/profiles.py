"""From settings to the profile that decides."""

from __future__ import annotations

from fleet.framework.profiles.profile import CompiledProfile, Profile, StatusLimits
from fleet.framework.runtime.framework import Framework
from fleet.framework.runtime.options import FrameworkOption
from fleet.settings import Settings
from plugins import in_tree_registry
from plugins.default_profile import compile_default, default_profile


def build_profile(settings: Settings) -> Profile:
    return default_profile(limits=StatusLimits(**settings.published_limits()), **settings.profile_changes())


def build_compiled_profile(settings: Settings) -> CompiledProfile:
    """For whoever only decides."""
    return compile_default(build_profile(settings))


def build_framework(settings: Settings, *options: FrameworkOption) -> Framework:
    return Framework.build(in_tree_registry(), build_profile(settings), *options)
