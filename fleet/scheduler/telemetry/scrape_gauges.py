"""Gauges computed at scrape time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

Values: TypeAlias = Mapping[tuple[str, ...], float]
"""Samples by the values of their labels; the empty tuple if there are no labels."""
Read: TypeAlias = Callable[[], Values]
ReadTogether: TypeAlias = Callable[[], Mapping[str, Values]]
"""Values of several families, by their names."""

log = structlog.get_logger(__name__)


class ScrapeGauges(Collector):
    def __init__(self, registry: CollectorRegistry, families: Iterable[tuple[str, str, tuple[str, ...]]]) -> None:
        """`families` are names, help texts and labels. Without a reader a family has no samples."""
        self._families = {name: (text, labels) for name, text, labels in families}
        self._readers: dict[str, ReadTogether] = {}
        registry.register(self)

    def attach(self, name: str, read: Read) -> None:
        self.attach_together((name,), lambda: {name: read()})

    def attach_together(self, names: Collection[str], read: ReadTogether) -> None:
        """For families that share one reader, which is called once per scrape."""
        unknown = [name for name in names if name not in self._families]
        if unknown:
            raise ValueError(f"no gauge named {', '.join(unknown)}")
        self._readers |= dict.fromkeys(names, read)

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(name, text, labels=labels) for name, (text, labels) in self._families.items()]

    def collect(self) -> Iterable[Metric]:
        results: dict[ReadTogether, Mapping[str, Values]] = {}
        for family in self.describe():
            assert isinstance(family, GaugeMetricFamily)
            read = self._readers.get(family.name, dict)
            if read not in results:
                results[read] = _read_or_log(read, family.name)
            for labels, value in results[read].get(family.name, {}).items():
                family.add_metric(labels, value)
            yield family


def _read_or_log(read: ReadTogether, metric: str) -> Mapping[str, Values]:
    """A reader that fails must not cost the other metrics."""
    try:
        return read()
    except Exception:
        log.exception("a metric could not be read", metric=metric)
        return {}
