"""Callers that the hub's aggregation layer has authenticated: `kubectl` and `fleet` with nothing but a kubeconfig.

The API server proves itself with the client certificate of its front proxy, and names the caller in headers. What to
verify is published in the ConfigMap `extension-apiserver-authentication`, as for every aggregated API. Without that
certificate the headers mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import unquote

import msgspec
import structlog

from api.auth.access import Caller, build_caller
from fleet.clock import Clock
from fleet.errors import FleetError, UnreadableAnswer
from fleet.kube.api import Api, Method, Request

CHECK_INTERVAL: Final = 60.0
"""Seconds. Authorities are rotated with months of overlap."""
_CONFIG_MAP: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_ROLE: Final = "extension-apiserver-authentication-reader"
_AUTHORITIES: Final = "requestheader-client-ca-file"
_USER_AUTHORITIES: Final = "client-ca-file"
_END: Final = "-----END CERTIFICATE-----"

log = structlog.get_logger(__name__)

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxyTrust:
    """The content of the ConfigMap."""

    authorities: str = ""
    """Certificates in PEM. Empty: no client certificate is accepted."""
    names: frozenset[str] = frozenset()
    """Common names of the front proxy. Empty: any that the authorities have signed."""
    user_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()

    @classmethod
    def parse(cls, data: Mapping[str, str]) -> Self:
        """Raises UnreadableAnswer, also where any user with a client certificate could pretend to be the proxy."""
        lists = {name: _parse_list(data, f"requestheader-{name}") for name in _LISTS}
        authorities = data.get(_AUTHORITIES, "")
        if not authorities.strip():
            raise UnreadableAnswer(f"{_AUTHORITIES} is not set: the API server has no aggregation layer")
        if not lists["allowed-names"] and _certificates(authorities) & _certificates(data.get(_USER_AUTHORITIES, "")):
            raise UnreadableAnswer(
                f"{_AUTHORITIES} also signs the certificates of users, and requestheader-allowed-names is empty: "
                "any of them could claim to be the API server"
            )
        return cls(
            authorities=authorities,
            names=frozenset(lists["allowed-names"]),
            user_headers=lists["username-headers"],
            uid_headers=lists["uid-headers"],
            group_headers=lists["group-headers"],
            extra_prefixes=lists["extra-headers-prefix"],
        )


_LISTS: Final = ("allowed-names", "username-headers", "uid-headers", "group-headers", "extra-headers-prefix")


class FrontProxy:
    def __init__(self, api: Api, *, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._trust = FrontProxyTrust()
        self._problem = ""

    @property
    def authorities(self) -> str:
        """Of client certificates, in PEM; empty while they are unknown."""
        return self._trust.authorities

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(CHECK_INTERVAL)
            await self.load()

    async def load(self) -> None:
        """What was loaded before stays when the ConfigMap cannot be read; it is dropped when it is not usable."""
        try:
            content = await self._api.call(Request(Method.GET, _CONFIG_MAP, deadline=10.0))
        except FleetError as error:
            self._report(f"{error}; it takes the Role {_ROLE} of the namespace kube-system")
            return
        try:
            self._trust = FrontProxyTrust.parse(_parse_data(content))
        except UnreadableAnswer as error:
            self._trust = FrontProxyTrust()
            self._report(str(error))
            return
        self._problem = ""

    def identify(self, certificate: Mapping[str, Any], headers: Headers) -> Caller | None:
        """The caller of a request on a connection with this client certificate, which the TLS layer has verified."""
        trust = self._trust
        if trust.names and not trust.names & set(_common_names(certificate)):
            return None
        try:
            values = [(name.decode("ascii").lower(), value.decode("utf-8")) for name, value in headers]
        except UnicodeDecodeError:
            return None
        name = _first_value(values, trust.user_headers)
        if not name:
            return None
        groups = [value for wanted in trust.group_headers for header, value in values if header == wanted]
        extra: dict[str, list[str]] = {}
        for prefix in trust.extra_prefixes:
            for header, value in values:
                if header.startswith(prefix):
                    extra.setdefault(unquote(header.removeprefix(prefix)), []).append(value)
        return build_caller(
            {"username": name, "uid": _first_value(values, trust.uid_headers), "groups": groups, "extra": extra}
        )

    def _report(self, problem: str) -> None:
        """Once: it is tried again every minute."""
        if problem != self._problem:
            log.warning("callers with a kubeconfig alone cannot be identified", reason=problem)
        self._problem = problem


def _parse_data(content: bytes) -> Mapping[str, str]:
    try:
        data = msgspec.json.decode(content)["data"]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise UnreadableAnswer("the ConfigMap extension-apiserver-authentication has no data") from error
    return data if isinstance(data, dict) else {}


def _parse_list(data: Mapping[str, str], name: str) -> tuple[str, ...]:
    """A JSON list of names. Those of headers are compared in lower case."""
    try:
        values = msgspec.json.decode(data.get(name) or "[]", type=list[str])
    except msgspec.DecodeError as error:
        raise UnreadableAnswer(f"{name} is not a list of names: {error}") from error
    return tuple(values) if name.endswith("allowed-names") else tuple(value.lower() for value in values)


def _certificates(pem: str) -> set[str]:
    return {"".join(part.split()) for part in pem.split(_END) if part.strip()}


def _common_names(certificate: Mapping[str, Any]) -> list[str]:
    """The subject as `ssl.SSLSocket.getpeercert` gives it."""
    return [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]


def _first_value(values: Sequence[tuple[str, str]], wanted: Sequence[str]) -> str:
    return next((value for name in wanted for header, value in values if header == name and value), "")
