"""Status of quotas, written by the leader: what is in use of them, and what of that is borrowed."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import structlog

from fleet.clock import Clock
from fleet.errors import NotFound
from fleet.informers.cache import Caches, PlacementKinds
from fleet.kube.objects import RetryPolicy, update_with_retries
from fleet.kube.resource import key_of
from fleet.model.views import Observed, PlacementQuota
from fleet.scheduler.quotas.quota_ledger import QuotaLedger

COLLECTING: Final = 1.0
"""Seconds for which changes are collected: a burst of placements is one write."""
_RETRY: Final = 10.0

log = structlog.get_logger(__name__)


class QuotaStatus:
    def __init__(self, caches: Caches, ledger: QuotaLedger, *, retry_policy: RetryPolicy, clock: Clock) -> None:
        self._caches, self._ledger = caches, ledger
        self._retry_policy, self._clock = retry_policy, clock
        self._changed = asyncio.Event()
        ledger.on_use = self._changed.set

    async def run(self) -> None:
        """While this process leads, until cancelled."""
        self._changed.set()
        while True:
            await self._changed.wait()
            await self._clock.sleep(COLLECTING)
            self._changed.clear()
            if not await self._write_all():
                await self._clock.sleep(_RETRY)
                self._changed.set()

    async def _write_all(self) -> bool:
        """False if anything could not be written."""
        is_written = True
        for kinds in self._caches.kinds:
            for quota in list(kinds.quotas.store.values()):
                try:
                    await self._write(kinds, quota)
                except NotFound:
                    continue
                except Exception as error:
                    name = key_of(quota.view.metadata)
                    log.warning("the status of a quota could not be written", quota=name, error=str(error))
                    is_written = False
        return is_written

    async def _write(self, kinds: PlacementKinds, quota: Observed[PlacementQuota]) -> None:
        key = key_of(quota.view.metadata)

        def mutate(document: dict[str, Any]) -> dict[str, Any] | None:
            status = self._ledger.build_status(key)
            return None if status == (document.get("status") or {}) else {**document, "status": status}

        await update_with_retries(
            kinds.quotas.objects, key, mutate, retry_policy=self._retry_policy, cached=quota, status=True
        )
