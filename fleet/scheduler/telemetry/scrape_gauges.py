"""Gauges that nobody keeps up to date: whoever knows the value is asked when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

Values: TypeAlias = Mapping[tuple[str, ...], float]
"""By the values of the labels; the empty tuple where there are no labels."""
Read: TypeAlias = Callable[[], Values]
ReadTogether: TypeAlias = Callable[[], Mapping[str, Values]]
"""Values of several families, by their names."""

log = structlog.get_logger(__name__)


class Readings(Collector):
    def __init__(self, registry: CollectorRegistry, families: Iterable[tuple[str, str, tuple[str, ...]]]) -> None:
        """`families` are names, meanings and labels. Without a reader a family has no values."""
        self._families = {name: (meaning, labels) for name, meaning, labels in families}
        self._readers: dict[str, ReadTogether] = {}
        registry.register(self)

    def attach(self, name: str, read: Read) -> None:
        self.attach_together((name,), lambda: {name: read()})

    def attach_together(self, names: Collection[str], read: ReadTogether) -> None:
        """For families that come from one look, which is taken once for all of them."""
        unknown = [name for name in names if name not in self._families]
        if unknown:
            raise ValueError(f"no gauge named {', '.join(unknown)}")
        self._readers |= dict.fromkeys(names, read)

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(name, meaning, labels=labels) for name, (meaning, labels) in self._families.items()]

    def collect(self) -> Iterable[Metric]:
        looks: dict[ReadTogether, Mapping[str, Values]] = {}
        for family in self.describe():
            assert isinstance(family, GaugeMetricFamily)
            read = self._readers.get(family.name, dict)
            if read not in looks:
                looks[read] = _look(read, family.name)
            for labels, value in looks[read].get(family.name, {}).items():
                family.add_metric(labels, value)
            yield family


def _look(read: ReadTogether, metric: str) -> Mapping[str, Values]:
    """One reader that fails must not cost all the other figures."""
    try:
        return read()
    except Exception:
        log.exception("a figure could not be read", metric=metric)
        return {}
