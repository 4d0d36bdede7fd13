"""From settings to the profile that decides."""

from __future__ import annotations

from fleet.framework.profiles.profile import CompiledProfile, Limits, Profile
from fleet.framework.runtime.framework import Framework
from fleet.framework.runtime.options import Option
from fleet.settings import Settings
from plugins import in_tree_registry
from plugins.default_profile import compile_default, default_profile


def configured_profile(settings: Settings) -> Profile:
    return default_profile(limits=Limits(**settings.published_limits()), **settings.profile_changes())


def compiled_profile(settings: Settings) -> CompiledProfile:
    """For whoever only decides."""
    return compile_default(configured_profile(settings))


def framework_of(settings: Settings, *options: Option) -> Framework:
    return Framework.build(in_tree_registry(), configured_profile(settings), *options)
