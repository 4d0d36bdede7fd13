"""Authorization: administrators may do everything, all others what RBAC objects on the hub grant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.hub.access.authentication import AUTHENTICATED, User
from fleet.hub.storage.store import HubStore

_RBAC: Final = "rbac.authorization.k8s.io"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
# Allowed to every authenticated user, and (`_PUBLIC`) to every client.
_REVIEWS: Final = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")
_DISCOVERY: Final = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
_PUBLIC: Final = ("/healthz", "/livez", "/livez/*", "/readyz", "/readyz/*", "/version", "/version/")

PolicyRule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Attributes:
    """The action to authorize: a verb on a resource, or on a non-resource path."""

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
    def __init__(self, store: HubStore) -> None:
        self._store = store

    def allows(self, user: User, attributes: Attributes) -> bool:
        return self.find_reason(user, attributes) is not None

    def find_reason(self, user: User, attributes: Attributes) -> str | None:
        """The reason for allowing the action, empty if it is not due to a binding; None if it is denied."""
        if user.is_administrator:
            return ""
        if attributes.path:
            return "" if self._allows_path(user, attributes) else None
        if attributes.resource in _REVIEWS and attributes.verb == "create" and AUTHENTICATED in user.groups:
            return ""
        for rule, why in self._list_rules_with_reasons(user, attributes.namespace):
            if _grants(rule, attributes):
                return why
        return None

    def list_rules(self, user: User, namespace: str) -> Iterator[PolicyRule]:
        """The rules that apply to a user: cluster-wide ones first, then those of the namespace."""
        if user.is_administrator:
            yield {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            yield {"verbs": ["*"], "nonResourceURLs": ["*"]}
        for rule, _ in self._list_rules_with_reasons(user, namespace):
            yield rule

    def _list_rules_with_reasons(self, user: User, namespace: str) -> Iterator[tuple[PolicyRule, str]]:
        places = [("clusterrolebindings", "")] + ([("rolebindings", namespace)] if namespace else [])
        for plural, place in places:
            for binding in self._list_bindings(plural, place):
                subject = _find_subject(binding, user, place)
                if subject is not None:
                    why = _format_reason(binding, subject)
                    for rule in self._list_role_rules(binding, place):
                        yield rule, why

    def _allows_path(self, user: User, attributes: Attributes) -> bool:
        open_to_user = _PUBLIC + (_DISCOVERY if AUTHENTICATED in user.groups else ())
        if attributes.verb == "get" and any(_path_matches(path, attributes.path) for path in open_to_user):
            return True
        return any(
            _lists_value(rule, "verbs", attributes.verb)
            and any(_path_matches(path, attributes.path) for path in rule.get("nonResourceURLs") or ())
            for rule in self.list_rules(user, "")
        )

    def _list_bindings(self, plural: str, namespace: str) -> Iterator[Mapping[str, Any]]:
        for entry in self._store.collection(f"{plural}.{_RBAC}").scan(namespace):
            yield entry.document()

    def _list_role_rules(self, binding: Mapping[str, Any], namespace: str) -> Sequence[PolicyRule]:
        role = binding.get("roleRef") or {}
        cluster_wide = role.get("kind") == "ClusterRole"
        collection = self._store.collection(f"{'clusterroles' if cluster_wide else 'roles'}.{_RBAC}")
        entry = collection.entries.get(("" if cluster_wide else namespace, str(role.get("name"))))
        return [rule for rule in (entry.document().get("rules") or ()) if isinstance(rule, dict)] if entry else []


def _find_subject(binding: Mapping[str, Any], user: User, namespace: str) -> Mapping[str, Any] | None:
    """The subject of the binding that matches the user."""
    return next((subject for subject in binding.get("subjects") or () if _is_subject(subject, user, namespace)), None)


def _format_reason(binding: Mapping[str, Any], subject: Mapping[str, Any]) -> str:
    meta, role = binding["metadata"], binding.get("roleRef") or {}
    place = f"/{meta['namespace']}" if "namespace" in meta else ""
    grantee = f'{subject["kind"]} "{subject["name"]}"'
    of = f'{binding["kind"]} "{meta["name"]}{place}" of {role.get("kind")} "{role.get("name")}"'
    return f"RBAC: allowed by {of} to {grantee}"


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


def _grants(rule: PolicyRule, attributes: Attributes) -> bool:
    named = rule.get("resourceNames")
    return (
        _lists_value(rule, "verbs", attributes.verb)
        and _lists_value(rule, "apiGroups", attributes.group)
        and _covers_resource(rule.get("resources") or (), attributes)
        and (not named or attributes.name in named)
    )


def _covers_resource(resources: Sequence[str], attributes: Attributes) -> bool:
    choices = {"*", attributes.full_resource}
    if attributes.subresource:
        choices.add(f"*/{attributes.subresource}")
    return not choices.isdisjoint(resources)


def _lists_value(rule: PolicyRule, key: str, value: str) -> bool:
    listed = rule.get(key) or ()
    return value in listed or "*" in listed


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern[:-1]))
