"""Frameworks of the configured profiles, from construction to close, and which of them decides a placement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import structlog

from fleet.framework.explaining import EventSources, RegisteredSource
from fleet.framework.handle import NoWatches, OfflineHandle
from fleet.framework.profiles.profile import CompiledProfile, Profile, compile_profile
from fleet.framework.profiles.queue_sort import QueueSort
from fleet.framework.request import is_scheduler_name
from fleet.framework.runtime.framework import Framework, FrameworkOption, build_frameworks, close_plugins
from fleet.model.keys import SCHEDULER_NAME
from fleet.model.views import MemberCluster, Metadata
from fleet.scheduler.profiles.configuration import build_profiles
from fleet.settings import Settings
from fleet.snapshot.columns.pools import is_report_fresh
from fleet.snapshot.columns.signals import Eligibility
from plugins.default_profile import SCHEDULER_NAME as DEFAULT_NAME

log = structlog.get_logger(__name__)


def read_scheduler_name(metadata: Metadata) -> str:
    """As written on the placement; empty if it names none."""
    return metadata.annotation(SCHEDULER_NAME) or ""


def describe_choice(name: str) -> str:
    """The profile that a placement asks for."""
    return name or DEFAULT_NAME


def is_foreign_name(name: str, served: Collection[str]) -> bool:
    """A name that no scheduler can have is a mistake, which the scheduler of unnamed placements reports."""
    if describe_choice(name) in served:
        return False
    return is_scheduler_name(name) or DEFAULT_NAME not in served


class SignalRule(NamedTuple):
    """By which the reports of a cluster count as recent, and how long it keeps its placements after them."""

    eligibility: Eligibility
    retention: int


@dataclass(frozen=True, slots=True)
class CompiledProfiles:
    """The profiles of decisions without a scheduler, by scheduler name."""

    by_name: Mapping[str, CompiledProfile]

    @property
    def default(self) -> CompiledProfile:
        """For placements that name no profile. Where there is no such profile, the first stands in for explanations."""
        return self.by_name.get(DEFAULT_NAME) or next(iter(self.by_name.values()))

    def find(self, name: str) -> CompiledProfile | None:
        return self.by_name.get(describe_choice(name))

    def is_foreign(self, name: str) -> bool:
        """Whether a scheduler with these profiles leaves a placement with this name alone."""
        return is_foreign_name(name, self.by_name)

    def find_equal(self, config_hash: str) -> CompiledProfile | None:
        return next((profile for profile in self.by_name.values() if profile.config_hash == config_hash), None)

    def choose(self, name: str) -> CompiledProfile:
        """For a decision that has to be shown whether the name is served here or not."""
        return self.find(name) or self.default

    def list_loads(self) -> set[str]:
        return list_loads(self.by_name.values())


@dataclass(frozen=True, slots=True)
class PreparedProfiles:
    """Another version of the profiles, built and not in use yet."""

    frameworks: Frameworks
    changed: tuple[tuple[Framework, CompiledProfile, Profile], ...]
    added: tuple[Framework, ...]
    removed: tuple[Framework, ...]

    @property
    def names(self) -> frozenset[str]:
        """Of the profiles that are others from now on."""
        return frozenset(profile.scheduler_name for _, _, profile in self.changed)

    @property
    def moved_names(self) -> frozenset[str]:
        """Of those that are new or gone."""
        return frozenset(framework.scheduler_name for framework in (*self.added, *self.removed))

    def install(self) -> list[CompiledProfile]:
        """For attempts that start from now on. Returns the former profiles."""
        former = [framework.install(prepared, profile) for framework, prepared, profile in self.changed]
        self.frameworks.exchange(self.added, self.removed)
        return [*former, *(framework.profile for framework in self.removed)]


class Frameworks:
    """The frameworks of a process, by scheduler name: one queue order, one cache."""

    def __init__(self, by_name: Mapping[str, Framework]) -> None:
        self._hold(dict(by_name))

    def _hold(self, by_name: dict[str, Framework]) -> None:
        self._by_name = by_name
        self.default = by_name.get(DEFAULT_NAME) or next(iter(by_name.values()))
        """Of placements that name no profile. Where there is no such profile, the first stands in for explanations."""
        self.only = self.default if len(by_name) == 1 else None
        """Decides or shows placements whatever they name."""

    def __iter__(self) -> Iterator[Framework]:
        return iter(self._by_name.values())

    def find(self, name: str) -> Framework | None:
        """None if the placement is another scheduler's."""
        return self._by_name.get(describe_choice(name))

    def choose(self, name: str) -> Framework:
        """For a decision that has to be shown whether the name is served here or not."""
        return self.find(name) or self.default

    def is_foreign(self, name: str) -> bool:
        """Whether a placement with this name is left alone."""
        return is_foreign_name(name, self._by_name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    @property
    def queue_sort(self) -> QueueSort:
        return self.default.queue_sort_func()

    @property
    def evict(self) -> bool:
        """Whether a profile makes room by evicting."""
        return any(framework.profile.evicts for framework in self)

    @property
    def event_sources(self) -> EventSources:
        """Of all profiles; plugins with equal arguments register the same events."""
        sources: dict[tuple[str, str, bool], RegisteredSource] = {}
        for framework in self:
            args = framework.plugin_args()
            for registered in framework.profile.event_sources:
                name = registered.name
                sources.setdefault((name, args.get(name, ""), registered.judges_fixed), registered)
        return tuple(sources.values())

    @property
    def read_residents(self) -> bool:
        """Whether any profile does."""
        return any(framework.profile.reads_residents for framework in self)

    def reads_labels(self, name: str) -> bool:
        """Whether the profile of that name reads the labels of placements."""
        return self.choose(name).profile.reads_residents

    def list_packages(self) -> list[str]:
        """Of the plugins that are not in-tree."""
        return [package for framework in self for package in framework.configured.packages.values()]

    def list_loads(self) -> set[str]:
        """Feeds that plugins read as loads, and REPORTED."""
        return list_loads(framework.profile for framework in self)

    @property
    def decide_groups(self) -> bool:
        return any(framework.profile.decides_groups for framework in self)

    @property
    def reads_placed_limits(self) -> bool:
        return any(framework.profile.reads_placed_limits for framework in self)

    @property
    def reads_quotas(self) -> bool:
        return any(framework.profile.reads_quotas for framework in self)

    def list_request_readers(self) -> set[tuple[str, bool]]:
        """The profiles that read what placements request, and whether they read limits, too."""
        profiles = (framework.profile for framework in self)
        return {(profile.scheduler_name, profile.reads_limits) for profile in profiles if profile.reads_requests}

    def list_eligibility_rules(self) -> tuple[Callable[[MemberCluster, int], bool], ...]:
        """By which clusters become eligible, of all profiles. To a profile without such a plugin all are. Where it
        looks at pools, those with a stale report of them are not eligible for some placements."""
        rules: dict[tuple[Eligibility | None, int], None] = {}
        for framework in self:
            plugins = framework.profile.find_plugins("eligibility")
            ages = [plugin.longest_report for _, plugin in framework.profile.find_plugins("longest_report")]
            rules.update(dict.fromkeys(product([plugin.eligibility for _, plugin in plugins] or [None], [0, *ages])))
        return tuple(_build_rule(eligibility, age) for eligibility, age in rules)

    def list_signal_rules(self) -> tuple[SignalRule, ...]:
        """By which the reports of clusters are judged, of all profiles."""
        plugins = (plugin for framework in self for _, plugin in framework.profile.find_plugins("eligibility"))
        return tuple({SignalRule(plugin.eligibility, getattr(plugin, "retention", 0)) for plugin in plugins})

    @property
    def judge_names(self) -> list[str]:
        return list(dict.fromkeys(judge.name for framework in self for judge in framework.profile.judges))

    def prepare(self, settings: Settings) -> PreparedProfiles:
        """Build the profiles that differ, without changing anything. Raises ConfigurationError."""
        profiles, registry = build_profiles(settings)
        changed, added = [], []
        for profile in profiles:
            framework = self._by_name.get(profile.scheduler_name)
            if framework is None:
                added.append(self.default.build_beside(registry, profile))
            elif framework.configured != profile:
                changed.append((framework, framework.prepare(registry, profile), profile))
        served = {profile.scheduler_name for profile in profiles}
        removed = tuple(framework for framework in self if framework.scheduler_name not in served)
        return PreparedProfiles(self, tuple(changed), tuple(added), removed)

    def exchange(self, added: Iterable[Framework], removed: Iterable[Framework]) -> None:
        """Placements of profiles that are gone are left alone from now on."""
        gone = {framework.scheduler_name for framework in removed}
        kept = {name: framework for name, framework in self._by_name.items() if name not in gone}
        self._hold(kept | {framework.scheduler_name: framework for framework in added})

    def close(self) -> None:
        """At the end of the process. An error of a plugin does not change how the process ends."""
        for framework in self:
            try:
                framework.close()
            except Exception as errors:
                log.error("plugins could not be closed", exc_info=errors)


def _build_rule(eligibility: Eligibility | None, longest_report: int) -> Callable[[MemberCluster, int], bool]:
    accepts = _is_in_fleet if eligibility is None else eligibility.of
    if not longest_report:
        return accepts
    return lambda cluster, now: accepts(cluster, now) and is_report_fresh(cluster, now, longest=longest_report)


def _is_in_fleet(cluster: MemberCluster, now: int) -> bool:
    del now
    return cluster.metadata.deletion_timestamp is None


def close_retired(profile: CompiledProfile) -> None:
    """An error of a plugin changes nothing any more."""
    try:
        close_plugins(profile)
    except Exception as errors:
        log.error("plugins could not be closed", exc_info=errors)


def build_compiled_profiles(settings: Settings) -> CompiledProfiles:
    profiles, registry = build_profiles(settings)
    handle = OfflineHandle(watches=NoWatches())
    return CompiledProfiles({each.scheduler_name: compile_profile(registry, each, handle) for each in profiles})


def build_configured_frameworks(settings: Settings, *options: FrameworkOption) -> Frameworks:
    profiles, registry = build_profiles(settings)
    return Frameworks(build_frameworks(registry, profiles, *options))


def is_eligible(profile: CompiledProfile, cluster: MemberCluster, now: int) -> bool:
    """By the arguments of this profile. To one without such a plugin every cluster is that does not leave."""
    plugins = profile.find_plugins("eligibility")
    return _is_in_fleet(cluster, now) and all(plugin.eligibility.of(cluster, now) for _, plugin in plugins)


def list_loads(profiles: Iterable[CompiledProfile]) -> set[str]:
    plugins = [plugin for profile in profiles for _, plugin in profile.find_plugins("list_loads")]
    return {load for plugin in plugins for load in plugin.list_loads()}
