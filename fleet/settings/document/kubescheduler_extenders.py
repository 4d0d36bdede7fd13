"""Extenders in documents of kube-scheduler."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, Literal

import yaml

from fleet.settings.document.extenders import NOT_IGNORED, RESOURCE_FIELDS
from fleet.settings.document.kubescheduler_nodes import Pairs, build_mapping, build_scalar, build_sequence

_SAME: Final = (
    *("urlPrefix", "filterVerb", "prioritizeVerb", "bindVerb", "weight", "nodeCacheCapable", "ignorable"),
    *(f"tlsConfig.{name}" for name in ("insecure", "serverName", "caFile", "certFile", "keyFile")),
)
_IGNORED: Final = {
    "enableHTTPS": "the scheme of urlPrefix decides; certificates are verified unless tlsConfig.insecure is true",
    "preemptVerb": "extenders are not asked about evictions",
}
_REFUSED: Final = {
    **{f"tlsConfig.{name}Data": f"give a file: tlsConfig.{name}File" for name in ("ca", "cert", "key")},
}
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")

Note = Callable[[yaml.Node, str, Literal["honoured", "translated", "ignored", "refused"], str], None]


def convert_extenders(node: yaml.Node, note: Note) -> yaml.SequenceNode:
    """Every field is noted, as for the rest of the document."""
    items = node.value if isinstance(node, yaml.SequenceNode) else []
    converted: list[yaml.Node] = []
    for position, item in enumerate(items):
        pairs: Pairs = []
        for key, value in item.value if isinstance(item, yaml.MappingNode) else ():
            pairs += _convert_field(f"extenders[{position}]", str(key.value), key, value, note)
        converted.append(build_mapping(item, pairs))
    return build_sequence(node, converted)


def _convert_field(path: str, name: str, key: yaml.Node, value: yaml.Node, note: Note) -> Pairs:
    if name == "tlsConfig" and isinstance(value, yaml.MappingNode):
        inner: Pairs = []
        for own, node in value.value:
            inner += _convert_field(path, f"tlsConfig.{own.value}", own, node, note)
        return [(key, build_mapping(value, inner))] if inner else []
    where = f"{path}.{name}"
    if name in ("bindVerb", "managedResources") and not value.value:
        note(key, where, "ignored", "it is empty")
        return []
    if name == "managedResources":
        if not isinstance(value, yaml.SequenceNode):
            note(key, where, "refused", "should be a list")
            return []
        places = [f"{where}[{position}]" for position in range(len(value.value))]
        items = [_convert_resource(place, item, note) for place, item in zip(places, value.value, strict=True)]
        return [(key, yaml.SequenceNode(value.tag, items, value.start_mark, value.end_mark))]
    if name in _SAME:
        note(key, where, "honoured", "")
        return [(key, value)]
    if name == "httpTimeout":
        seconds = _read_seconds(value)
        if seconds is None:
            note(key, where, "refused", "should be a duration such as 5s")
            return []
        note(key, where, "translated", "timeoutSeconds")
        number = yaml.ScalarNode("tag:yaml.org,2002:int", str(seconds), value.start_mark, value.end_mark)
        return [(build_scalar(key, "timeoutSeconds"), number)]
    if name in _IGNORED or (name in _REFUSED and not value.value):
        note(key, where, "ignored", _IGNORED.get(name, "it is empty"))
    else:
        note(key, where, "refused", _REFUSED.get(name, "there is no such field"))
    return []


def _convert_resource(path: str, item: yaml.Node, note: Note) -> yaml.MappingNode:
    kept = []
    if not isinstance(item, yaml.MappingNode):
        note(item, path, "refused", "should be a mapping")
    for key, value in item.value if isinstance(item, yaml.MappingNode) else ():
        where = f"{path}.{key.value}"
        if key.value == "ignoredByScheduler" and str(value.value) == "true":
            note(key, where, "refused", NOT_IGNORED)
        elif key.value in RESOURCE_FIELDS:
            note(key, where, "honoured", "")
            kept.append((key, value))
        else:
            note(key, where, "refused", "there is no such field")
    return build_mapping(item, kept)


def _read_seconds(node: yaml.Node) -> int | None:
    """Whole seconds, rounded up."""
    text = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
    if not text or _DURATION.sub("", text):
        return None
    return max(1, math.ceil(sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))))
