"""Schema compositions: `anyOf`, `oneOf`, `allOf` and `not`.

If no branch of an `anyOf` or `oneOf` matches, the API server also reports the errors of the best branch: the first with
the highest number of passed checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fleet.hub.schema.field_errors import INVALID, Path, SchemaFinding
from fleet.hub.schema.formats import find_format_check

JSONSchema = Mapping[str, Any]
Findings = list[SchemaFinding]
Check = Callable[[Any, Path, Findings], None]
Compile = Callable[[JSONSchema], Mapping[type, Check | None]]


class _Branch(NamedTuple):
    schema: JSONSchema
    checks: Mapping[type, Check | None]

    def findings(self, value: Any, path: Path) -> Findings:
        findings: Findings = []
        check = self.checks[type(value)]
        if check is not None:
            check(value, path, findings)
        return findings


def compile_composition(schema: JSONSchema, compile_checks: Compile) -> Check | None:
    def branches(keyword: str) -> list[_Branch]:
        return [_Branch(inner, compile_checks(inner)) for inner in schema.get(keyword) or ()]

    checks = [
        _compile_any_of(branches("anyOf")),
        _compile_one_of(branches("oneOf")),
        _compile_all_of(branches("allOf")),
        _compile_not([_Branch(schema["not"], compile_checks(schema["not"]))] if schema.get("not") is not None else []),
    ]
    present = [check for check in checks if check is not None]
    if not present:
        return None

    def check_all(value: Any, path: Path, findings: Findings) -> None:
        for check in present:
            check(value, path, findings)

    return check_all


def _compile_any_of(branches: Sequence[_Branch]) -> Check | None:
    def check(value: Any, path: Path, findings: Findings) -> None:
        failures = []
        for branch in branches:
            wrong = branch.findings(value, path)
            if not wrong:
                return
            failures.append((branch, wrong))
        findings.append(_build_finding(path, " must validate at least one schema (anyOf)"))
        findings.extend(_select_best(failures, value))

    return check if branches else None


def _compile_one_of(branches: Sequence[_Branch]) -> Check | None:
    def check(value: Any, path: Path, findings: Findings) -> None:
        tried = [(branch, branch.findings(value, path)) for branch in branches]
        fitting = sum(not wrong for _, wrong in tried)
        if fitting == 1:
            return
        outcome = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
        findings.append(_build_finding(path, f" must validate one and only one schema (oneOf). {outcome}"))
        if not fitting:
            findings.extend(_select_best(tried, value))

    return check if branches else None


def _compile_all_of(branches: Sequence[_Branch]) -> Check | None:
    def check(value: Any, path: Path, findings: Findings) -> None:
        outcomes = [branch.findings(value, path) for branch in branches]
        for wrong in outcomes:
            findings.extend(wrong)
        if any(outcomes):
            outcome = ". None validated" if all(outcomes) else ""
            findings.append(_build_finding(path, f" must validate all the schemas (allOf){outcome}"))

    return check if branches else None


def _compile_not(branches: Sequence[_Branch]) -> Check | None:
    def check(value: Any, path: Path, findings: Findings) -> None:
        if not branches[0].findings(value, path):
            findings.append(_build_finding(path, " must not validate the schema (not)"))

    return check if branches else None


def _build_finding(path: Path, text: str) -> SchemaFinding:
    return SchemaFinding(path, path, INVALID, "", text, is_composition=True)


def _select_best(failures: Sequence[tuple[_Branch, Findings]], value: Any) -> Findings:
    return max(failures, key=lambda failure: _count_passed_checks(failure[0].schema, value))[1]


def _count_passed_checks(schema: JSONSchema, value: Any) -> int:
    """Counts like the API server's validator: one per applicable kind of check, plus the counts of inner values."""
    if value is None:
        return 1
    applicable = 3 + _has_format(schema, value) + isinstance(value, (str, int, float, list, dict))
    is_typed = bool(schema.get("type"))
    inner = 1 + (2 * is_typed) + (isinstance(value, (int, float, list)) and not isinstance(value, bool))
    return applicable + inner + sum(_count_passed_checks(part, item) for part, item in _inner_values(schema, value))


def _has_format(schema: JSONSchema, value: Any) -> bool:
    return isinstance(value, str) and bool(schema.get("format")) and find_format_check(schema["format"]) is not None


def _inner_values(schema: JSONSchema, value: Any) -> list[tuple[JSONSchema, Any]]:
    if isinstance(value, list) and schema.get("items"):
        return [(schema["items"], item) for item in value]
    if not isinstance(value, dict):
        return []
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    parts = [(properties[name], item) for name, item in value.items() if name in properties]
    if isinstance(others, Mapping):
        parts += [(others, item) for name, item in value.items() if name not in properties]
    return parts
