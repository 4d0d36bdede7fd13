from __future__ import annotations

import pytest

from fleet.errors import InvalidKey
from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, NAMESPACED, find_scope, owner_key, parse_key
from fleet.model import catalog as catalog
from fleet.model.keys import PARENT_PLACEMENT
from fleet.model.views import Metadata

WRITTEN_DOWN = [
    MEMBER_CLUSTERS,
    *(
        getattr(flavour, part)
        for flavour in (CLUSTER_SCOPED, NAMESPACED)
        for part in ("placement", "policy_snapshot", "resource_snapshot", "binding", "options", "approval")
    ),
]


@pytest.mark.parametrize("resource", WRITTEN_DOWN, ids=lambda one: one.kind)
def test_every_kind_is_where_the_catalogue_says(resource: Resource) -> None:
    known = catalog.find_kind(resource.api_version, resource.kind)
    assert known is not None
    assert Resource.of(known) == resource


def test_a_slash_makes_a_key_one_of_a_namespaced_placement() -> None:
    assert find_scope("web") is CLUSTER_SCOPED
    assert find_scope("shop/web") is NAMESPACED
    assert parse_key("shop/web") == ("shop", "web")
    assert parse_key("web") == ("", "web")


@pytest.mark.parametrize("key", ["", "/", "shop/", "/web", "a/b/c"])
def test_a_key_that_names_nothing_is_refused(key: str) -> None:
    with pytest.raises(InvalidKey):
        parse_key(key)


def test_the_owner_is_named_by_label_and_namespace() -> None:
    labels = {PARENT_PLACEMENT: "web"}
    assert str(owner_key(Metadata(name="web-0", labels=labels))) == "web"
    assert str(owner_key(Metadata(name="web-0", namespace="shop", labels=labels))) == "shop/web"
    assert owner_key(Metadata(name="web-0", labels={PARENT_PLACEMENT: ""})) is None
    assert owner_key(Metadata(name="web-0", labels={PARENT_PLACEMENT: "shop/web"})) is None
    assert owner_key(Metadata(name="web-0")) is None


def test_the_prefix_of_condition_types_is_the_kind() -> None:
    assert CLUSTER_SCOPED.condition_prefix == "ClusterResourcePlacement"
    assert NAMESPACED.condition_prefix == "ResourcePlacement"
