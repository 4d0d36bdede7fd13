"""Preferences by the numbers of a feed."""

from __future__ import annotations

from fleet.framework.arguments import RawArgs
from plugins.feeds.feed_preference import FeedPreference
from tests.builders import NOW, a_policy, a_table, clusters
from tests.doubles import chosen, decided, profile_of


def test_numbers_that_are_very_far_apart_are_compared_like_others() -> None:
    table = a_table(*clusters("a", "b", "c"))
    table.feed("prices", {"value": {"a": 1.7e308, "b": -1.7e308, "c": 0.0}}, sampled_at=dict.fromkeys("abc", NOW))
    profile = profile_of(FeedPreference(RawArgs({"feed": "prices"})))
    assert chosen(decided(table.freeze(), a_policy().pick_n(1), profile=profile)) == ["b"]
