"""Resolves the resource selectors of a placement to objects, and validates the selectors.

Pure: reads an `ObjectLister`. Two passes: the first finds the namespace that other selectors choose from, the second
resolves every selector. All problems are reported together, and with any problem no object is selected, so that an
incomplete selection is never rolled out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from fleet.explain.remarks.nearest import find_nearest
from fleet.kube.resource import Resource
from fleet.model.selectors import find_selector_problems, matches
from fleet.placement.selection import selectors
from fleet.placement.selection.candidates import CandidateObject
from fleet.placement.selection.discovery import KindName
from fleet.placement.selection.ordering import SortPosition, sort_position
from fleet.placement.selection.resource_filter import ResourceFilter, is_placeable
from fleet.placement.selection.selectors import SelectorTerm

_PROBLEMS_SHOWN: Final = 20
"""A condition holds at most 32 KiB, and one wrong selector can meet thousands of objects."""


@dataclass(frozen=True, slots=True)
class SelectedObject:
    group: str
    version: str
    kind: str
    namespace: str
    name: str
    content: bytes
    """Sanitized, in canonical JSON."""

    def identifier(self) -> dict[str, str]:
        """A ResourceIdentifier, without its empty fields."""
        named = {"group": self.group, "version": self.version, "kind": self.kind, "name": self.name}
        return {key: value for key, value in (named | {"namespace": self.namespace}).items() if value}

    @property
    def sort_position(self) -> SortPosition:
        api_version = f"{self.group}/{self.version}" if self.group else self.version
        return sort_position(api_version=api_version, kind=self.kind, namespace=self.namespace, name=self.name)


@dataclass(frozen=True, slots=True)
class UnmatchedSelector:
    """A selector without a matching object."""

    position: int
    selector: SelectorTerm
    near: str = ""
    """The name that was probably meant."""

    def __str__(self) -> str:
        hint = f"; did you mean {self.near}?" if self.near else ""
        return f"{selectors.field(self.position)} matches nothing: {self.selector}{hint}"


@dataclass(frozen=True, slots=True)
class SelectionResult:
    objects: tuple[SelectedObject, ...] = ()
    """In the order of the hash."""
    problems: tuple[str, ...] = ()
    """Errors in the spec of the placement. With any, there are no objects."""
    unmatched: tuple[UnmatchedSelector, ...] = ()
    namespace: str = ""
    """The one selected namespace, also if another selector is invalid; empty if there is not exactly one."""

    @property
    def user_error(self) -> str | None:
        """All problems in one text; None if there is none."""
        more = len(self.problems) - _PROBLEMS_SHOWN
        shown = [*self.problems[:_PROBLEMS_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        return "; ".join(shown) or None


class ObjectLister(Protocol):
    """Cached objects of the hub, of the kinds whose informers were started."""

    def find(self, name: KindName) -> Resource | None:
        """None for a kind that does not exist or cannot be watched."""

    def is_known(self, name: KindName) -> bool: ...

    def list_namespaced(self) -> Sequence[Resource]:
        """Every placeable namespaced kind, at its preferred version."""

    def all_of(self, resource: Resource) -> Iterable[CandidateObject]: ...

    def within(self, resource: Resource, namespace: str) -> Iterable[CandidateObject]: ...

    def get(self, resource: Resource, key: str) -> CandidateObject | None: ...

    def has_service(self, key: str) -> bool: ...


def select(
    terms: Sequence[SelectorTerm], *, namespace: str, source: ObjectLister, resource_filter: ResourceFilter
) -> SelectionResult:
    """`namespace` is that of a namespaced placement, empty for a cluster-scoped one."""
    selection = _Selector(tuple(terms), namespace, source, resource_filter)
    selection.run()
    chosen = find_namespace(terms, (entry.object for entry in selection.taken.values()))
    if resource_filter.is_reserved(chosen):
        chosen = ""
    if selection.problems:
        return SelectionResult(problems=tuple(dict.fromkeys(selection.problems)), namespace=chosen)
    objects = sorted((entry.object for entry in selection.taken.values()), key=lambda selected: selected.sort_position)
    return SelectionResult(tuple(objects), unmatched=tuple(selection.unmatched), namespace=chosen)


def find_namespace(terms: Sequence[SelectorTerm], objects: Iterable[SelectedObject]) -> str:
    """The one namespace that is selected; empty if there is not exactly one."""
    choosing = [term for term in terms if term.selects_namespaces]
    if len(choosing) != 1:
        return ""
    if choosing[0].name:
        return choosing[0].name
    names = [selected.name for selected in objects if (selected.group, selected.kind) == ("", selectors.NAMESPACE)]
    return names[0] if len(names) == 1 else ""


@dataclass(frozen=True, slots=True)
class _TakenObject:
    object: SelectedObject
    position: int


_Identity = tuple[str, str, str]


@dataclass(slots=True)
class _Selector:
    terms: tuple[SelectorTerm, ...]
    own_namespace: str
    source: ObjectLister
    resource_filter: ResourceFilter
    problems: list[str] = field(default_factory=list)
    unmatched: list[UnmatchedSelector] = field(default_factory=list)
    taken: dict[_Identity, _TakenObject] = field(default_factory=dict)
    _chosen: str | None = None
    """The namespace of pass 1, if it can contribute."""

    def run(self) -> None:
        self._choose_namespace()
        for position, term in enumerate(self.terms):
            if self.resource_filter.withholds(term.group, term.kind):
                text = f"kind {term.kind_name} cannot be selected on this hub, because selection.secrets is false"
                self._add_problem("PL-05", text, position)
            elif self.resource_filter.allows_kind(term.group, term.version, term.kind):
                self._resolve(position, term)

    # --- pass 1 -------------------------------------------------------------------------------------------------------

    @property
    def _choosing_positions(self) -> list[int]:
        return [position for position, term in enumerate(self.terms) if term.chooses_inside]

    def _choose_namespace(self) -> None:
        positions = [] if self.own_namespace else self._choosing_positions
        if not positions:
            return
        self._check_choosing(positions)
        term = self.terms[positions[0]]
        resource = self.source.find(term.kind_name)
        if resource is None or not term.name:
            return
        cause = self._check_namespace(resource, term.name)
        if cause:
            self._add_problem("PL-11", f"namespace {term.name} cannot be placed: {cause}", positions[0])
        elif not self._is_terminating(resource, term.name):
            self._chosen = term.name

    def _check_choosing(self, positions: Sequence[int]) -> None:
        if len(positions) > 1:
            self._add_problem("PL-08", "only one namespace can be combined with resource selectors", *positions)
        for position in positions:
            if not self.terms[position].name:
                self._add_problem("PL-09", "the namespace must be selected by name in this scope", position)
        others = [at for at, term in enumerate(self.terms) if term.selects_namespaces and not term.chooses_inside]
        if others:
            self._add_problem("PL-10", "other namespace selectors are not allowed in this scope", *others)

    def _check_namespace(self, namespaces: Resource, name: str) -> str:
        if self.resource_filter.is_reserved(name):
            return "it is reserved"
        return "it does not exist" if self.source.get(namespaces, name) is None else ""

    def _is_terminating(self, namespaces: Resource, name: str) -> bool:
        candidate = self.source.get(namespaces, name)
        return candidate is None or candidate.metadata.deletion_timestamp is not None

    # --- pass 2 -------------------------------------------------------------------------------------------------------

    def _resolve(self, position: int, term: SelectorTerm) -> None:
        resource = self._resource_of(position, term)
        if self._is_malformed(position, term) or resource is None:
            return
        matched = 0
        for candidate in self._candidates(position, term, resource):
            if is_placeable(candidate.resource, candidate, has_service=self.source.has_service):
                self._take(position, candidate)
                matched += 1
        if not matched:
            self.unmatched.append(UnmatchedSelector(position, term, self._find_near(term, resource)))

    def _find_near(self, term: SelectorTerm, resource: Resource) -> str:
        """Of the names that the selector could have named. Reserved namespaces are no suggestion."""
        if not term.name:
            return ""
        namespace = self.own_namespace or self._chosen
        if resource.namespaced:
            known = self.source.within(resource, namespace) if namespace else ()
        else:
            known = self.source.all_of(resource)
        names = {candidate.metadata.name for candidate in known} - {term.name}
        if term.selects_namespaces:
            names = {name for name in names if not self.resource_filter.is_reserved(name)}
        return find_nearest(term.name, names) or ""

    def _resource_of(self, position: int, term: SelectorTerm) -> Resource | None:
        """The kind, if this placement may select it."""
        resource = self.source.find(term.kind_name)
        if resource is None:
            verb = "cannot be watched" if self.source.is_known(term.kind_name) else "does not exist"
            self._add_problem("PL-05", f"kind {term.kind_name} {verb} on the hub", position)
        elif self.own_namespace and not resource.namespaced:
            self._add_problem("PL-07", f"{term.kind} is cluster-scoped; use a ClusterResourcePlacement", position)
            return None
        elif not self.own_namespace and resource.namespaced and not self._choosing_positions:
            text = f"{term.kind} is namespaced; select its namespace or use a ResourcePlacement"
            self._add_problem("PL-06", text, position)
            return None
        return resource

    def _is_malformed(self, position: int, term: SelectorTerm) -> bool:
        if term.label_selector is None:
            return False
        if term.name:
            self._add_problem("PL-03", "use either name or labelSelector in one selector", position)
        causes = find_selector_problems(term.label_selector)
        for cause in causes:
            self._add_problem("PL-04", f"labelSelector is invalid: {cause.field}: {cause.message}", position)
        return bool(term.name or causes)

    def _candidates(self, position: int, term: SelectorTerm, resource: Resource) -> Iterator[CandidateObject]:
        if term.selects_namespaces:
            yield from self._namespaces(position, term, resource)
        else:
            yield from self._matching(term, resource, self.own_namespace or self._chosen)

    def _namespaces(self, position: int, term: SelectorTerm, resource: Resource) -> Iterator[CandidateObject]:
        if term.name and self.resource_filter.is_reserved(term.name):
            self._add_reserved_problem(position, term.name)
            return
        for namespace in self._matching(term, resource, None):
            name = namespace.metadata.name
            if self.resource_filter.is_reserved(name):
                self._add_reserved_problem(position, name)
            elif namespace.metadata.deletion_timestamp is None:
                yield namespace
                if term.takes_whole_namespaces:
                    yield from self._iter_namespace_contents(name)

    def _iter_namespace_contents(self, namespace: str) -> Iterator[CandidateObject]:
        for resource in self.source.list_namespaced():
            yield from self.source.within(resource, namespace)

    def _matching(self, term: SelectorTerm, resource: Resource, namespace: str | None) -> Iterator[CandidateObject]:
        if resource.namespaced and not namespace:
            return
        if term.name:
            key = f"{namespace}/{term.name}" if resource.namespaced else term.name
            named = self.source.get(resource, key)
            candidates: Iterable[CandidateObject] = () if named is None else (named,)
        elif resource.namespaced and namespace:
            candidates = self.source.within(resource, namespace)
        else:
            candidates = self.source.all_of(resource)
        for candidate in candidates:
            if term.label_selector is None or matches(term.label_selector, candidate.metadata.labels):
                yield candidate

    def _take(self, position: int, candidate: CandidateObject) -> None:
        resource, metadata = candidate.resource, candidate.metadata
        identity = (resource.group, resource.kind, candidate.key)
        before = self.taken.get(identity)
        if before is not None:
            named = f"{resource.api_version} {resource.kind} {candidate.key}"
            allows = sorted({before.position, position})
            self._add_problem("PL-12", f"{named} is selected by more than one selector", *allows)
            return
        selected = SelectedObject(
            resource.group, resource.version, resource.kind, metadata.namespace, metadata.name, candidate.content
        )
        self.taken[identity] = _TakenObject(selected, position)

    def _add_reserved_problem(self, position: int, namespace: str) -> None:
        if not self.terms[position].chooses_inside:  # reported in pass 1
            self._add_problem("PL-13", f"namespace {namespace} is reserved", position)

    def _add_problem(self, rule: str, text: str, *positions: int) -> None:
        self.problems.append(f"{rule}: {text} ({', '.join(map(selectors.field, positions))})")
