"""Terms about other placements: which of them a placement belongs with, and which it keeps away from.

As text they are JSON, `{"required": [{"placements": {"matchLabels": {"app": "db"}}, "topologyKey": "region"}]}`, with
`anti` for those to keep away from, and a `weight` of 1 to 100 for each preferred one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from fleet.model.labels import is_qualified_name
from fleet.model.selectors import find_selector_problems, matches
from fleet.model.views import LabelSelector, PlacementTerm, PlacementTerms, WeightedPlacementTerm
from fleet.snapshot.sidedata import ResidentGroup

MOST_TERMS: Final = 8
HEAVIEST: Final = 100
RESIDENTS: Final = "residents"
"""In READS of plugins: the placements on clusters, and the labels of the placement itself."""
NO_TERMS: Final = PlacementTerms()
_EVERYTHING: Final = LabelSelector()
_KEPT: Final = 1 << 16


# --- text -------------------------------------------------------------------------------------------------------------


@lru_cache(4096)  # many placements have the same
def parse_terms(text: str) -> PlacementTerms:
    """Nothing for a text with problems: such a placement is refused."""
    return NO_TERMS if not text or any(find_text_problems(text)) else _decode_terms(text)


def find_text_problems(text: str) -> Iterator[str]:
    """Each begins with the field, where there is one."""
    if not text:
        return
    try:
        terms = _decode_terms(text)
    except msgspec.DecodeError as error:
        yield f"it cannot be read: {error}"
    else:
        yield from _find_unknown_fields(msgspec.json.decode(text))
        yield from find_term_problems(terms)


def _find_unknown_fields(document: Any) -> Iterator[str]:
    """Views have no opinion on them, and an API server does not see this text."""
    known = PlacementTerms.__struct_encode_fields__
    yield from (f"{name}: is no field; use {' or '.join(known)}" for name in document if name not in known)
    for kind, term_type in (("required", PlacementTerm), ("preferred", WeightedPlacementTerm)):
        fields = term_type.__struct_encode_fields__
        for position, term in enumerate(document.get(kind) or ()):
            unknown = (name for name in term if name not in fields)
            yield from (f"{kind}[{position}].{name}: is no field; use one of {', '.join(fields)}" for name in unknown)


def find_term_problems(terms: PlacementTerms) -> Iterator[str]:
    for field, listed in (("required", terms.required), ("preferred", terms.preferred)):
        if len(listed) > MOST_TERMS:
            yield f"{field}: {len(listed)} terms are more than {MOST_TERMS}"
        for position, term in enumerate(listed):
            yield from (f"{field}[{position}].{problem}" for problem in _find_problems(term))


def _find_problems(term: PlacementTerm) -> Iterator[str]:
    if term.placements is None:
        yield "placements: is missing; write {} for all placements"
    else:
        for problem in find_selector_problems(term.placements):
            yield f"placements.{problem.field}: {problem.message}"
    if term.topology_key and not is_qualified_name(term.topology_key):
        yield f"topologyKey: {term.topology_key!r} is not a valid label key"
    if isinstance(term, WeightedPlacementTerm) and not 1 <= term.weight <= HEAVIEST:
        yield f"weight: {term.weight or 'nothing'} is no weight; use 1 to {HEAVIEST}"


def _decode_terms(text: str) -> PlacementTerms:
    return msgspec.json.decode(text, type=PlacementTerms)


def format_terms(terms: PlacementTerms) -> str:
    """What `parse_terms` reads; empty without terms."""
    return "" if terms == NO_TERMS else msgspec.json.encode(terms, order="sorted").decode()


@lru_cache(4096)
def format_required(text: str) -> str:
    """The required terms of a text alone."""
    return format_terms(PlacementTerms(required=parse_terms(text).required))


def format_labels(labels: Mapping[str, str] | None) -> str:
    return msgspec.json.encode(labels, order="sorted").decode() if labels else ""


def parse_labels(text: str) -> dict[str, str]:
    """Nothing for what cannot be read: only Fleet itself writes them."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, str])
    except msgspec.DecodeError:
        return {}


def describe_placements(term: PlacementTerm) -> str:
    """`app=db, tier In [gold]`; `any placement` for all."""
    selector = term.placements or _EVERYTHING
    wanted = [f"{key}={value}" for key, value in sorted((selector.match_labels or {}).items())]
    for each in selector.match_expressions:
        wanted.append(f"{each.key} {each.operator}" + (f" [{', '.join(each.values)}]" if each.values else ""))
    return ", ".join(wanted) or "any placement"


# --- which placements they are about ------------------------------------------------------------------------------


def selects(term: PlacementTerm, labels: Mapping[str, str]) -> bool:
    return matches(term.placements or _EVERYTHING, labels)


def build_group(namespace: str, labels: Mapping[str, str] | None, terms: str) -> ResidentGroup:
    """Of a placement with terms as text."""
    return ResidentGroup(namespace, tuple(sorted((labels or {}).items())), format_required(terms))


def build_selection(term: PlacementTerm) -> Callable[[ResidentGroup], bool]:
    """Whether the term selects placements of a group. What was asked before is not evaluated again."""
    text = msgspec.json.encode(term.placements, order="sorted")
    return lambda group: _is_selected(text, group)


def is_named(group: ResidentGroup, terms: str) -> bool:
    """Whether terms as text are about placements of the group, which is of the same namespace."""
    return any(selected(group) for selected in _list_selections(terms))


@lru_cache(4096)
def _list_selections(text: str) -> list[Callable[[ResidentGroup], bool]]:
    terms = parse_terms(text)
    return [build_selection(term) for term in (*terms.required, *terms.preferred)]


@lru_cache(_KEPT)
def _is_selected(selector: bytes, group: ResidentGroup) -> bool:
    return matches(_parse_selector(selector), dict(group.labels))


@lru_cache(4096)
def _parse_selector(selector: bytes) -> LabelSelector:
    return msgspec.json.decode(selector, type=LabelSelector | None) or _EVERYTHING


def list_repelling(group: ResidentGroup, labels: tuple[tuple[str, str], ...]) -> tuple[PlacementTerm, ...]:
    """The terms by which placements of the group keep away one with these labels."""
    return _list_repelling(group, labels) if group.affinity else ()


@lru_cache(_KEPT)
def _list_repelling(group: ResidentGroup, labels: tuple[tuple[str, str], ...]) -> tuple[PlacementTerm, ...]:
    own = dict(labels)
    return tuple(term for term in parse_terms(group.affinity).required if term.anti and selects(term, own))


def build_concern(own: ResidentGroup, terms: PlacementTerms) -> Callable[[ResidentGroup], bool]:
    """Whether placements of a group matter to one of `own`, which has these terms, for its own or for theirs."""
    text = format_terms(terms)

    def is_concerned(group: ResidentGroup) -> bool:
        if group.namespace != own.namespace:
            return False
        return is_named(group, text) or bool(list_repelling(group, own.labels))

    return is_concerned
