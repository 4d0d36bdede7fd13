"""Rankings that placements with equal requests share: of a burst of them, the first is ranked for all.

Requests are equal if all plugins of the profile sign them alike (`sign`). Their ranking is valid as long as no cluster
changes beyond a heartbeat, and as the filters that do not sign, such as one that reads the time, judge as before. The
decision is the one that all hooks would have led to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from fleet.errors import PluginError
from fleet.framework.context import QueryPending, Warning
from fleet.framework.cycle.rounds import Picked
from fleet.framework.cycle.runner import JudgedFilter, Runner
from fleet.framework.profiles.profile import CompiledProfile
from fleet.snapshot.columns.bitset import to_rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.table import differ_beyond_heartbeat

_MOST_SIGNATURES: Final = 8
_MOST_CHANGED: Final = 64
"""Clusters that are compared. Where more have changed, all are ranked anew."""


class _Signature:
    """Its hash is computed once: policies are large."""

    __slots__ = ("_hash", "_parts", "_profile")

    def __init__(self, profile: CompiledProfile, parts: tuple[Hashable, ...]) -> None:
        self._profile, self._parts, self._hash = profile, parts, hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Signature) or self._profile is not other._profile:
            return False
        try:
            return self._parts == other._parts
        except Exception:
            return False  # of values that cannot be compared


class _Kept(NamedTuple):
    frame: Frame
    """The latest in which the ranking was valid."""
    ranking: Picked
    skipped: Mapping[str, tuple[str, ...]]
    warnings: Mapping[tuple[str, str], Warning]
    judged: tuple[JudgedFilter, ...]


class Rankings:
    """The latest few. Threads may ask side by side: what is kept never changes."""

    def __init__(self) -> None:
        self._kept: Mapping[_Signature, _Kept] = {}

    def rank(self, runner: Runner, frame: Frame, run_hooks: Callable[[], Picked]) -> Picked:
        """What `run_hooks` returns, or would return."""
        signature = _sign(runner, frame)
        if signature is None:
            return run_hooks()
        kept = self._kept.get(signature)
        if kept is not None and _is_valid(kept, runner, frame):
            ranking = _share(kept, runner, frame)
            self._put(signature, kept._replace(frame=frame, ranking=ranking))
            return ranking
        runner.listens = True
        ranking = run_hooks()
        if not runner.ctx.notes and all(judged.says_no_more for judged in runner.judged.values()):
            self._put(signature, _keep(ranking, runner, frame))
        return ranking

    def _put(self, signature: _Signature, latest: _Kept) -> None:
        """Those that can no longer be compared with the fleet go."""
        kept = dict(self._kept)  # hashes nothing anew
        kept.pop(signature, None)
        log = latest.frame.log_position.log
        outdated = [key for key, each in kept.items() if each.frame.log_position.log is not log]
        for key in outdated or [*kept][: max(len(kept) + 1 - _MOST_SIGNATURES, 0)]:
            del kept[key]
        kept[signature] = latest
        self._kept = kept


def _sign(runner: Runner, frame: Frame) -> _Signature | None:
    """None if more may count than clusters and what is signed, or if a plugin cannot sign."""
    ctx, signers = runner.ctx, runner.profile.signers
    if signers is None or runner.is_measured or ctx.bindings.holders or ctx.nominated:
        return None
    if frame.nominations or frame.excluded or ctx.has_results:
        return None
    try:
        return _Signature(runner.profile, tuple([plugin.sign(runner.req) for plugin in signers]))
    except Exception:
        return None  # all hooks run; the conformance kit finds such plugins


def _keep(ranking: Picked, runner: Runner, frame: Frame) -> _Kept:
    return _Kept(
        frame=frame,
        ranking=ranking,
        skipped={hook: tuple(names) for hook, names in runner.skipped.items()},
        warnings=runner.ctx.warnings.copy(),
        judged=tuple(runner.judged.values()),
    )


def _share(kept: _Kept, runner: Runner, frame: Frame) -> Picked:
    runner.ctx.warnings = dict(kept.warnings)
    runner.skipped = {hook: list(names) for hook, names in kept.skipped.items()}
    rounds, targets, count = kept.ranking
    rebound = [replace(each, verdicts=each.verdicts.rebind(frame, runner.req)) for each in rounds]
    return rebound, list(targets), count


def _is_valid(kept: _Kept, runner: Runner, frame: Frame) -> bool:
    return _is_same_fleet(kept.frame, frame) and all(_judges_alike(runner, frame, judged) for judged in kept.judged)


def _is_same_fleet(before: Frame, frame: Frame) -> bool:
    """But for heartbeats and for what is on clusters."""
    if frame is before:
        return True
    changed = frame.find_changed(before.log_position) if frame.names is before.names else None
    if changed is None:
        return False
    clusters = [(before.clusters[row], frame.clusters[row]) for row in changed.tolist()]
    differing = [(old, new) for old, new in clusters if old is not new]
    return len(differing) <= _MOST_CHANGED and not any(differ_beyond_heartbeat(old, new) for old, new in differing)


def _judges_alike(runner: Runner, frame: Frame, before: JudgedFilter) -> bool:
    try:
        again = runner.judge_anew(before.entry, frame, before.alive)
    except (PluginError, QueryPending):
        return False  # it reads what other hooks leave in the state, or asks
    if not again.says_no_more or (again.rejected, again.retained) != (before.rejected, before.retained):
        return False
    rows = to_rows(before.rejected, frame.size)
    return bool(np.array_equal(again.read_reasons(rows), before.read_reasons(rows)))
