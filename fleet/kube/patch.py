"""Updates of objects that others change too.

`build_merge_patch` computes the least that has to be sent. `update_with_retries` is for changes that depend on the
present object: a PUT with the version that was read, and after a conflict the same change on the live object.
`call_with_retries` repeats a request while the server is unavailable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fleet.clock import Clock
from fleet.errors import ApiError, Conflict, NotFound, ServerTimeout, Unavailable
from fleet.kube.backoff import Jitter
from fleet.kube.objects import Objects
from fleet.model.views import Observed, V

R = TypeVar("R")

Mutation = Callable[[dict[str, Any]], dict[str, Any] | None]
"""From the current document to the desired one; None if they are equal."""

RETRY_DELAYS: Final = (0.010, 0.050, 0.250)
"""Seconds between four attempts."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Delays between the attempts of one write."""

    clock: Clock
    jitter: Jitter
    delays: tuple[float, ...] = RETRY_DELAYS
    spread: float = 0.1

    async def wait(self, attempt: int, error: ApiError) -> None:
        await self.clock.sleep(max(self.delays[attempt] * (1 + self.spread * self.jitter()), error.retry_after or 0.0))

    def allows(self, attempt: int) -> bool:
        return attempt < len(self.delays)


async def call_with_retries(
    request: Callable[[], Awaitable[R]],
    *,
    retry_policy: RetryPolicy,
    on: tuple[type[ApiError], ...] = (Unavailable, ServerTimeout),
) -> R:
    """The request, repeated while it fails with one of these. A failed attempt may have been applied."""
    attempt = 0
    while True:
        try:
            return await request()
        except on as error:
            if not retry_policy.allows(attempt):
                raise
            await retry_policy.wait(attempt, error)
        attempt += 1


async def update_with_retries(
    objects: Objects[Observed[V]],
    key: str,
    change: Mutation,
    *,
    retry_policy: RetryPolicy,
    cached: Observed[V] | None = None,
    status: bool = False,
) -> Observed[V] | None:
    """The object after the change; None if it is gone.

    The first attempt works on `cached` where it is given. After a failure the object is read live and `change` is
    called again, so a change must not keep state between calls.
    """

    async def attempt() -> Observed[V]:
        nonlocal cached
        present, cached = cached, None
        present = present or await objects.get(key)
        wanted = change(present.document())
        if wanted is None:
            return present
        return await (objects.replace_status(wanted) if status else objects.replace(wanted))

    try:
        return await call_with_retries(attempt, retry_policy=retry_policy, on=(Conflict, Unavailable, ServerTimeout))
    except NotFound:
        return None


def build_merge_patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The smallest merge patch (RFC 7386) that makes `new` out of `old`; empty when they are equal.

    A null inside `new` cannot be expressed: to a merge patch it means absence.
    """
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := build_merge_patch(before, value):
                patch[key] = inner
        elif key not in old or before != value or type(before) is not type(value):
            patch[key] = value
    return patch
