"""Which placements could select an object: the way back from a change of the hub to those whom it concerns.

Looks up, never scans: a change nobody waits for costs a few dictionary lookups, however many placements there are.
May name a placement for nothing (whoever is woken resolves its selectors anyway), but never misses one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Final, TypeVar

from fleet.errors import InputError
from fleet.model.selectors import matches
from fleet.model.views import LabelSelector
from fleet.placement.selection.candidates import CandidateObject
from fleet.placement.selection.selectors import SelectorTerm

_K = TypeVar("_K")
_V = TypeVar("_V", bound=Sized)

ANY: Final = ""
"""In place of a name: chosen by label, or not at all."""

Labels = Mapping[str, str] | None
Spot = tuple[str, str, str, str]
"""Group, kind, namespace and name of what a selector looks at."""
_Kind = tuple[str, str]


@dataclass(slots=True)
class _Registration:
    spots: list[tuple[Spot, LabelSelector | None]] = field(default_factory=list)
    kinds: set[_Kind] = field(default_factory=set)
    whole_namespaces: set[str] = field(default_factory=set)
    namespaces_by_label: list[LabelSelector | None] = field(default_factory=list)


@dataclass(slots=True)
class SelectorIndex:
    _registered: dict[str, tuple[tuple[SelectorTerm, ...], _Registration]] = field(default_factory=dict)
    _spots: dict[Spot, dict[str, list[LabelSelector | None]]] = field(default_factory=lambda: defaultdict(dict))
    _kinds: dict[_Kind, set[str]] = field(default_factory=lambda: defaultdict(set))
    _whole: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _by_label: dict[str, list[LabelSelector | None]] = field(default_factory=dict)

    def put(self, key: str, terms: Iterable[SelectorTerm], namespace: str) -> None:
        known = self._registered.get(key)
        terms = tuple(terms)
        if known is not None and known[0] == terms:
            return
        self.forget(key)
        registration = _registration(terms, namespace)
        self._registered[key] = terms, registration
        for spot, selector in registration.spots:
            self._spots[spot].setdefault(key, []).append(selector)
        for kind in registration.kinds:
            self._kinds[kind].add(key)
        for whole in registration.whole_namespaces:
            self._whole[whole].add(key)
        if registration.namespaces_by_label:
            self._by_label[key] = registration.namespaces_by_label

    def forget(self, key: str) -> None:
        known = self._registered.pop(key, None)
        if known is None:
            return
        for spot, _ in known[1].spots:
            if spot in self._spots:  # two selectors may look at one spot
                _leave(self._spots, spot, lambda there: there.pop(key, None))
        for kind in known[1].kinds:
            _leave(self._kinds, kind, lambda there: there.discard(key))
        for whole in known[1].whole_namespaces:
            _leave(self._whole, whole, lambda there: there.discard(key))
        self._by_label.pop(key, None)

    @property
    def wants_whole_namespaces(self) -> bool:
        return bool(self._whole or self._by_label)

    def asking_for(self, group: str, kind: str) -> set[str]:
        """Those with a selector for this kind, and those with whole namespaces."""
        return set(self._by_label).union(self._kinds.get((group, kind), ()), *self._whole.values())

    def concerned(
        self, old: CandidateObject | None, new: CandidateObject | None, *, labels_of: Callable[[str], Labels]
    ) -> set[str]:
        """`labels_of` a namespace."""
        states = [state for state in (old, new) if state is not None]
        group, kind = states[0].resource.group, states[0].resource.kind
        namespace, name = states[0].metadata.namespace, states[0].metadata.name
        labels = [state.metadata.labels for state in states]
        keys = set(self._at((group, kind, namespace, name), (group, kind, namespace, ANY), labels))
        if (group, kind) == ("", "Service"):  # decides whether Endpoints of its name are placed
            keys.update(*(self._spots.get(("", "Endpoints", namespace, at), ()) for at in (name, ANY)))
        if namespace:
            keys.update(self._whole.get(namespace, ()))
            keys.update(self._taking(namespace, labels_of))
        return keys

    def _at(self, named: Spot, anywhere: Spot, labels: Iterable[Labels]) -> Iterator[str]:
        yield from self._spots.get(named, ())
        for key, selectors in self._spots.get(anywhere, {}).items():
            if any(_may_match(selector, each) for selector in selectors for each in labels):
                yield key

    def _taking(self, namespace: str, labels_of: Callable[[str], Labels]) -> Iterator[str]:
        if not self._by_label:
            return
        labels = labels_of(namespace)
        for key, selectors in self._by_label.items():
            if any(_may_match(selector, labels) for selector in selectors):
                yield key


def _registration(terms: Iterable[SelectorTerm], namespace: str) -> _Registration:
    terms = tuple(terms)
    registration = _Registration()
    inside = {namespace} if namespace else {"", *(term.name for term in terms if term.chooses_inside)}
    for term in terms:
        registration.kinds.add((term.group, term.kind))
        for where in {""} if term.selects_namespaces else inside:
            registration.spots.append(((term.group, term.kind, where, term.name or ANY), term.label_selector))
        if term.takes_whole_namespaces and term.name:
            registration.whole_namespaces.add(term.name)
        elif term.takes_whole_namespaces:
            registration.namespaces_by_label.append(term.label_selector)
    return registration


def _may_match(selector: LabelSelector | None, labels: Labels) -> bool:
    try:
        return selector is None or matches(selector, labels)
    except InputError:
        return True


def _leave(index: dict[_K, _V], at: _K, leave: Callable[[_V], object]) -> None:
    there = index[at]
    leave(there)
    if not there:
        del index[at]
