"""Kubernetes quantities: exact as fractions, and as the nearest double for the columns of the snapshot.

The grammar is the one of the Kubernetes API: an optional sign, digits with an optional fraction (`.5` and `5.` count),
then a decimal suffix, a binary suffix or a decimal exponent. Two rules come with it: a value finer than a nano is
rounded away from zero to a nano, and a value with a binary suffix stops at 2^63 - 1. A negative value is treated as
its mirror image, so it stops at -(2^63 - 1).

Texts longer than `LONGEST_TEXT` and exponents beyond `GREATEST_EXPONENT` are refused. Both are far outside what a
cluster can report, and without a limit a few bytes such as `1e999999999` would need gigabytes.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from fleet.errors import QuantityError

LONGEST_TEXT: Final = 1024
GREATEST_EXPONENT: Final = 4096
GREATEST_BINARY: Final = 2**63 - 1
GREATEST_FLOAT: Final = float.fromhex("0x1.fffffffffffffp+1023")

_NANO: Final = 10**9
_DECIMALS_OF_NANO: Final = 9
_CACHE_SIZE: Final = 1 << 15
_MAX_SHOWN: Final = 40
_NAN: Final = float("nan")
# The longest plain decimal that float() reads without a chance of overflow.
_SAFE_DECIMAL: Final = 300

_GRAMMAR: Final = re.compile(
    r"([+-]?)(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)"
)
_BINARY: Final[dict[str, int]] = {
    suffix: 1024**step for step, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}
_MULTIPLE: Final[dict[str, int]] = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_PART: Final[dict[str, int]] = {"m": 10**3, "u": 10**6, "n": 10**9}


def parse_quantity(text: str | int | float) -> Fraction:
    """The exact value. JSON numbers are read by their digits, as the API server does."""
    written = text if isinstance(text, str) else str(text)
    match = _GRAMMAR.fullmatch(written) if len(written) <= LONGEST_TEXT else None
    if match is None:
        raise QuantityError(f"{_truncate(written)} is no quantity such as 1.5, 250m or 16Gi", value=text)
    sign, whole, decimals, exponent, suffix = match.groups(default="")
    magnitude = _round_to_nano(_parse_mantissa(whole, decimals) * _parse_factor(written, exponent, suffix))
    if suffix in _BINARY:
        magnitude = min(magnitude, Fraction(GREATEST_BINARY))
    return -magnitude if sign == "-" else magnitude


def quantity_or_none(text: str | int | float) -> Fraction | None:
    """The exact value, or None if the text is not a quantity."""
    try:
        return parse_quantity(text)
    except QuantityError:
        return None


def nearest_float(value: Fraction) -> float:
    """The double nearest to the exact value; beyond the range of doubles, the greatest finite one of that sign."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return GREATEST_FLOAT if value > 0 else -GREATEST_FLOAT


def quantity_to_float(text: str | int | float) -> float:
    """The result of `nearest_float` for the exact value, for columns: NaN if the text is not a quantity."""
    # Converted before the cache is used, because 1, 1.0 and True are equal keys with different texts.
    return _cached_float(text if isinstance(text, str) else str(text))


@lru_cache(maxsize=_CACHE_SIZE)
def _cached_float(text: str) -> float:
    if text.isascii() and text.isdigit() and len(text) <= _SAFE_DECIMAL:
        return float(int(text))
    match = _GRAMMAR.fullmatch(text) if len(text) <= _SAFE_DECIMAL else None
    if match is None:
        return _exact_float(text)
    sign, whole, decimals, exponent, suffix = match.groups()
    if exponent is not None:
        return _exact_float(text)
    if decimals is None:
        magnitude = _scaled_float(int(whole), suffix)
        return -magnitude if sign == "-" and magnitude else magnitude
    if suffix is None and len(decimals) <= _DECIMALS_OF_NANO:
        return float(text) + 0.0  # the sum turns a negative zero into zero
    return _exact_float(text)


def _scaled_float(number: int, suffix: str | None) -> float:
    """Python divides and converts integers of any size to the nearest double, so no fraction is needed here."""
    if suffix is None:
        return float(number)
    if suffix in _BINARY:
        return float(min(number * _BINARY[suffix], GREATEST_BINARY))
    if suffix in _PART:
        return number / _PART[suffix]
    return nearest_float(Fraction(number * _MULTIPLE[suffix]))


def _exact_float(text: str) -> float:
    value = quantity_or_none(text)
    return _NAN if value is None else nearest_float(value)


def _parse_mantissa(whole: str, decimals: str) -> Fraction:
    return Fraction(int(whole + decimals), 10 ** len(decimals))


def _parse_factor(text: str, exponent: str, suffix: str) -> Fraction | int:
    if exponent:
        power = int(exponent)
        if abs(power) > GREATEST_EXPONENT:
            message = f"{_truncate(text)} has an exponent beyond {GREATEST_EXPONENT}"
            raise QuantityError(message, value=text)
        return Fraction(10) ** power
    if suffix in _PART:
        return Fraction(1, _PART[suffix])
    return _BINARY.get(suffix) or _MULTIPLE.get(suffix, 1)


def _round_to_nano(magnitude: Fraction) -> Fraction:
    if _NANO % magnitude.denominator == 0:
        return magnitude
    return Fraction(-(-magnitude.numerator * _NANO // magnitude.denominator), _NANO)


def _truncate(text: str) -> str:
    return repr(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!r}… ({len(text)} characters)"
