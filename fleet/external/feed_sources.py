"""Sources of feeds: what they answered, as numbers by column and cluster."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from statistics import fmean, pstdev
from typing import Any, Final

import msgspec
import yaml
from prometheus_client.parser import text_string_to_metric_families

from fleet.model.quantity import quantity_or_none
from fleet.settings.document.feeds import JSON, METRICS, VALUE, WATCHER, HttpSource

Columns = dict[str, dict[str, float]]
_RESOURCES: Final = ("cpu", "memory")
_MOST_CLUSTERS: Final = 100_000


class UnusableFeed(Exception):
    """The source answered something that is no feed."""


def read_clusters(content: object) -> Columns:
    """From a mapping of clusters to numbers, or to numbers by column."""
    if not isinstance(content, Mapping):
        raise UnusableFeed("should be a mapping from clusters to numbers")
    return _collect((str(name), column, value) for name, value in content.items() for column, value in _split(value))


def read_config_map(data: Mapping[str, str], key: str) -> Columns:
    if key:
        if key not in data:
            raise UnusableFeed(f"has no key {key}")
        return read_clusters(_parse_yaml(data[key], key))
    return read_clusters({name: _parse_yaml(text, name) for name, text in data.items()})


def read_answer(source: HttpSource, column: str, body: bytes) -> Columns:
    """`column` is the one that was queried; empty where one answer has all."""
    if source.format == METRICS:
        return _read_metrics(source, body)
    document = _decode(body)
    if source.format == WATCHER:
        return _read_watcher(document)
    return _read_json(source, document) if source.format == JSON else _read_query(source, column, document)


def _decode(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableFeed(f"answered no JSON: {error}") from error


def _read_json(source: HttpSource, document: object) -> Columns:
    items = _find(document, source.items)
    if isinstance(items, list):
        entries = {str(_find(item, source.cluster)): item for item in items}
    elif isinstance(items, Mapping):
        entries = {str(name): item for name, item in items.items()}
    else:
        raise UnusableFeed(f"answered no list and no mapping{f' at {source.items}' if source.items else ''}")
    if not source.columns:
        without_name = {
            name: {field: value for field, value in item.items() if field != source.cluster and _is_number(value)}
            if isinstance(item, Mapping)
            else item
            for name, item in entries.items()
        }
        return read_clusters(without_name)
    return _collect(
        (name, column, value)
        for name, item in entries.items()
        for column, path in source.columns.items()
        if (value := _find(item, path)) is not None
    )


def _read_metrics(source: HttpSource, body: bytes) -> Columns:
    wanted = {metric: column for column, metric in source.columns.items()}
    try:
        families = list(text_string_to_metric_families(body.decode()))
    except (ValueError, UnicodeDecodeError) as error:
        raise UnusableFeed(f"answered no metrics: {error}") from error
    return _collect(
        (sample.labels[source.cluster], wanted[sample.name], sample.value)
        for family in families
        for sample in family.samples
        if sample.name in wanted and source.cluster in sample.labels
    )


def _read_query(source: HttpSource, column: str, document: object) -> Columns:
    if _find(document, "status") != "success":
        raise UnusableFeed(f"reports an error: {_find(document, 'error') or 'without a message'}")
    results = _find(document, "data.result")
    if not isinstance(results, list):
        raise UnusableFeed("answered no vector")
    try:
        return _collect(
            (result["metric"][source.cluster], column, float(result["value"][1]))
            for result in results
            if source.cluster in result["metric"]
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UnusableFeed("answered no vector") from error


def _read_watcher(document: object) -> Columns:
    """Of several averages of a resource the last one listed counts."""
    clusters = _find(document, "data.NodeMetricsMap")
    if not isinstance(clusters, Mapping):
        raise UnusableFeed("answered no NodeMetricsMap")
    return _collect(
        (str(cluster), column, metric["value"])
        for cluster, entry in clusters.items()
        for metric in _find(entry, "metrics") or ()
        if isinstance(metric, Mapping) and "value" in metric and (column := _find_column(metric))
    )


def read_nodes(cluster: str, measured: bytes, described: bytes) -> Columns:
    """Percent of the capacity of the nodes that take pods; `measured` is of the metrics API."""
    nodes = {_find(node, "metadata.name"): node for node in _list_items(described)}
    capacity, used = dict.fromkeys(_RESOURCES, Fraction(0)), dict.fromkeys(_RESOURCES, Fraction(0))
    for metrics in _list_items(measured):
        name = _find(metrics, "metadata.name")
        node = nodes.get(name)
        for resource in _RESOURCES if node is not None and not _find(node, "spec.unschedulable") else ():
            has = quantity_or_none(_find(node, f"status.capacity.{resource}"))
            uses = quantity_or_none(_find(metrics, f"usage.{resource}"))
            if has is None or uses is None:
                raise UnusableFeed(f"answered no {resource} of node {name}")
            capacity[resource] += has
            used[resource] += uses
    shares = ((resource, float(100 * used[resource] / amount)) for resource, amount in capacity.items() if amount)
    return _collect((cluster, resource, share) for resource, share in shares)


def _list_items(body: bytes) -> list[Any]:
    items = _find(_decode(body), "items")
    if not isinstance(items, list):
        raise UnusableFeed("answered no list of nodes")
    return items


def read_series(source: HttpSource, column: str, described: bytes, points: bytes) -> Columns:
    """The mean of all series of a cluster: its last value, and how much it deviates."""
    results, series = _find(_decode(described), "results"), _find(_decode(points), "data")
    if not isinstance(results, list) or not isinstance(series, Mapping):
        raise UnusableFeed("answered no time series")
    by_cluster: dict[str, dict[Any, list[float]]] = {}
    for each in results:
        cluster = _find(each, f"dimensions.{source.cluster}")
        for point in series.get(str(_find(each, "id"))) or () if cluster else ():
            if not (isinstance(point, list) and len(point) == 2 and all(map(_is_number, point))):
                raise UnusableFeed(f"answered {reprlib.repr(point)}, no point of a time series")
            by_cluster.setdefault(str(cluster), {}).setdefault(point[0], []).append(point[1])
    means = {
        cluster: [fmean(values) for _, values in sorted(moments.items())] for cluster, moments in by_cluster.items()
    }
    return _collect(
        (cluster, name, number)
        for cluster, values in means.items()
        for name, number in ((column, values[-1]), (f"{column}Deviation", pstdev(values)))
    )


def _find_column(metric: Mapping[str, Any]) -> str:
    resource = {"cpu": "cpu", "memory": "memory"}.get(str(metric.get("type")).lower(), "")
    operator = str(metric.get("operator")).lower()
    if operator in ("avg", "average", "latest"):
        return resource
    return f"{resource}Deviation" if resource and operator == "std" else ""


def _collect(values: Iterator[tuple[str, str, Any]]) -> Columns:
    columns: Columns = {}
    for number, (cluster, column, value) in enumerate(values):
        if number >= _MOST_CLUSTERS:
            raise UnusableFeed(f"has more than {_MOST_CLUSTERS} numbers")
        if not _is_number(value):
            raise UnusableFeed(f"{column} of {cluster} is {reprlib.repr(value)}, not a number")
        if not math.isnan(value):
            columns.setdefault(column, {})[cluster] = float(value)
    return columns


def _split(value: object) -> Iterator[tuple[str, Any]]:
    yield from value.items() if isinstance(value, Mapping) else ((VALUE, value),)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return not math.isinf(value)
    except OverflowError:
        return False


def _find(document: object, path: str) -> Any:
    """By names and positions with dots between them; None where there is nothing."""
    for part in path.split(".") if path else ():
        if isinstance(document, Mapping):
            document = document.get(part)
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            return None
    return document


def _parse_yaml(text: str, key: str) -> object:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnusableFeed(f"{key} is not YAML") from error
