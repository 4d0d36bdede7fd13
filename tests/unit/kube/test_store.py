"""The store holds the newest state that anybody told it of, and tells every change of it exactly once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleet.kube.cache.store import Store, is_older
from fleet.model.decoding import decode
from fleet.model.views import MemberCluster
from tests.faults.watching import Cluster, Fold, a_store


def a_cluster(name: str, version: int | str, *, uid: str = "u1", **labels: str) -> Cluster:
    metadata = {"name": name, "uid": uid, "resourceVersion": str(version), "labels": labels}
    return decode(msgspec.json.encode({"metadata": metadata}), MemberCluster)


def listed(store: Store[Cluster], version: int, *clusters: Cluster) -> None:
    relist = store.relist()
    relist.begin(str(version))
    for cluster in clusters:
        relist.add(cluster)
    relist.end()


@pytest.fixture
def store() -> Store[Cluster]:
    return a_store()


@pytest.fixture
def fold(store: Store[Cluster]) -> Fold:
    fold = Fold()
    store.subscribe(fold)
    return fold


def versions(store: Store[Cluster]) -> dict[str, str]:
    return {name: one.view.metadata.resource_version for name in store if (one := store.get(name))}


# --- our own writes ---------------------------------------------------------------------------------------------------


def test_our_own_write_is_visible_at_once(store: Store[Cluster], fold: Fold) -> None:
    listed(store, 10, a_cluster("c1", 5))
    store.apply_write(a_cluster("c1", 12))
    store.apply_write(a_cluster("c2", 13))
    assert versions(store) == {"c1": "12", "c2": "13"}
    assert fold.state() == versions(store)


def test_older_events_do_not_overwrite_our_write(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", 5))
    store.apply_write(a_cluster("c1", 13))
    store.apply_event(a_cluster("c1", 11))
    assert versions(store) == {"c1": "13"}


def test_our_write_is_told_once_although_the_watch_brings_it_too(store: Store[Cluster], fold: Fold) -> None:
    listed(store, 10)
    store.apply_write(a_cluster("c1", 11))
    store.apply_event(a_cluster("c1", 11))
    assert len(fold.told) == 1


def test_newer_events_overwrite_our_write(store: Store[Cluster]) -> None:
    listed(store, 10)
    store.apply_write(a_cluster("c1", 11))
    store.apply_event(a_cluster("c1", 12))
    assert versions(store) == {"c1": "12"}


def test_an_answer_that_the_watch_has_overtaken_is_no_news(store: Store[Cluster]) -> None:
    listed(store, 10)
    store.apply_event(a_cluster("c1", 11))
    store.apply_delete_event("c1", uid="u1", version="12")
    store.apply_write(a_cluster("c1", 11))
    assert "c1" not in store


def test_before_the_first_list_nothing_can_be_judged_and_our_writes_wait(store: Store[Cluster]) -> None:
    store.apply_write(a_cluster("c1", 11))
    assert len(store) == 0


def test_a_list_made_before_our_write_does_not_delete_it(store: Store[Cluster]) -> None:
    listed(store, 10)
    relist = store.relist()
    relist.begin("10")
    store.apply_write(a_cluster("c1", 11))
    relist.end()
    assert "c1" in store


def test_a_list_made_after_our_write_is_believed(store: Store[Cluster]) -> None:
    listed(store, 10)
    store.apply_write(a_cluster("c1", 11))
    listed(store, 12)
    assert "c1" not in store


def test_our_deletion_is_visible_at_once_and_older_events_do_not_undo_it(store: Store[Cluster], fold: Fold) -> None:
    listed(store, 10, a_cluster("c1", 5))
    store.apply_delete("c1", "u1")
    store.apply_event(a_cluster("c1", 11))
    assert "c1" not in store
    store.apply_delete_event("c1", uid="u1", version="12")
    assert len(fold.told) == 2


def test_a_successor_of_what_we_deleted_appears(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", 5))
    store.apply_delete("c1", "u1")
    store.apply_event(a_cluster("c1", 13, uid="u2"))
    store.apply_delete_event("c1", uid="u1", version="12")
    assert versions(store) == {"c1": "13"}


def test_a_deletion_of_ours_that_hit_a_predecessor_spares_the_successor(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", 5, uid="u2"))
    store.apply_delete("c1", "u1")
    assert "c1" in store


def test_a_list_that_was_under_way_does_not_undo_our_deletion(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", 5))
    relist = store.relist()
    relist.begin("10")
    store.apply_delete("c1", "u1")
    relist.add(a_cluster("c1", 5))
    relist.end()
    assert "c1" not in store


def test_a_later_list_is_believed_even_about_what_we_deleted(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", 5))
    store.apply_delete("c1", "u1")
    listed(store, 12, a_cluster("c1", 11))
    assert "c1" in store


def test_a_late_answer_to_a_write_does_not_undo_our_deletion(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", 5))
    store.apply_delete("c1", "u1")
    store.apply_write(a_cluster("c1", 12))
    assert "c1" not in store


def test_a_deletion_of_ours_is_remembered_beyond_a_list_that_was_under_way(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", 5))
    relist = store.relist()
    relist.begin("10")
    store.apply_delete("c1", "u1")
    relist.end()
    store.apply_event(a_cluster("c1", 11))
    assert "c1" not in store


def test_a_deletion_of_ours_that_a_later_list_denies_is_forgotten(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", 5))
    store.apply_delete("c1", "u1")
    listed(store, 12, a_cluster("c1", 11))
    store.apply_event(a_cluster("c1", 13))
    assert versions(store) == {"c1": "13"}


def test_a_deletion_of_ours_is_remembered_only_until_the_watch_brings_it(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", 5))
    store.apply_delete("c1", "u1")
    store.apply_delete_event("c1", uid="of-a-predecessor", version="4")
    store.apply_event(a_cluster("c1", 11))
    assert "c1" not in store
    store.apply_delete_event("c1", uid="u1", version="12")
    assert not store._tombstones


# --- the watch --------------------------------------------------------------------------------------------------------


def test_a_name_that_passed_to_another_object_is_told_as_gone_and_new(store: Store[Cluster], fold: Fold) -> None:
    listed(store, 10, a_cluster("c1", 5))
    store.apply_event(a_cluster("c1", 12, uid="u2"))
    assert [(old is None, new is None) for old, new in fold.told] == [(True, False), (False, True), (True, False)]


def test_the_deletion_of_a_predecessor_does_not_touch_our_new_object(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", 5))
    store.apply_write(a_cluster("c1", 15, uid="u2"))
    store.apply_delete_event("c1", uid="u1", version="14")
    assert versions(store) == {"c1": "15"}


def test_versions_only_grow(store: Store[Cluster]) -> None:
    listed(store, 10)
    store.advance_version("9")
    store.advance_version("")
    assert store.version == "10"


def test_a_server_that_was_set_back_replaces_everything(store: Store[Cluster], fold: Fold) -> None:
    listed(store, 100, a_cluster("c1", 90), a_cluster("c2", 95), a_cluster("c3", 50))
    listed(store, 60, a_cluster("c1", 55, uid="u9"), a_cluster("c2", 52), a_cluster("c3", 50))
    assert versions(store) == fold.state() == {"c1": "55", "c2": "52", "c3": "50"}
    assert store.version == "60"


@pytest.mark.parametrize(
    "one, other, expected",
    [("9", "10", True), ("10", "9", False), ("9", "9", False), ("", "9", False), ("9", "", False), ("a", "b", False)],
)
def test_versions_are_compared_as_numbers_or_not_at_all(one: str, other: str, *, expected: bool) -> None:
    assert is_older(one, other) is expected


def test_where_versions_are_no_numbers_the_watch_is_believed(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", "z"))
    store.apply_event(a_cluster("c1", "a"))
    store.apply_write(a_cluster("c1", "m"))
    assert versions(store) == {"c1": "a"}


# --- indexes and subscribers ------------------------------------------------------------------------------------------


def by_region(cluster: Cluster) -> tuple[str, ...]:
    region = cluster.view.metadata.label("region")
    return (region,) if region else ()


def names(clusters: list[Cluster]) -> set[str]:
    return {one.view.metadata.name for one in clusters}


def test_an_index_follows_every_change(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", 1, region="eu"), a_cluster("c2", 2, region="eu"), a_cluster("c3", 3))
    store.add_index("region", by_region)
    assert names(store.by_index("region", "eu")) == {"c1", "c2"}
    store.apply_event(a_cluster("c1", 11, region="us"))
    store.apply_delete_event("c2", uid="u1", version="12")
    assert store.by_index("region", "eu") == []
    assert names(store.by_index("region", "us")) == {"c1"}


def test_two_indexes_cannot_have_one_name(store: Store[Cluster]) -> None:
    store.add_index("region", by_region)
    with pytest.raises(ValueError, match="region"):
        store.add_index("region", by_region)


def test_an_index_that_refuses_an_object_leaves_everything_as_it_was(store: Store[Cluster], fold: Fold) -> None:
    def picky(cluster: Cluster) -> tuple[str, ...]:
        if cluster.view.metadata.label("region") == "mars":
            raise LookupError("mars")
        return by_region(cluster)

    store.add_index("region", by_region)
    store.add_index("picky", picky)
    listed(store, 10, a_cluster("c1", 1, region="eu"))
    with pytest.raises(LookupError):
        store.apply_event(a_cluster("c1", 11, region="mars"))
    assert versions(store) == fold.state() == {"c1": "1"}
    assert names(store.by_index("region", "eu")) == names(store.by_index("picky", "eu")) == {"c1"}


def test_who_subscribes_late_is_told_what_is_there(store: Store[Cluster]) -> None:
    listed(store, 10, a_cluster("c1", 1))
    fold = Fold()
    store.subscribe(fold)
    assert fold.state() == {"c1": "1"}


def test_a_condition_selects_the_changes_of_its_subscribers_and_is_computed_once_for_all(
    store: Store[Cluster],
) -> None:
    listed(store, 10, a_cluster("c1", 5))
    judged: list[Cluster | None] = []
    told: dict[str, list[Cluster | None]] = {"a": [], "b": []}

    def changes_labels(old: Cluster | None, new: Cluster | None) -> bool:
        judged.append(new)
        return old is None or new is None or old.view.metadata.labels != new.view.metadata.labels

    def subscribe(states: list[Cluster | None]) -> None:
        store.subscribe(lambda _, new: states.append(new), when=changes_labels)

    for states in told.values():
        subscribe(states)
    store.apply_event(a_cluster("c1", 11))
    store.apply_event(a_cluster("c1", 12, region="north"))
    store.apply_delete_event("c1", uid="u1", version="13")
    for states in told.values():
        assert [state and state.view.metadata.resource_version for state in states] == ["5", "12", None]
    assert len(judged) == 3


def test_a_subscriber_that_fails_harms_nobody_else() -> None:
    failures: list[Exception] = []
    store: Store[Any] = Store(a_store().codec, on_handler_error=failures.append)
    fold = Fold()

    def broken(old: Cluster | None, new: Cluster | None) -> None:
        raise RuntimeError("broken")

    store.subscribe(broken)
    store.subscribe(fold)
    listed(store, 10, a_cluster("c1", 1))
    assert fold.state() == {"c1": "1"}
    assert [str(one) for one in failures] == ["broken"]


def test_a_filter_that_raises_is_reported_and_keeps_nobody_from_a_change() -> None:
    failures: list[Exception] = []
    store: Store[Any] = Store(a_store().codec, on_handler_error=failures.append)
    selected, other = Fold(), Fold()

    def broken(old: Cluster | None, new: Cluster | None) -> bool:
        raise RuntimeError("broken")

    store.subscribe(selected, when=broken)
    store.subscribe(other)
    store.apply_event(a_cluster("c1", 1))
    assert selected.state() == other.state() == {"c1": "1"}
    assert [str(one) for one in failures] == ["broken"]
