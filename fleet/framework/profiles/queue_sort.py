"""The order of waiting placements. There is one queue, so all profiles must sort it the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

from fleet.errors import ConfigurationError
from fleet.framework.profiles.profile import BoundHook, Profile

LessFunc = Callable[[Any, Any], bool]
"""Whether the first of two queued placements goes before the second."""


class QueueSort:
    """A QueueSort plugin's order: called with two items it is a `LessFunc`; heaps use its `key`."""

    def __init__(self, plugin: Any) -> None:
        self.key: Callable[[Any], Any] = getattr(plugin, "key", None) or _key_from(plugin.less)

    def __call__(self, item: Any, other: Any) -> bool:
        return bool(self.key(item) < self.key(other))


def queue_sort_of(hooks: Sequence[BoundHook]) -> QueueSort:
    (entry,) = hooks
    return QueueSort(entry.plugin)


def require_one_queue_sort(profiles: Sequence[Profile]) -> None:
    """The same QueueSort plugin with the same arguments everywhere."""
    for profile in profiles[1:]:
        first, other = _identity(profiles[0]), _identity(profile)
        if first != other:
            raise ConfigurationError(
                f"profiles {profiles[0].scheduler_name} and {profile.scheduler_name} sort the one queue differently: "
                f"{_describe(first)} and {_describe(other)}; give both the same queueSort plugin and arguments"
            )


def _key_from(less: LessFunc) -> Callable[[Any], Any]:
    return cmp_to_key(lambda item, other: -1 if less(item, other) else int(less(other, item)))


def _identity(profile: Profile) -> list[tuple[str, Any]]:
    """Plugins with their arguments; absent arguments are the defaults, like empty ones."""
    args = {name: raw.parse() for name, raw in profile.plugin_config}
    return [(ref.name, args.get(ref.name) or {}) for ref in profile.plugins.get("queueSort", ())]


def _describe(identity: list[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {args}" if args else name for name, args in identity) or "none"
