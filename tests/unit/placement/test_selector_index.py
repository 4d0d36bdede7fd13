"""Whom a change of the hub concerns."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleet.kube.resource import Resource
from fleet.placement.selection.candidates import CandidateObject, candidate_codec
from fleet.placement.selection.selector_index import Labels, SelectorIndex
from fleet.placement.selection.selectors import SelectorTerm
from tests.unit.placement.content_hub import CONFIG_MAPS, DEPLOYMENTS, ENDPOINTS, NAMESPACES, ROLES, SERVICES


def one(resource: Resource, key: str, **labels: str) -> CandidateObject:
    namespace, _, name = key.rpartition("/")
    document = {"metadata": {"name": name, "namespace": namespace, "labels": labels}}
    return candidate_codec(resource).read(msgspec.json.encode(document))


def term(resource: Resource, name: str = "", **fields: Any) -> SelectorTerm:
    given = {"group": resource.group, "version": resource.version, "kind": resource.kind, "name": name, **fields}
    return msgspec.convert(given, SelectorTerm)


def labelled(**labels: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": labels}}


def concerned(
    attention: SelectorIndex, old: CandidateObject | None, new: CandidateObject | None = None, labels: Labels = None
) -> set[str]:
    return attention.find_keys(old, new, labels_of=lambda _: labels)


@pytest.mark.parametrize(
    "terms, namespace, changed, is_concerned",
    [
        ([term(ROLES, "admin")], "", one(ROLES, "admin"), True),
        ([term(ROLES, "admin")], "", one(ROLES, "viewer"), False),
        ([term(ROLES)], "", one(ROLES, "viewer"), True),
        ([term(ROLES, **labelled(a="b"))], "", one(ROLES, "viewer", a="b"), True),
        ([term(ROLES, **labelled(a="b"))], "", one(ROLES, "viewer", a="c"), False),
        ([term(CONFIG_MAPS)], "shop", one(CONFIG_MAPS, "shop/a"), True),
        ([term(CONFIG_MAPS)], "shop", one(CONFIG_MAPS, "bank/a"), False),
        ([term(CONFIG_MAPS, "a")], "shop", one(CONFIG_MAPS, "shop/b"), False),
        ([term(NAMESPACES, "shop")], "", one(DEPLOYMENTS, "shop/web"), True),
        ([term(NAMESPACES, "shop")], "", one(DEPLOYMENTS, "bank/web"), False),
        ([term(NAMESPACES, "shop")], "", one(NAMESPACES, "shop"), True),
        ([term(NAMESPACES, "shop", selectionScope="NamespaceOnly")], "", one(DEPLOYMENTS, "shop/web"), False),
        ([term(ENDPOINTS, "web")], "shop", one(SERVICES, "shop/web"), True),
        ([term(ENDPOINTS, **labelled(a="b"))], "shop", one(SERVICES, "shop/web"), True),
        ([term(ENDPOINTS, "web")], "shop", one(SERVICES, "shop/db"), False),
        (
            [term(NAMESPACES, "shop", selectionScope="NamespaceWithResourceSelectors"), term(CONFIG_MAPS)],
            "",
            one(CONFIG_MAPS, "shop/a"),
            True,
        ),
        (
            [term(NAMESPACES, "shop", selectionScope="NamespaceWithResourceSelectors"), term(CONFIG_MAPS)],
            "",
            one(DEPLOYMENTS, "shop/web"),
            False,
        ),
    ],
)
def test_a_change_concerns_those_who_could_select_the_object(
    terms: list[SelectorTerm], namespace: str, changed: CandidateObject, *, is_concerned: bool
) -> None:
    attention = SelectorIndex()
    attention.put("p", terms, namespace)
    assert concerned(attention, None, changed) == ({"p"} if is_concerned else set())


def test_an_object_that_stops_matching_concerns_whoever_had_selected_it() -> None:
    attention = SelectorIndex()
    attention.put("p", [term(ROLES, **labelled(a="b"))], "")
    assert concerned(attention, one(ROLES, "x", a="b"), one(ROLES, "x", a="c")) == {"p"}


def test_what_is_in_a_namespace_chosen_by_label_concerns_whoever_chose_it() -> None:
    attention = SelectorIndex()
    attention.put("p", [term(NAMESPACES, **labelled(tier="front"))], "")
    changed = one(CONFIG_MAPS, "shop/a")
    assert concerned(attention, None, changed, labels={"tier": "front"}) == {"p"}
    assert concerned(attention, None, changed, labels={"tier": "back"}) == set()


def test_new_selectors_take_the_place_of_the_old_ones() -> None:
    attention = SelectorIndex()
    attention.put("p", [term(ROLES, "admin"), term(ROLES, "admin"), term(NAMESPACES, "shop")], "")
    attention.put("p", [term(ROLES, "viewer")], "")
    assert concerned(attention, None, one(ROLES, "admin")) == set()
    assert concerned(attention, None, one(CONFIG_MAPS, "shop/a")) == set()
    assert concerned(attention, None, one(ROLES, "viewer")) == {"p"}


def test_nothing_concerns_a_placement_that_is_gone() -> None:
    attention = SelectorIndex()
    attention.put("p", [term(ROLES), term(NAMESPACES, **labelled(a="b")), term(NAMESPACES, "shop")], "")
    assert attention.has_whole_namespaces
    attention.forget("p")
    attention.forget("p")
    assert not attention.has_whole_namespaces
    assert attention.list_keys_selecting_kind(ROLES.group, ROLES.kind) == set()
    assert concerned(attention, None, one(ROLES, "x")) == set()


def test_a_kind_concerns_those_who_name_it_and_those_with_whole_namespaces() -> None:
    attention = SelectorIndex()
    attention.put("named", [term(DEPLOYMENTS)], "shop")
    attention.put("whole", [term(NAMESPACES, "shop")], "")
    attention.put("by-label", [term(NAMESPACES, **labelled(a="b"))], "")
    attention.put("other", [term(ROLES)], "")
    assert attention.list_keys_selecting_kind("apps", "Deployment") == {"named", "whole", "by-label"}


def test_a_selector_that_cannot_be_judged_is_rather_woken_for_nothing() -> None:
    attention = SelectorIndex()
    broken: dict[str, Any] = {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}
    attention.put("p", [term(ROLES, **broken)], "")
    assert concerned(attention, None, one(ROLES, "x")) == {"p"}
