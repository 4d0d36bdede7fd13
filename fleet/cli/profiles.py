"""From settings to the scheduler that runs: the default profile, as configured."""

from __future__ import annotations

from fleet.framework.profile import CompiledProfile, Limits
from fleet.settings import Settings
from plugins.default_profile import compile_default, default_profile


def compiled_profile(settings: Settings) -> CompiledProfile:
    limits = Limits(**settings.published_limits())
    return compile_default(default_profile(limits=limits, **settings.profile_changes()))
