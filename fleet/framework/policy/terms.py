"""Selector terms compiled to operations on columns: a term is the ANDs and ORs of a few bitsets.

The garbage collector leaves out what a policy may have tens of thousands of; none of it has cycles."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, cast

import msgspec

from fleet.checkpoint import check
from fleet.model.keys import RESOURCE_PROPERTY_PREFIX
from fleet.model.views import ClusterSelectorTerm, LabelSelector
from fleet.snapshot.columns.numbers import USAGE_KINDS, Operator

if TYPE_CHECKING:
    from fleet.snapshot.columns.numbers import NumberColumn
    from fleet.snapshot.frame import Frame


VALUES_SHOWN: Final = 20
_LONGEST_SHOWN: Final = 317
"""Of a name, as long as the key of a label may be."""


class PropertyRef(msgspec.Struct, frozen=True, gc=False):
    """The location of a property's value: among the cluster's properties, or in its resource usage."""

    name: str
    kind: str = ""
    resource: str = ""

    @classmethod
    def parse(cls, name: str) -> PropertyRef | None:
        """None for a resource property whose capacity type or resource does not exist."""
        if not name.startswith(RESOURCE_PROPERTY_PREFIX):
            return cls(name)
        capacity, _, resource = name.removeprefix(RESOURCE_PROPERTY_PREFIX).partition("-")
        kind = USAGE_KINDS.get(capacity)
        return cls(name, kind, resource) if kind and resource else None

    def column(self, frame: Frame) -> NumberColumn:
        return frame.usage(self.kind, self.resource) if self.kind else frame.property(self.name)


class LabelTest(msgspec.Struct, frozen=True, gc=False):
    key: str
    operator: str
    values: tuple[str, ...] = ()

    def rows(self, frame: Frame) -> int:
        check()
        column = frame.labels(self.key)
        match self.operator:
            case "In":
                return column.isin(self.values)
            case "NotIn":
                return ~column.isin(self.values)
            case "Exists":
                return column.exists()
            case _:
                return ~column.exists()

    def __str__(self) -> str:
        """As explanations write it, for each cluster that fails it: the first of thousands of values."""
        return self._write(self.values[:VALUES_SHOWN], len(self.values) - VALUES_SHOWN)

    @property
    def full(self) -> str:
        """With all values."""
        return self._write(self.values)

    def is_written_in_full(self, text: str) -> bool:
        """To write tens of thousands of values takes long: most texts differ in the first ones."""
        begins = self._write(self.values[: VALUES_SHOWN + 1]).removesuffix("]")
        return text.startswith(begins) and text == self.full

    def _write(self, values: tuple[str, ...], more: int = 0) -> str:
        if not values:
            return f"{self.key} {self.operator}"
        return f"{self.key} {self.operator} [{', '.join(values)}{f', and {more} more' if more > 0 else ''}]"


class PropertyTest(msgspec.Struct, frozen=True, gc=False):
    ref: PropertyRef
    operator: Operator
    bound: Fraction
    text: str

    def rows(self, frame: Frame) -> int:
        check()
        return self.ref.column(frame).compare(self.operator, self.bound, frame.clusters)

    def __str__(self) -> str:
        return f"{_cut(self.ref.name)} {self.operator} {_cut(self.text)}"

    @property
    def full(self) -> str:
        return f"{self.ref.name} {self.operator} {self.text}"

    def is_written_in_full(self, text: str) -> bool:
        return text == self.full


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


class Term(msgspec.Struct, frozen=True, gc=False):
    labels: tuple[LabelTest, ...] = ()
    properties: tuple[PropertyTest, ...] = ()

    def rows(self, frame: Frame) -> int:
        """Rows that match; negative if the term is empty or has only negations."""
        bits = -1
        for test in self.labels:
            bits &= test.rows(frame)
        for bound in self.properties:
            bits &= bound.rows(frame)
        return bits

    @property
    def expressions(self) -> tuple[LabelTest | PropertyTest, ...]:
        return (*self.labels, *self.properties)

    def list_failing_rows(self, frame: Frame) -> list[int]:
        """By expression, the rows that fail it."""
        return [~test.rows(frame) for test in self.expressions]

    def name_expression(self, position: int) -> str:
        """As explanations write it, or with all values where others read the same."""
        meant = self.expressions[position]
        return str(meant) if sum(str(test) == str(meant) for test in self.expressions) == 1 else meant.full


@dataclass(frozen=True, slots=True)
class Sorter:
    ref: PropertyRef
    ascending: bool


@dataclass(frozen=True, slots=True)
class Preference:
    weight: int
    labels: tuple[LabelTest, ...] | None
    sorter: Sorter | None

    def label_rows(self, frame: Frame) -> int:
        return -1 if self.labels is None else Term(self.labels).rows(frame)


def label_tests(selector: LabelSelector | None) -> tuple[LabelTest, ...]:
    if selector is None:
        return ()
    wanted = sorted((selector.match_labels or {}).items())
    equal = [LabelTest(key, "In", (value,)) for key, value in wanted]
    return (
        *equal,
        *(
            LabelTest(expression.key, expression.operator, expression.values)
            for expression in selector.match_expressions
        ),
    )


def property_tests(term: ClusterSelectorTerm, bounds: list[Fraction]) -> tuple[PropertyTest, ...]:
    """The property expressions of a checked term with their parsed bounds."""
    if term.property_selector is None:
        return ()
    tests = []
    for expression, bound in zip(term.property_selector.match_expressions, bounds, strict=True):
        ref = PropertyRef.parse(expression.name)
        assert ref is not None
        tests.append(PropertyTest(ref, cast(Operator, expression.operator), bound, expression.values[0]))
    return tuple(tests)
