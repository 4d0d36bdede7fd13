"""The forms in a small size and in virtual time: what is placed, not how fast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest

from fleet.cli.scenario.virtual_time import VirtualClock, run_virtually
from fleet.framework.cycle.rankings import Rankings
from fleet.framework.cycle.rounds import Picked
from fleet.framework.cycle.runner import Runner
from fleet.framework.request import PlacementRequest
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.placement_key import PlacementKey
from fleet.model.views import MemberCluster
from fleet.scheduler.groups import groups
from fleet.scheduler.groups.groups import Groups
from fleet.scheduler.groups.growing_overlay import keep_room
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import Nomination
from tests.bench.scheduling import forms
from tests.bench.scheduling.forms import Compared, Size
from tests.bench.scheduling.stage import PICKS, Spent

SMALL: Final = Size(clusters=60, placements=12, others=8, every=4)
PLACEMENT: Final = CLUSTER_SCOPED.placement.plural
WRITES: Final = Counter(
    {
        f"PUT {PLACEMENT}": 12,
        f"POST {CLUSTER_SCOPED.binding.plural}": 12 * PICKS,
        f"PUT {CLUSTER_SCOPED.policy_snapshot.plural}/status": 12,
        "POST events": 12,
    }
)


def count_bound(compared: Compared, prefix: str) -> list[int]:
    return [len(on) for name, on in compared.stage.list_bound().items() if name.startswith(prefix)]


def are_clean(spent: list[Spent]) -> bool:
    """All were placed with one attempt and the fewest writes each."""
    return all(len(each.attempts) == each.placements and each.requests == WRITES for each in spent)


def test_P_01_P_02_placements_take_one_attempt_and_the_fewest_writes() -> None:
    assert are_clean(run_virtually(forms.place_plain(SMALL, clock=VirtualClock())))


def test_P_08_so_do_equal_ones_which_share_a_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[Frame] = []
    rank = Rankings.rank

    def count(self: Rankings, runner: Runner, frame: Frame, run_hooks: Callable[[], Picked]) -> Picked:
        def run() -> Picked:
            ranked.append(frame)
            return run_hooks()

        return rank(self, runner, frame, run)

    monkeypatch.setattr(Rankings, "rank", count)
    unequal, equal = run_virtually(forms.place_equal(SMALL, clock=VirtualClock()))
    assert are_clean(unequal + equal)
    assert len(ranked) < 12 * 3


def test_P_06_so_do_those_that_spread_over_zones() -> None:
    assert are_clean(run_virtually(forms.place_over_zones(SMALL, clock=VirtualClock())))


def test_P_07_placements_stay_away_from_others() -> None:
    assert are_clean(run_virtually(forms.place_near_others(SMALL, clock=VirtualClock())))


def test_P_03_gated_placements_stay_gated_while_others_come_and_go() -> None:
    compared = run_virtually(forms.place_beside_gated(SMALL, clock=VirtualClock()))
    assert compared.stage.count_items().gated == SMALL.others
    assert count_bound(compared, "p") == [PICKS] * 24
    assert count_bound(compared, "gated") == []


def test_P_04_unschedulable_placements_wait_and_the_others_are_placed() -> None:
    compared = run_virtually(forms.place_beside_unschedulable(SMALL, clock=VirtualClock()))
    assert compared.stage.count_items().unschedulable == 2 * SMALL.placements // SMALL.every
    assert count_bound(compared, "p") == [PICKS] * 24
    assert count_bound(compared, "nowhere") == []


def test_P_05_preemptors_take_the_room_of_their_victims_in_the_end() -> None:
    compared = run_virtually(forms.place_beside_preemptors(SMALL, clock=VirtualClock()))
    assert count_bound(compared, "p") == [PICKS] * 24
    assert all(each.requests["PATCH clusterresourcebindings"] == 0 for each in compared.quiet)


def test_P_11_all_members_of_a_group_are_bound() -> None:
    _, bound = run_virtually(forms.place_groups(SMALL, clock=VirtualClock()))
    assert [len(on) for on in bound.values()] == [PICKS] * 24


def test_what_is_kept_for_a_group_is_computed_when_that_group_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: Counter[str] = Counter()

    def count(request: PlacementRequest, cluster: str, known: MemberCluster | None) -> Nomination:
        kept[request.key] += 1
        return keep_room(request, cluster, known)

    monkeypatch.setattr(groups, "keep_room", count)
    size = Size(clusters=60, placements=60)
    run_virtually(forms.place_groups(size, clock=VirtualClock()))
    assert max(kept.values()) <= PICKS * (1 + forms.MEMBERS * (PICKS + 1))


def test_P_11_a_group_costs_the_same_however_many_were_bound_before(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[PlacementKey] = []
    list_members = Groups.list_members

    def count(self: Groups, group: PlacementKey) -> list[PlacementKey]:
        asked.append(group)
        return list_members(self, group)

    monkeypatch.setattr(Groups, "list_members", count)
    run_virtually(forms.place_groups(Size(clusters=60, placements=12), clock=VirtualClock()))
    few = len(asked)
    asked.clear()
    run_virtually(forms.place_groups(Size(clusters=60, placements=12, bursts=9), clock=VirtualClock()))
    assert len(asked) == 5 * few, "ten bursts instead of two"


def test_P_14_a_new_leader_binds_what_is_pending() -> None:
    restarted = run_virtually(forms.restart(SMALL, clock=VirtualClock()))
    assert restarted.stage.tally.failed == 0


def test_X_24_options_cost_no_request_of_a_placement() -> None:
    (without, _), (with_options, stage) = (
        run_virtually(forms.place_with_options(SMALL, has_options=has_options, clock=VirtualClock()))
        for has_options in (False, True)
    )
    assert stage.tally.failed == 0
    assert with_options.requests <= 2 * without.requests
