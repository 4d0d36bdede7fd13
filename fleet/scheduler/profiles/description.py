"""Profiles as the API and the scheduler itself describe them: `/v1/profiles` and `/v1/profiles/NAME`."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

import msgspec

from fleet.framework.runtime.framework import Framework
from fleet.scheduler.profiles.configuration import describe_deviation
from fleet.scheduler.profiles.frameworks import Frameworks

_ALL: Final = "/v1/profiles"


class PluginModel(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    name: str
    form: str
    """vector: judges all clusters at once; scalar: one by one."""
    weight: int | None = None


class ProfileModel(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    scheduler_name: str
    config_hash: str
    ranking: str
    tie_break: str
    unselected_budget: int
    max_decisions: int
    percentage_of_clusters: int
    """To examine before settling; 0 adapts to the fleet."""
    compatible: bool
    """Whether decisions are KubeFleet's."""
    deviation: str
    """Why not; empty if they are."""
    packages: dict[str, str]
    """Name and version of the distribution of each plugin that is not in-tree."""
    plugins: dict[str, tuple[PluginModel, ...]]
    """By hook, in the order they run."""
    warnings: tuple[str, ...]


class ProfilePage(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    items: tuple[ProfileModel, ...]


def describe_profile(framework: Framework) -> ProfileModel:
    profile = framework.profile
    hooks, deviation = framework.list_plugins(), describe_deviation(framework.configured)
    return ProfileModel(
        scheduler_name=profile.scheduler_name,
        config_hash=profile.config_hash,
        ranking=profile.ranking,
        tie_break=profile.tie_break,
        unselected_budget=profile.limits.unselected_budget,
        max_decisions=profile.limits.max_decisions,
        percentage_of_clusters=profile.percentage_of_clusters,
        compatible=not deviation,
        deviation=deviation,
        packages=dict(framework.configured.packages),
        plugins={
            hook: tuple(PluginModel(name=plugin.name, form=plugin.form, weight=plugin.weight) for plugin in plugins)
            for hook, plugins in hooks.items()
            if plugins
        },
        warnings=tuple(profile.warnings),
    )


def render_profile_page(frameworks: Frameworks, path: str) -> bytes | None:
    """JSON; None where the path is none of a profile that there is."""
    if path == _ALL:
        return msgspec.json.encode(ProfilePage(items=tuple(map(describe_profile, frameworks))))
    root, _, name = path.rpartition("/")
    framework = frameworks.find(unquote(name)) if root == _ALL and name else None
    return None if framework is None else msgspec.json.encode(describe_profile(framework))
