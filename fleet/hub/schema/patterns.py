"""Patterns of schemas, in the RE2 syntax of the API server.

Python's `re` has a different syntax and can take exponential time. Patterns that are provably equivalent and harmless
run on `re`, all others on the RE2 of the CEL library, with cached results: names and condition types recur.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from cel_expr_python import cel  # type: ignore[import-untyped]

from fleet.errors import InputError

Match = Callable[[str], object]

_CACHE_SIZE: Final = 4096
_LONGEST_CACHED: Final = 256  # characters
# Anchored at both ends; characters, classes and quantified single characters; groups are at most optional.
_HARMLESS: Final = re.compile(
    r"\^(?:[A-Za-z0-9_/:@ =,;-]|\\[.+*?()|/\-\[\]{}d]|\[\^?(?:[A-Za-z0-9_./:@ =+,;-]|\\[.\-/])+\]|[+*?]|"
    r"\{\d+(?:,\d*)?\}|[(|]|\)(?![+*{]))*\$"
)
_GO_WORDS: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
}
_QUANTIFIER_OF_MANY: Final = re.compile(r"[+*}]")


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Match:
    """Compiles a search for the pattern. Raises InputError if RE2 refuses the pattern."""
    search = _search_with_re2(pattern)
    if _is_harmless(pattern):
        return re.compile(pattern.removesuffix("$") + r"\Z", re.ASCII).search
    cached = lru_cache(maxsize=_CACHE_SIZE)(search)
    return lambda text: cached(text) if len(text) <= _LONGEST_CACHED else search(text)


def _is_harmless(pattern: str) -> bool:
    """Few quantifiers keep backtracking polynomial with a low degree."""
    is_plain = _HARMLESS.fullmatch(pattern) and not pattern.endswith("\\$") and pattern.count("|") == 0
    return bool(is_plain) and len(_QUANTIFIER_OF_MANY.findall(pattern)) <= 2


@lru_cache(maxsize=1)
def _create_environment() -> cel.Env:
    return cel.NewEnv(variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})


def _search_with_re2(pattern: str) -> Callable[[str], bool]:
    literal = "".join(f"\\U{ord(character):08x}" for character in pattern)
    try:
        expression = _create_environment().compile(f'text.matches("{literal}")')
        problem = expression.eval(data={"text": ""})
    except RuntimeError as error:
        raise InputError(_translate_error(str(error)), value=pattern) from error
    if problem.type() == cel.Type.ERROR:
        raise InputError(_translate_error(str(problem.value())), value=pattern)

    def search(text: str) -> bool:
        return expression.eval(data={"text": text}).value() is True

    return search


def _translate_error(error: str) -> str:
    """Translates an error of RE2 in C++ to the wording of RE2 in Go."""
    reason, _, part = error.rpartition("invalid regular expression: ")[2].rpartition(": ")
    return f"error parsing regexp: {_GO_WORDS.get(reason, reason)}: `{part}`"
