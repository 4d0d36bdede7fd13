"""Selector index: finds the placements that may select a changed object.

Never scans all placements: a change that affects none costs a few dictionary lookups, independent of their number. May
return a placement that is not affected (reconciling it resolves the selectors again), but never misses one.
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
"""In place of a name: selected by label, or every object of the kind."""

Labels = Mapping[str, str] | None
SelectorTarget = tuple[str, str, str, str]
"""Group, kind, namespace and name that a selector refers to."""
_Kind = tuple[str, str]


@dataclass(slots=True)
class _Registration:
    targets: list[tuple[SelectorTarget, LabelSelector | None]] = field(default_factory=list)
    kinds: set[_Kind] = field(default_factory=set)
    whole_namespaces: set[str] = field(default_factory=set)
    namespaces_by_label: list[LabelSelector | None] = field(default_factory=list)


@dataclass(slots=True)
class SelectorIndex:
    _registered: dict[str, tuple[tuple[SelectorTerm, ...], _Registration]] = field(default_factory=dict)
    _by_target: dict[SelectorTarget, dict[str, list[LabelSelector | None]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _kinds: dict[_Kind, set[str]] = field(default_factory=lambda: defaultdict(set))
    _whole: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _by_label: dict[str, list[LabelSelector | None]] = field(default_factory=dict)

    def put(self, key: str, terms: Iterable[SelectorTerm], namespace: str) -> None:
        registered = self._registered.get(key)
        terms = tuple(terms)
        if registered is not None and registered[0] == terms:
            return
        self.forget(key)
        registration = _build_registration(terms, namespace)
        self._registered[key] = terms, registration
        for target, selector in registration.targets:
            self._by_target[target].setdefault(key, []).append(selector)
        for kind in registration.kinds:
            self._kinds[kind].add(key)
        for whole in registration.whole_namespaces:
            self._whole[whole].add(key)
        if registration.namespaces_by_label:
            self._by_label[key] = registration.namespaces_by_label

    def forget(self, key: str) -> None:
        registered = self._registered.pop(key, None)
        if registered is None:
            return
        for target, _ in registered[1].targets:
            if target in self._by_target:  # two selectors may have the same index entry
                _discard(self._by_target, target, lambda entries: entries.pop(key, None))
        for kind in registered[1].kinds:
            _discard(self._kinds, kind, lambda entries: entries.discard(key))
        for whole in registered[1].whole_namespaces:
            _discard(self._whole, whole, lambda entries: entries.discard(key))
        self._by_label.pop(key, None)

    @property
    def has_whole_namespaces(self) -> bool:
        return bool(self._whole or self._by_label)

    def list_keys_selecting_kind(self, group: str, kind: str) -> set[str]:
        """Placements with a selector for this kind, and those that select whole namespaces."""
        return set(self._by_label).union(self._kinds.get((group, kind), ()), *self._whole.values())

    def find_keys(
        self, old: CandidateObject | None, new: CandidateObject | None, *, labels_of: Callable[[str], Labels]
    ) -> set[str]:
        """Placements that may select either state of the object; `labels_of` returns the labels of a namespace."""
        states = [state for state in (old, new) if state is not None]
        group, kind = states[0].resource.group, states[0].resource.kind
        namespace, name = states[0].metadata.namespace, states[0].metadata.name
        labels = [state.metadata.labels for state in states]
        keys = set(self._iter_selecting_object((group, kind, namespace, name), (group, kind, namespace, ANY), labels))
        if (group, kind) == ("", "Service"):  # excludes the Endpoints of its name
            keys.update(*(self._by_target.get(("", "Endpoints", namespace, key), ()) for key in (name, ANY)))
        if namespace:
            keys.update(self._whole.get(namespace, ()))
            keys.update(self._iter_selecting_namespace(namespace, labels_of))
        return keys

    def _iter_selecting_object(
        self, named: SelectorTarget, anywhere: SelectorTarget, labels: Iterable[Labels]
    ) -> Iterator[str]:
        yield from self._by_target.get(named, ())
        for key, selectors in self._by_target.get(anywhere, {}).items():
            if any(_may_match(selector, each) for selector in selectors for each in labels):
                yield key

    def _iter_selecting_namespace(self, namespace: str, labels_of: Callable[[str], Labels]) -> Iterator[str]:
        if not self._by_label:
            return
        labels = labels_of(namespace)
        for key, selectors in self._by_label.items():
            if any(_may_match(selector, labels) for selector in selectors):
                yield key


def _build_registration(terms: Iterable[SelectorTerm], namespace: str) -> _Registration:
    terms = tuple(terms)
    registration = _Registration()
    inside = {namespace} if namespace else {"", *(term.name for term in terms if term.chooses_inside)}
    for term in terms:
        registration.kinds.add((term.group, term.kind))
        for where in {""} if term.selects_namespaces else inside:
            registration.targets.append(((term.group, term.kind, where, term.name or ANY), term.label_selector))
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


def _discard(index: dict[_K, _V], key: _K, remove: Callable[[_V], object]) -> None:
    entries = index[key]
    remove(entries)
    if not entries:
        del index[key]
