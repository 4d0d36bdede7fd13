"""Sessions of browsers, which cannot keep a bearer token out of the reach of scripts.

A browser exchanges a token, or the code of a one-time link, for a cookie that no script can read. The session holds the
token, in memory or sealed in the cookie, which only the API can open: the hub reviews it for every request, as if the
browser had sent it. Of cookies and codes only digests are kept.

A browser adds the cookie to every request to this host, whichever page makes it and whichever port it goes to. So a
request with a cookie also has to come from a page of the same origin, as the browser itself states it.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from api.auth.sealing import Sealer
from api.http.problems import refusal
from fleet.clock import Clock, epoch_nanoseconds, to_nanoseconds

SESSION_SECONDS: Final = 12 * 3600.0
CODE_SECONDS: Final = 600.0
MOST_SESSIONS: Final = 4096
MOST_OF_CALLER: Final = 16
"""Sessions, and likewise codes. A further one takes the place of the caller's oldest."""
MOST_ENDED_OF_CALLER: Final = 256
"""Sealed sessions that are known to be signed out: of more, the oldest would be taken again."""
COOKIE: Final = "fleet-session"
SIGN_IN: Final = "/ui/signin"
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SECRET_BYTES: Final = 32
_CODE_BYTES: Final = 16
"""A link should fit into a line of a terminal."""
_LONGEST_COOKIE: Final = 3800
"""Browsers keep cookies of 4096 bytes with name and attributes. A longer session stays in memory."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    caller: str
    token: str
    expires: int
    """By the time of day, in nanoseconds."""
    ends: float
    """By the monotonic clock."""

    def __repr__(self) -> str:
        return f"BrowserSession(caller={self.caller!r})"  # without the token: it may get into a log


class _SealedSession(msgspec.Struct, frozen=True, array_like=True):
    caller: str
    token: str
    expires: int


class _Expiring(Protocol):
    @property
    def caller(self) -> str: ...

    @property
    def ends(self) -> float: ...


E = TypeVar("E", bound=_Expiring)


class SecretStore(Generic[E]):
    """Values by a secret, of which a digest is kept; bounded in all and for each caller."""

    def __init__(self, clock: Clock, *, size: int, most_of_caller: int = MOST_OF_CALLER) -> None:
        """`size`: random bytes of a secret."""
        self._clock = clock
        self._size = size
        self._most_of_caller = most_of_caller
        self._values: OrderedDict[bytes, E] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: E) -> str:
        """The secret."""
        secret = secrets.token_urlsafe(self._size)
        self.put(secret, value)
        return secret

    def put(self, secret: str, value: E) -> None:
        """The caller's oldest value, or the oldest of all, goes where there are too many."""
        self._drop_expired()
        own = [key for key, known in self._values.items() if known.caller == value.caller]
        if len(own) >= self._most_of_caller:
            del self._values[own[0]]
        elif len(self._values) >= MOST_SESSIONS:
            self._values.popitem(last=False)
        self._values[_digest(secret)] = value

    def get(self, secret: str) -> E | None:
        value = self._values.get(_digest(secret))
        return value if value is not None and value.ends > self._clock.monotonic() else None

    def pop(self, secret: str) -> E | None:
        value = self.get(secret)
        self._values.pop(_digest(secret), None)
        return value

    def _drop_expired(self) -> None:
        """All values live equally long, so that the oldest end first."""
        now = self._clock.monotonic()
        while self._values and next(iter(self._values.values())).ends <= now:
            self._values.popitem(last=False)


class BrowserSessions:
    def __init__(self, clock: Clock, sealer: Sealer | None = None) -> None:
        """With a sealer, sessions outlive the process, and other replicas take them."""
        self._clock = clock
        self._sealer = sealer
        self._closed: SecretStore[BrowserSession] = SecretStore(
            clock, size=_SECRET_BYTES, most_of_caller=MOST_ENDED_OF_CALLER
        )
        """Sealed ones that were signed out here."""
        self._sessions: SecretStore[BrowserSession] = SecretStore(clock, size=_SECRET_BYTES)
        self._codes: SecretStore[BrowserSession] = SecretStore(clock, size=_CODE_BYTES)

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, caller: str, token: str) -> tuple[str, BrowserSession]:
        """The value of the cookie, and the session."""
        session = self._build(caller, token, SESSION_SECONDS)
        return self._seal(session) or self._sessions.add(session), session

    def find(self, cookie: str) -> BrowserSession | None:
        return self._sessions.get(cookie) or self._unseal(cookie)

    def close(self, cookie: str) -> BrowserSession | None:
        """The session; None if it has ended already."""
        session = self._sessions.pop(cookie)
        if session is None and (session := self._unseal(cookie)) is not None:
            self._closed.put(cookie, replace(session, token=""))
        return session

    def issue_code(self, caller: str, token: str) -> tuple[str, BrowserSession]:
        """The code of a one-time link, and until when it can be used."""
        issued = self._build(caller, token, CODE_SECONDS)
        return self._codes.add(issued), issued

    def find_code(self, code: str) -> BrowserSession | None:
        """What the code was issued for, if it can still be used."""
        return self._codes.get(code)

    def redeem(self, code: str) -> BrowserSession | None:
        """What the code was issued for, once."""
        return self._codes.pop(code)

    def _seal(self, session: BrowserSession) -> str:
        """Empty if it is not to be sealed, or too long for a cookie."""
        if self._sealer is None:
            return ""
        content = msgspec.msgpack.encode(_SealedSession(session.caller, session.token, session.expires))
        cookie = self._sealer.seal(zlib.compress(content))
        return cookie if len(cookie) <= _LONGEST_COOKIE else ""

    def _unseal(self, cookie: str) -> BrowserSession | None:
        content = None if self._sealer is None else self._sealer.open(cookie)
        if content is None or self._closed.get(cookie) is not None:
            return None
        sealed = msgspec.msgpack.decode(zlib.decompress(content), type=_SealedSession)
        remaining = (sealed.expires - epoch_nanoseconds(self._clock)) / 1e9
        if remaining <= 0:
            return None
        return BrowserSession(sealed.caller, sealed.token, sealed.expires, self._clock.monotonic() + remaining)

    def _build(self, caller: str, token: str, seconds: float) -> BrowserSession:
        expires = epoch_nanoseconds(self._clock) + to_nanoseconds(seconds)
        return BrowserSession(caller, token, expires, self._clock.monotonic() + seconds)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


# --- requests ---------------------------------------------------------------------------------------------------------


def name_cookie(host: str) -> str:
    """Of an API with this Host: browsers share cookies between the ports of a host, and each may have its own API."""
    port = _read_port(host)
    return COOKIE if port is None else f"{COOKIE}-{port}"


def read_cookie(cookies: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """Empty without one."""
    return cookies.get(name_cookie(headers.get("host", "")), "")


def format_cookie(host: str, value: str, *, scheme: str) -> str:
    """For Set-Cookie; an empty value removes it. Kept until the browser ends: the session may end before."""
    secure = scheme == "https" or not _is_loopback(host)
    parts = [f"{name_cookie(host)}={value}", "Path=/", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, *(["Secure"] if secure else []), *([] if value else ["Max-Age=0"])])


def require_same_origin(method: str, headers: Mapping[str, str]) -> None:
    """Refuses a request that a page of another origin has made."""
    if not is_same_origin(method, headers):
        raise refusal(
            403,
            "the request comes from a page of another origin, or its browser does not say from which",
            field="Sec-Fetch-Site" if "sec-fetch-site" in headers else "Origin",
            next=f"ask from a page of this API, such as {SIGN_IN}, or send a bearer token instead of the cookie",
        )


def refuse_other_pages(method: str, headers: Mapping[str, str]) -> None:
    """Refuses a request without a cookie, if its browser made it for a page of another origin. Clients that are no
    browsers state nothing."""
    if comes_from_elsewhere(method, headers):
        require_same_origin(method, headers)


def require_own_page(method: str, headers: Mapping[str, str], cookie: str) -> None:
    """For a request that changes a session, whether there is one or not."""
    (require_same_origin if cookie else refuse_other_pages)(method, headers)


def is_same_origin(method: str, headers: Mapping[str, str]) -> bool:
    """By what browsers state and scripts cannot change. A browser that states nothing may only read."""
    is_safe = method in _SAFE_METHODS
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin" or (is_safe and site == "none")
    origin = headers.get("origin")
    if origin is not None:
        return _read_authority(origin) == headers.get("host", "").lower() != ""
    return is_safe


def comes_from_elsewhere(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a browser says so; a client that is none says nothing."""
    return ("sec-fetch-site" in headers or "origin" in headers) and not is_same_origin(method, headers)


def _read_authority(origin: str) -> str:
    """Without the scheme: something in front of this server may have ended TLS."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _read_port(host: str) -> int | None:
    try:
        return urlsplit(f"//{host}").port
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
