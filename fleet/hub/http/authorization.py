"""Who may do what: administrators everything, everybody else what RBAC objects grant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.hub.http.authentication import AUTHENTICATED, User
from fleet.hub.storage.store import Store

_RBAC: Final = "rbac.authorization.k8s.io"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
# What everyone who is known may ask, and what anyone may.
_REVIEWS: Final = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")
_DISCOVERY: Final = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
_PUBLIC: Final = ("/healthz", "/livez", "/livez/*", "/readyz", "/readyz/*", "/version", "/version/")

Rule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a request wants to do: to a resource, or to a bare path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Authorizer:
    def __init__(self, store: Store) -> None:
        self._store = store

    def allows(self, user: User, wanted: Attributes) -> bool:
        return self.reason(user, wanted) is not None

    def reason(self, user: User, wanted: Attributes) -> str | None:
        """Why the user may, empty where no binding is behind it; None if the user may not."""
        if user.is_administrator:
            return ""
        if wanted.path:
            return "" if self._allows_path(user, wanted) else None
        if wanted.resource in _REVIEWS and wanted.verb == "create" and AUTHENTICATED in user.groups:
            return ""
        for rule, why in self._reasoned_rules(user, wanted.namespace):
            if _grants(rule, wanted):
                return why
        return None

    def rules(self, user: User, namespace: str) -> Iterator[Rule]:
        """The rules that hold for a user: those of the cluster, then those of the namespace."""
        if user.is_administrator:
            yield {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            yield {"verbs": ["*"], "nonResourceURLs": ["*"]}
        for rule, _ in self._reasoned_rules(user, namespace):
            yield rule

    def _reasoned_rules(self, user: User, namespace: str) -> Iterator[tuple[Rule, str]]:
        places = [("clusterrolebindings", "")] + ([("rolebindings", namespace)] if namespace else [])
        for plural, place in places:
            for binding in self._bindings(plural, place):
                subject = _bound(binding, user, place)
                if subject is not None:
                    why = _reason(binding, subject)
                    for rule in self._role_rules(binding, place):
                        yield rule, why

    def _allows_path(self, user: User, wanted: Attributes) -> bool:
        open_to_user = _PUBLIC + (_DISCOVERY if AUTHENTICATED in user.groups else ())
        if wanted.verb == "get" and any(_path_matches(path, wanted.path) for path in open_to_user):
            return True
        return any(
            _names(rule, "verbs", wanted.verb)
            and any(_path_matches(path, wanted.path) for path in rule.get("nonResourceURLs") or ())
            for rule in self.rules(user, "")
        )

    def _bindings(self, plural: str, namespace: str) -> Iterator[Mapping[str, Any]]:
        for entry in self._store.collection(f"{plural}.{_RBAC}").scan(namespace):
            yield entry.document()

    def _role_rules(self, binding: Mapping[str, Any], namespace: str) -> Sequence[Rule]:
        role = binding.get("roleRef") or {}
        cluster_wide = role.get("kind") == "ClusterRole"
        collection = self._store.collection(f"{'clusterroles' if cluster_wide else 'roles'}.{_RBAC}")
        entry = collection.entries.get(("" if cluster_wide else namespace, str(role.get("name"))))
        return [rule for rule in (entry.document().get("rules") or ()) if isinstance(rule, dict)] if entry else []


def _bound(binding: Mapping[str, Any], user: User, namespace: str) -> Mapping[str, Any] | None:
    """The subject of the binding that the user is."""
    return next((found for found in binding.get("subjects") or () if _is_subject(found, user, namespace)), None)


def _reason(binding: Mapping[str, Any], subject: Mapping[str, Any]) -> str:
    meta, role = binding["metadata"], binding.get("roleRef") or {}
    place = f"/{meta['namespace']}" if "namespace" in meta else ""
    who = f'{subject["kind"]} "{subject["name"]}"'
    of = f'{binding["kind"]} "{meta["name"]}{place}" of {role.get("kind")} "{role.get("name")}"'
    return f"RBAC: allowed by {of} to {who}"


def _is_subject(subject: Any, user: User, namespace: str) -> bool:
    if not isinstance(subject, dict):
        return False
    name = subject.get("name")
    match subject.get("kind"):
        case "User":
            return bool(name == user.name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            return user.name == f"{_SERVICE_ACCOUNT}{subject.get('namespace') or namespace}:{name}"
    return False


def _grants(rule: Rule, wanted: Attributes) -> bool:
    named = rule.get("resourceNames")
    return (
        _names(rule, "verbs", wanted.verb)
        and _names(rule, "apiGroups", wanted.group)
        and _covers_resource(rule.get("resources") or (), wanted)
        and (not named or wanted.name in named)
    )


def _covers_resource(resources: Sequence[str], wanted: Attributes) -> bool:
    choices = {"*", wanted.full_resource}
    if wanted.subresource:
        choices.add(f"*/{wanted.subresource}")
    return not choices.isdisjoint(resources)


def _names(rule: Rule, key: str, value: str) -> bool:
    listed = rule.get(key) or ()
    return value in listed or "*" in listed


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern[:-1]))
