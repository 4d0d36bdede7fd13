"""Kubernetes quantities as exact fractions."""

from __future__ import annotations

import functools
import math
import re
from fractions import Fraction
from typing import Any

DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
LARGEST_BINARY = 2**63 - 1
NANO = 10**9

GRAMMAR = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")


class NotAQuantity(ValueError):
    """The text is no quantity."""


def parse_quantity(value: Any) -> Fraction:
    return parse_text(text_of(value))


@functools.lru_cache(maxsize=65536)
def parse_text(text: str) -> Fraction:
    match = GRAMMAR.fullmatch(text)
    if match is None:
        raise NotAQuantity(f"{text!r} is not a quantity")
    sign, whole, fraction, suffix = (group or "" for group in match.groups())
    if not whole and not fraction:
        raise NotAQuantity(f"{text!r} has no digits")
    magnitude = Fraction(int(whole + fraction), 10 ** len(fraction)) * factor_of(suffix)
    magnitude = Fraction(math.ceil(magnitude * NANO), NANO)
    if suffix in BINARY_SUFFIXES:
        magnitude = min(magnitude, Fraction(LARGEST_BINARY))
    return -magnitude if sign == "-" else magnitude


def text_of(value: Any) -> str:
    """Quantities may be written as JSON numbers as well."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise NotAQuantity(f"{value!r} is neither a text nor a number")


def factor_of(suffix: str) -> Fraction:
    if suffix in BINARY_SUFFIXES:
        return Fraction(2 ** BINARY_SUFFIXES[suffix])
    if suffix in DECIMAL_SUFFIXES:
        return power_of_ten(DECIMAL_SUFFIXES[suffix])
    return power_of_ten(int(suffix[1:]))


def power_of_ten(exponent: int) -> Fraction:
    return Fraction(10**exponent) if exponent >= 0 else Fraction(1, 10**-exponent)


def nearest_double(value: Fraction) -> float:
    return value.numerator / value.denominator
