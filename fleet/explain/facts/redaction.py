"""Redacts clusters the caller may not read: counted, never named; label values unique to them are hidden too.

Every part of an answer passes its names through here. Messages are searched for names, unless their reason
declares that they mention no other cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from fleet.cached import cached_property
from fleet.explain.facts.rejections import NAMES_SHOWN, ClusterRejection, RejectionDetails
from fleet.framework.explaining import LOWEST, LOWEST_LEFT_OUT, OTHER_PLACEMENT
from fleet.snapshot.columns.bitset import each_row, from_rows
from fleet.snapshot.frame import Frame

Hidden = Callable[[str], bool]

STAND_IN: Final = "(hidden)"
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")


class Redaction:
    def __init__(self, frame: Frame, hidden: Hidden | None) -> None:
        self._frame, self._hidden = frame, hidden
        self._domains: dict[str, set[str | None]] = {}

    @cached_property
    def rows(self) -> int:
        """Of hidden clusters."""
        if self._hidden is None:
            return 0
        rows = (self._frame.row_of(name) for name in self._frame.names.ordered if self._hidden(name))
        return from_rows(row for row in rows if row is not None)

    @property
    def count(self) -> int:
        return self.rows.bit_count()

    def hides(self, name: str) -> bool:
        return self._hidden is not None and bool(name) and self._hidden(name)

    def row_of(self, name: str) -> int | None:
        """None for a name outside the fleet, and for a hidden one."""
        return None if self.hides(name) else self._frame.row_of(name)

    def select_visible(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if not self.hides(name))

    def suggest_name(self, name: str) -> str | None:
        """The cluster that was probably meant."""
        near = get_close_matches(name, self.select_visible(self._frame.names.ordered), n=1)
        return near[0] if near else None

    def redact_text(self, text: str) -> str:
        """With every hidden cluster's name replaced."""
        if not self.rows:
            return text
        return _NAME.sub(lambda match: STAND_IN if self._is_hidden_cluster(match[0]) else match[0], text)

    def redact_value(self, value: Any) -> Any:
        """The same for everything inside a plain value."""
        if not self.rows:
            return value
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, dict):
            return {self.redact_value(key): self.redact_value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_value(item) for item in value]
        return value

    # --- rejections -----------------------------------------------------------------------------------------------

    def redact_rejection(self, rejection: ClusterRejection) -> ClusterRejection:
        """A reason about its cluster only names no other cluster, but may name the domains of others."""
        declared = rejection.declared
        if declared is not None and declared.about_cluster_only:
            return self._limit_domains(rejection) if LOWEST in rejection.details else rejection
        details = self.redact_value(rejection.details)
        if self._hidden is not None and OTHER_PLACEMENT in details:
            details = details | {OTHER_PLACEMENT: STAND_IN}
        return ClusterRejection(
            rejection.plugin,
            rejection.reason,
            self.redact_text(rejection.message),
            RejectionDetails(details, rejection.declared),
        )

    def _limit_domains(self, rejection: ClusterRejection) -> ClusterRejection:
        lowest = rejection.details[LOWEST]
        shown = [domain for domain in lowest if self.shows_domain(rejection.details["key"], domain)][:NAMES_SHOWN]
        left = len(lowest) - len(shown)
        details = rejection.details | {LOWEST: shown} | ({LOWEST_LEFT_OUT: left} if left else {})
        return msgspec.structs.replace(rejection, details=RejectionDetails(details, rejection.declared))

    def shows_domain(self, key: str, domain: str) -> bool:
        """Whether a cluster that may be read has this label."""
        if not self.rows:
            return True
        known = self._domains.get(key)
        if known is None:
            read, frame = self._frame.labels(key).read, self._frame
            known = self._domains[key] = {read(frame.cluster(row)) for row in each_row(frame.valid & ~self.rows)}
        return domain in known

    def _is_hidden_cluster(self, name: str) -> bool:
        row = self._frame.row_of(name)
        return row is not None and bool(self.rows >> row & 1)
