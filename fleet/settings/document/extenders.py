"""Extenders of a document: HTTP services that filter and score clusters, and agree to bindings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from fleet.settings.document.named import NamedDocument, read_list
from fleet.settings.document.nodes import NodeReader

DEFAULT_TIMEOUT: Final = 5
_FIELDS: Final = (
    "name", "urlPrefix", "filterVerb", "prioritizeVerb", "bindVerb", "weight", "timeoutSeconds", "ignorable",
    "nodeCacheCapable", "tlsConfig", "managedResources",
)  # fmt: skip
RESOURCE_FIELDS: Final = ("name", "ignoredByScheduler")
NOT_IGNORED: Final = "room is compared wherever members report the resource: leave it out"
_TLS_FIELDS: Final = ("insecure", "serverName", "caFile", "certFile", "keyFile")
_LONGEST_TIMEOUT: Final = 300
_LONGEST_TIMEOUT_OF_BIND: Final = 30
"""The write that follows has to end before the time of a hook is over, too."""
_LARGEST_WEIGHT: Final = 1_000_000
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?")
_RESOURCE: Final = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_VERB: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    insecure: bool = False
    server_name: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderDocument(NamedDocument):
    url: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    managed_resources: tuple[str, ...] = ()
    weight: int = 1
    timeout: int = DEFAULT_TIMEOUT
    """Seconds."""
    ignorable: bool = False
    names_only: bool = False
    tls: TlsOptions = field(default_factory=TlsOptions)
    hides_address: bool = False
    """Whether it came from outside of the document: it is not in messages."""


def is_address(url: str) -> bool:
    """Of a service, without a user, a query and a fragment."""
    if "${" in url:  # from a Secret that is not read here, or lacks it
        return True
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_usable and not (parts.username or parts.password or parts.query or parts.fragment)


def read_tls(reader: NodeReader, node: yaml.Node | None, path: str) -> TlsOptions:
    if node is None:
        return TlsOptions()
    fields = {name: value for name, _, value in reader.list_fields(node, path, known=_TLS_FIELDS)}
    texts = {
        name: reader.read_string(fields[name], f"{path}.{name}") or "" if name in fields else ""
        for name in _TLS_FIELDS[1:]
    }
    if bool(texts["certFile"]) != bool(texts["keyFile"]):
        reader.report(node, path, "certFile and keyFile belong together: give both or none")
    insecure = bool(reader.read_flag(fields, "insecure", path))
    if insecure and texts["caFile"]:
        reader.report(node, path, "caFile has no effect with insecure: leave out one of them")
    return TlsOptions(
        insecure=insecure,
        server_name=texts["serverName"],
        ca_file=texts["caFile"],
        cert_file=texts["certFile"],
        key_file=texts["keyFile"],
    )


def read_extenders(reader: NodeReader, node: yaml.Node) -> tuple[ExtenderDocument, ...]:
    extenders = read_list(reader, node, "extenders", lambda *entry: _ExtenderReader(*entry).read())
    binding = [position for position, extender in enumerate(extenders) if extender.bind_verb]
    for position in binding[1:]:
        path = f"extenders[{position}].bindVerb"
        reader.report(node.value[position], path, f"extenders[{binding[0]}] binds already: only one may")
    return extenders


class _ExtenderReader:
    def __init__(self, reader: NodeReader, node: yaml.Node, path: str) -> None:
        self._reader, self._node, self._path = reader, node, path
        self._fields = {name: value for name, _, value in reader.list_fields(node, path, known=_FIELDS)}

    def read(self) -> ExtenderDocument:
        url = self._read_url()
        extender = ExtenderDocument(
            name=self._read_name(url),
            url=url,
            filter_verb=self._read_verb("filterVerb"),
            prioritize_verb=self._read_verb("prioritizeVerb"),
            bind_verb=self._read_verb("bindVerb"),
            managed_resources=self._read_managed_resources(),
            weight=self._read_number("weight", most=_LARGEST_WEIGHT, default=1),
            timeout=self._read_number("timeoutSeconds", most=_LONGEST_TIMEOUT, default=DEFAULT_TIMEOUT),
            ignorable=bool(self._reader.read_flag(self._fields, "ignorable", self._path)),
            names_only=bool(self._reader.read_flag(self._fields, "nodeCacheCapable", self._path)),
            hides_address="${" in getattr(self._fields.get("urlPrefix"), "value", ""),
            tls=read_tls(self._reader, self._fields.get("tlsConfig"), f"{self._path}.tlsConfig"),
        )
        verbs = (extender.filter_verb, extender.prioritize_verb, extender.bind_verb)
        if not any(verbs) and isinstance(self._node, yaml.MappingNode):
            message = "would never be asked: give it a filterVerb, a prioritizeVerb or a bindVerb"
            self._reader.report(self._node, self._path, message)
        if extender.bind_verb and extender.timeout > _LONGEST_TIMEOUT_OF_BIND:
            most = _LONGEST_TIMEOUT_OF_BIND
            self._report("timeoutSeconds", f"{extender.timeout} should be {most} or less with a bindVerb")
        return replace(extender, written=self._list_written(extender.name), origins=dict(self._reader.origins))

    def _read_url(self) -> str:
        node = self._fields.get("urlPrefix")
        if node is None:
            if isinstance(self._node, yaml.MappingNode):
                self._report("urlPrefix", "is missing")
            return ""
        url = self._reader.read_string(node, f"{self._path}.urlPrefix") or ""
        if not url:
            return ""
        if not is_address(url):
            message = "should be an address without a password, such as https://quota.example.com/fleet"
            self._report("urlPrefix", f"{node.value!r} {message}")
        return url.rstrip("/")

    def _read_name(self, url: str) -> str:
        node = self._fields.get("name")
        if node is not None:
            name = self._reader.read_string(node, f"{self._path}.name") or ""
            if name and not _NAME.fullmatch(name):
                self._report("name", f"{name!r} should be letters, digits and any of . _ : / -")
            return name
        written = self._fields.get("urlPrefix")
        is_own = written is not None and written.value.rstrip("/") == url
        name = url.partition("://")[2] if is_own else ""
        if url and not _NAME.fullmatch(name):
            self._report("name", "is missing: the address gives none")
        return name

    def _read_verb(self, name: str) -> str:
        node = self._fields.get(name)
        verb = (self._reader.read_string(node, f"{self._path}.{name}") or "") if node is not None else ""
        if verb and not _VERB.fullmatch(verb):
            self._report(name, f"{verb!r} should be a path below urlPrefix")
        return verb

    def _read_managed_resources(self) -> tuple[str, ...]:
        node = self._fields.get("managedResources")
        path = f"{self._path}.managedResources"
        names: list[str] = []
        for position, item in enumerate(() if node is None else self._reader.list_items(node, path)):
            where = f"{path}[{position}]"
            fields = {name: value for name, _, value in self._reader.list_fields(item, where, known=RESOURCE_FIELDS)}
            if self._reader.read_flag(fields, "ignoredByScheduler", where):
                self._reader.report(fields["ignoredByScheduler"], f"{where}.ignoredByScheduler", NOT_IGNORED)
            if "name" in fields:
                names.append(self._read_resource(fields["name"], f"{where}.name"))
            elif isinstance(item, yaml.MappingNode):
                self._reader.report(item, f"{where}.name", "is missing")
        return tuple(dict.fromkeys(names))

    def _read_resource(self, node: yaml.Node, path: str) -> str:
        name = self._reader.read_string(node, path) or ""
        if name and not _RESOURCE.fullmatch(name):
            self._reader.report(node, path, f"{name!r} is no name of a resource, such as cpu or example.com/gpu")
        return name

    def _read_number(self, name: str, *, most: int, default: int) -> int:
        node = self._fields.get(name)
        if node is None:
            return default
        number = self._reader.read_number(node, f"{self._path}.{name}", most=most)
        if number == 0:
            self._report(name, "0 should be 1 or more")
        return number or default

    def _list_written(self, name: str) -> dict[str, Any]:
        written: dict[str, Any] = {} if "name" in self._fields else {f"{self._path}.name": name}
        for name, node in self._fields.items():
            if isinstance(node, yaml.MappingNode):
                inner = {str(key.value): value for key, value in node.value}
                written |= {f"{self._path}.{name}.{key}": value.value for key, value in inner.items()}
            elif isinstance(node, yaml.SequenceNode):
                pairs = (pair for item in node.value if isinstance(item, yaml.MappingNode) for pair in item.value)
                written[f"{self._path}.{name}"] = [value.value for key, value in pairs if key.value == "name"]
            elif isinstance(node, yaml.ScalarNode):
                written[f"{self._path}.{name}"] = node.value
        return written

    def _report(self, name: str, message: str) -> None:
        self._reader.report(self._fields.get(name, self._node), f"{self._path}.{name}", message)
