"""Callers with rights on a few clusters: rules say which names need no review, and reviews decide about the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest

from api.auth.access import HubAuthorizer, cluster_access, find_granted_names
from api.auth.permissions import Permissions
from fleet.errors import NotFound
from fleet.kube.api import Request
from tests.fake_clock import FakeClock

TOKEN: Final = "of-rosa"
CLUSTERS: Final = tuple(f"c{number}" for number in range(100))
MAY_READ: Final = {"c3", "c40", "c77"}
GROUP: Final = "cluster.kubernetes-fleet.io"
Json = dict[str, Any]


def rule(*names: str, **changes: Any) -> Json:
    whole = {"verbs": ["get"], "apiGroups": [GROUP], "resources": ["memberclusters"], "resourceNames": list(names)}
    return {name: value for name, value in {**whole, **changes}.items() if value}


@dataclass
class RulesHub:
    """Knows one user, who may read some clusters. `rules` is the status of the review of its rules; None: there is no
    such review."""

    rules: Json | None
    named: list[str] = field(default_factory=list)
    """Clusters that were reviewed."""
    tokens: list[str] = field(default_factory=list)
    """With which rules were reviewed."""

    async def call(self, request: Request) -> bytes:
        spec = msgspec.json.decode(request.body or b"")["spec"]
        return msgspec.json.encode({"status": self._answer(request, spec)})

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError(f"{request.path} is watched")

    def _answer(self, request: Request, spec: Json) -> Json:
        if request.path.endswith("/tokenreviews"):
            return {"authenticated": True, "user": {"username": "rosa"}}
        if request.path.endswith("/selfsubjectrulesreviews"):
            self.tokens.append(request.bearer)
            if self.rules is None:
                raise NotFound("no such review")
            return self.rules
        assert not request.bearer, "only a review of oneself is sent as the caller"
        name = spec["resourceAttributes"].get("name", "")
        self.named += [name] if name else []
        return {"allowed": name in MAY_READ}


def ask(hub: RulesHub, *, through_hub: bool = False, names: tuple[str, ...] = CLUSTERS) -> set[str] | None:
    async def load() -> frozenset[str] | None:
        authorizer = HubAuthorizer(hub, clock=FakeClock())
        permissions = await Permissions.authenticate(authorizer, f"Bearer {TOKEN}")
        if through_hub:
            permissions = Permissions.through_hub(authorizer, permissions.caller)
        return (await permissions.load_visibility(names)).names

    seen = asyncio.run(load())
    return None if seen is None else set(seen)


def test_only_the_names_in_rules_are_reviewed() -> None:
    hub = RulesHub({"incomplete": False, "resourceRules": [rule("c3", "c40"), rule("c77", "gone")]})

    assert ask(hub) == MAY_READ
    assert sorted(hub.named) == sorted(MAY_READ)
    assert hub.tokens == [TOKEN]


def test_a_rule_shows_nothing_that_a_review_denies() -> None:
    """Such as one of a role in a namespace, or one that a webhook overrules."""
    hub = RulesHub({"incomplete": False, "resourceRules": [rule("c3", "c4")]})

    assert ask(hub) == {"c3"}
    assert sorted(hub.named) == ["c3", "c4"]


@pytest.mark.parametrize(
    "rules",
    [
        None,
        {},
        {"incomplete": True, "resourceRules": [rule("c3")]},
        {"incomplete": False, "resourceRules": [rule("c3"), rule()]},
        {"incomplete": False, "resourceRules": [rule(verbs=["*"], apiGroups=["*"], resources=["*"])]},
    ],
    ids=["no such review", "unreadable", "incomplete", "a rule without names", "wildcards"],
)
def test_where_rules_do_not_tell_every_name_is_reviewed(rules: Json | None) -> None:
    hub = RulesHub(rules)

    assert ask(hub) == MAY_READ
    assert len(hub.named) == len(CLUSTERS)


def test_callers_whose_token_is_not_known_are_reviewed_name_by_name() -> None:
    hub = RulesHub({"incomplete": False, "resourceRules": [rule("c3")]})

    assert ask(hub, through_hub=True) == MAY_READ
    assert (len(hub.named), hub.tokens) == (len(CLUSTERS), [])


def test_a_few_names_need_no_rules() -> None:
    hub = RulesHub({"incomplete": False, "resourceRules": []})

    assert ask(hub, names=("c3", "c4")) == {"c3"}
    assert hub.tokens == []


def test_whose_rules_name_no_cluster_sees_none_after_one_review_of_rules() -> None:
    hub = RulesHub({"incomplete": False, "resourceRules": [rule("c3", resources=["memberclusters/status"])]})

    assert ask(hub) == set()
    assert hub.named == []


@pytest.mark.parametrize(
    "changes, granted",
    [
        ({}, {"c3"}),
        ({"verbs": ["*"]}, {"c3"}),
        ({"verbs": ["list"]}, set()),
        ({"apiGroups": ["apps"]}, set()),
        ({"resources": ["*"]}, {"c3"}),
    ],
)
def test_a_rule_fits_by_verb_group_and_resource(changes: Json, granted: set[str]) -> None:
    status = {"incomplete": False, "resourceRules": [rule("c3", **changes)]}

    assert find_granted_names(status, cluster_access("")) == frozenset(granted)
