"""The settings a decision depends on, with the product's defaults."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import Any

from tests.oracle.documents import Json


@dataclass(frozen=True)
class Settings:
    heartbeat_timeout: datetime.timedelta = datetime.timedelta(minutes=5)
    health_timeout: datetime.timedelta = datetime.timedelta(minutes=5)
    retention: datetime.timedelta = datetime.timedelta(minutes=15)
    unselected_budget: int = 20
    max_decisions: int = 1000
    missing_key: str = "Neutral"
    usable_domains_only: bool = False
    downscale_order: str = "StoredScore"
    sorter_population: str = "AllClusters"

    def overridden_by(self, options: Json) -> Settings:
        """A scenario states its options under the names of the vector format; others keep their value."""
        changes: dict[str, Any] = {}
        for option, (field, convert) in OPTIONS.items():
            if option in options:
                changes[field] = convert(options[option])
        return replace(self, **changes)


DEFAULTS = Settings()


def _seconds(value: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=value)


OPTIONS: dict[str, tuple[str, Any]] = {
    "heartbeatTimeoutSeconds": ("heartbeat_timeout", _seconds),
    "healthTimeoutSeconds": ("health_timeout", _seconds),
    "unselectedDecisions": ("unselected_budget", int),
    # the following are extensions of the vector format, used by generated scenarios and by re-runs
    "retentionSeconds": ("retention", _seconds),
    "maxDecisions": ("max_decisions", int),
    "spreadMissingKey": ("missing_key", str),
    "spreadUsableDomainsOnly": ("usable_domains_only", bool),
    "downscaleOrder": ("downscale_order", str),
    "sorterPopulation": ("sorter_population", str),
}
