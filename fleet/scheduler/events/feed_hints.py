"""Feed hints: of the placements that wait, those that new numbers of a feed can help.

A feed ends a rejection only if a filter that reads it has rejected a cluster, and accepts one now that it did not
accept before. In doubt a placement is requeued: if the filter looks at more than feeds, or fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog

from fleet.clock import Clock, epoch_nanoseconds
from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import HookContext
from fleet.framework.profiles.profile import BoundHook, CompiledProfile
from fleet.framework.request import PlacementRequest
from fleet.framework.runtime.purity_guard import Phase, enter_phase
from fleet.framework.state import CycleState
from fleet.framework.types import PluginTraits
from fleet.model.placement_key import PlacementKey
from fleet.snapshot.columns.bitset import as_bits
from fleet.snapshot.frame import Frame

log = structlog.get_logger(__name__)

FEEDS = "feeds"
_NO_REQUEST = PlacementRequest(placement="")


@dataclass(frozen=True, slots=True)
class FeedHints:
    profile_of: Callable[[PlacementKey], CompiledProfile]
    rejectors_of: Callable[[PlacementKey], frozenset[str] | None]
    """Of the last attempt; None where it is in flight."""
    clock: Clock

    def select(self, keys: Iterable[PlacementKey], before: Frame, after: Frame) -> Iterator[PlacementKey]:
        now = epoch_nanoseconds(self.clock)
        helped: dict[int, frozenset[str]] = {}
        for key in keys:
            profile = self.profile_of(key)
            names = helped.get(id(profile))
            if names is None:
                names = helped[id(profile)] = frozenset(_list_helped(profile, before, after, now))
            rejectors = self.rejectors_of(key)
            if names and (rejectors is None or names & rejectors):
                yield key


def _list_helped(profile: CompiledProfile, before: Frame, after: Frame, now: int) -> Iterator[str]:
    """The plugins that read feeds and accept other clusters now."""
    for entry in (*profile.filters, *profile.pre_filter):
        reads = getattr(entry.plugin, "READS", PluginTraits.READS)
        if not {FEEDS, "*"} & set(reads):
            continue
        if reads != (FEEDS,) or not entry.plugin.ROW_LOCAL or not entry.plugin.READS_POLICY_ONLY:
            yield entry.name
            continue
        try:
            with enter_phase(Phase.DECIDING, after):
                accepts_more = _accept(entry, after, profile, now) & ~_accept(entry, before, profile, now)
        except Exception:
            log.warning("a plugin could not judge a feed: its placements are requeued", exc_info=True)
            yield entry.name
            continue
        if accepts_more:
            yield entry.name


def _accept(entry: BoundHook, frame: Frame, profile: CompiledProfile, now: int) -> int:
    ctx = HookContext(now=now, bindings=PlacementBindings(), ranking=profile.ranking, tie_break=profile.tie_break)
    verdict: Any = entry.call(ctx, CycleState(), _NO_REQUEST, frame, frame.valid)
    return as_bits(verdict.ok, frame.valid)
