"""Whether clusters may take new work at this moment, and which were denied it because the clock was ahead.

Decisions judge by the time of day, and that can be set. While it is ahead, clusters that report as they should look
silent; when it is set right, they are eligible again without a single report saying anything new. Comparing two reports
of a cluster cannot find that out, so the latest time that anything was decided at is remembered here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet.clock import Clock, epoch_nanoseconds
from fleet.model.views import MemberCluster
from fleet.snapshot.eligibility import Eligibility


class Judging:
    def __init__(self, rule: Eligibility, clock: Clock) -> None:
        self._rule = rule
        self._clock = clock
        self._decided_at = 0

    def now(self, cluster: MemberCluster) -> bool:
        return self._rule.of(cluster, self._time())

    def decides(self) -> None:
        """From now on somebody relies on what is eligible at this moment."""
        self._decided_at = max(self._decided_at, self._time())

    def regained(self, clusters: Iterable[MemberCluster]) -> Iterator[MemberCluster]:
        """Those that were too silent for a decision and are not any more, because the clock was set back. Asked again,
        there are none."""
        before, now = self._decided_at, self._time()
        if now < before:
            self._decided_at = now
            yield from (one for one in clusters if self._rule.of(one, now) and not self._rule.of(one, before))

    def _time(self) -> int:
        return epoch_nanoseconds(self._clock)
