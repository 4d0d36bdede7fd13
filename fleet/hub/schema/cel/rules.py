"""CEL rules (`x-kubernetes-validations`): compiled once, evaluated on every create and update.

A rule that uses an unsupported function does not compile, and its CRD is refused: no rule is ever ignored silently.
Where Python is too new for the library, no rule is evaluated, and every write of the kind is answered with a warning.
The compiler has no types of fields: a rule with a misspelled field compiles, and fails with "no such key" on every
object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from fleet.errors import InputError
from fleet.hub.schema.cel.budget import BUDGET, SPENT
from fleet.hub.schema.cel.library import IS_INSTALLED, cel, create_extensions
from fleet.hub.schema.cel.loops import LoopReadings, find_readings
from fleet.hub.schema.cel.reads import Fields, find_reads, select
from fleet.hub.schema.cel.values import Convert, compile_conversion, has_times
from fleet.hub.schema.field_errors import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, MapKey, Path, SchemaFinding, steps

JSONSchema = Mapping[str, Any]
CheckRules = Callable[[Any, Any, Path, list[SchemaFinding]], None]

REASONS: Final = frozenset({DUPLICATE, FORBIDDEN, INVALID, REQUIRED})
_TEXT_LITERAL: Final = re.compile(r"""[rR]?(?:\"(?:[^"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')""")
_TIME_LITERAL: Final = re.compile(r"\b(?:timestamp|duration)\(\s*['\"]")
_OLD_SELF: Final = re.compile(r"\boldSelf\b")
_STEP: Final = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\.)*)'\]")
_LONGEST_MESSAGE: Final = 5 * 1024  # bytes; the API server's limit for a message expression
_MISSING_KEY: Final = re.compile(r'Key not found in map : "?(.*?)"?$', re.DOTALL)
_BAD_INDEX: Final = re.compile(r"Index error: index=(-?\d+)")
_STATUS_CODE: Final = re.compile(r"^[A-Z_]+: ")


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One compiled rule. `steps` is the path from the value to the reported field."""

    holds: cel.Expression
    text: str
    message: str
    message_expression: cel.Expression | None
    reason: str
    steps: tuple[str, ...]
    uses_old: bool
    takes_no_old: bool
    readings: LoopReadings
    reads: tuple[Fields | None, Fields | None]
    """Of the value and of the old one."""

    @property
    def shown(self) -> str:
        return self.message or self.text.strip()


def compile_rules(schema: JSONSchema) -> CheckRules | None:
    """Compiles all rules on and below a value into one check, or None if there are no rules, or no library for them."""
    check = _compile(schema, schema) if IS_INSTALLED else None
    if check is None:
        return None

    def check_within_budget(value: Any, old: Any, path: Path, findings: list[SchemaFinding]) -> None:
        BUDGET.start()
        check(value, old, path, findings)
        if BUDGET.is_spent:
            findings.append(SchemaFinding(path, path, INVALID, schema.get("type", ""), SPENT, is_about_change=True))

    return check_within_budget


def _compile(schema: JSONSchema, typed: JSONSchema) -> CheckRules | None:
    """`typed` is the schema with the type of the value, which branches of `allOf` do not repeat."""
    own = _compile_own(schema, typed)
    branches = [check for inner in schema.get("allOf") or () if (check := _compile(inner, typed))]
    below = _compile_below(schema, typed)
    checks = [check for check in (own, *branches, below) if check is not None]
    if not checks:
        return None

    def check_all(value: Any, old: Any, path: Path, findings: list[SchemaFinding]) -> None:
        if value is not None:
            for check in checks:
                check(value, old, path, findings)

    return check_all


def _compile_below(schema: JSONSchema, typed: JSONSchema) -> CheckRules | None:
    fields = _compile_fields(schema, typed)
    others, items = _compile_inner(schema, typed, "additionalProperties"), _compile_inner(schema, typed, "items")
    if not (fields or others or items):
        return None
    old_items = _compile_correlation(typed)

    def check(value: Any, old: Any, path: Path, findings: list[SchemaFinding]) -> None:
        if type(value) is dict:
            known = old if type(old) is dict else {}
            for name, item in value.items():
                if name in fields:
                    fields[name](item, known.get(name), (path, name), findings)
                elif others is not None:
                    others(item, known.get(name), (path, MapKey(name)), findings)
        elif type(value) is list and items is not None:
            find_old = old_items(old)
            for index, item in enumerate(value):
                items(item, find_old(item), (path, index), findings)

    return check


def _compile_fields(schema: JSONSchema, typed: JSONSchema) -> dict[str, CheckRules]:
    types = typed.get("properties") or {}
    compiled = {
        name: _compile(inner, types[name]) for name, inner in (schema.get("properties") or {}).items() if name in types
    }
    return {name: check for name, check in compiled.items() if check is not None}


def _compile_inner(schema: JSONSchema, typed: JSONSchema, keyword: str) -> CheckRules | None:
    inner, inner_typed = schema.get(keyword), typed.get(keyword)
    if not isinstance(inner, Mapping) or not isinstance(inner_typed, Mapping):
        return None
    return _compile(inner, inner_typed)


def _compile_correlation(schema: JSONSchema) -> Callable[[Any], Callable[[Any], Any]]:
    """Finds old values of list items. Only items of a list-map have one: the old item with the same keys."""
    keys = schema.get("x-kubernetes-list-map-keys") if schema.get("x-kubernetes-list-type") == "map" else None

    def key_of(item: Any) -> tuple[str, ...]:
        return tuple(repr(item.get(key)) for key in keys or ()) if isinstance(item, dict) else ()

    def correlate(old: Any) -> Callable[[Any], Any]:
        known = {key_of(item): item for item in old} if keys and isinstance(old, list) else {}
        return lambda item: known.get(key_of(item)) if known else None

    return correlate


# --- one rule ---------------------------------------------------------------------------------------------------------


def _compile_own(schema: JSONSchema, typed: JSONSchema) -> CheckRules | None:
    rules = [
        compile_rule(rule, typed)
        for rule in schema.get("x-kubernetes-validations") or ()
        if (rule.get("rule") or "").strip()
    ]
    if not rules:
        return None
    blamed = typed.get("type", "")
    convert = compile_conversion(typed)

    def check(value: Any, old: Any, path: Path, findings: list[SchemaFinding]) -> None:
        if not BUDGET.check():
            return
        build_whole = cache(lambda: _build_activation(value, old, convert))
        for rule in rules:
            if not BUDGET.check():
                return
            if rule.uses_old and old is None and not rule.takes_no_old:
                continue
            if rule.readings.is_too_costly(value) or rule.readings.is_too_costly(old):
                finding: SchemaFinding | None = _refuse(_format_cost(rule), blamed)
            else:
                now, past = rule.reads
                activation = (
                    build_whole() if now is None else _build_activation(select(value, now), select(old, past), convert)
                )
                finding = _evaluate(rule, activation, build_whole, blamed)
            if finding is not None:
                findings.append(finding._replace(owner=path, at=_extend(path, steps(finding.at))))

    return check


def _build_activation(value: Any, old: Any, convert: Convert | None) -> cel.Activation:
    data = {"self": convert(value) if convert else value, "hasOldSelf__": old is not None}
    data["oldSelf"] = convert(old) if convert and old is not None else old
    return _create_environment().Activation(data)


def _extend(path: Path, way: Iterable[str | int]) -> Path:
    for step in way:
        path = (path, step)
    return path


def _evaluate(
    rule: CompiledRule, activation: cel.Activation, build_whole: Callable[[], cel.Activation], blamed: str
) -> SchemaFinding | None:
    """`build_whole` gives the activation for the message, which may read other fields."""
    try:
        result = rule.holds.eval(activation)
    except RuntimeError as error:
        return _refuse(_format_abort(error, rule), blamed)
    if result.type() == cel.Type.ERROR:
        return _refuse(_format_failure(result.value(), rule), blamed)
    if result.value() is True:
        return None
    text = "" if rule.reason == DUPLICATE else _format_message(rule, build_whole())
    at = _extend(None, rule.steps)
    return SchemaFinding(None, at, rule.reason, blamed, text, is_about_change=rule.uses_old)


def _refuse(problem: str, blamed: str) -> SchemaFinding:
    """A rule that cannot be evaluated is reported on the value itself, and not ratcheted."""
    return SchemaFinding(None, None, INVALID, blamed, problem, is_about_change=True)


def _format_abort(error: RuntimeError, rule: CompiledRule) -> str:
    if "budget exceeded" not in str(error):
        return _format_failure(error, rule)
    return _format_cost(rule)


def _format_cost(rule: CompiledRule) -> str:
    return f"no further validation rules will be run due to call cost exceeds limit for rule: {rule.shown}"


def _format_failure(error: object, rule: CompiledRule) -> str:
    """The API server's message for a rule that cannot be evaluated."""
    text = _STATUS_CODE.sub("", str(error))
    if "No matching overloads found" in text:
        problem = "'no such overload': call arguments did not match a supported operator, function or macro signature"
        return f"{problem} for rule: {rule.shown}"
    if match := _MISSING_KEY.search(text):
        text = f"no such key: {match[1]}"
    elif match := _BAD_INDEX.search(text):
        text = f"index out of bounds: {match[1]}"
    elif "divide by zero" in text:
        text = "division by zero"
    return f"{text} evaluating rule: {rule.shown}"


def _format_message(rule: CompiledRule, activation: cel.Activation) -> str:
    if rule.message_expression is not None:
        text = _evaluate_message(rule.message_expression, activation)
        if text and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE:
            return text
    return rule.message or f"failed rule: {rule.text.strip()}"


def _evaluate_message(expression: cel.Expression, activation: cel.Activation) -> str:
    """The text, or nothing if it cannot be evaluated within the limits."""
    try:
        result = expression.eval(activation)
    except RuntimeError:
        return ""
    return str(result.value()).strip() if result.type() == cel.Type.STRING else ""


def compile_rule(rule: Mapping[str, Any], typed: JSONSchema) -> CompiledRule:
    """Raises InputError if the rule is invalid or uses an unsupported feature."""
    text: str = rule["rule"]
    if _TIME_LITERAL.search(text) and has_times(typed):
        raise InputError("the embedded hub cannot compare fields with times or durations", field="rule", value=text)
    takes_no_old = bool(rule.get("optionalOldSelf"))
    expression = rule.get("messageExpression") or ""
    reason = rule.get("reason") or INVALID
    if reason not in REASONS:
        raise InputError(f'unsupported reason "{reason}"', field="reason", value=reason)
    without_literals = _TEXT_LITERAL.sub("", text)
    return CompiledRule(
        holds=_compile_expression(text, field="rule", wanted="bool", takes_no_old=takes_no_old),
        text=text,
        message=(rule.get("message") or "").strip(),
        message_expression=_compile_expression(
            expression, field="messageExpression", wanted="string", takes_no_old=takes_no_old
        )
        if expression
        else None,
        reason=reason,
        steps=_parse_field_path(rule.get("fieldPath") or ""),
        uses_old=uses_old_self(text),
        takes_no_old=takes_no_old,
        readings=find_readings(without_literals),
        reads=find_reads(text, without_literals, takes_no_old=takes_no_old),
    )


def uses_old_self(text: str) -> bool:
    return _OLD_SELF.search(_TEXT_LITERAL.sub("", text)) is not None


@lru_cache(maxsize=4096)
def _compile_expression(text: str, *, field: str, wanted: str, takes_no_old: bool) -> cel.Expression:
    if not IS_INSTALLED:
        return None
    if takes_no_old:
        text = f"cel.bind(oldSelf, hasOldSelf__ ? optional.of(oldSelf) : optional.none(), {text}\n)"
    try:
        compiled = _create_environment().compile(text)
    except RuntimeError as error:
        problem = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        raise InputError(f"compilation failed: {problem}", field=field, value=text) from error
    if compiled.return_type() not in (cel.Type(wanted), cel.Type.DYN):
        subject = "cel expression" if field == "rule" else field
        raise InputError(f"{subject} must evaluate to a {wanted}", field=field, value=text)
    return compiled


def _parse_field_path(field_path: str) -> tuple[str, ...]:
    """Parses a path such as `.spec.labels['a.b']` into steps."""
    steps = tuple(dotted or quoted.replace("\\'", "'") for dotted, quoted in _STEP.findall(field_path))
    if _STEP.sub("", field_path):
        raise InputError("must be a valid path", field="fieldPath", value=field_path)
    return steps


@lru_cache(maxsize=1)
def _create_environment() -> cel.Env:
    from fleet.hub.schema.cel.functions import declarations

    return cel.NewEnv(
        variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN, "hasOldSelf__": cel.Type.BOOL},
        extensions=create_extensions(),
        functions=declarations(),
    )
