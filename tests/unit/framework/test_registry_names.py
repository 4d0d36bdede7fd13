"""Plugins by name: registering, taking away, merging, and when that ends."""

from __future__ import annotations

import pytest

from fleet.errors import DuplicatePlugin
from fleet.framework.profiles.registry import Registry
from fleet.framework.runtime.framework import Framework
from tests.unit.framework.plugin_fakes import Scripted, a_profile, a_registry, giving

ONE, TWO, THREE = (giving(Scripted(name)) for name in ("One", "Two", "Three"))


def a_sealed_registry() -> Registry:
    registry = a_registry()
    Framework.build(registry, a_profile())
    return registry


# --- sealing ----------------------------------------------------------------------------------------------------------


def test_F3_036_a_sealed_registry_still_builds() -> None:
    registry = a_sealed_registry()
    assert Framework.build(registry, a_profile(called="second")).scheduler_name == "second"


def test_F3_036_it_is_open_before() -> None:
    registry = a_registry()
    registry.register("One", ONE)
    assert registry["One"] is ONE


# --- one by one -------------------------------------------------------------------------------------------------------


def test_F3_037_of_two_with_one_name_the_first_is_kept() -> None:
    registry = Registry()
    registry.register("One", ONE)
    with pytest.raises(DuplicatePlugin, match=r"^a plugin named One already exists$"):
        registry.register("One", TWO)
    assert registry["One"] is ONE


# --- merging ----------------------------------------------------------------------------------------------------------


def test_F3_039_merging_adds_everything() -> None:
    registry = Registry(One=ONE)
    registry.merge(Registry(Two=TWO, Three=THREE))
    assert dict(registry) == {"One": ONE, "Two": TWO, "Three": THREE}


def test_F3_039_a_clash_leaves_the_registry_as_it_was() -> None:
    registry = Registry(One=ONE)
    with pytest.raises(DuplicatePlugin, match="a plugin named One already exists"):
        registry.merge({"Two": TWO, "One": THREE, "Three": THREE})
    assert dict(registry) == {"One": ONE}
