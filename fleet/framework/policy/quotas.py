"""Quotas of a placement: what is in use of each, and how much is left.

A quota guarantees `min` of a resource and allows `max`. What others do not use of their guarantees may be borrowed: all
quotas that lend a resource to each other may use as much as the sum of their guarantees. A quota that guarantees
nothing of a resource neither lends nor borrows it: only its `max` counts.
"""

from __future__ import annotations

from typing import Final

import msgspec

CLUSTERS: Final = "clusters"
"""The resource that counts the clusters of a placement."""
_UNLIMITED: Final = 2**62


class QuotaShare(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One resource of one quota, in whole units."""

    quota: str
    resource: str
    used: int = 0
    max: int | None = None
    min: int | None = None
    pool_used: int = 0
    """Of all quotas that lend the resource to each other."""
    pool_min: int = 0

    @property
    def own_left(self) -> int:
        return _UNLIMITED if self.max is None else self.max - self.used

    @property
    def pool_left(self) -> int:
        return _UNLIMITED if self.min is None else self.pool_min - self.pool_used

    @property
    def left(self) -> int:
        return min(self.own_left, self.pool_left)


Quotas = tuple[QuotaShare, ...]
_decode = msgspec.json.Decoder(Quotas).decode


def write_quotas(quotas: Quotas) -> str:
    return msgspec.json.encode(quotas).decode() if quotas else ""


def parse_quotas(text: str) -> Quotas:
    """What `write_quotas` wrote; nothing for another text."""
    try:
        return _decode(text) if text else ()
    except msgspec.MsgspecError:
        return ()
