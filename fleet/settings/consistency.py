"""Consistency checks across settings. Each value by itself has been validated before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fleet.settings.tree import SHARES, ApiSection, LeaderElectionSection, QueueSection, SelectionSection, Settings

Contradiction = tuple[tuple[str, ...], str]
"""The settings concerned, and the problem."""

_SHORTEST_POOL_STAY: Final = 30
_ROUNDING: Final = 1 + 1e-9


def find_contradictions(settings: Settings) -> Iterator[Contradiction]:
    yield from _check_queue(settings.queue)
    yield from _check_budgets(settings.api)
    yield from _check_selection(settings.selection)
    yield from _check_lease(settings.leader_election)
    if settings.debug.enabled and settings.metrics.address.is_off:
        yield ("debug.enabled", "metrics.address"), "debug.enabled needs a metrics.address, which serves the profiles"


def _check_queue(queue: QueueSection) -> Iterator[Contradiction]:
    if queue.max_delay.seconds < queue.base_delay.seconds:
        names = ("queue.baseDelay", "queue.maxDelay")
        yield names, f"queue.maxDelay {queue.max_delay} should not be shorter than queue.baseDelay {queue.base_delay}"
    if queue.max_backoff_seconds < queue.initial_backoff_seconds:
        yield (
            ("queue.initialBackoffSeconds", "queue.maxBackoffSeconds"),
            f"queue.maxBackoffSeconds {queue.max_backoff_seconds} should not be less than "
            f"queue.initialBackoffSeconds {queue.initial_backoff_seconds}",
        )
    if 0 < queue.max_in_unschedulable_seconds < _SHORTEST_POOL_STAY:
        yield (
            ("queue.maxInUnschedulableSeconds",),
            f"queue.maxInUnschedulableSeconds {queue.max_in_unschedulable_seconds} should be "
            f"{_SHORTEST_POOL_STAY} or more, or 0 for never",
        )


def _check_budgets(api: ApiSection) -> Iterator[Contradiction]:
    rates = sum(api.rate_of(name) or 0.0 for name in SHARES)
    if api.qps is not None and rates > api.qps * _ROUNDING:
        names = ("api.qps", *(f"api.budget.{budget}.qps" for budget in ("bind", "evict", "status")))
        yield names, f"the rates of api.budget should not exceed api.qps {api.qps:g} together, and are {rates:g}"
    bursts = api.burst_of("bind") + api.burst_of("evict") + api.burst_of("status")
    if bursts > max(api.burst, 3):  # each has at least one
        names = ("api.burst", *(f"api.budget.{budget}.burst" for budget in ("bind", "evict", "status")))
        yield names, f"the bursts of api.budget should not exceed api.burst {api.burst} together, and are {bursts}"


def _check_selection(selection: SelectionSection) -> Iterator[Contradiction]:
    if selection.allowed_kinds and selection.skipped_kinds:
        names = ("selection.allowedKinds", "selection.skippedKinds")
        yield names, "selection.allowedKinds and selection.skippedKinds exclude each other: set one of them"


def _check_lease(lease: LeaderElectionSection) -> Iterator[Contradiction]:
    names = ("leaderElection.retryPeriod", "leaderElection.renewDeadline", "leaderElection.leaseDuration")
    if not lease.retry_period.seconds < lease.renew_deadline.seconds < lease.lease_duration.seconds:
        yield (
            names,
            "leaderElection.retryPeriod should be shorter than renewDeadline, and that shorter than leaseDuration, but "
            f"they are {lease.retry_period}, {lease.renew_deadline} and {lease.lease_duration}",
        )
    if lease.lease_duration.seconds != int(lease.lease_duration.seconds):
        yield names[2:], f"leaderElection.leaseDuration {lease.lease_duration} should be whole seconds"
