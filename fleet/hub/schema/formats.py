"""String formats that the API server checks. It ignores all others, such as int32 and double."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Final
from urllib.parse import urlsplit

Check = Callable[[str], object]

_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.DOTALL)
# The usual form of times, except for the last days of months.
_USUAL_TIME: Final = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?Z"
)
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
_HOST_LABEL: Final = re.compile(r"[^\W_]([-\w]{0,61}[^\W_])?")
_GO_DURATION: Final = re.compile(r"[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")
_SCALA_DURATION: Final = re.compile(
    r"[0-9]+\s*(d|days?|h|hours?|hrs?|m|min|minutes?|s|sec|seconds?|ms|milli(s|seconds?)?|us|µs|micro(s|seconds?)?|ns|nano(s|seconds?)?|w|wk|weeks?)"
)
_MAC: Final = re.compile(
    r"([0-9a-f]{2}:){5}[0-9a-f]{2}|([0-9a-f]{2}-){5}[0-9a-f]{2}|([0-9a-f]{4}\.){2}[0-9a-f]{4}"
    r"|([0-9a-f]{2}:){7}[0-9a-f]{2}|([0-9a-f]{2}-){7}[0-9a-f]{2}|([0-9a-f]{4}\.){3}[0-9a-f]{4}",
    re.IGNORECASE,
)
_EMAIL: Final = re.compile(r"(?:[^<>]*<)?[^\s@<>]+@[^\s@<>]+>?")
_RGB: Final = re.compile(r"rgb\(\s*({0})\s*,\s*({0})\s*,\s*({0})\s*\)".format("[01]?[0-9]?[0-9]|2[0-4][0-9]|25[0-5]"))
_CARD: Final = re.compile(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})"
)
_LONGEST_HOST: Final = 255


def find_format_check(name: str) -> Check | None:
    """The check of a format, with or without dashes in its name; None if the API server ignores it."""
    return _CHECKS.get(name.replace("-", ""))


def is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    try:
        # Go has a year zero, which is a leap year like 2000.
        date(year or 2000, month, day)
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    """Date and time separated by `t`. The ranges of fields are checked; leap seconds are refused."""
    if _USUAL_TIME.fullmatch(text):
        return True
    day, separator, rest = text.lower().partition("t")
    if not separator or not is_date(day):
        return False
    match = _TIME.fullmatch(rest.partition("t")[0])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def is_duration(text: str) -> bool:
    return bool(_GO_DURATION.fullmatch(text) or _SCALA_DURATION.fullmatch(text))


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_address(version: int | None, text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _is_network(text: str) -> bool:
    address, slash, length = text.partition("/")
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return bool(slash) and length.isdecimal() and "%" not in address


def _is_uri(text: str) -> bool:
    """A URI of a request line: an absolute URI or a path."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    has_control = any(ord(character) < 0x20 or character == "\x7f" for character in text)
    return not has_control and bool(parts.scheme or text.startswith("/"))


def _is_hostname(text: str) -> bool:
    labels = text.split(".")
    if len(text) > _LONGEST_HOST or not all(_HOST_LABEL.fullmatch(label) for label in labels):
        return False
    return len(labels) == 1 or (len(labels[-1]) > 1 and labels[-1].isalpha())


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    return sum((place + 1) * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = (int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(digits)))
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _compile_matcher(pattern: str) -> Check:
    return re.compile(pattern, re.IGNORECASE | re.ASCII).fullmatch


_UUID: Final = "[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{0}[0-9a-f]{{3}}-?{1}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
_CHECKS: Final[dict[str, Check]] = {
    "bsonobjectid": _compile_matcher("[0-9a-f]{24}"),
    "byte": _is_base64,
    "cidr": _is_network,
    "creditcard": _is_credit_card,
    "date": is_date,
    "datetime": is_date_time,
    "duration": is_duration,
    "email": _EMAIL.fullmatch,
    "hexcolor": _compile_matcher("#?([0-9a-f]{3}|[0-9a-f]{6})"),
    "hostname": _is_hostname,
    "ipv4": partial(_is_address, 4),
    "ipv6": partial(_is_address, 6),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "mac": _MAC.fullmatch,
    "password": lambda _text: True,
    "rgbcolor": _RGB.fullmatch,
    "ssn": _compile_matcher(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "uri": _is_uri,
    "uuid": _compile_matcher(_UUID.format("[0-9a-f]", "[0-9a-f]")),
    "uuid3": _compile_matcher(_UUID.format("3", "[0-9a-f]")),
    "uuid4": _compile_matcher(_UUID.format("4", "[89ab]")),
    "uuid5": _compile_matcher(_UUID.format("5", "[89ab]")),
}
