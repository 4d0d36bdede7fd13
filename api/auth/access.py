"""Authentication and authorization, delegated to the hub: TokenReview and SubjectAccessReview.

Reviews are cached for seconds, tokens only as digests.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from api.http.limits import REVIEWS_OF_A_CALLER, KeyedLimit, TokenLanes
from fleet.clock import Clock
from fleet.errors import ApiError, BadRequest, ConfigurationError, Invalid, UnreadableAnswer
from fleet.kube.api import Api, Method, Request
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, NAMESPACED

_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_RULES_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_ANY_NAMESPACE: Final = "default"
"""A review of rules needs one, and lists the rules of its roles too, which grant nothing about clusters."""
_ALLOWED_TTL: Final = 10.0
"""Seconds for which a revoked right may still be used."""
_DENIED_TTL: Final = 2.0
_RENEWED_AFTER: Final = 7.0
"""Seconds: a granted right in use is reviewed again before it ends, so that its caller waits for the first review only.
Denials are not: they may be anybody's."""
_MOST_RENEWED: Final = 16
"""At a time: half of a caller's share, so that no new question waits for renewals."""
_MAX_CALLERS: Final = 10_000
_MAX_DECISIONS: Final = 200_000

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated user."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False, compare=False)
    fingerprint: str = ""
    """A digest of all of the above: the cache key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """A verb on a resource, or on a non-resource path."""

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


class CallerAuthorizer(Protocol):
    async def authenticate(self, token: str) -> Caller | None:
        """None for an invalid token."""

    async def is_allowed(self, caller: Caller, request: AccessRequest) -> bool: ...

    async def list_granted_names(self, caller: Caller, token: str, request: AccessRequest) -> frozenset[str] | None:
        """The names for which any rule grants the request to the caller with that token; to be reviewed one by one.
        None: the hub cannot tell, so any name may be granted."""
        del caller, token, request
        return None


# --- access requests --------------------------------------------------------------------------------------------------


def placement_access(verb: str, namespace: str, name: str = "") -> AccessRequest:
    kind = (NAMESPACED if namespace else CLUSTER_SCOPED).placement
    return AccessRequest(verb=verb, group=kind.group, resource=kind.plural, namespace=namespace, name=name)


def all_placements_access(verb: str, *, namespaced: bool) -> AccessRequest:
    kind = (NAMESPACED if namespaced else CLUSTER_SCOPED).placement
    return AccessRequest(verb=verb, group=kind.group, resource=kind.plural)


def cluster_access(name: str) -> AccessRequest:
    return AccessRequest(verb="get", group=MEMBER_CLUSTERS.group, resource=MEMBER_CLUSTERS.plural, name=name)


def clusters_access(verb: str) -> AccessRequest:
    return AccessRequest(verb=verb, group=MEMBER_CLUSTERS.group, resource=MEMBER_CLUSTERS.plural)


def options_access(verb: str, namespace: str, name: str) -> AccessRequest:
    kind = (NAMESPACED if namespace else CLUSTER_SCOPED).options
    return AccessRequest(verb=verb, group=kind.group, resource=kind.plural, namespace=namespace, name=name)


def approval_access(namespace: str, rule: str) -> AccessRequest:
    """To answer for a rule: a verb of its own, because the approval itself is written by the API."""
    kind = (NAMESPACED if namespace else CLUSTER_SCOPED).approval
    return AccessRequest(verb="approve", group=kind.group, resource=kind.plural, namespace=namespace, name=rule)


def operator_access(verb: str, path: str) -> AccessRequest:
    """Fleet-wide endpoints have no object: roles grant them as nonResourceURLs."""
    return AccessRequest(verb=verb, path=f"/fleet{path}")


# --- the hub ----------------------------------------------------------------------------------------------------------


class HubAuthorizer:
    def __init__(self, api: Api, *, clock: Clock) -> None:
        self._api = api
        self._callers: TTLCache[bytes, tuple[Caller | None]] = TTLCache(
            clock=clock, ttl=lambda caller: _ttl(caller[0]), max_entries=_MAX_CALLERS
        )
        self._decisions: TTLCache[tuple[str, AccessRequest], bool] = TTLCache(
            clock=clock, ttl=_ttl, max_entries=_MAX_DECISIONS
        )
        self._granted: TTLCache[tuple[str, AccessRequest], tuple[frozenset[str] | None]] = TTLCache(
            clock=clock, ttl=lambda granted: _ttl(granted[0] is None), max_entries=_MAX_CALLERS
        )
        self._tokens = TokenLanes()
        self._shares: KeyedLimit[str] = KeyedLimit(REVIEWS_OF_A_CALLER)

    async def authenticate(self, token: str) -> Caller | None:
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()

        async def load() -> tuple[Caller | None]:
            async with self._tokens.slot(digest):
                caller = await self._review_token(token)
            self._tokens.note_result(digest, is_accepted=caller is not None)
            return (caller,)

        return (await self._callers.get(digest, load))[0]

    async def is_allowed(self, caller: Caller, request: AccessRequest) -> bool:
        async def load() -> bool:
            async with self._shares.slot(caller.fingerprint):
                return await self._review_access(caller, request)

        return await self._decisions.get((caller.fingerprint, request), load)

    async def list_granted_names(self, caller: Caller, token: str, request: AccessRequest) -> frozenset[str] | None:
        async def load() -> tuple[frozenset[str] | None]:
            try:
                async with self._shares.slot(caller.fingerprint):
                    status = await self._post(
                        _RULES_REVIEWS,
                        "authorization.k8s.io/v1",
                        "SelfSubjectRulesReview",
                        {"namespace": request.namespace or _ANY_NAMESPACE},
                        bearer=token,
                    )
            except (ApiError, ConfigurationError):
                return (None,)  # reviews one by one find out whether the hub answers at all
            return (find_granted_names(status, request),)

        return (await self._granted.get((caller.fingerprint, request), load))[0]

    async def _review_token(self, token: str) -> Caller | None:
        try:
            status = await self._post(_TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        except (BadRequest, Invalid):
            return None  # malformed
        user = status.get("user") or {}
        if not status.get("authenticated") or not user.get("username"):
            return None
        return build_caller(user)

    async def _review_access(self, caller: Caller, request: AccessRequest) -> bool:
        spec: dict[str, Any] = {"user": caller.name, "uid": caller.uid, "groups": caller.groups, "extra": caller.extra}
        if request.path:
            spec["nonResourceAttributes"] = {"verb": request.verb, "path": request.path}
        else:
            names = ("verb", "group", "resource", "namespace", "name")
            spec["resourceAttributes"] = {name: value for name in names if (value := getattr(request, name))}
        status = await self._post(_ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        return status.get("allowed") is True and status.get("denied") is not True

    async def _post(
        self, path: str, version: str, kind: str, spec: Mapping[str, Any], *, bearer: str = ""
    ) -> Mapping[str, Any]:
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        answer = await self._api.call(Request(Method.POST, path, body=body, deadline=10.0, bearer=bearer))
        try:
            status = msgspec.json.decode(answer)["status"]
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise UnreadableAnswer(f"the hub's answer to a {kind} cannot be read") from error
        return status if isinstance(status, dict) else {}


def find_granted_names(status: Mapping[str, Any], request: AccessRequest) -> frozenset[str] | None:
    """From the status of a SelfSubjectRulesReview. None unless its list is complete and all rules are for names."""
    if status.get("incomplete") is not False:
        return None
    names: set[str] = set()
    for rule in status.get("resourceRules") or ():
        wanted = {"verbs": request.verb, "apiGroups": request.group, "resources": request.resource}
        if all({value, "*"} & set(rule.get(part) or ()) for part, value in wanted.items()):
            if not rule.get("resourceNames"):
                return None
            names.update(map(str, rule["resourceNames"]))
    return frozenset(names)


def build_caller(user: Mapping[str, Any]) -> Caller:
    """From the user of a TokenReview, or the same as the aggregation layer names it."""
    extra = {str(key): tuple(map(str, values)) for key, values in (user.get("extra") or {}).items()}
    name, uid, groups = str(user["username"]), str(user.get("uid") or ""), tuple(map(str, user.get("groups") or ()))
    content = msgspec.json.encode([name, uid, groups, sorted(extra.items())])
    return Caller(name, uid, groups, extra, hashlib.sha256(content).hexdigest())


def _ttl(granted: object) -> float:
    return _ALLOWED_TTL if granted else _DENIED_TTL


# --- the cache of reviews ---------------------------------------------------------------------------------------------


class TTLCache(Generic[K, V]):
    """Failed loads are not cached."""

    def __init__(self, *, clock: Clock, ttl: Callable[[V], float], max_entries: int) -> None:
        """`ttl` gives the seconds for which a value holds."""
        self._clock = clock
        self._ttl = ttl
        self._max_entries = max_entries
        self._entries: OrderedDict[K, tuple[float, float, V]] = OrderedDict()
        """When to renew it, when it ends, and the value."""
        self._loading: dict[K, asyncio.Future[V]] = {}
        self._renewing: set[asyncio.Future[V]] = set()

    def peek(self, key: K) -> V | None:
        entry = self._entries.get(key)
        return entry[2] if entry is not None and entry[1] > self._clock.monotonic() else None

    async def get(self, key: K, load: Callable[[], Awaitable[V]]) -> V:
        value = self.peek(key)
        if value is not None:
            self._renew(key, load)
            return value
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.ensure_future(load())
            loading.add_done_callback(lambda done: self._end_load(key, done))
        # A cancelled caller must not cancel the load of the others. `asyncio.shield` would not do: newer Pythons report
        # an error if the shielded load fails after that.
        await asyncio.wait((loading,))
        return loading.result()

    def _renew(self, key: K, load: Callable[[], Awaitable[V]]) -> None:
        """Tried once. Requests after the end do not wait for it: it may hang."""
        due, end, value = self._entries[key]
        if due > self._clock.monotonic() or len(self._renewing) >= _MOST_RENEWED:
            return
        tried = self._entries[key] = end, end, value
        renewing = asyncio.ensure_future(load())
        self._renewing.add(renewing)
        renewing.add_done_callback(lambda done: self._end_renewal(key, tried, done))

    def _end_renewal(self, key: K, tried: tuple[float, float, V], done: asyncio.Future[V]) -> None:
        self._renewing.discard(done)
        if self._entries.get(key) is tried:  # else a later review has ended before
            self._store(key, done)

    def _end_load(self, key: K, done: asyncio.Future[V]) -> None:
        del self._loading[key]
        self._store(key, done)

    def _store(self, key: K, done: asyncio.Future[V]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        value = done.result()
        now, ttl = self._clock.monotonic(), self._ttl(value)
        self._entries[key] = now + min(_RENEWED_AFTER, ttl), now + ttl, value
        self._entries.move_to_end(key)
        while len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
