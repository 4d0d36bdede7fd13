"""Which version clients prefer, and which kind keeps a resource's objects."""

from __future__ import annotations

from functools import partial

from fleet.hub.kinds.kind import Kind
from fleet.hub.kinds.registry import KindRegistry, priority

a_kind = partial(Kind, "example.com", kind="Thing", plural="things", namespaced=True, storage_version="v1beta1")


def test_stable_versions_come_first_and_strangers_last() -> None:
    versions = ["v1alpha1", "other", "v1", "v11beta2", "v2", "v3beta1", "v10"]
    assert sorted(versions, key=priority) == ["v10", "v2", "v1", "v11beta2", "v3beta1", "v1alpha1", "other"]


def test_objects_belong_to_the_storage_version() -> None:
    registry = KindRegistry([a_kind(version="v1"), a_kind(version="v1beta1")])
    encode_entry = registry.stored_kind("things.example.com")
    assert encode_entry is not None
    assert encode_entry.version == "v1beta1"
    assert registry.versions("example.com") == ("v1", "v1beta1")


def test_a_kind_that_goes_takes_its_group_with_it() -> None:
    kind = a_kind(version="v1")
    registry = KindRegistry([kind])
    before = registry.generation
    registry.replace([kind], [])
    assert not registry.serves_version("example.com", "v1")
    assert registry.stored_kind("things.example.com") is None
    assert registry.generation > before
