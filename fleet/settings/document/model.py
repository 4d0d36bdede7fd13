"""Profiles as a document defines them, with the line of each value. Data only: the scheduler looks up the plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

API_VERSION: Final = "scheduling.fleet.dev/v1"
KIND: Final = "FleetSchedulerConfiguration"
LONGEST_PERMIT_WAIT: Final = 900
"""Seconds."""
DEFAULT_NAME: Final = "DefaultScheduler"
"""Of the profile for placements that name none."""
DEFAULT_BASE: Final = "DefaultProfile"
WEIGHTED_BASES: Final = ("ExtendedProfile", "LoadAware")
BASES: Final = (DEFAULT_BASE, *WEIGHTED_BASES, "Empty")
MULTI_POINT: Final = "multiPoint"
HOOKS: Final = (
    "queueSort",
    "preEnqueue",
    "batch",
    "postBatch",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "sort",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)
RANKINGS: Final = ("lexicographic", "weighted")
TIE_BREAKS: Final = ("nameDescending", "nameAscending", "hashed")


@dataclass(frozen=True, slots=True)
class PluginChoice:
    """An entry of a list of plugins."""

    name: str
    weight: int = 0
    """0: not given."""
    origin: str = ""
    """`fleet.yaml:12`"""
    path: str = ""
    """`profiles[0].plugins.score.enabled[1]`"""


@dataclass(frozen=True, slots=True)
class PluginSet:
    """The changes to the plugins of one hook, or of `multiPoint`."""

    enabled: tuple[PluginChoice, ...] = ()
    disabled: tuple[PluginChoice, ...] = ()

    @property
    def disabled_names(self) -> frozenset[str]:
        """May contain `*`."""
        return frozenset(choice.name for choice in self.disabled)


@dataclass(frozen=True, slots=True)
class PluginArgs:
    name: str
    args: Mapping[str, Any]
    written: Mapping[str, Any]
    """Before substitution: values from the environment are not shown."""
    origin: str = ""
    path: str = ""

    def hide_values(self, text: str) -> str:
        """With what was written in place of values from the environment."""
        pairs = sorted(_list_substituted(self.args, self.written), key=lambda pair: len(pair[0]), reverse=True)
        for value, written in pairs:
            text = text.replace(value, written)
        return text


def _list_substituted(value: Any, written: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _list_substituted(inner, written[name])
    elif isinstance(value, list):
        for inner, inner_written in zip(value, written, strict=True):
            yield from _list_substituted(inner, inner_written)
    elif value != written and value:
        yield value, written


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDocument:
    scheduler_name: str
    base: str = DEFAULT_BASE
    plugins: Mapping[str, PluginSet] = field(default_factory=lambda: MappingProxyType({}))
    """By hook, and `multiPoint`."""
    plugin_config: tuple[PluginArgs, ...] = ()
    ranking: str | None = None
    tie_break: str | None = None
    percentage_of_clusters: int | None = None
    backoff_on_rejection: bool | None = None
    reserve_fallback: bool | None = None
    partial_permit: bool | None = None
    path: str = ""
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The line of every value, by path."""

    def list_values(self) -> Iterator[tuple[str, Any, str]]:
        """Path, value as written and origin of everything in the profile, defaults included."""
        named = {
            "schedulerName": self.scheduler_name,
            "base": self.base,
            "ranking": self.ranking,
            "tieBreak": self.tie_break,
            "percentageOfClustersToScore": self.percentage_of_clusters,
            "backoffOnRejection": self.backoff_on_rejection,
            "reserveFallback": self.reserve_fallback,
            "partialPermit": self.partial_permit,
        }
        for name, value in named.items():
            if value is not None:
                yield f"{self.path}.{name}", value, self.origins.get(f"{self.path}.{name}", "default")
        for changes in self.plugins.values():
            for choice in (*changes.disabled, *changes.enabled):
                yield f"{choice.path}.name", choice.name, choice.origin
                if (weight := f"{choice.path}.weight") in self.origins:
                    yield weight, choice.weight or 1, choice.origin
        for config in self.plugin_config:
            for path, value in _flatten(f"{config.path}.args", config.written):
                yield path, value, self.find_origin(path)

    def find_origin(self, path: str) -> str:
        """Of the value, or of the innermost one around it."""
        while path and path not in self.origins:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.origins.get(path, "")


def _flatten(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flatten(f"{path}.{name}", inner)
    elif isinstance(value, list) and value:
        for position, inner in enumerate(value):
            yield from _flatten(f"{path}[{position}]", inner)
    else:
        yield path, value
