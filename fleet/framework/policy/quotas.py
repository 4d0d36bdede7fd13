"""Quotas of a placement: what is in use of each, and how much is left.

A quota guarantees `min` of a resource and allows `max`. What others do not use of their guarantees may be borrowed: all
quotas that lend a resource to each other may use as much as the sum of their guarantees. A quota that guarantees
nothing of a resource neither lends nor borrows it: only its `max` counts. What is borrowed may be taken back by a
placement that stays within the guarantee of its quota.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fleet.snapshot.sidedata import PlacedBinding

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
    borrowers: tuple[tuple[str, int], ...] = ()
    """Others that use more than their guarantee of the resource, and by how much."""

    @property
    def own_left(self) -> int:
        return _UNLIMITED if self.max is None else self.max - self.used

    @property
    def pool_left(self) -> int:
        return _UNLIMITED if self.min is None else self.pool_min - self.pool_used

    def may_reclaim(self, amount: int) -> bool:
        """Whether with so much more it stays within its guarantee, and others have borrowed of it."""
        return self.min is not None and self.used + amount <= self.min and bool(self.borrowers)

    def has_lent(self, binding: PlacedBinding, *, wholly: bool = False) -> bool:
        """Whether a binding takes of what another quota has borrowed, and nothing else if `wholly`."""
        taken = read_taken(binding, self.resource)
        borrowed = sum(amount for quota, amount in self.borrowers if quota in binding.quotas)
        return self.quota not in binding.quotas and 0 < (taken if wholly else min(taken, 1)) <= borrowed

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


def read_taken(binding: PlacedBinding, resource: str) -> int:
    """What a binding takes of a resource of quotas."""
    return 1 if resource == CLUSTERS else dict(binding.requests).get(resource, 0)
