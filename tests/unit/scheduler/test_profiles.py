"""Profiles of the product."""

from __future__ import annotations

from fleet.scheduler.profiles.frameworks import build_configured_frameworks
from fleet.settings import Settings


def test_the_default_profile_is_built() -> None:
    assert build_configured_frameworks(Settings()).default.profile.hooks["bind"][0].name == "HubBindingBinder"
