"""The fields of an object that a rule reads.

The library converts the whole of a value for every evaluation, and it keeps the interpreter meanwhile: most rules on
large objects look at a few small fields. Where it is not certain what is read, a rule gets everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from fleet.hub.schema.cel.values import escape

Fields = dict[str, Any]
"""Names to the fields below, or to None where all below is read. Without fields only the presence matters."""

_UNCERTAIN: Final = re.compile(r"""//|\"\"\"|'''|\b(?:[rR][bB]?|[bB][rR])['"]""")
"""Comments and literals after which one cannot tell what is text."""
_READ: Final = re.compile(
    r"""(?P<has>\bhas\s*\(\s*)?\b(?P<of>self|oldSelf)\b(?P<names>(?:\s*\.\s*[A-Za-z_]\w*)*)(?P<end>\s*[()])?"""
)


def find_reads(rule: str, text: str, *, takes_no_old: bool) -> tuple[Fields | None, Fields | None]:
    """Of `self` and of `oldSelf`; `text` is the rule without its text literals."""
    if _UNCERTAIN.search(rule):
        return None, None
    reads = {of: _merge(names for each, names in _list_reads(text) if each == of) for of in ("self", "oldSelf")}
    return reads["self"], None if takes_no_old else reads["oldSelf"]


def _list_reads(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Paths of fields; one that ends with "" is only tested for its presence."""
    for match in _READ.finditer(text):
        names, end = [name.strip() for name in match["names"].split(".")[1:]], (match["end"] or "").strip()
        if end == "(":
            names = names[:-1]  # the function that is called
        elif names and match["has"] and end == ")":
            names.append("")
        yield match["of"], tuple(names)


def _merge(paths: Iterator[tuple[str, ...]]) -> Fields | None:
    root: Fields = {"": {}}
    for path in paths:
        fields, names = root, ("", *path)
        for name in names[:-1]:
            below = fields.setdefault(name, {})
            if below is None:
                break
            fields = below
        else:
            if names[-1]:
                fields[names[-1]] = None
            elif len(names) == 1:
                return None
    merged: Fields | None = root[""]
    return merged


def select(value: Any, fields: Fields | None) -> Any:
    """The value with these fields only. What is no object is left to the rule, which fails as it would."""
    if fields is None:
        return value
    if type(value) is list and not fields:
        return []
    if type(value) is not dict:
        return value
    return {
        name: select(item, fields[read])
        for name, item in value.items()
        if (read := name if name in fields else escape(name)) in fields
    }
