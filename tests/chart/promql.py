"""What can be told of a PromQL expression without Prometheus: whether it is whole, and what it speaks of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<range>\[(?:\d+[smhdwy](?::\d*[smhdwy]?)?|\$__rate_interval)\])
  | (?P<duration>\d+[smhdwy]\b)
  | (?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)
  | (?P<word>[A-Za-z_][A-Za-z0-9_:]*)
  | (?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^<>=,(){}|])
    )""",
    re.VERBOSE,
)
_FUNCTIONS: Final = {
    *("abs", "absent", "absent_over_time", "avg_over_time", "ceil", "changes", "clamp", "clamp_max", "clamp_min"),
    *("count_over_time", "delta", "deriv", "floor", "histogram_quantile", "idelta", "increase", "irate", "label_join"),
    *("label_replace", "max_over_time", "min_over_time", "predict_linear", "quantile_over_time", "rate", "resets"),
    *("round", "scalar", "sort", "sort_desc", "sum_over_time", "time", "timestamp", "vector"),
}
_AGGREGATIONS: Final = {
    *("sum", "min", "max", "avg", "group", "stddev", "stdvar", "count", "count_values", "bottomk", "topk", "quantile"),
}
_GROUPINGS: Final = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_KEYWORDS: Final = {"and", "or", "unless", "bool", "offset"}
_PAIRS: Final = {")": "(", "}": "{"}


class Unreadable(ValueError):
    """The expression is none."""


@dataclass(frozen=True)
class Expression:
    metrics: frozenset[str]
    labels: frozenset[str]
    """Of matchers and groupings."""


def read(text: str) -> Expression:
    tokens = _tokens(text)
    metrics, labels = set[str](), set[str]()
    open_: list[str] = []
    grouping = False
    for position, (kind, token) in enumerate(tokens):
        following = tokens[position + 1][1] if position + 1 < len(tokens) else ""
        if token in ("(", "{"):
            open_.append(f"by{token}" if grouping else token)
            grouping = False
        elif token in _PAIRS:
            if not open_ or open_.pop()[-1] != _PAIRS[token]:
                raise Unreadable(f"{token} closes nothing: {text}")
        elif kind == "word":
            grouping = token in _GROUPINGS
            if open_ and open_[-1] in ("{", "by("):
                labels.add(token)
            elif not _is_known(token, following):
                metrics.add(token)
    if open_:
        raise Unreadable(f"{open_[-1][-1]} is not closed: {text}")
    return Expression(frozenset(metrics), frozenset(labels))


def _is_known(word: str, following: str) -> bool:
    if word in _GROUPINGS | _KEYWORDS:
        return True
    if word in _AGGREGATIONS:
        return following == "(" or following in _GROUPINGS
    if following == "(" and word not in _FUNCTIONS:
        raise Unreadable(f"there is no function {word}")
    return word in _FUNCTIONS and following == "("


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    position, whole = 0, text.rstrip()
    while position < len(whole):
        match = _TOKEN.match(whole, position)
        if match is None or match.lastgroup is None:
            raise Unreadable(f"cannot be read from {whole[position:]!r} on")
        found.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return found
