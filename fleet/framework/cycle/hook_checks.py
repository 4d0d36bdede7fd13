"""Checks of the results of decision hooks: a wrong type, code or shape is an error that names plugin and hook."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleet.errors import PluginError
from fleet.framework.profiles.profile import BoundHook
from fleet.framework.status import MAX_CLUSTER_SCORE, MIN_CLUSTER_SCORE, Code, Status, code_of, message_of
from fleet.framework.types import PluginTraits, Verdict
from fleet.snapshot.columns.bitset import Int64Array, Mask, Rows, as_bits, to_rows
from fleet.snapshot.frame import Frame

_LEAST_COMPONENT, _GREATEST_COMPONENT = -(2**31), 2**31 - 1


def check_pair(entry: BoundHook, hook: str, answer: Any) -> tuple[Any, Status | None]:
    """A value and a status. None means success without a value."""
    if answer is None:
        return None, None
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise PluginError(f"answered {type(answer).__name__}, not a value and a Status", plugin=entry.name, hook=hook)
    return answer[0], check_status(entry, hook, answer[1])


def check_status(entry: BoundHook, hook: str, answer: Any) -> Status | None:
    if answer is None or isinstance(answer, Status):
        return answer
    raise PluginError(f"answered {type(answer).__name__}, not a Status", plugin=entry.name, hook=hook)


def build_code_error(plugin: str, hook: str, status: Status | None) -> PluginError:
    code = code_of(status)
    if code is Code.ERROR:
        return PluginError(message_of(status) or "failed", plugin=plugin, hook=hook)
    return PluginError(f"invalid code {code} at {hook[0].upper()}{hook[1:]}", plugin=plugin, hook=hook)


def parse_mask(plugin: str, hook: str, mask: Mask, frame: Frame) -> int:
    check_mask(plugin, hook, mask, frame)
    return as_bits(mask, frame.valid)


def check_mask(plugin: str, hook: str, mask: object, frame: Frame) -> None:
    if isinstance(mask, int):
        return
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (frame.size,):
        actual = f"{mask.dtype}{list(mask.shape)}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise PluginError(f"mask should be bool[{frame.size}] or an int, not {actual}", plugin=plugin, hook=hook)


def check_verdict(entry: BoundHook, verdict: object, frame: Frame, alive: int) -> Verdict:
    if not isinstance(verdict, Verdict):
        if isinstance(verdict, Status):
            raise build_code_error(entry.name, "filter", verdict)
        raise PluginError(f"answered {type(verdict).__name__}, not a Verdict", plugin=entry.name, hook="filter")
    check_mask(entry.name, "filter", verdict.ok, frame)
    rejected = alive & ~as_bits(verdict.ok, alive)
    if not rejected:
        return verdict
    declared = getattr(entry.plugin, "REASONS", PluginTraits.REASONS).reasons
    known = len(declared if verdict.statuses is None else verdict.statuses)
    low, high = _reason_range(entry, verdict, frame, rejected)
    if low < 1 or high > known:
        bad = low if low < 1 else high
        raise PluginError(f"undeclared reason {bad} (it declares {known})", plugin=entry.name, hook="filter")
    return verdict


def _reason_range(entry: BoundHook, verdict: Verdict, frame: Frame, rejected: int) -> tuple[int, int]:
    if isinstance(verdict.reason, int):
        return verdict.reason, verdict.reason
    if verdict.reason.dtype != np.uint16 or verdict.reason.shape != (frame.size,):
        actual = f"{verdict.reason.dtype}{list(verdict.reason.shape)}"
        raise PluginError(f"reasons should be uint16[{frame.size}], not {actual}", plugin=entry.name, hook="filter")
    used = verdict.reason[to_rows(rejected, frame.size)]
    return int(used.min()), int(used.max())


def check_scores(plugin: str, hook: str, column: Any, rows: Rows) -> Int64Array:
    if not isinstance(column, np.ndarray) or column.shape != rows.shape:
        actual = f"{list(column.shape)}" if isinstance(column, np.ndarray) else type(column).__name__
        raise PluginError(f"scores should be int64[{len(rows)}], not {actual}", plugin=plugin, hook=hook)
    if column.dtype != np.int64:
        what = "NaN" if column.dtype.kind == "f" and np.isnan(column).any() else str(column.dtype)
        raise PluginError(f"scores should be int64, not {what}", plugin=plugin, hook=hook)
    return column


def check_range(plugin: str, column: Int64Array, rows: Rows, frame: Frame) -> None:
    if np.maximum.reduce(column.view(np.uint64), initial=0) > MAX_CLUSTER_SCORE:  # negative ones are huge without sign
        wrong = int(np.flatnonzero((column < MIN_CLUSTER_SCORE) | (column > MAX_CLUSTER_SCORE))[0])
        text = f"score {column[wrong]} of cluster {frame.name(int(rows[wrong]))} is not in "
        raise PluginError(f"{text}{MIN_CLUSTER_SCORE} … {MAX_CLUSTER_SCORE}", plugin=plugin, hook="score")


def check_component(plugin: str, column: Int64Array, rows: Rows, frame: Frame) -> None:
    """Components are 32 bits wide where they are published, and sums of them cannot wrap here."""
    if column.min(initial=0) < _LEAST_COMPONENT or column.max(initial=0) > _GREATEST_COMPONENT:
        wrong = int(np.flatnonzero((column < _LEAST_COMPONENT) | (column > _GREATEST_COMPONENT))[0])
        text = f"score {column[wrong]} of cluster {frame.name(int(rows[wrong]))} does not fit into 32 bits"
        raise PluginError(text, plugin=plugin, hook="score")
