"""Hashes of policies and selections, and comparison by content where hashes differ.

The hashes are shared with KubeFleet, whose input is Go structures encoded as JSON: fields in the order of their
declaration, absent optional fields left out, absent required fields empty. A different hash alone does not prove a
change, because another version may encode the same policy differently.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from fleet.checkpoint import split
from fleet.placement.selection import canonical_json as canonical
from fleet.placement.selection.ordering import SortPosition, sort_position

Json = Mapping[str, Any]
Writer = Callable[[Any], Any]

_POLICY_DEFAULTS: Final = {"placementType": "PickAll"}
_NUMBER: Final = "numberOfClusters"
_SPREAD_DEFAULTS: Final = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
_TOLERATION_DEFAULTS: Final = {"operator": "Equal"}


def policy_hash(policy: Json | None) -> str:
    """Lower-case hex. Leaves out the number of clusters: changing it alone is not a new policy."""
    return _hash(_encode_policy(policy))


def are_policies_equal(policy: Json | None, other: Json | None) -> bool:
    """Whether both are equal apart from the number of clusters. No policy means PickAll."""
    return _encode_policy(_apply_defaults(policy)) == _encode_policy(_apply_defaults(other))


def is_policy_unchanged(policy: Json | None, other: Json | None) -> bool:
    """Whether both are written alike apart from the number of clusters. Those that are not may still be equal."""
    if policy is None or other is None:
        return policy is other
    return {**policy, _NUMBER: None} == {**other, _NUMBER: None}


def resources_hash(contents: Iterable[bytes]) -> str:
    """Lower-case hex over canonical objects, in the order given."""
    return _hash(b'{"selectedResources":[' + b",".join(contents) + b"]}")


def fingerprint(contents: Iterable[bytes]) -> str:
    """Equal for equal objects, independent of encoding and order. Never stored."""
    documents = [json.loads(content, parse_float=_parse_number) for content in contents]
    text = json.dumps(sorted(documents, key=_position_of), sort_keys=True, separators=(",", ":"))
    return _hash(text.encode())


def _parse_number(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() else number


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _position_of(document: Json) -> SortPosition:
    metadata = document.get("metadata") or {}
    return sort_position(
        api_version=document.get("apiVersion", ""),
        kind=document.get("kind", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
    )


# --- policies ---------------------------------------------------------------------------------------------------------


def _encode_policy(policy: Json | None) -> bytes:
    return canonical.escape(canonical.write_in_order(None if policy is None else _POLICY(policy)))


@dataclass(frozen=True, slots=True)
class _Structure:
    """The named fields in this order, in which they are encoded."""

    order: tuple[str, ...]
    optional: frozenset[str] = frozenset()
    inner: Mapping[str, Writer] = field(default_factory=dict)
    empty: Json = field(default_factory=dict)
    """Values of required fields that are absent; null unless given."""

    def __call__(self, source: Json) -> Json:
        fields = {}
        for name in self.order:
            value = source.get(name)
            if name in self.optional and _is_left_out(value):
                continue
            value = self.empty.get(name) if value is None else value
            fields[name] = self.inner.get(name, canonical.sort)(value)
        return fields


def _is_left_out(value: Any) -> bool:
    """An empty object is kept: Go leaves out nil pointers, not empty structures."""
    return value is None or value == [] or value == ""


def _optional(*order: str, **inner: Writer) -> _Structure:
    return _Structure(order, frozenset(order), inner)


def _map_items(writer: Writer) -> Writer:
    """Encoded part by part: at once, thousands would hold every other thread for milliseconds."""

    def write(items: Sequence[Json]) -> msgspec.Raw:
        parts = (canonical.write_in_order(list(map(writer, part)))[1:-1] for part in split(items))
        return msgspec.Raw(b"[" + b",".join(parts) + b"]")

    return lambda items: None if items is None else write(items)


def _label_selector(selector: Json) -> Json:
    return _SELECTOR({**selector, "matchLabels": selector.get("matchLabels") or None})


_REQUIREMENT: Final = _Structure(
    ("key", "operator", "values"), frozenset({"values"}), empty={"key": "", "operator": ""}
)
_SELECTOR: Final = _optional("matchLabels", "matchExpressions", matchExpressions=_map_items(_REQUIREMENT))
_PROPERTY: Final = _Structure(("name", "operator", "values"), empty={"name": "", "operator": ""})
_TERM: Final = _optional(
    *("labelSelector", "propertySelector", "propertySorter"),
    labelSelector=_label_selector,
    propertySelector=_Structure(("matchExpressions",), inner={"matchExpressions": _map_items(_PROPERTY)}),
    propertySorter=_Structure(("name", "sortOrder"), empty={"name": "", "sortOrder": ""}),
)
_PREFERRED: Final = _Structure(
    ("weight", "preference"), inner={"preference": _TERM}, empty={"weight": 0, "preference": {}}
)
_CLUSTER_AFFINITY: Final = _optional(
    *("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"),
    requiredDuringSchedulingIgnoredDuringExecution=_Structure(
        ("clusterSelectorTerms",), inner={"clusterSelectorTerms": _map_items(_TERM)}
    ),
    preferredDuringSchedulingIgnoredDuringExecution=_map_items(_PREFERRED),
)
_SPREAD: Final = _Structure(
    ("maxSkew", "topologyKey", "whenUnsatisfiable"),
    frozenset({"maxSkew", "whenUnsatisfiable"}),
    empty={"topologyKey": ""},
)
_POLICY: Final = _optional(
    *("placementType", "clusterNames", "affinity", "topologySpreadConstraints", "tolerations"),
    affinity=_optional("clusterAffinity", clusterAffinity=_CLUSTER_AFFINITY),
    topologySpreadConstraints=_map_items(_SPREAD),
    tolerations=_map_items(_optional("key", "operator", "value", "effect")),
)


def _apply_defaults(policy: Json | None) -> Json:
    """With the defaults that the API server sets."""
    full = _fill_defaults(policy or {}, _POLICY_DEFAULTS)
    full["topologySpreadConstraints"] = [
        _fill_defaults(constraint, _SPREAD_DEFAULTS) for constraint in full.get("topologySpreadConstraints") or ()
    ]
    full["tolerations"] = [
        _fill_defaults(toleration, _TOLERATION_DEFAULTS) for toleration in full.get("tolerations") or ()
    ]
    return full


def _fill_defaults(given: Json, defaults: Json) -> dict[str, Any]:
    return {**defaults, **{name: value for name, value in given.items() if value is not None and value != ""}}
