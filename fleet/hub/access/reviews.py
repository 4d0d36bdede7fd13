"""TokenReview, SelfSubjectReview and the access reviews: kinds that are answered and never stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from fleet.hub.access.authentication import Tokens, User
from fleet.hub.access.authorization import Attributes, Authorizer
from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.objects.metadata import Clock, format_timestamp
from fleet.hub.schema.field_errors import FieldError
from fleet.hub.wire import statuses

_AUDIENCE: Final = "https://kubernetes.default.svc"


class Reviews:
    def __init__(self, tokens: Tokens, authorizer: Authorizer, *, clock: Clock) -> None:
        self._tokens = tokens
        self._authorizer = authorizer
        self._clock = clock

    def review(self, kind: Kind, namespace: str, document: Document, user: User) -> Document:
        spec = document.get("spec") or {}
        if not isinstance(spec, dict):
            raise statuses.bad_request(f"json: cannot unmarshal the spec into Go value of type v1.{kind.kind}Spec")
        review_head = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {}}
        match kind.kind:
            case "TokenReview":
                return review_head | {"spec": spec, "status": self._review_token(spec)}
            case "SelfSubjectReview":
                review_head["metadata"] = {"creationTimestamp": format_timestamp(self._clock())}
                return review_head | {"status": {"userInfo": _build_user_info(user)}}
            case "SelfSubjectRulesReview":
                return review_head | {"spec": spec, "status": self._review_rules(spec, user)}
            case "SelfSubjectAccessReview":
                _check(kind, _validate_attributes(spec))
                return review_head | {"spec": spec, "status": self._review_access(kind, spec, user)}
        _check(kind, [*_validate_attributes(spec), *_validate_subject(spec)])
        status = self._review_access(kind, spec, _parse_subject(spec), namespace=namespace)
        return review_head | {"spec": spec, "status": status}

    def _review_token(self, spec: Mapping[str, Any]) -> Document:
        token = spec.get("token")
        if not token or not isinstance(token, str):
            raise statuses.bad_request("token is required for TokenReview in authentication")
        user = self._tokens.find_user(token)
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": _build_user_info(user), "audiences": [_AUDIENCE]}

    def _review_access(self, kind: Kind, spec: Mapping[str, Any], user: User, *, namespace: str = "") -> Document:
        attributes = _parse_attributes(spec)
        if namespace and attributes.namespace != namespace:
            text = f"must match metadata.namespace: {namespace}"
            _check(kind, [statuses.invalid_value("spec.resourceAttributes.namespace", attributes.namespace, text)])
        reason = self._authorizer.find_reason(user, attributes)
        return {"allowed": reason is not None} | ({"reason": reason} if reason else {})

    def _review_rules(self, spec: Mapping[str, Any], user: User) -> Document:
        namespace = spec.get("namespace")
        if not namespace or not isinstance(namespace, str):
            raise statuses.bad_request("no namespace on request")
        rules = [dict(rule) for rule in self._authorizer.list_rules(user, namespace)]
        return {
            "resourceRules": [rule for rule in rules if rule.get("resources")],
            "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
            "incomplete": False,
        }


def _parse_subject(spec: Mapping[str, Any]) -> User:
    groups = tuple(str(group) for group in spec.get("groups") or ())
    return User(str(spec.get("user") or ""), str(spec.get("uid") or ""), groups)


def _parse_attributes(spec: Mapping[str, Any]) -> Attributes:
    path, resource = spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
    if isinstance(path, dict):
        return Attributes(verb=str(path.get("verb") or ""), path=str(path.get("path") or ""))
    assert isinstance(resource, dict), "one of the two is there"
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(**{name: str(resource.get(name) or "") for name in names})


def _validate_subject(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    groups = spec.get("groups")
    if not isinstance(groups, list | None):
        yield statuses.invalid_value("spec.groups", groups, "must be a list")
    elif not spec.get("user") and not groups:
        yield statuses.invalid_value("spec.user", "", "at least one of user or group must be specified")


def _validate_attributes(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(resource, dict) == isinstance(path, dict):
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield statuses.invalid_value("spec.resourceAttributes", resource, text)


def _check(kind: Kind, errors: Iterable[FieldError]) -> None:
    """Reviews have no name, and the API server leaves their kind out of validation errors."""
    if listed := list(errors):
        raise statuses.invalid(replace(kind, kind=""), "", listed)


def _build_user_info(user: User) -> Document:
    info = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    return {key: value for key, value in info.items() if value}
