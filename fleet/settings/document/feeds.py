"""Feeds of a document: numbers about clusters from outside, and where they come from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import yaml

from fleet.settings.document.extenders import TlsOptions, is_address, read_tls
from fleet.settings.document.named import NamedDocument, read_list
from fleet.settings.document.nodes import NodeReader

VALUE: Final = "value"
"""The column of a feed with one number for each cluster."""
JSON, METRICS, QUERY = "json", "prometheus", "prometheusQuery"
WATCHER: Final = "loadWatcher"
"""The answer of a load-watcher; only providers of loads have it."""
NODES, SERIES = "metricsServer", "signalFx"
"""Those of the metrics API of Kubernetes, and of the time series of SignalFx; only providers of loads have them."""
_SOURCES: Final = ("static", "configMap", "http")
_FIELDS: Final = ("name", "intervalSeconds", "maxAgeSeconds", *_SOURCES)
_CONFIG_MAP_FIELDS: Final = ("namespace", "name", "key")
_HTTP_FIELDS: Final = ("url", "format", "items", "cluster", "columns", "bearerToken", "timeoutSeconds", "tlsConfig")
_DEFAULT_INTERVAL: Final = 30
_INTERVALS_FRESH: Final = 3
_MOST_SECONDS: Final = 86_400
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapSource:
    namespace: str
    name: str
    key: str = ""
    """Of the text with all clusters; empty where each cluster is a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSource:
    url: str
    format: str = JSON
    items: str = ""
    """Path to the clusters in a JSON answer."""
    cluster: str = "cluster"
    """The field, or the label, with the name of the cluster."""
    columns: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Where each number is: a path, the name of a metric, a query."""
    addresses: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Of the API server of each cluster, where every cluster answers for itself."""
    bearer_token: str = field(default="", repr=False)
    timeout: int = 5
    hides_address: bool = False
    """Whether it came from outside of the document: it is not in messages."""
    tls: TlsOptions = field(default_factory=TlsOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedDocument(NamedDocument):
    interval: int = _DEFAULT_INTERVAL
    """Seconds."""
    max_age: int = _DEFAULT_INTERVAL * _INTERVALS_FRESH
    """Seconds after which a number counts as stale."""
    source: Mapping[str, Any] | ConfigMapSource | HttpSource = field(default_factory=lambda: MappingProxyType({}))
    path: str = ""


def read_feeds(reader: NodeReader, node: yaml.Node) -> tuple[FeedDocument, ...]:
    return read_list(reader, node, "feeds", lambda *entry: _FeedReader(*entry).read())


class _FeedReader:
    def __init__(self, reader: NodeReader, node: yaml.Node, path: str) -> None:
        self._reader, self._node, self._path = reader, node, path
        self._fields = {name: value for name, _, value in reader.list_fields(node, path, known=_FIELDS)}

    def read(self) -> FeedDocument:
        interval = self._read_seconds("intervalSeconds", _DEFAULT_INTERVAL)
        feed = FeedDocument(
            name=self._read_name(),
            interval=interval,
            max_age=self._read_seconds("maxAgeSeconds", interval * _INTERVALS_FRESH),
            source=self._read_source(),
            path=self._path,
        )
        written = {f"{self._path}.name": feed.name, f"{self._path}.intervalSeconds": feed.interval}
        written |= {f"{self._path}.maxAgeSeconds": feed.max_age}
        for name in _SOURCES:
            if name in self._fields:
                written |= dict(list_scalars(self._fields[name], f"{self._path}.{name}"))
        return replace(feed, written=written, origins=dict(self._reader.origins))

    def _read_name(self) -> str:
        node = self._fields.get("name")
        if node is None:
            if isinstance(self._node, yaml.MappingNode):
                self._report("name", "is missing")
            return ""
        name = self._reader.read_string(node, f"{self._path}.name") or ""
        if name and not _NAME.fullmatch(name):
            self._report("name", f"{name!r} should be lower-case letters, digits and dashes")
        return name

    def _read_seconds(self, name: str, default: int) -> int:
        node = self._fields.get(name)
        if node is None:
            return default
        number = self._reader.read_number(node, f"{self._path}.{name}", most=_MOST_SECONDS)
        if number == 0:
            self._report(name, "0 should be 1 or more")
        return number or default

    def _read_source(self) -> Mapping[str, Any] | ConfigMapSource | HttpSource:
        given = [name for name in _SOURCES if name in self._fields]
        if len(given) != 1:
            if isinstance(self._node, yaml.MappingNode):
                self._reader.report(self._node, self._path, f"should have one of {', '.join(_SOURCES)}")
            return {}
        (name,) = given
        node, path = self._fields[name], f"{self._path}.{name}"
        if name == "static":
            return self._reader.read_mapping(node, path)
        if name == "configMap":
            return self._read_config_map(node, path)
        return self._read_http(node, path)

    def _read_config_map(self, node: yaml.Node, path: str) -> ConfigMapSource:
        fields = {name: value for name, _, value in self._reader.list_fields(node, path, known=_CONFIG_MAP_FIELDS)}
        texts = {name: self._reader.read_string(value, f"{path}.{name}") or "" for name, value in fields.items()}
        for name in ("namespace", "name"):
            if name not in fields:
                self._reader.report(node, f"{path}.{name}", "is missing")
        return ConfigMapSource(
            namespace=texts.get("namespace", ""), name=texts.get("name", ""), key=texts.get("key", "")
        )

    def _read_http(self, node: yaml.Node, path: str) -> HttpSource:
        reader = self._reader
        fields = {name: value for name, _, value in reader.list_fields(node, path, known=_HTTP_FIELDS)}
        texts = {
            name: reader.read_string(fields[name], f"{path}.{name}") or ""
            for name in ("url", "items", "cluster", "bearerToken")
            if name in fields
        }
        url = texts.get("url", "")
        if "url" not in fields:
            reader.report(node, f"{path}.url", "is missing")
        elif url and not is_address(url.partition("?")[0]):
            message = f"{fields['url'].value!r} should be an address without a password"
            reader.report(fields["url"], f"{path}.url", message)
        if "bearerToken" in fields and "${" not in str(fields["bearerToken"].value):
            message = "a token has to come from a variable or a Secret: write ${NAME}"
            reader.report(fields["bearerToken"], f"{path}.bearerToken", message)
        form = reader.read_word(fields, "format", path, (JSON, METRICS, QUERY)) or JSON
        columns: dict[str, str] = {}
        for name, _, value in reader.list_fields(fields["columns"], f"{path}.columns") if "columns" in fields else ():
            columns[name] = reader.read_string(value, f"{path}.columns.{name}") or ""
        if form != JSON and not columns:
            reader.report(node, f"{path}.columns", "is missing: a name for each metric or query")
        timeout = fields.get("timeoutSeconds")
        seconds = None if timeout is None else reader.read_number(timeout, f"{path}.timeoutSeconds", most=300)
        return HttpSource(
            url=url,
            format=form,
            items=texts.get("items", ""),
            cluster=texts.get("cluster", "cluster"),
            columns=columns,
            bearer_token=texts.get("bearerToken", ""),
            timeout=seconds or 5,
            hides_address="url" in fields and "${" in str(fields["url"].value),
            tls=read_tls(reader, fields.get("tlsConfig"), f"{path}.tlsConfig"),
        )

    def _report(self, name: str, message: str) -> None:
        self._reader.report(self._fields.get(name, self._node), f"{self._path}.{name}", message)


def list_scalars(node: yaml.Node, path: str) -> Iterator[tuple[str, Any]]:
    """As written."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from list_scalars(value, f"{path}.{key.value}")
    elif isinstance(node, yaml.ScalarNode):
        yield path, node.value
