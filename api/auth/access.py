"""Who asks, and what they may know: the hub decides both, as for its own objects.

A bearer token is shown to the hub in a TokenReview, a wish in a SubjectAccessReview. Answers are remembered for
seconds. Tokens are not: they are known here by their digests.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from api.auth.ttl_cache import Remembered
from api.http.problems import refused
from fleet.clock import Clock
from fleet.errors import BadRequest, Invalid, UnreadableAnswer
from fleet.kube.api import Api, Method, Request
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, NAMESPACED, parse_key

_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ALLOWED_FOR: Final = 10.0
"""Seconds for which a right that was taken away may still be used."""
_DENIED_FOR: Final = 2.0
_MOST_CALLERS: Final = 10_000
_MOST_RIGHTS: Final = 200_000
_AT_ONCE: Final = 32
_LONGEST_TOKEN: Final = 16_384
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="fleet"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """As the hub knows them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False, compare=False)
    fingerprint: str = ""
    """Of all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A verb on a resource, or on a bare path."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} {self.path}"
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}.{self.group}{f' {self.name}' if self.name else ''}{where}"


class Access(Protocol):
    async def caller(self, token: str) -> Caller | None:
        """None for a token nobody knows."""

    async def may(self, caller: Caller, wish: Wish) -> bool: ...


# --- wishes -----------------------------------------------------------------------------------------------------------


def on_placement(verb: str, namespace: str, name: str = "") -> Wish:
    flavour = NAMESPACED if namespace else CLUSTER_SCOPED
    kind = flavour.placement
    return Wish(verb=verb, group=kind.group, resource=kind.plural, namespace=namespace, name=name)


def on_all_placements(verb: str, *, namespaced: bool) -> Wish:
    kind = (NAMESPACED if namespaced else CLUSTER_SCOPED).placement
    return Wish(verb=verb, group=kind.group, resource=kind.plural)


def on_cluster(name: str) -> Wish:
    return Wish(verb="get", group=MEMBER_CLUSTERS.group, resource=MEMBER_CLUSTERS.plural, name=name)


def on_clusters(verb: str) -> Wish:
    return Wish(verb=verb, group=MEMBER_CLUSTERS.group, resource=MEMBER_CLUSTERS.plural)


def as_operator(verb: str, path: str) -> Wish:
    """What concerns the whole fleet has no object: roles grant it as a nonResourceURL."""
    return Wish(verb=verb, path=f"/fleet{path}")


# --- the hub ----------------------------------------------------------------------------------------------------------


class HubAccess:
    def __init__(self, api: Api, *, clock: Clock) -> None:
        self._api = api
        self._callers: Remembered[bytes, tuple[Caller | None]] = Remembered(
            clock=clock, lifetime=lambda found: _lifetime(found[0]), most=_MOST_CALLERS
        )
        self._rights: Remembered[tuple[str, Wish], bool] = Remembered(
            clock=clock, lifetime=_lifetime, most=_MOST_RIGHTS
        )

    async def caller(self, token: str) -> Caller | None:
        async def ask() -> tuple[Caller | None]:
            return (await self._review(token),)

        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        return (await self._callers.get(digest, ask))[0]

    async def may(self, caller: Caller, wish: Wish) -> bool:
        return await self._rights.get((caller.fingerprint, wish), lambda: self._is_allowed(caller, wish))

    async def _review(self, token: str) -> Caller | None:
        try:
            status = await self._ask(_TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        except (BadRequest, Invalid):
            return None  # no token of any kind
        user = status.get("user") or {}
        if not status.get("authenticated") or not user.get("username"):
            return None
        return _caller_of(user)

    async def _is_allowed(self, caller: Caller, wish: Wish) -> bool:
        spec: dict[str, Any] = {"user": caller.name, "uid": caller.uid, "groups": caller.groups, "extra": caller.extra}
        if wish.path:
            spec["nonResourceAttributes"] = {"verb": wish.verb, "path": wish.path}
        else:
            names = ("verb", "group", "resource", "namespace", "name")
            spec["resourceAttributes"] = {name: value for name in names if (value := getattr(wish, name))}
        status = await self._ask(_ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        return status.get("allowed") is True and status.get("denied") is not True

    async def _ask(self, path: str, version: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        answer = await self._api.call(Request(Method.POST, path, body=body, deadline=10.0))
        try:
            status = msgspec.json.decode(answer)["status"]
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise UnreadableAnswer(f"the hub's answer to a {kind} cannot be read") from error
        return status if isinstance(status, dict) else {}


def _caller_of(user: Mapping[str, Any]) -> Caller:
    extra = {str(key): tuple(map(str, values)) for key, values in (user.get("extra") or {}).items()}
    name, uid, groups = str(user["username"]), str(user.get("uid") or ""), tuple(map(str, user.get("groups") or ()))
    content = msgspec.json.encode([name, uid, groups, sorted(extra.items())])
    return Caller(name, uid, groups, extra, hashlib.sha256(content).hexdigest())


def _lifetime(granted: object) -> float:
    return _ALLOWED_FOR if granted else _DENIED_FOR


# --- asking for a request ---------------------------------------------------------------------------------------------


async def authenticated(access: Access, authorization: str | None) -> Caller:
    """The caller behind an Authorization header; refuses everybody else."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise refused(
            401,
            "the request carries no bearer token",
            headers=_CHALLENGE,
            field="Authorization",
            next="send the header Authorization: Bearer TOKEN with a token the hub accepts",
        )
    caller = await access.caller(token) if len(token) <= _LONGEST_TOKEN else None
    if caller is None:
        raise refused(
            401,
            "the hub does not accept this token",
            headers=_CHALLENGE,
            field="Authorization",
            next="get a new token from whoever runs the hub",
        )
    return caller


async def require(access: Access, caller: Caller, wish: Wish) -> None:
    if not await access.may(caller, wish):
        raise refused(
            403,
            f"{caller.name} may not {wish}",
            object=wish.path or "/".join(part for part in (wish.resource, wish.namespace, wish.name) if part),
            next=f"ask an administrator of the hub for the right to {wish}",
        )


@dataclass(frozen=True, slots=True)
class Sight:
    """Which clusters a caller may know by name. None: all of them."""

    names: frozenset[str] | None

    def hides(self, cluster: str) -> bool:
        return self.names is not None and cluster not in self.names

    @property
    def is_whole(self) -> bool:
        return self.names is None

    @property
    def hidden(self) -> Callable[[str], bool] | None:
        """As explanations take it."""
        return None if self.is_whole else self.hides


async def sees_all_clusters(access: Access, caller: Caller) -> bool:
    for verb in ("list", "get"):
        if await access.may(caller, on_clusters(verb)):
            return True
    return False


async def sight_of(access: Access, caller: Caller, clusters: Iterable[str]) -> Sight:
    """One question for who may read them all, one per cluster for everybody else."""
    if await sees_all_clusters(access, caller):
        return Sight(None)
    return Sight(await _allowed(access, caller, {name: on_cluster(name) for name in clusters}))


async def placements_seen(access: Access, caller: Caller, keys: Iterable[str]) -> frozenset[str]:
    """Those that the caller may read: one question where they may read all, or all of a namespace."""
    own = {key: parse_key(key) for key in keys}
    spaces = {namespace: on_placement("get", namespace) for namespace, _ in own.values()}
    whole = await _allowed(access, caller, spaces)
    single = {key: on_placement("get", *parts) for key, parts in own.items() if parts[0] not in whole}
    return frozenset(own.keys() - single.keys()) | await _allowed(access, caller, single)


async def _allowed(access: Access, caller: Caller, wishes: Mapping[str, Wish]) -> frozenset[str]:
    """The names of the wishes that are granted. If one cannot be told, none is."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def is_granted(wish: Wish) -> bool:
        async with turns:
            return await access.may(caller, wish)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(is_granted(wish)) for name, wish in wishes.items()}
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed  # all for one reason, and callers know what to do about that
    return frozenset(name for name, task in tasks.items() if task.result())
