"""Label and field selectors in the syntax of URLs: `a=b,c in (d, e),!f` and `metadata.name=x,type!=y`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.hub.kinds.kind import Kind
from fleet.hub.names import key_problems
from fleet.hub.storage.entries import StoredEntry
from fleet.hub.wire.statuses import bad_request, format_value

LabelTest = Callable[[Mapping[str, str]], bool]

_TOKENS: Final = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_WORDS: Final = ("in", "notin")
_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"


@dataclass(frozen=True, slots=True)
class ObjectSelector:
    """Selects objects by namespace, labels and fields."""

    namespace: str = ""
    labels: tuple[LabelTest, ...] = ()
    fields: tuple[tuple[str, bool, str], ...] = ()  # path, equal or not, value
    renames: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    @property
    def is_everything(self) -> bool:
        return not (self.namespace or self.labels or self.fields)

    @property
    def name(self) -> str:
        """The only name that can match, or an empty string."""
        return next((value for path, equal, value in self.fields if path == "metadata.name" and equal), "")

    def matches(self, entry: StoredEntry) -> bool:
        if self.namespace and entry.namespace != self.namespace:
            return False
        labels = entry.labels or {}
        return all(test(labels) for test in self.labels) and (not self.fields or self._fields_match(entry))

    def _fields_match(self, entry: StoredEntry) -> bool:
        document: dict[str, Any] | None = None
        for path, equal, value in self.fields:
            if path == "metadata.name":
                actual = entry.name
            elif path == "metadata.namespace":
                actual = entry.namespace
            else:
                if document is None:
                    document = entry.document()
                    document = self.renames(document) if self.renames else document
                actual = _field_value(document, path)
            if (actual == value) is not equal:
                return False
        return True


def parse_label_selector(text: str) -> tuple[LabelTest, ...]:
    return tuple(_Parser(text).parse()) if text.strip() else ()


def parse_field_selector(kind: Kind, text: str) -> tuple[tuple[str, bool, str], ...]:
    requirements = tuple(_parse_term(text, term) for term in _split_terms(text) if term)
    for path, _, _ in requirements:
        _check_path(kind, path)
    return requirements


def _parse_term(text: str, term: str) -> tuple[str, bool, str]:
    for operator, equal in (("!=", False), ("==", True), ("=", True)):
        path, matched, value = term.partition(operator)
        if matched:
            return path, equal, re.sub(r"\\(.)", r"\1", value)
    raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")


def _check_path(kind: Kind, path: str) -> None:
    if path in ("metadata.name", "metadata.namespace") or path in kind.field_labels:
        return
    if kind.custom and not kind.field_labels:
        raise bad_request(f"field label not supported: {path}")
    if kind.field_labels:
        raise bad_request(f"field label not supported: {path}")
    raise bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def _split_terms(text: str) -> list[str]:
    return re.split(r"(?<!\\),", text)


def _field_value(document: dict[str, Any], path: str) -> str:
    value: Any = document
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if path == "source" and isinstance(value, dict):
        value = value.get("component")
    if value is None:
        return ""
    return value if isinstance(value, str) else format_value(value)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position = 0
        while match := _TOKENS.match(text, position):
            self._tokens.append(match[1])
            position = match.end()
        self._next = 0

    def parse(self) -> Iterable[LabelTest]:
        if self._peek() == ",":
            raise bad_request("found ',', expected: !, identifier, or 'end of string'")
        while True:
            yield self._parse_requirement()
            token = self._take()
            if not token:
                return
            if token != ",":
                raise bad_request(f"found '{token}', expected: ',' or 'end of string'")
            if not self._peek():
                raise bad_request("found '', expected: identifier after ','")

    def _parse_requirement(self) -> LabelTest:
        negated = self._peek() == "!"
        if negated:
            self._take()
        key = self._take()
        if not key or key in ",()=<>!":
            raise _parse_error(f"found '{key}', expected: identifier")
        for text in key_problems(key):
            raise _parse_error(f'<nil>: Invalid value: "{key}": {text}')
        if negated:
            return lambda labels: key not in labels
        if self._peek() in ("", ","):
            return lambda labels: key in labels
        return self._parse_comparison(key, self._take())

    def _parse_comparison(self, key: str, operator: str) -> LabelTest:
        if operator in _WORDS:
            values = self._parse_values()
            if operator == "in":
                return lambda labels: labels.get(key) in values
            return lambda labels: labels.get(key) not in values
        if operator in ("=", "==", "!="):
            value = "" if self._peek() in ("", ",") else self._take()
            if operator == "!=":
                return lambda labels: labels.get(key) != value
            return lambda labels: labels.get(key) == value
        if operator in ("<", ">"):
            return self._parse_ordering(key, operator)
        raise _parse_error(f"found '{operator}', expected: {_OPERATORS}")

    def _parse_ordering(self, key: str, operator: str) -> LabelTest:
        word = self._take()
        bound = _parse_integer(word)
        if bound is None:
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _parse_error(f'values[0]: Invalid value: "{word}": {text}')

        def test(labels: Mapping[str, str]) -> bool:
            number = _parse_integer(labels.get(key, ""))
            return number is not None and (number > bound if operator == ">" else number < bound)

        return test

    def _parse_values(self) -> Sequence[str]:
        token = self._take()
        if token != "(":
            raise _parse_error(f"found '{token}' expected: '('")
        values: list[str] = []
        while (token := self._take()) != ")":
            if not token:
                raise _parse_error("found '', expected: ',' or ')'")
            if token != ",":
                values.append(token)
            elif self._peek() in (",", ")"):
                values.append("")
        return values

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token


def _parse_integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[-+]?[0-9]{1,18}", text) else None


def _parse_error(text: str) -> Exception:
    return bad_request(f"unable to parse requirement: {text}")
