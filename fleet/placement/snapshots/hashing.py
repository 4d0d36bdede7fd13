"""Tells whether a policy or a selection changed: by hash, and by content where hashes disagree.

Hashes are shared with KubeFleet, whose texts come from Go structures: policy fields stand in the order of their
declaration, absent optional ones are left out, absent required ones appear empty. A different hash alone proves
nothing, because another version may write another text for the same thing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from fleet.placement.selection.ordering import Place, place
from fleet.placement.snapshots import canonical_json as canonical

Json = Mapping[str, Any]
Writer = Callable[[Any], Any]

_POLICY_DEFAULTS: Final = {"placementType": "PickAll"}
_SPREAD_DEFAULTS: Final = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
_TOLERATION_DEFAULTS: Final = {"operator": "Equal"}


def policy_hash(policy: Json | None) -> str:
    """Lower-case hex. The number of clusters does not count: changing it alone is no new policy."""
    return _hex(_encode_policy(policy))


def are_policies_equal(policy: Json | None, other: Json | None) -> bool:
    """Whether both ask for the same, their number of clusters aside. No policy is the one that picks all."""
    return _encode_policy(_apply_defaults(policy)) == _encode_policy(_apply_defaults(other))


def resources_hash(contents: Iterable[bytes]) -> str:
    """Lower-case hex over canonical objects, in the order given."""
    return _hex(b'{"selectedResources":[' + b",".join(contents) + b"]}")


def fingerprint(contents: Iterable[bytes]) -> str:
    """The same for the same objects, however they are written and in whatever order. Never stored."""
    documents = [json.loads(content, parse_float=_plainly) for content in contents]
    text = json.dumps(sorted(documents, key=_place_of), sort_keys=True, separators=(",", ":"))
    return _hex(text.encode())


def _plainly(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() else number


def _hex(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _place_of(document: Json) -> Place:
    metadata = document.get("metadata") or {}
    return place(
        api_version=document.get("apiVersion", ""),
        kind=document.get("kind", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
    )


# --- policies ---------------------------------------------------------------------------------------------------------


def _encode_policy(policy: Json | None) -> bytes:
    return canonical.write(None if policy is None else _POLICY(policy))


@dataclass(frozen=True, slots=True)
class _Structure:
    """Writes the named fields in their order, at once: an encoder would sort them."""

    order: tuple[str, ...]
    optional: frozenset[str] = frozenset()
    inner: Mapping[str, Writer] = field(default_factory=dict)
    empty: Json = field(default_factory=dict)
    """What a required field says when it is absent; null unless given."""

    def __call__(self, source: Json) -> msgspec.Raw:
        return msgspec.Raw(b"{" + b",".join(self._parts(source)) + b"}")

    def _parts(self, source: Json) -> Iterator[bytes]:
        for name in self.order:
            value = source.get(name)
            if name in self.optional and _is_left_out(value):
                continue
            value = self.empty.get(name) if value is None else value
            written = self.inner[name](value) if name in self.inner else value
            yield canonical.write(name) + b":" + canonical.write(written)


def _is_left_out(value: Any) -> bool:
    """An object without fields is there all the same: Go leaves out what points nowhere, not what it points to."""
    return value is None or value == [] or value == ""


def _optional(*order: str, **inner: Writer) -> _Structure:
    return _Structure(order, frozenset(order), inner)


def _each(writer: Writer) -> Writer:
    return lambda items: None if items is None else [writer(item) for item in items]


def _label_selector(selector: Json) -> msgspec.Raw:
    return _SELECTOR({**selector, "matchLabels": selector.get("matchLabels") or None})


_REQUIREMENT: Final = _Structure(
    ("key", "operator", "values"), frozenset({"values"}), empty={"key": "", "operator": ""}
)
_SELECTOR: Final = _optional("matchLabels", "matchExpressions", matchExpressions=_each(_REQUIREMENT))
_PROPERTY: Final = _Structure(("name", "operator", "values"), empty={"name": "", "operator": ""})
_TERM: Final = _optional(
    *("labelSelector", "propertySelector", "propertySorter"),
    labelSelector=_label_selector,
    propertySelector=_Structure(("matchExpressions",), inner={"matchExpressions": _each(_PROPERTY)}),
    propertySorter=_Structure(("name", "sortOrder"), empty={"name": "", "sortOrder": ""}),
)
_PREFERRED: Final = _Structure(
    ("weight", "preference"), inner={"preference": _TERM}, empty={"weight": 0, "preference": {}}
)
_CLUSTER_AFFINITY: Final = _optional(
    *("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"),
    requiredDuringSchedulingIgnoredDuringExecution=_Structure(
        ("clusterSelectorTerms",), inner={"clusterSelectorTerms": _each(_TERM)}
    ),
    preferredDuringSchedulingIgnoredDuringExecution=_each(_PREFERRED),
)
_SPREAD: Final = _Structure(
    ("maxSkew", "topologyKey", "whenUnsatisfiable"),
    frozenset({"maxSkew", "whenUnsatisfiable"}),
    empty={"topologyKey": ""},
)
_POLICY: Final = _optional(
    *("placementType", "clusterNames", "affinity", "topologySpreadConstraints", "tolerations"),
    affinity=_optional("clusterAffinity", clusterAffinity=_CLUSTER_AFFINITY),
    topologySpreadConstraints=_each(_SPREAD),
    tolerations=_each(_optional("key", "operator", "value", "effect")),
)


def _apply_defaults(policy: Json | None) -> Json:
    """As the API server completes it."""
    full = _with_defaults(policy or {}, _POLICY_DEFAULTS)
    full["topologySpreadConstraints"] = [
        _with_defaults(constraint, _SPREAD_DEFAULTS) for constraint in full.get("topologySpreadConstraints") or ()
    ]
    full["tolerations"] = [
        _with_defaults(toleration, _TOLERATION_DEFAULTS) for toleration in full.get("tolerations") or ()
    ]
    return full


def _with_defaults(given: Json, defaults: Json) -> dict[str, Any]:
    return {**defaults, **{name: value for name, value in given.items() if value is not None and value != ""}}
