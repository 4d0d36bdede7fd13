"""Which objects a placement selects, and what its author is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from fleet.kube.resource import Resource
from fleet.placement.selection.candidates import CandidateObject, candidate_codec
from fleet.placement.selection.discovery import KindName
from fleet.placement.selection.resolution import SelectionResult, select
from fleet.placement.selection.resource_filter import KindList, ResourceFilter
from fleet.placement.selection.selectors import SelectorTerm
from tests.unit.placement.content_hub import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINTS,
    NAMESPACES,
    PODS,
    ROLES,
    SECRETS,
    SERVICES,
)

KINDS = (NAMESPACES, CONFIG_MAPS, SECRETS, SERVICES, ENDPOINTS, DEPLOYMENTS, PODS, ROLES)
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@dataclass
class World:
    """A hub that is known completely."""

    objects: dict[tuple[Resource, str], CandidateObject] = field(default_factory=dict)
    rules: ResourceFilter = field(default_factory=ResourceFilter)

    def having(self, resource: Resource, *keys: str, **metadata: Any) -> World:
        for key in keys:
            namespace, _, name = key.rpartition("/")
            document = {"metadata": {"name": name, "namespace": namespace, **metadata}}
            self.objects[resource, key] = candidate_codec(resource).read(msgspec.json.encode(document))
        return self

    def selects(self, *terms: dict[str, Any], namespace: str = "") -> SelectionResult:
        selectors = [msgspec.convert(term, SelectorTerm) for term in terms]
        return select(selectors, namespace=namespace, source=self, resource_filter=self.rules)

    # --- as a source --------------------------------------------------------------------------------------------------

    def find(self, name: KindName) -> Resource | None:
        return next((one for one in KINDS if KindName(one.group, one.version, one.kind) == name), None)

    def is_known(self, name: KindName) -> bool:
        return name.kind == "TokenReview" or self.find(name) is not None

    def list_namespaced(self) -> list[Resource]:
        return [one for one in KINDS if one.namespaced and self.rules.allows(one)]

    def all_of(self, resource: Resource) -> Iterable[CandidateObject]:
        return [one for (kind, _), one in self.objects.items() if kind == resource]

    def within(self, resource: Resource, namespace: str) -> Iterable[CandidateObject]:
        return [one for one in self.all_of(resource) if one.metadata.namespace == namespace]

    def get(self, resource: Resource, key: str) -> CandidateObject | None:
        return self.objects.get((resource, key))

    def has_service(self, key: str) -> bool:
        return (SERVICES, key) in self.objects


def of(resource: Resource, name: str = "", **fields: Any) -> dict[str, Any]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind, "name": name, **fields}


def namespace(name: str = "", scope: str = "NamespaceWithResources", **fields: Any) -> dict[str, Any]:
    return of(NAMESPACES, name, selectionScope=scope, **fields)


def labelled(**labels: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": labels}}


def names(selected: SelectionResult) -> list[str]:
    assert selected.user_error is None, selected.user_error
    return [f"{one.kind} {one.namespace}/{one.name}".replace(" /", " ") for one in selected.objects]


def shop() -> World:
    world = World()
    world.having(NAMESPACES, "shop", "bank", tier="front", labels={"tier": "front"})
    world.having(CONFIG_MAPS, "shop/a", "shop/b", "bank/c").having(DEPLOYMENTS, "shop/web", labels={"app": "web"})
    return world.having(PODS, "shop/web-1").having(ROLES, "admin", "viewer", labels={"tier": "front"})


# --- what is selected -------------------------------------------------------------------------------------------------


def test_a_namespace_brings_along_every_placeable_object_in_it() -> None:
    assert names(shop().selects(namespace("shop"))) == [
        "Namespace shop",
        "ConfigMap shop/a",
        "ConfigMap shop/b",
        "Deployment shop/web",
    ]


def test_a_namespace_alone_is_only_that() -> None:
    assert names(shop().selects(namespace("shop", "NamespaceOnly"))) == ["Namespace shop"]


def test_from_a_chosen_namespace_other_selectors_choose() -> None:
    chosen = shop().selects(namespace("shop", "NamespaceWithResourceSelectors"), of(CONFIG_MAPS, "b"), of(DEPLOYMENTS))
    assert names(chosen) == ["Namespace shop", "ConfigMap shop/b", "Deployment shop/web"]


def test_namespaces_can_be_chosen_by_label() -> None:
    world = shop().having(NAMESPACES, "lab", labels={"tier": "back"})
    assert names(world.selects(namespace(scope="NamespaceOnly", **labelled(tier="front")))) == [
        "Namespace bank",
        "Namespace shop",
    ]


@pytest.mark.parametrize(
    "term, want",
    [
        (of(ROLES, "admin"), ["ClusterRole admin"]),
        (of(ROLES, **labelled(tier="front")), ["ClusterRole admin", "ClusterRole viewer"]),
        (of(ROLES), ["ClusterRole admin", "ClusterRole viewer"]),
    ],
    ids=["by name", "by label", "all"],
)
def test_cluster_scoped_objects(term: dict[str, Any], want: list[str]) -> None:
    assert names(shop().selects(term)) == want


def test_a_namespaced_placement_selects_in_its_own_namespace() -> None:
    assert names(shop().selects(of(CONFIG_MAPS), namespace="shop")) == ["ConfigMap shop/a", "ConfigMap shop/b"]
    assert names(shop().selects(of(CONFIG_MAPS, "c"), namespace="bank")) == ["ConfigMap bank/c"]


@pytest.mark.parametrize(
    "terms, want",
    [
        ([namespace("shop")], "shop"),
        ([namespace("shop"), {"group": "", "version": "v1", "kind": "Widget"}], "shop"),
        (
            [{"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": {"team": "a"}}}],
            "bank",
        ),
        ([namespace("shop"), namespace("bank")], ""),
        ([of(ROLES)], ""),
        ([namespace("kube-system")], ""),
    ],
    ids=["named", "beside an invalid selector", "by label", "two", "none", "reserved"],
)
def test_the_namespace_that_is_selected(terms: list[dict[str, Any]], want: str) -> None:
    world = shop().having(NAMESPACES, "bank", labels={"team": "a"})
    assert world.selects(*terms).namespace == want


def test_kinds_that_are_not_placed_are_passed_over_in_silence() -> None:
    world = shop()
    world.rules = ResourceFilter(skipped=KindList.parse(["apps/v1/Deployment"]))
    lease = {"group": "coordination.k8s.io", "version": "v9", "kind": "Lease", "name": "x"}
    selected = world.selects(of(DEPLOYMENTS, "web"), of(PODS, "web-1"), lease, namespace="shop")
    assert selected == SelectionResult()


def test_skipped_kinds_do_not_come_along_with_their_namespace() -> None:
    world = shop()
    world.rules = ResourceFilter(skipped=KindList.parse(["v1/ConfigMap"]))
    assert names(world.selects(namespace("shop"))) == ["Namespace shop", "Deployment shop/web"]


def test_what_is_being_deleted_is_not_selected() -> None:
    world = shop().having(ROLES, "admin", **DELETED)
    assert names(world.selects(of(ROLES))) == ["ClusterRole viewer"]


def test_selecting_secrets_where_they_cannot_be_is_an_error() -> None:
    world = shop().having(SECRETS, "shop/key")
    world.rules = ResourceFilter(secrets=False)
    refused = world.selects(of(CONFIG_MAPS, "a"), of(SECRETS, "key"), namespace="shop")

    assert refused.objects == ()
    assert refused.user_error == (
        "PL-05: kind v1 Secret cannot be selected on this hub, because selection.secrets is false"
        " (spec.resourceSelectors[1])"
    )


def test_a_namespace_is_placed_without_secrets_where_they_cannot_be_selected() -> None:
    world = shop().having(SECRETS, "shop/key")
    assert "Secret shop/key" in names(world.selects(namespace("shop")))
    world.rules = ResourceFilter(secrets=False)
    assert names(world.selects(namespace("shop"))) == names(shop().selects(namespace("shop")))


@pytest.mark.parametrize("scope", ["NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"])
def test_a_terminating_namespace_contributes_nothing(scope: str) -> None:
    world = shop().having(NAMESPACES, "shop", **DELETED)
    others = [of(CONFIG_MAPS)] if scope == "NamespaceWithResourceSelectors" else []
    assert names(world.selects(namespace("shop", scope), *others)) == []


def test_endpoints_of_a_service_stay() -> None:
    world = shop().having(SERVICES, "shop/web").having(ENDPOINTS, "shop/web", "shop/db")
    assert names(world.selects(of(ENDPOINTS), namespace="shop")) == ["Endpoints shop/db"]


def test_content_is_sanitised_and_says_what_it_is() -> None:
    world = World().having(ROLES, "admin", uid="u", resourceVersion="4")
    (found,) = world.selects(of(ROLES)).objects
    assert found.content == (
        b'{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"admin","namespace":""}}'
    )
    assert found.identifier() == {
        "group": "rbac.authorization.k8s.io",
        "version": "v1",
        "kind": "ClusterRole",
        "name": "admin",
    }


# --- what matches nothing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "term, text",
    [
        (of(ROLES, "nobody"), "rbac.authorization.k8s.io/v1 ClusterRole named nobody"),
        (of(ROLES, **labelled(tier="back")), "rbac.authorization.k8s.io/v1 ClusterRole by label"),
        (namespace("nowhere"), "v1 Namespace named nowhere"),
        (namespace("shopp"), "v1 Namespace named shopp; did you mean shop?"),
        (namespace("kub-system"), "v1 Namespace named kub-system"),
        (of(ROLES, "admn"), "rbac.authorization.k8s.io/v1 ClusterRole named admn; did you mean admin?"),
    ],
    ids=["name", "label", "namespace", "near namespace", "near a reserved one", "near name"],
)
def test_a_selector_that_matches_nothing_is_no_error_and_is_reported(term: dict[str, Any], text: str) -> None:
    selected = shop().selects(of(ROLES, "admin"), term)
    assert names(selected) == ["ClusterRole admin"]
    assert [str(one) for one in selected.unmatched] == [f"spec.resourceSelectors[1] matches nothing: {text}"]


def test_a_kind_without_any_object_is_reported_as_well() -> None:
    selected = shop().selects(of(SECRETS), namespace="shop")
    assert [str(one) for one in selected.unmatched] == ["spec.resourceSelectors[0] matches nothing: every v1 Secret"]


# --- what the author got wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "terms, in_namespace, problems",
    [
        (
            [{"group": "example.com", "version": "v1", "kind": "Widget"}],
            "",
            ["PL-05: kind example.com/v1 Widget does not exist on the hub (spec.resourceSelectors[0])"],
        ),
        (
            [{"group": "authentication.k8s.io", "version": "v1", "kind": "TokenReview"}],
            "",
            [
                "PL-05: kind authentication.k8s.io/v1 TokenReview cannot be watched on the hub"
                " (spec.resourceSelectors[0])"
            ],
        ),
        (
            [of(ROLES), of(CONFIG_MAPS)],
            "",
            [
                "PL-06: ConfigMap is namespaced; select its namespace or use a ResourcePlacement"
                " (spec.resourceSelectors[1])"
            ],
        ),
        (
            [namespace("shop"), of(ROLES)],
            "shop",
            [
                "PL-07: Namespace is cluster-scoped; use a ClusterResourcePlacement (spec.resourceSelectors[0])",
                "PL-07: ClusterRole is cluster-scoped; use a ClusterResourcePlacement (spec.resourceSelectors[1])",
            ],
        ),
        (
            [namespace("nowhere", "NamespaceWithResourceSelectors"), of(CONFIG_MAPS)],
            "",
            ["PL-11: namespace nowhere cannot be placed: it does not exist (spec.resourceSelectors[0])"],
        ),
        (
            [namespace("kube-system", "NamespaceWithResourceSelectors"), of(CONFIG_MAPS)],
            "",
            ["PL-11: namespace kube-system cannot be placed: it is reserved (spec.resourceSelectors[0])"],
        ),
        (
            [of(ROLES, "admin"), of(ROLES)],
            "",
            [
                "PL-12: rbac.authorization.k8s.io/v1 ClusterRole admin is selected by more than one selector"
                " (spec.resourceSelectors[0], spec.resourceSelectors[1])"
            ],
        ),
        (
            [namespace("default", "NamespaceOnly")],
            "",
            ["PL-13: namespace default is reserved (spec.resourceSelectors[0])"],
        ),
        (
            [namespace("fleet-member-c1")],
            "",
            ["PL-13: namespace fleet-member-c1 is reserved (spec.resourceSelectors[0])"],
        ),
        (
            [of(ROLES, labelSelector={"matchExpressions": [{"key": "a", "operator": "Like"}]})],
            "",
            [
                "PL-04: labelSelector is invalid: matchExpressions[0].operator: 'Like' is no operator;"
                " use In, NotIn, Exists or DoesNotExist (spec.resourceSelectors[0])"
            ],
        ),
        (
            [of(ROLES, "admin", **labelled(a="b"))],
            "",
            ["PL-03: use either name or labelSelector in one selector (spec.resourceSelectors[0])"],
        ),
        (
            [namespace("shop", "NamespaceWithResourceSelectors"), namespace("bank", "NamespaceOnly")],
            "",
            ["PL-10: other namespace selectors are not allowed in this scope (spec.resourceSelectors[1])"],
        ),
    ],
    ids=[
        "unknown kind",
        "unwatchable kind",
        "namespaced kind",
        "cluster-scoped kind",
        "missing namespace",
        "reserved chosen namespace",
        "selected twice",
        "reserved default",
        "reserved prefix",
        "label selector",
        "name and label",
        "second namespace",
    ],
)
def test_mistakes_are_named_with_their_rule(terms: list[Any], in_namespace: str, problems: list[str]) -> None:
    selected = shop().selects(*terms, namespace=in_namespace)
    assert list(selected.problems) == problems
    assert selected.objects == ()


def test_two_chosen_namespaces_are_one_too_many() -> None:
    scope = "NamespaceWithResourceSelectors"
    assert shop().selects(namespace("shop", scope), namespace("bank", scope)).problems == (
        "PL-08: only one namespace can be combined with resource selectors"
        " (spec.resourceSelectors[0], spec.resourceSelectors[1])",
    )


def test_a_chosen_namespace_has_a_name() -> None:
    selected = shop().selects(namespace(scope="NamespaceWithResourceSelectors"))
    assert any(problem.startswith("PL-09: ") for problem in selected.problems)


def test_reserved_namespaces_are_refused_however_they_were_met() -> None:
    world = shop().having(NAMESPACES, "kube-public", labels={"tier": "front"})
    selected = world.selects(namespace(scope="NamespaceOnly", **labelled(tier="front")))
    assert selected.user_error == "PL-13: namespace kube-public is reserved (spec.resourceSelectors[0])"


def test_all_mistakes_are_told_together_and_nothing_is_selected() -> None:
    selected = shop().selects(of(ROLES, "admin"), of(CONFIG_MAPS), {"version": "v7", "kind": "Secret"})
    assert [problem[:5] for problem in selected.problems] == ["PL-06", "PL-05"]
    assert selected.user_error == "; ".join(selected.problems)
    assert selected.objects == ()


def test_a_thousand_mistakes_of_one_sort_fit_into_a_condition() -> None:
    world = World().having(NAMESPACES, *(f"fleet-member-{number}" for number in range(1000)))
    user_error = world.selects(namespace()).user_error
    assert user_error is not None
    assert user_error.endswith("; and 980 more")
    assert len(user_error) < 2000
