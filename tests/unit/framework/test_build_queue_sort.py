"""The order of the queue: one for all profiles, and an order at all."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from fleet.errors import ConfigurationError
from fleet.framework.arguments import RawArgs
from fleet.framework.profiles.profile import Profile
from fleet.framework.profiles.queue_sort import QueueSort
from fleet.framework.runtime.framework import Framework, build_frameworks
from plugins.priority_sort import PrioritySort
from tests.unit.framework.plugin_fakes import a_profile, a_registry

TRIPLES = 10_000


@dataclass(frozen=True)
class Item:
    priority: int = 0
    timestamp: int = 0
    uid: str = "u"


class ByLess:
    """The order of PrioritySort, given as a comparison."""

    def __init__(self, raw: Any = None, handle: Any = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "ByLess"

    def less(self, one: Item, other: Item) -> bool:
        if one.priority != other.priority:
            return one.priority > other.priority
        if one.timestamp != other.timestamp:
            return one.timestamp < other.timestamp
        return one.uid < other.uid


class ByName(PrioritySort):
    def name(self) -> str:
        return "ByName"


BY_KEY, BY_LESS = QueueSort(PrioritySort()), QueueSort(ByLess())
ORDERS = pytest.mark.parametrize("less", [BY_KEY, BY_LESS], ids=["by key", "by less"])


def random_triples() -> list[tuple[Item, Item, Item]]:
    """Few values per field, so that ties are common."""
    dice = random.Random(47)

    def item() -> Item:
        return Item(dice.randrange(3), dice.randrange(3), dice.choice("xyz"))

    return [(item(), item(), item()) for _ in range(TRIPLES)]


@ORDERS
def test_F3_047_the_order_is_a_strict_weak_one(less: QueueSort) -> None:
    for one, two, three in random_triples():
        assert not less(one, one)
        assert not (less(one, two) and less(two, one))
        if less(one, two) and less(two, three):
            assert less(one, three)
        if tied(less, one, two) and tied(less, two, three):
            assert tied(less, one, three)


def tied(less: QueueSort, one: Item, other: Item) -> bool:
    return not less(one, other) and not less(other, one)


def test_F3_047_key_and_less_agree() -> None:
    for one, two, _ in random_triples():
        assert BY_KEY(one, two) == BY_LESS(one, two) == (BY_LESS.key(one) < BY_LESS.key(two))


def test_F3_047_items_that_tie_have_equal_keys() -> None:
    one, other = Item(1, 2, "u"), Item(1, 2, "u")
    assert BY_LESS.key(one) == BY_LESS.key(other)
    assert BY_LESS.key(one) != BY_LESS.key(Item(1, 2, "v"))


def test_F3_047_a_key_is_preferred_where_a_plugin_has_both() -> None:
    class Both(PrioritySort):
        def less(self, one: Item, other: Item) -> bool:
            raise AssertionError("the key decides")

    assert QueueSort(Both())(Item(priority=2), Item(priority=1))


def test_F3_047_a_plugin_with_less_alone_can_sort_the_queue() -> None:
    framework = Framework.build(a_registry(ByLess=ByLess), a_profile(queueSort=["ByLess"]))
    items = [Item(1, 5), Item(2, 9), Item(1, 3), Item(2, 9, "a")]
    assert sorted(items, key=framework.queue_sort_func().key) == [items[3], items[1], items[2], items[0]]


# --- one queue --------------------------------------------------------------------------------------------------------


def with_args(profile: Profile, raw: RawArgs) -> Profile:
    return Profile(
        scheduler_name=profile.scheduler_name, plugins=profile.plugins, plugin_config=[("PrioritySort", raw)]
    )


def test_F3_048_profiles_with_different_queue_sorts_are_refused() -> None:
    registry = a_registry(ByName=ByName)
    profiles = [a_profile(called="one"), a_profile(called="two"), a_profile(called="odd", queueSort=["ByName"])]
    with pytest.raises(ConfigurationError) as refused:
        build_frameworks(registry, profiles)
    assert str(refused.value) == (
        "profiles one and odd sort the one queue differently: PrioritySort and ByName; "
        "give both the same queueSort plugin and arguments"
    )


def test_F3_048_the_same_plugin_with_different_arguments_is_refused() -> None:
    one = with_args(a_profile(called="one"), RawArgs({"aging": 1}))
    two = with_args(a_profile(called="two"), RawArgs({"aging": 2}))
    with pytest.raises(ConfigurationError, match=r"PrioritySort \{'aging': 1\} and PrioritySort \{'aging': 2\}"):
        build_frameworks(a_registry(), [one, two])


@pytest.mark.parametrize(
    "one, two",
    [
        (RawArgs({"aging": 1}), RawArgs('{"aging": 1}')),
        (RawArgs({"aging": 1}), RawArgs("aging: 1", "application/yaml")),
        (RawArgs({}), None),
    ],
    ids=["mapping and JSON", "mapping and YAML", "empty and absent"],
)
def test_F3_048_equal_arguments_may_be_written_differently(one: RawArgs, two: RawArgs | None) -> None:
    second = a_profile(called="two")
    profiles = [with_args(a_profile(called="one"), one), second if two is None else with_args(second, two)]
    assert len(build_frameworks(a_registry(), profiles)) == 2


def test_F3_048_arguments_of_other_plugins_do_not_matter() -> None:
    profiles = [
        a_profile(called="one", filter=["ClusterEligibility"], args=[("ClusterEligibility", {"retention": "1m"})]),
        a_profile(called="two", filter=["ClusterEligibility"], args=[("ClusterEligibility", {"retention": "2m"})]),
    ]
    assert len(build_frameworks(a_registry(), profiles)) == 2


def test_F3_048_a_running_profile_cannot_be_exchanged_for_one_that_sorts_differently() -> None:
    registry = a_registry(ByName=ByName)
    framework = Framework.build(registry, a_profile())
    with pytest.raises(ConfigurationError, match="sort the one queue differently"):
        framework.prepare(registry, a_profile(queueSort=["ByName"]))


def test_F3_075_all_profiles_have_the_same_queue_order() -> None:
    one, two = build_frameworks(a_registry(), [a_profile(called="one"), a_profile(called="two")]).values()
    assert one.queue_sort_func() is two.queue_sort_func()


# --- the default ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first, second",
    [
        (Item(priority=2, timestamp=9, uid="z"), Item(priority=1, timestamp=1, uid="a")),
        (Item(timestamp=1, uid="z"), Item(timestamp=2, uid="a")),
        (Item(uid="a"), Item(uid="b")),
    ],
    ids=["higher priority", "earlier timestamp", "smaller UID"],
)
def test_F3_049_goes_first(first: Item, second: Item) -> None:
    assert BY_KEY(first, second)
    assert not BY_KEY(second, first)


def test_F3_049_neither_of_two_equal_items_goes_first() -> None:
    assert not BY_KEY(Item(3, 4, "u"), Item(3, 4, "u"))
