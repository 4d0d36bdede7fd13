"""What an account may do, by the roles that are bound to it, and what it did, by the audit log of the API server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.control_plane.http_client import HttpClient

ALL: Final = "*"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_PLURALS: Final = {"ClusterRole": "clusterroles", "Role": "roles"}


@dataclass(frozen=True, order=True)
class Right:
    """A verb on a resource, which may be a subresource; or on all of them."""

    resource: str
    group: str
    verb: str

    def covers(self, asked: Right) -> bool:
        return self == asked or (self.is_of_all and self.verb in (ALL, asked.verb))

    @property
    def is_of_all(self) -> bool:
        return (self.resource, self.group) == (ALL, ALL)

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


@dataclass(frozen=True)
class Asked:
    """A request that was answered."""

    right: Right | None
    """None for a bare path."""
    uri: str
    code: int
    is_denied: bool

    def __str__(self) -> str:
        return f"{self.right or 'GET'} ({self.uri}): {self.code}"


def user_of(account: str, *, namespace: str) -> str:
    return f"system:serviceaccount:{namespace}:{account}"


def granted(hub: HttpClient, account: str, *, namespace: str) -> set[Right]:
    """By the roles bound to the account itself; what every account may do is not counted."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    found: set[Right] = set()
    for plural in ("clusterrolebindings", "rolebindings"):
        for binding in hub.get(f"{_RBAC}/{plural}").ok()["items"]:
            if subject in binding.get("subjects", ()):
                found |= set(_rights_in(_rules_of(hub, binding)))
    return found


def requests_of(audit_log: Path, user: str) -> list[Asked]:
    whole, _, _ = audit_log.read_text(encoding="utf-8").rpartition("\n")  # the last line may be half written
    lines = whole.splitlines()
    events = (json.loads(line) for line in lines)
    return [_asked(one) for one in events if one["user"]["username"] == user]


def unused(rights: Iterable[Right], asked: Iterable[Asked]) -> set[Right]:
    """A right to everything is used by what no other right would have allowed."""
    wanted = {one.right for one in asked if one.right}
    narrow = {one for one in rights if not one.is_of_all}
    rest = wanted - narrow
    return (narrow - wanted) | {one for one in set(rights) - narrow if not any(map(one.covers, rest))}


def _rules_of(hub: HttpClient, binding: dict[str, Any]) -> list[dict[str, Any]]:
    role = binding["roleRef"]
    within = f"/namespaces/{binding['metadata']['namespace']}" if role["kind"] == "Role" else ""
    found: list[dict[str, Any]] = hub.get(f"{_RBAC}{within}/{_PLURALS[role['kind']]}/{role['name']}").ok()["rules"]
    return found


def _rights_in(rules: Iterable[dict[str, Any]]) -> Iterator[Right]:
    for rule in rules:
        for group in rule.get("apiGroups", ()):
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield Right(resource, group, verb)


def _asked(event: dict[str, Any]) -> Asked:
    of, annotations = event.get("objectRef"), event.get("annotations", {})
    return Asked(
        right=_right_asked_for(event["verb"], of) if of else None,
        uri=event["requestURI"],
        code=event["responseStatus"]["code"],
        is_denied=annotations.get("authorization.k8s.io/decision") == "forbid",
    )


def _right_asked_for(verb: str, of: dict[str, str]) -> Right:
    below = f"/{of['subresource']}" if "subresource" in of else ""
    return Right(f"{of['resource']}{below}", of.get("apiGroup", ""), verb)
