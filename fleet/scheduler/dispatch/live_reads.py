"""Objects as the API server has them, read where the cache is not good enough; and which failed requests to repeat.

What is read goes into the store as well: whoever decides next is not to decide on what is known to be outdated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fleet.errors import ApiError, ConnectionLost, ServerTimeout, Unavailable, Unreachable
from fleet.kube.objects import Objects
from fleet.kube.patch import RetryPolicy, call_with_retries
from fleet.kube.resource import split_key
from fleet.model.keys import PARENT_PLACEMENT
from fleet.model.views import Binding, Observed

T = TypeVar("T")
R = TypeVar("R")

REPEATED: Final[tuple[type[ApiError], ...]] = (Unavailable, ServerTimeout, ConnectionLost, Unreachable)
"""A repetition does no harm even if the request was carried out: creates have fixed names, all other writes a version
or a uid. Deadlines that passed, internal errors and pleas for less traffic are not repeated here, because there is
nothing to gain within milliseconds: the attempt fails, and the placement's back-off decides."""


async def repeatedly(
    request: Callable[[], Awaitable[R]], *, retry_policy: RetryPolicy, also: type[ApiError] | None = None
) -> R:
    return await call_with_retries(
        request, retry_policy=retry_policy, on=REPEATED if also is None else (*REPEATED, also)
    )


async def read_live(objects: Objects[T], key: str) -> T | None:
    """None if it does not exist."""
    found = await objects.find(key)
    if found is not None and objects.store is not None:
        objects.store.apply_write(found)
    return found


async def list_bindings(
    objects: Objects[Observed[Binding]], placement: str, *, retry_policy: RetryPolicy
) -> list[Observed[Binding]]:
    """All of a placement, by name."""
    namespace, name = split_key(placement)

    async def ask() -> list[Observed[Binding]]:
        return await objects.list(namespace=namespace, labels=f"{PARENT_PLACEMENT}={name}")

    found = await repeatedly(ask, retry_policy=retry_policy)
    if objects.store is not None:
        for one in found:
            objects.store.apply_write(one)
    return sorted(found, key=lambda one: one.view.metadata.name)
