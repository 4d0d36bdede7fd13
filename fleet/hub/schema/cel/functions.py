"""The CEL functions of Kubernetes: quantities, URLs, IP addresses, regular expressions, lists and sets.

`indexOf` of lists is missing: the library allows one function per name, and strings already have it.

Values that are opaque in Kubernetes (quantities, URLs, IP addresses, networks) are strings in a canonical form here,
so that equality works.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

from cel_expr_python import cel  # type: ignore[import-untyped]

from fleet.hub.schema.cel.budget import BUDGET
from fleet.hub.schema.patterns import compile_finder
from fleet.model.quantity import quantity_or_none

_BOOL, _INT, _STRING, _DOUBLE, _DYN = cel.Type.BOOL, cel.Type.INT, cel.Type.STRING, cel.Type.DOUBLE, cel.Type.DYN
_LIST: Final = cel.Type.List(cel.Type.DYN)
_LARGEST_INT: Final = 2**63 - 1
_LONGEST_QUANTITY: Final = 256  # characters
_F = TypeVar("_F", bound=Callable[..., Any])


class _Library:
    """Collects overloads by function name."""

    def __init__(self) -> None:
        self._overloads: dict[str, list[cel.Overload]] = {}

    def function(self, name: str, returns: cel.Type, *parameters: cel.Type) -> Callable[[_F], _F]:
        return self._declare(name, returns, parameters, is_member=False)

    def method(self, name: str, returns: cel.Type, *parameters: cel.Type) -> Callable[[_F], _F]:
        return self._declare(name, returns, parameters, is_member=True)

    def declarations(self) -> list[cel.FunctionDecl]:
        return [cel.FunctionDecl(name, overloads) for name, overloads in self._overloads.items()]

    def _declare(
        self, name: str, returns: cel.Type, parameters: tuple[cel.Type, ...], *, is_member: bool
    ) -> Callable[[_F], _F]:
        identifier = "_".join(["k8s", name, "of" if is_member else "with", *(type.name() for type in parameters)])

        def declare(implementation: _F) -> _F:
            overload = cel.Overload(
                identifier,
                return_type=returns,
                parameters=list(parameters),
                is_member=is_member,
                impl=_charge(implementation),
            )
            self._overloads.setdefault(name, []).append(overload)
            return implementation

        return declare


def _charge(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Ends an evaluation that calls functions for too long."""

    @functools.wraps(implementation)
    def call(*arguments: Any) -> Any:
        BUDGET.charge()
        return implementation(*arguments)

    return call


_library: Final = _Library()
_function, _method = _library.function, _library.method


def declarations() -> list[cel.FunctionDecl]:
    return _library.declarations()


# --- quantities -------------------------------------------------------------------------------------------------------


@_function("isQuantity", _BOOL, _STRING)
def _is_quantity(text: str) -> bool:
    return quantity_or_none(text) is not None


@_function("quantity", _STRING, _STRING)
def _quantity(text: str) -> str:
    number = quantity_or_none(text)
    if number is None:
        pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise ValueError(f"quantities must match the regular expression '{pattern}'")
    return str(number)


@_method("isInteger", _BOOL, _STRING)
def _is_integer(quantity: str) -> bool:
    number = _exact(quantity)
    return number.denominator == 1 and abs(number) <= _LARGEST_INT


@_method("asInteger", _INT, _STRING)
def _as_integer(quantity: str) -> int:
    if not _is_integer(quantity):
        raise ValueError("cannot convert value to integer")
    return int(_exact(quantity))


@_method("asApproximateFloat", _DOUBLE, _STRING)
def _as_float(quantity: str) -> float:
    return float(_exact(quantity))


@_method("sign", _INT, _STRING)
def _sign(quantity: str) -> int:
    return _compare(_exact(quantity), Fraction(0))


@_method("isGreaterThan", _BOOL, _STRING, _STRING)
def _is_greater(left: str, right: str) -> bool:
    return _exact(left) > _exact(right)


@_method("isLessThan", _BOOL, _STRING, _STRING)
def _is_less(left: str, right: str) -> bool:
    return _exact(left) < _exact(right)


@_method("compareTo", _INT, _STRING, _STRING)
def _compare_to(left: str, right: str) -> int:
    return _compare(_exact(left), _exact(right))


@_method("add", _STRING, _STRING, _STRING)
@_method("add", _STRING, _STRING, _INT)
def _add(left: str, right: str | int) -> str:
    return str(_exact(left) + _exact(right))


@_method("sub", _STRING, _STRING, _STRING)
@_method("sub", _STRING, _STRING, _INT)
def _subtract(left: str, right: str | int) -> str:
    return str(_exact(left) - _exact(right))


def _exact(quantity: str | int) -> Fraction:
    """The value of a quantity in its canonical form, which has no exponent: that of a string may be astronomical."""
    if isinstance(quantity, str) and (len(quantity) > _LONGEST_QUANTITY or "e" in quantity.lower()):
        raise ValueError("no such overload")
    return Fraction(quantity)


def _compare(left: Fraction, right: Fraction) -> int:
    return (left > right) - (left < right)


# --- URLs -------------------------------------------------------------------------------------------------------------


@_function("isURL", _BOOL, _STRING)
def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path)) or text.startswith("/")


@_function("url", _STRING, _STRING)
def _url(text: str) -> str:
    if not _is_url(text):
        raise ValueError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    return text


@_method("getScheme", _STRING, _STRING)
def _scheme(url: str) -> str:
    return urlsplit(url).scheme


@_method("getHost", _STRING, _STRING)
def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


@_method("getHostname", _STRING, _STRING)
def _hostname(url: str) -> str:
    host, _, port = _host(url).rpartition(":")
    name = host if host and port.isdecimal() else _host(url)
    return name.removeprefix("[").removesuffix("]")


@_method("getPort", _STRING, _STRING)
def _port(url: str) -> str:
    port = urlsplit(url).port
    return "" if port is None else str(port)


@_method("getEscapedPath", _STRING, _STRING)
def _escaped_path(url: str) -> str:
    return quote(urlsplit(url).path, safe="/%:@!$&'()*+,;=~-._")


@_method("getQuery", cel.Type.Map(_STRING, _LIST), _STRING)
def _query(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query, keep_blank_values=True)


# --- regular expressions ----------------------------------------------------------------------------------------------


@_method("find", _STRING, _STRING, _STRING)
def _find(text: str, pattern: str) -> str:
    return next((match[0] for match in compile_finder(pattern)(text)), "")


@_method("findAll", _LIST, _STRING, _STRING)
def _find_all(text: str, pattern: str) -> list[str]:
    return [match[0] for match in compile_finder(pattern)(text)]


@_method("findAll", _LIST, _STRING, _STRING, _INT)
def _find_some(text: str, pattern: str, most: int) -> list[str]:
    matches = _find_all(text, pattern)
    return matches if most < 0 else matches[:most]


# --- lists and sets ---------------------------------------------------------------------------------------------------


@_method("isSorted", _BOOL, _LIST)
def _is_sorted(items: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(items))


@_method("sum", _DYN, _LIST)
def _sum(items: list[Any]) -> Any:
    return sum(items[1:], start=items[0]) if items else 0


@_method("min", _DYN, _LIST)
def _min(items: list[Any]) -> Any:
    if not items:
        raise ValueError("min called on empty list")
    return min(items)


@_method("max", _DYN, _LIST)
def _max(items: list[Any]) -> Any:
    if not items:
        raise ValueError("max called on empty list")
    return max(items)


@_function("sets.contains", _BOOL, _LIST, _LIST)
def _contains(items: list[Any], wanted: list[Any]) -> bool:
    return all(_is_in(item, items) for item in wanted)


def _is_in(item: Any, items: list[Any]) -> bool:
    BUDGET.charge()
    return item in items


@_function("sets.equivalent", _BOOL, _LIST, _LIST)
def _equivalent(left: list[Any], right: list[Any]) -> bool:
    return _contains(left, right) and _contains(right, left)


@_function("sets.intersects", _BOOL, _LIST, _LIST)
def _intersects(left: list[Any], right: list[Any]) -> bool:
    return any(_is_in(item, right) for item in left)


# --- addresses --------------------------------------------------------------------------------------------------------


@_function("isIP", _BOOL, _STRING)
def _is_ip(text: str) -> bool:
    return _address_or_none(text) is not None


@_function("ip", _STRING, _STRING)
def _ip(text: str) -> str:
    return str(_address(text))


@_function("ip.isCanonical", _BOOL, _STRING)
def _is_canonical(text: str) -> bool:
    return str(_address(text)) == text


@_method("family", _INT, _STRING)
def _family(address: str) -> int:
    return _address(address).version


@_method("isUnspecified", _BOOL, _STRING)
def _is_unspecified(address: str) -> bool:
    return _address(address).is_unspecified


@_method("isLoopback", _BOOL, _STRING)
def _is_loopback(address: str) -> bool:
    return _address(address).is_loopback


@_method("isLinkLocalUnicast", _BOOL, _STRING)
def _is_link_local_unicast(address: str) -> bool:
    return _address(address).is_link_local


@_method("isLinkLocalMulticast", _BOOL, _STRING)
def _is_link_local_multicast(address: str) -> bool:
    number = _address(address)
    network = ipaddress.ip_network("224.0.0.0/24" if number.version == 4 else "ff02::/16")
    return number in network


@_method("isGlobalUnicast", _BOOL, _STRING)
def _is_global_unicast(address: str) -> bool:
    number = _address(address)
    is_special = number.is_unspecified or number.is_loopback or number.is_multicast or number.is_link_local
    return not is_special and str(number) != "255.255.255.255"


@_function("isCIDR", _BOOL, _STRING)
def _is_cidr(text: str) -> bool:
    return _interface_or_none(text) is not None


@_function("cidr", _STRING, _STRING)
def _cidr(text: str) -> str:
    return str(_interface(text))


@_method("ip", _STRING, _STRING)
def _address_of(cidr: str) -> str:
    return str(_interface(cidr).ip)


@_method("masked", _STRING, _STRING)
def _mask_host_bits(cidr: str) -> str:
    return str(_interface(cidr).network)


@_method("prefixLength", _INT, _STRING)
def _prefix_length(cidr: str) -> int:
    return _interface(cidr).network.prefixlen


@_method("containsIP", _BOOL, _STRING, _STRING)
def _contains_ip(cidr: str, address: str) -> bool:
    return _address(address) in _interface(cidr).network


@_method("containsCIDR", _BOOL, _STRING, _STRING)
def _contains_cidr(cidr: str, other: str) -> bool:
    outer, inner = _interface(cidr).network, _interface(other).network
    is_of_one_family = outer.version == inner.version
    return is_of_one_family and inner.prefixlen >= outer.prefixlen and inner.network_address in outer


def _address_or_none(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = _address_or_none(text)
    if address is None:
        raise ValueError(f'IP Address "{text}" parse error during conversion from string')
    return address


def _interface_or_none(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface | None:
    try:
        return ipaddress.ip_interface(text) if text.partition("/")[2].isdecimal() else None
    except ValueError:
        return None


def _interface(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    interface = _interface_or_none(text)
    if interface is None:
        raise ValueError(f'network address parse error during conversion from string: "{text}"')
    return interface
