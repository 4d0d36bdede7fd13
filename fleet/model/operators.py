"""Operators of selectors, and the ones that are meant by signs and words of other languages."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_MEANT: Final = {
    "=": ("In", "Eq", "Equal"),
    "==": ("In", "Eq", "Equal"),
    "eq": ("In", "Eq", "Equal"),
    "equal": ("In", "Eq", "Equal"),
    "equals": ("In", "Eq", "Equal"),
    "!=": ("NotIn", "Ne"),
    "ne": ("NotIn", "Ne"),
    "notequal": ("NotIn", "Ne"),
    "notequals": ("NotIn", "Ne"),
    ">": ("Gt",),
    "greaterthan": ("Gt",),
    ">=": ("Ge",),
    "gte": ("Ge",),
    "greaterthanorequal": ("Ge",),
    "<": ("Lt",),
    "lessthan": ("Lt",),
    "<=": ("Le",),
    "lte": ("Le",),
    "lessthanorequal": ("Le",),
    "notexists": ("DoesNotExist",),
    "exist": ("Exists",),
}


def find_meant_operator(word: str, choices: Collection[str]) -> str | None:
    """Of these operators the one that the word stands for elsewhere, or that it is but for its case."""
    by_case = {choice.lower(): choice for choice in choices}
    meant = _MEANT.get(word.lower(), ())
    return by_case.get(word.lower()) or next((choice for choice in meant if choice in choices), None)
