"""What a framework says of its own configuration, and how its plugins end."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.framework.profiles.profile import METHODS, PluginRef
from fleet.framework.runtime.framework import Framework, PluginEntry
from tests.doubles import Rejecting, RejectingOneByOne, Scoring
from tests.unit.framework.plugin_fakes import Scripted, a_profile, a_registry


def test_F3_090_plugins_are_listed_per_hook_in_order_with_form_and_weight() -> None:
    registry = a_registry(Rejecting("Vector"), RejectingOneByOne("Scalar"), Scoring("Points"), Scoring("More"))
    profile = a_profile(filter=["Vector", "Scalar"], score=[PluginRef("More", 3), PluginRef("Points", 0)])
    listed = Framework.build(registry, profile).list_plugins()
    assert listed["filter"] == (PluginEntry("Vector", "vector"), PluginEntry("Scalar", "scalar"))
    assert listed["score"] == (PluginEntry("More", "vector", 3), PluginEntry("Points", "vector", 1))
    assert listed["bind"] == (PluginEntry("HubBindingBinder", "vector"),)
    assert listed["permit"] == ()
    assert list(listed) == list(METHODS)


def test_F3_088_whether_anybody_filters() -> None:
    registry = a_registry(Rejecting("Picky"))
    assert not Framework.build(registry, a_profile()).has_filter_plugins()
    assert Framework.build(registry, a_profile(filter=["Picky"])).has_filter_plugins()


def test_F3_089_whether_anybody_scores() -> None:
    registry = a_registry(Scoring("Points"))
    assert not Framework.build(registry, a_profile()).has_score_plugins()
    assert Framework.build(registry, a_profile(score=["Points"])).has_score_plugins()


# --- the end ----------------------------------------------------------------------------------------------------------


def closing(*plugins: Any) -> Framework:
    names = [one.name() for one in plugins]
    return Framework.build(a_registry(*plugins), a_profile(preFilter=names, preScore=names))


def test_F3_119_every_plugin_is_closed_once_the_last_one_first() -> None:
    journal: list[str] = []
    closable = [Scripted(name, journal, pre_filter=None, pre_score=None, close=None) for name in ("A", "B")]
    closing(*closable, Scripted("C", pre_filter=None, pre_score=None)).close()
    assert journal == ["B.close()", "A.close()"]


def test_F3_119_errors_do_not_stop_the_others_and_are_raised_together() -> None:
    journal: list[str] = []
    first, last = OSError("socket"), ValueError("flush")
    framework = closing(
        Scripted("A", journal, pre_filter=None, pre_score=None, close=first),
        Scripted("B", journal, pre_filter=None, pre_score=None, close=None),
        Scripted("C", journal, pre_filter=None, pre_score=None, close=last),
    )
    with pytest.raises(ExceptionGroup, match="closing the plugins of test") as group:
        framework.close()
    assert group.value.exceptions == (last, first)
    assert last.__notes__ == ["while closing plugin C"]
    assert journal == ["C.close()", "B.close()", "A.close()"]
