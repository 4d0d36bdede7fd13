"""PostFilter: asked only when too few clusters qualify, and then by the first that knows a way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.framework.context import HookContext
from fleet.framework.cycle.runner import Runner
from fleet.framework.status import Code, Status
from fleet.framework.types import PostFilterResult
from fleet.snapshot import Frame
from tests.builders import a_binding, a_frame, a_policy, clusters
from tests.doubles import Answering, Rejecting, decided, limited_to, profile_of


@pytest.fixture
def frame() -> Frame:
    return a_frame(*clusters("a", "b", "c"))


def helper(name: str, result: PostFilterResult | None = None, status: Status | None = None) -> Answering:
    return Answering(name, post_filter=lambda *_: (result, status))


NO_HELP = Status.new(Code.UNSCHEDULABLE, "nobody to evict")


# --- when -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted, least, have, shortfall", [(3, None, 0, 1), (3, 3, 1, 2), (3, 2, 1, 1)])
def test_F3_058_somebody_is_asked_below_the_minimum_and_told_how_many_are_missing(
    frame: Frame, wanted: int, least: int | None, have: int, shortfall: int
) -> None:
    told: list[int] = []

    def post_filter(ctx: Any, *_: object) -> tuple[None, Status]:
        told.append(ctx.shortfall)
        return None, NO_HELP

    policy = a_policy().pick_n(wanted)
    policy = policy if least is None else policy.at_least(least)
    full = Rejecting("Door", "abc"[: 3 - have])
    decided(frame, policy, profile=profile_of(full, Answering("Helper", post_filter=post_filter)))

    assert told == [shortfall]


def test_F3_058_clusters_in_use_count_towards_the_minimum(frame: Frame) -> None:
    idle = helper("Idle", status=NO_HELP)
    policy = a_policy().pick_n(3).at_least(2)

    decided(frame, policy, a_binding("a"), a_binding("b"), profile=profile_of(Rejecting("Door", "abc"), idle))

    assert idle.calls == []


@pytest.fixture
def garbage() -> Iterator[list[Any]]:
    """Cycles are not collected but listed, when collecting is asked for."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def test_what_was_decided_is_freed_without_the_garbage_collector(frame: Frame, garbage: list[Any]) -> None:
    """A large policy is hundreds of thousands of objects: to collect them stops all threads."""
    contexts: list[HookContext] = []

    def post_filter(ctx: HookContext, *_: object) -> tuple[None, Status]:
        contexts.append(ctx)
        return None, NO_HELP

    profile = profile_of(Rejecting("Door", "abc"), Answering("Helper", post_filter=post_filter))
    decided(frame, a_policy().pick_n(3), profile=profile)
    assert len(contexts) == 1
    contexts.clear()

    gc.collect()

    assert not [each for each in garbage if isinstance(each, HookContext | Runner)]


def test_F3_058_placements_that_are_not_counted_have_no_minimum(frame: Frame) -> None:
    idle = helper("Idle")

    decided(frame, a_policy(), profile=profile_of(Rejecting("Door", "abc"), idle))
    decided(frame, a_policy().pick_fixed("a"), profile=profile_of(Rejecting("Door", "abc"), idle))
    decided(frame, a_policy().pick_n(0), profile=profile_of(Rejecting("Door", "abc"), idle))

    assert idle.calls == []


def test_F3_058_it_sees_the_verdicts_of_the_last_round(frame: Frame) -> None:
    seen: list[Any] = []

    def post_filter(ctx: Any, state: Any, req: Any, frame: Frame, verdicts: Any) -> tuple[None, Status]:
        seen.append({name: verdicts.status_by_name(name) and verdicts.status_by_name(name).code for name in "abc"})
        return None, NO_HELP

    door = Rejecting("Door", {"a": 1, "b": 2})
    profile = profile_of(door, Answering("One", post_batch=limited_to(1)), Answering("Helper", post_filter=post_filter))
    decided(frame, a_policy().pick_n(3).at_least(3), profile=profile)

    assert seen == [{"a": Code.UNSCHEDULABLE, "b": Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "c": Code.UNSCHEDULABLE}]


# --- what comes of it -------------------------------------------------------------------------------------------------


def test_F3_080_when_nobody_knows_a_way_nothing_is_nominated(frame: Frame) -> None:
    helpers = [
        helper("One", status=NO_HELP),
        helper("Two", status=Status.new(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "no")),
    ]

    decision = decided(frame, a_policy().pick_n(1), profile=profile_of(Rejecting("Door", "abc"), *helpers))

    assert (decision.nomination, decision.evictions) == ((), None)
    assert [one.calls for one in helpers] == [["post_filter"], ["post_filter"]]


def test_F3_080_a_nomination_changes_the_digest(frame: Frame) -> None:
    door = Rejecting("Door", "abc")
    found = [
        decided(
            frame, a_policy().pick_n(1), profile=profile_of(door, helper("Helper", PostFilterResult(nomination=names)))
        )
        for names in ((), ("a",), ("b",))
    ]

    assert len({one.digest for one in found}) == 3


@pytest.mark.parametrize("code", [Code.WAIT, Code.SKIP, Code.PENDING])
def test_F3_080_any_other_code_is_an_error(frame: Frame, code: Code) -> None:
    odd = helper("Odd", status=Status.new(code, "hm"))

    decision = decided(frame, a_policy().pick_n(1), profile=profile_of(Rejecting("Door", "abc"), odd))

    assert decision.error is not None
    assert decision.error.reasons == (f"Odd at postFilter: invalid code {code} at PostFilter",)
