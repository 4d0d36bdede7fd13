"""Providers of loads, as they stand in the arguments of a plugin: each is a feed of its own, read like the others.

Prometheus is asked for metrics of node_exporter, by the label `cluster`, unless the provider has queries of its own;
SignalFx for time series with the dimension `cluster`. A metrics server knows the nodes of one cluster, so each cluster
has an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import yaml

from fleet.settings.document.extenders import is_address, read_tls
from fleet.settings.document.feeds import NODES, QUERY, SERIES, WATCHER, FeedDocument, HttpSource, list_scalars
from fleet.settings.document.nodes import NodeReader

_PROVIDER, _WATCHER_ADDRESS = "metricProvider", "watcherAddress"
_CLUSTER_STATUS, _STATIC, _PROMETHEUS = "ClusterStatus", "Static", "Prometheus"
_METRICS_SERVER, _SIGNAL_FX = "KubernetesMetricsServer", "SignalFx"
_KINDS: Final = (_CLUSTER_STATUS, _STATIC, _PROMETHEUS, _METRICS_SERVER, _SIGNAL_FX)
_ACCESS: Final = ("token", "tokenFrom", "insecureSkipVerify", "tlsConfig")
_OF_KINDS: Final = {
    "values": (_STATIC,),
    "address": (_PROMETHEUS, _SIGNAL_FX),
    "addresses": (_METRICS_SERVER,),
    **dict.fromkeys(_ACCESS, (_PROMETHEUS, _METRICS_SERVER, _SIGNAL_FX)),
    "queries": (_PROMETHEUS, _SIGNAL_FX),
}
_FIELDS: Final = ("type", *_OF_KINDS)
_SECRET_NAME: Final = re.compile(r"([a-z0-9][a-z0-9-]{0,62}/)?[a-z0-9][a-z0-9.-]{0,252}")
_CPU: Final = '100 * (1 - avg by (cluster) (rate(node_cpu_seconds_total{mode="idle"}[5m])))'
_MEMORY: Final = (
    "100 * (1 - sum by (cluster) (node_memory_MemAvailable_bytes) / sum by (cluster) (node_memory_MemTotal_bytes))"
)
_QUERIES: Final = {
    "cpu": _CPU,
    "cpuDeviation": f"stddev_over_time(({_CPU})[15m:1m])",
    "memory": _MEMORY,
    "memoryDeviation": f"stddev_over_time(({_MEMORY})[15m:1m])",
}
_SERIES: Final = {"cpu": 'sf_metric:"cpu.utilization"', "memory": 'sf_metric:"memory.utilization"'}
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "TargetLoadPacking": ("cpu",),
        "Peaks": ("cpu",),
        "LoadVariationRiskBalancing": tuple(_QUERIES),
        "LowRiskOverCommitment": tuple(_QUERIES),
    }
)
"""What each plugin needs."""


def split_provider(
    reader: NodeReader, node: yaml.Node, path: str, *, plugin: str, scheduler_name: str
) -> tuple[yaml.Node, FeedDocument | None]:
    """The arguments with the name of a feed in place of the provider, and the feed; no feed if there is no provider, or
    if it is the members themselves."""
    given = _list_pairs(node) if plugin in _COLUMNS else {}
    if not {_PROVIDER, _WATCHER_ADDRESS} & given.keys():
        return node, None
    for other in (_WATCHER_ADDRESS, "feed"):
        if other in given and len({_PROVIDER, _WATCHER_ADDRESS, "feed"} & given.keys()) > 1:
            reader.report(given[other][0], f"{path}.{other}", "stands for the load alone: give one of metricProvider, "
                          "watcherAddress and feed")  # fmt: skip
            break
    name = _PROVIDER if _PROVIDER in given else _WATCHER_ADDRESS
    key, value = given[name]
    before, reader.missing = reader.missing, []
    source = _ProviderReader(reader, value, f"{path}.{name}", plugin).read()
    problem, reader.missing = "; ".join(reader.missing), before
    rest = [pair for other, pair in given.items() if other not in (_PROVIDER, _WATCHER_ADDRESS)]
    if source is None:
        return yaml.MappingNode(node.tag, rest, node.start_mark, node.end_mark), None
    feed = FeedDocument(
        name=f"{scheduler_name}.{plugin}",
        source=source,
        path=f"{path}.{name}",
        problem=problem,
        written=dict(list_scalars(value, f"{path}.{name}")),
        origins={**reader.origins, f"{path}.{name}": reader.origin(key)},
    )
    link = (yaml.ScalarNode(key.tag, "feed", key.start_mark), yaml.ScalarNode(key.tag, feed.name, key.start_mark))
    return yaml.MappingNode(node.tag, [*rest, link], node.start_mark, node.end_mark), feed


def _list_pairs(node: yaml.Node) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return {str(key.value): (key, value) for key, value in pairs}


class _ProviderReader:
    def __init__(self, reader: NodeReader, node: yaml.Node, path: str, plugin: str) -> None:
        self._reader, self._node, self._path, self._plugin = reader, node, path, plugin
        self._fields: dict[str, yaml.Node] = {}

    def read(self) -> Mapping[str, Any] | HttpSource | None:
        if self._path.endswith(_WATCHER_ADDRESS):
            address = self._read_address(self._node, self._path)
            return HttpSource(url=f"{address}/watcher", format=WATCHER, hides_address=self._is_hidden(self._node))
        self._fields = {
            name: value for name, _, value in self._reader.list_fields(self._node, self._path, known=_FIELDS)
        }
        kind = self._read_kind()
        for name in self._fields.keys() & _OF_KINDS.keys():
            if kind in _KINDS and kind not in _OF_KINDS[name]:
                self._report(name, f"has no meaning with type {kind}: it belongs to {' and '.join(_OF_KINDS[name])}")
        if kind == _STATIC:
            return dict(self._read_values())
        return self._read_http(kind) if kind in _OF_KINDS["token"] else None

    def _read_kind(self) -> str:
        node = self._fields.get("type")
        kind = _CLUSTER_STATUS if node is None else self._reader.read_string(node, f"{self._path}.type") or ""
        if kind and kind not in _KINDS:
            self._report("type", f"{kind!r} is no provider: use {', '.join(_KINDS)}, or watcherAddress")
        return kind

    def _read_values(self) -> Iterator[tuple[str, Any]]:
        """A number alone is a load of the cpu."""
        node = self._fields.get("values")
        if node is None:
            self._report("values", "is missing: the load of each cluster")
            return
        for name, value in self._reader.read_mapping(node, f"{self._path}.values").items():
            yield name, value if isinstance(value, Mapping) else {"cpu": value}

    def _read_http(self, kind: str) -> HttpSource:
        address, addresses = self._fields.get("address"), {}
        hidden: list[yaml.Node] = [] if address is None else [address]
        if kind == _METRICS_SERVER:
            addresses = self._read_addresses()
            hidden = [pair[1] for pair in _list_pairs(self._fields.get("addresses", self._node)).values()]
        elif address is None:
            self._report("address", "is missing")
        tls = read_tls(self._reader, self._fields.get("tlsConfig"), f"{self._path}.tlsConfig")
        if self._reader.read_flag(self._fields, "insecureSkipVerify", self._path):
            tls = replace(tls, insecure=True, ca_file="")
        return HttpSource(
            url="" if address is None else self._read_address(address, f"{self._path}.address"),
            format={_PROMETHEUS: QUERY, _METRICS_SERVER: NODES, _SIGNAL_FX: SERIES}[kind],
            columns=self._read_queries(_SERIES if kind == _SIGNAL_FX else _QUERIES),
            addresses=addresses,
            bearer_token=self._read_token(),
            hides_address=any(map(self._is_hidden, hidden)),
            tls=tls,
        )

    def _read_addresses(self) -> dict[str, str]:
        node, path = self._fields.get("addresses"), f"{self._path}.addresses"
        addresses = {}
        for name, _, value in () if node is None else self._reader.list_fields(node, path):
            addresses[name] = self._read_address(value, f"{path}.{name}")
        if not addresses:
            self._report("addresses", "is missing: the address of the API server of each cluster")
        return addresses

    def _read_queries(self, defaults: Mapping[str, str]) -> dict[str, str]:
        queries = {column: defaults[column] for column in _COLUMNS[self._plugin] if column in defaults}
        node, path = self._fields.get("queries"), f"{self._path}.queries"
        for name, _, value in () if node is None else self._reader.list_fields(node, path, known=tuple(queries)):
            queries[name] = self._reader.read_string(value, f"{path}.{name}") or ""
        return queries

    def _read_address(self, node: yaml.Node, path: str) -> str:
        url = self._reader.read_string(node, path) or ""
        if url and not is_address(url):
            self._reader.report(node, path, f"{node.value!r} should be an address without a password")
        return url.rstrip("/")

    def _read_token(self) -> str:
        if "token" in self._fields and "tokenFrom" in self._fields:
            self._report("tokenFrom", "stands beside token: give one of them")
        if "tokenFrom" in self._fields:
            return self._read_secret(self._fields["tokenFrom"], f"{self._path}.tokenFrom")
        node = self._fields.get("token")
        if node is None:
            return ""
        if "${" not in str(node.value):
            self._report("token", "a token has to come from a variable or a Secret: write ${NAME}, or tokenFrom")
        return self._reader.read_string(node, f"{self._path}.token") or ""

    def _read_secret(self, node: yaml.Node, path: str) -> str:
        known = ("secretName", "key")
        fields = {name: value for name, _, value in self._reader.list_fields(node, path, known=known)}
        for name in known:
            if name not in fields:
                self._reader.report(node, f"{path}.{name}", "is missing")
        secret, key = (
            self._reader.read_string(fields[name], f"{path}.{name}") or "" if name in fields else "" for name in known
        )
        if secret and not _SECRET_NAME.fullmatch(secret):
            message = f"{secret!r} should be the name of a Secret, or NAMESPACE/NAME"
            self._reader.report(fields["secretName"], f"{path}.secretName", message)
        return self._reader.read_secret(secret, key) if secret and key else ""

    def _is_hidden(self, node: yaml.Node) -> bool:
        return "${" in str(node.value)

    def _report(self, name: str, message: str) -> None:
        self._reader.report(self._fields.get(name, self._node), f"{self._path}.{name}", message)
