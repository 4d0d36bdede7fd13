"""Patterns of schemas, in the RE2 syntax of the API server.

Python's `re` has a different syntax and can take exponential time. Patterns that are provably equivalent and take
linear time run on `re`, all others on the RE2 of the CEL library, with cached results: names and condition types recur.
Without the library these others match everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from fleet.errors import InputError
from fleet.hub.schema.cel.library import IS_INSTALLED, cel

Match = Callable[[str], object]

_CACHE_SIZE: Final = 8192  # results of all patterns together: some 10 MiB of texts at most
_LONGEST_CACHED: Final = 256  # characters
# Anchored at both ends; characters, classes and quantified single characters; groups are at most optional.
_HARMLESS: Final = re.compile(
    r"\^(?:[A-Za-z0-9_/:@ =,;-]|\\[.+*?()|/\-\[\]{}d]|\[\^?(?:[A-Za-z0-9_./:@ =+,;-]|\\[.\-/])+\]|[+*?]|"
    r"\{\d+(?:,\d*)?\}|[(|]|\)(?![+*{]))*\$"
)
# Not anchored; what it finds is the same with `re` and RE2, and the number of backtracking steps is known.
_FINDABLE: Final = re.compile(
    r"\^?(?:[A-Za-z0-9_/:@ =,;.-]|\\[.+*?()|/\-\[\]{}dw]|\[\^?(?:[A-Za-z0-9_./:@ =+,;-]|\\[.\-/dw])+\]|[+*?]|"
    r"\{\d+(?:,\d*)?\}|[(|]|\)(?![+*{]))*\$?"
)
_MOST_STEPS: Final = 2**24  # a quarter of a second
_GO_WORDS: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
}
_QUANTIFIER_OF_MANY: Final = re.compile(r"[+*}]")
_MOST_OPTIONAL: Final = 2


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Match:
    """Compiles a search for the pattern. Raises InputError if RE2 refuses the pattern."""
    search = _search_with_re2(pattern)
    if is_harmless(pattern):
        return re.compile(pattern.removesuffix("$") + r"\Z", re.ASCII).search
    return lambda text: _search_cached(pattern, text) if len(text) <= _LONGEST_CACHED else search(text)


@lru_cache(maxsize=_CACHE_SIZE)
def _search_cached(pattern: str, text: str) -> bool:
    return _search_with_re2(pattern)(text)


@lru_cache(maxsize=256)
def compile_finder(pattern: str) -> Callable[[str], Iterator[re.Match[str]]]:
    """Compiles a search for all matches. Raises ValueError if it could take long: RE2 here cannot tell places."""
    _search_with_re2(pattern)
    repetitions = len(_QUANTIFIER_OF_MANY.findall(pattern))
    optional = pattern.count("?") + pattern.count("|")
    if not _FINDABLE.fullmatch(pattern) or repetitions > 2 or optional > _MOST_OPTIONAL:
        raise ValueError(f"the embedded hub cannot find `{pattern}`: only patterns with up to two plain repetitions")
    compiled = re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern, re.ASCII)

    def find(text: str) -> Iterator[re.Match[str]]:
        if len(text) ** (repetitions + 1) > _MOST_STEPS:
            raise ValueError(f"the text is too long to find `{pattern}` in it")
        return compiled.finditer(text)

    return find


def is_harmless(pattern: str) -> bool:
    """Backtracking is linear with one quantifier of many, whose end the anchors fix, and doubles with each optional."""
    is_plain = _HARMLESS.fullmatch(pattern) and not pattern.endswith("\\$") and pattern.count("|") == 0
    is_linear = len(_QUANTIFIER_OF_MANY.findall(pattern)) <= 1 and pattern.count("?") <= _MOST_OPTIONAL
    return bool(is_plain) and is_linear


@lru_cache(maxsize=1)
def _create_environment() -> cel.Env:
    return cel.NewEnv(variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})


@lru_cache(maxsize=1024)
def _search_with_re2(pattern: str) -> Callable[[str], bool]:
    if not IS_INSTALLED:
        return lambda _: True
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
