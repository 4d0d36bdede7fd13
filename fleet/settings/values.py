"""Types of values that are strings in every source: durations, rates, addresses, lists.

They remain strings, so that they are displayed as they were written, and parse themselves on demand.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BeforeValidator, GetCoreSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

_NUMBER: Final = r"(\d{1,9}(?:\.\d{1,9})?)"
_DURATION: Final = re.compile(rf"{_NUMBER}(ms|h|m|s)", re.ASCII)
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_RATE: Final = re.compile(rf"{_NUMBER}/(h|m|s)", re.ASCII)
_ADDRESS: Final = re.compile(r"(?:\[([0-9a-fA-F:.%]+)\]|([^\s:\[\]/]*)):(\d{1,5})", re.ASCII)
_VERSION: Final = r"v\d+(?:(?:alpha|beta)\d+)?"
_KINDS: Final = re.compile(
    rf"(?:[a-z][a-z0-9.-]*|(?:[a-z][a-z0-9.-]*/)?{_VERSION}(?:/[A-Z]\w*(?:,\s*[A-Z]\w*)*)?)", re.ASCII
)
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_TERM: Final = rf"!{_LABEL}|{_LABEL}(?:(?:==?|!=)(?:{_LABEL})?| (?:not)?in \((?:{_LABEL})(?:, ?{_LABEL})*\))?"
_SELECTOR: Final = re.compile(rf"(?:{_TERM})(?:,(?:{_TERM}))*", re.ASCII)
_LARGEST_PORT: Final = 65535
CIPHER_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    # Of TLS 1.3, where they cannot be switched off.
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
}
"""Their names in OpenSSL."""


class _Text(str):
    """A string with a required format."""

    __slots__ = ()
    expected = ""

    @classmethod
    def matches(cls, text: str) -> bool:
        raise NotImplementedError

    @classmethod
    def _parse(cls, text: str) -> Self:
        if not cls.matches(text):
            raise PydanticCustomError("text", "should be {expected}", {"expected": cls.expected})
        return cls(text)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        del source, handler
        plain = core_schema.plain_serializer_function_ser_schema(str)
        return core_schema.no_info_after_validator_function(cls._parse, core_schema.str_schema(), serialization=plain)


class Duration(_Text):
    """Such as 90s, 5m or 1h30m; 0 is allowed without a unit."""

    __slots__ = ()
    expected = "a duration such as 90s, 5m or 1h30m"

    @classmethod
    def matches(cls, text: str) -> bool:
        return text == "0" or (bool(text) and "".join(map("".join, _DURATION.findall(text))) == text)

    @property
    def seconds(self) -> float:
        return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(self))


class Rate(_Text):
    """Such as 10/s."""

    __slots__ = ()
    expected = "a rate above zero such as 10/s or 600/m"

    @classmethod
    def matches(cls, text: str) -> bool:
        match = _RATE.fullmatch(text)
        return match is not None and float(match[1]) > 0

    @property
    def per_second(self) -> float:
        number, unit = self.split("/")
        return float(number) / _SECONDS[unit]


class Address(_Text):
    """A listen address: `:8080` on all interfaces, `127.0.0.1:0` on any free port, `off` for none."""

    __slots__ = ()
    expected = "an address such as :8080, 127.0.0.1:8080 or [::1]:8080, or off"

    @classmethod
    def matches(cls, text: str) -> bool:
        match = _ADDRESS.fullmatch(text)
        return text == "off" or (match is not None and int(match[3]) <= _LARGEST_PORT)

    @property
    def is_off(self) -> bool:
        return self == "off"

    @property
    def host(self) -> str | None:
        """None for all interfaces."""
        host = self.rpartition(":")[0].strip("[]")
        return host or None

    @property
    def port(self) -> int:
        return int(self.rpartition(":")[2])


def _check_positive(duration: Duration) -> Duration:
    if duration.seconds <= 0:
        raise PydanticCustomError("positive", "should be longer than 0")
    return duration


PositiveDuration = Annotated[Duration, AfterValidator(_check_positive)]


# --- lists ------------------------------------------------------------------------------------------------------------


def _split_list(value: object) -> object:
    return _split(value, ",;")


def _split_kinds(value: object) -> object:
    return _split(value, ";")


def _split(value: object, separators: str) -> object:
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in re.split(f"[{separators}]", value) if part.strip())


def _check_namespaces(names: tuple[str, ...]) -> tuple[str, ...]:
    return _check_each(names, _NAMESPACE, "names of namespaces, such as team-a,team-b")


def _check_kinds(names: tuple[str, ...]) -> tuple[str, ...]:
    return _check_each(names, _KINDS, "group, group/version or group/version/Kind,Kind, separated by semicolons")


def _check_suites(names: tuple[str, ...]) -> tuple[str, ...]:
    return _check_each(names, re.compile("|".join(CIPHER_SUITES)), f"cipher suites among {', '.join(CIPHER_SUITES)}")


def _check_each(names: tuple[str, ...], pattern: re.Pattern[str], expected: str) -> tuple[str, ...]:
    wrong = [name for name in names if not pattern.fullmatch(name)]
    if wrong:
        raise PydanticCustomError(
            "list", "should be {expected}, which {wrong} is not", {"expected": expected, "wrong": repr(wrong[0])}
        )
    return names


def _check_selector(text: str) -> str:
    if text and not _SELECTOR.fullmatch(text):
        raise PydanticCustomError("selector", "should be labels such as pool=a,env in (test, dev),!retired")
    return text


ClusterSelector = Annotated[str, AfterValidator(_check_selector)]
"""In the syntax of kubectl."""
Namespaces = Annotated[tuple[str, ...], BeforeValidator(_split_list), AfterValidator(_check_namespaces)]
CipherSuites = Annotated[tuple[str, ...], BeforeValidator(_split_list), AfterValidator(_check_suites)]
Kinds = Annotated[tuple[str, ...], BeforeValidator(_split_kinds), AfterValidator(_check_kinds)]
"""Each is `apps`, `apps/v1` or `apps/v1/Deployment,StatefulSet`; the core group has no name: `v1/ConfigMap`."""
