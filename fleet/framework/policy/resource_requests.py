"""Requests of a placement: what one cluster's copy of it needs, by resource.

As text they read `cpu=2,memory=4Gi`. As numbers they are whole units: thousandths for cpu, bytes for memory, and plain
numbers for everything else, each rounded up, so that what is booked is never less than what was asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from fleet.model.labels import is_qualified_name
from fleet.model.quantity import parse_quantity, quantity_or_none
from fleet.model.selectors import matches
from fleet.model.views import LabelSelector
from fleet.snapshot.capacity import MILLI

MOST_RESOURCES: Final = 32
NOTHING: Final[Mapping[str, int]] = MappingProxyType({})
_LARGEST: Final = 2**60
_BINARY: Final = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")
PER_NODE: Final = ";node:"
"""In the text of what workloads need, in front of what they need on each node."""
OVERRIDDEN: Final = ";overridden:"
"""In front of what workloads need whose manifests are not the same on all clusters."""
MEMORY_LIKE: Final = ("memory", "storage", "hugepages-")
"""How the names of resources begin, or end after a dash, that are counted in bytes."""


def split_requests(text: str) -> dict[str, str]:
    """The quantities by resource, as they are written. What has no `=` has an empty quantity; the last of a repeated
    resource counts."""
    parts = (part.strip().partition("=") for part in text.split(",") if part.strip())
    return {resource.strip(): quantity.strip() for resource, _, quantity in parts}


def join_requests(quantities: Mapping[str, str | int | float]) -> str:
    return ",".join(f"{resource}={quantity}" for resource, quantity in quantities.items())


def read_requests(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """In whole units. They must have no problems."""
    return {resource: amount for resource, text in quantities.items() if (amount := read_amount(resource, text))}


def read_usable(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """In whole units, zeros included; without what has problems."""
    return {
        resource: read_amount(resource, text)
        for resource, text in quantities.items()
        if not any(find_request_problems({resource: text}))
    }


@lru_cache(4096)  # many placements need the same
def parse_requests(text: str) -> Mapping[str, int]:
    """In whole units. Nothing for a text with problems: such a placement is refused."""
    quantities = split_requests(text)
    return NOTHING if any(find_request_problems(quantities)) else MappingProxyType(read_requests(quantities))


class OverriddenNeeds(msgspec.Struct, frozen=True, gc=False):
    """What workloads need whose manifests are overridden on some clusters."""

    rules: tuple[tuple[LabelSelector, ...], ...]
    """Each with alternative selectors of clusters; without any it is for all."""
    needs: tuple[str, ...]
    """As text, by the rules that are for a cluster: bit i of the position is rule i."""

    def read(self, labels: Mapping[str, str] | None) -> Needs:
        """On a cluster with these labels."""
        rules = (not rule or any(matches(selector, labels) for selector in rule) for rule in self.rules)
        return parse_needs(self.needs[sum(1 << position for position, holds in enumerate(rules) if holds)])


class Needs(NamedTuple):
    """What one cluster's copy of a placement requests, by resource, in whole units."""

    fixed: Mapping[str, int] = NOTHING
    per_node: Mapping[str, int] = NOTHING
    overridden: tuple[OverriddenNeeds, ...] = ()
    """Beside the others."""

    @property
    def vary(self) -> bool:
        """Whether they are not the same on all clusters."""
        return bool(self.per_node or self.overridden)

    def on(self, nodes: int, labels: Mapping[str, str] | None = None) -> Mapping[str, int]:
        """On a cluster with that many nodes, and these labels."""
        if not self.vary:
            return self.fixed
        total: Counter[str] = Counter()
        for needs in (self, *(each.read(labels) for each in self.overridden)):
            total.update(needs.fixed)
            for resource, amount in needs.per_node.items():
                total[resource] += nodes * amount
        return dict(total)

    def without(self, resource: str) -> Needs:
        """Of overridden workloads nothing is left: who says what is needed says it for all clusters."""
        fixed, per_node = (
            {name: amount for name, amount in amounts.items() if name != resource}
            for amounts in (self.fixed, self.per_node)
        )
        return Needs(fixed, per_node)


NO_NEEDS: Final = Needs()


@lru_cache(4096)  # many placements, and all bindings of one, need the same
def parse_needs(text: str) -> Needs:
    """Of requests as a placement has them, or as they are computed from its workloads."""
    plain, _, overridden = text.partition(OVERRIDDEN)
    fixed, _, per_node = plain.partition(PER_NODE)
    return Needs(parse_requests(fixed), parse_requests(per_node), _parse_overridden(overridden))


def _parse_overridden(text: str) -> tuple[OverriddenNeeds, ...]:
    """Nothing of a text that others wrote."""
    try:
        read = _decode_overridden(text) if text else ()
    except msgspec.MsgspecError:
        return ()
    return read if all(len(each.needs) == 1 << len(each.rules) for each in read) else ()


def format_needs(needs: Needs) -> str:
    """What `parse_needs` reads."""
    per_node = f"{PER_NODE}{format_requests(needs.per_node)}" if needs.per_node else ""
    overridden = f"{OVERRIDDEN}{msgspec.json.encode(needs.overridden).decode()}" if needs.overridden else ""
    return format_requests(needs.fixed) + per_node + overridden


def read_amount(resource: str, quantity: str | int | float) -> int:
    return math.ceil(parse_quantity(quantity) * (1000 if resource in MILLI else 1))


def find_request_problems(quantities: Mapping[str, str | int | float]) -> Iterator[tuple[str, str]]:
    """Resource and message of everything that is wrong."""
    if len(quantities) > MOST_RESOURCES:
        yield "", f"{len(quantities)} resources are more than {MOST_RESOURCES}: list those that clusters may lack"
    for resource, text in quantities.items():
        if not is_qualified_name(resource):
            yield resource, f"{resource!r} is no name of a resource, such as cpu, memory or example.com/gpu"
            continue
        exact = quantity_or_none(text)
        if exact is None:
            yield resource, f"{text!r} is no quantity for {resource}: write {resource}=4, 500m or 16Gi"
        elif exact < 0:
            yield resource, f"{text} of {resource} is negative: write 0 or more"
        elif read_amount(resource, text) > _LARGEST:
            yield resource, f"{text} of {resource} is more than any cluster has"


def format_amount(resource: str, amount: int) -> str:
    """As a quantity: `1500m`, `2`, `4Gi`, exact."""
    if resource in MILLI:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if _is_in_bytes(resource) and amount:
        for power, suffix in zip(range(len(_BINARY), 0, -1), _BINARY, strict=True):
            if amount % 1024**power == 0:
                return f"{amount // 1024**power}{suffix}"
    return str(amount)


def _is_in_bytes(resource: str) -> bool:
    return resource.startswith(MEMORY_LIKE) or resource.endswith(("-storage", ".storage"))


def format_requests(requests: Mapping[str, int]) -> str:
    """`cpu=2,memory=4Gi`: what `split_requests` reads."""
    return join_requests({resource: format_amount(resource, requests[resource]) for resource in requests})


_decode_overridden = msgspec.json.Decoder(tuple[OverriddenNeeds, ...]).decode
