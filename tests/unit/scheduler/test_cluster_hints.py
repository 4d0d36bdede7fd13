"""Whose decision a change of a cluster can alter, and who is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from fleet.framework.context import HookContext
from fleet.framework.explaining import ClusterEvent, ClusterEventKind
from fleet.framework.handle import Handle
from fleet.framework.profiles.profile import CompiledProfile, PluginRef
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState, FrozenState, StateKey
from fleet.framework.status import Status
from fleet.framework.types import PluginTraits, Verdict
from fleet.model.keys import BOUND, PARENT_PLACEMENT, SCHEDULED, SCHEDULER_NAME, UNSCHEDULED
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import MINUTE
from fleet.model.views import Binding, BindingSpec, MemberCluster, Metadata, PlacementPolicy
from fleet.scheduler.events import cluster_hints
from fleet.scheduler.events.cluster_hints import Hint
from fleet.scheduler.requests import PARTS_ON_LOOP
from fleet.snapshot.columns.bitset import Mask
from fleet.snapshot.frame import Frame
from plugins import in_tree_registry
from plugins.default_profile import DEFAULT_PLUGINS, compile_default, default_profile
from tests.bench.controller import joining
from tests.builders import NOW, PolicyBuilder, a_cluster, a_policy, label
from tests.unit.scheduler.watching import World, a_placement, a_snapshot, labelled_latest, satisfied, with_metadata

IN_EAST = label("region", "In", "east")
WELL = a_cluster("c7").labelled(region="east")


def a_world(profile: CompiledProfile | None = None, **policies: PolicyBuilder) -> World:
    world = World(hinted=True) if profile is None else World(hinted=True, profile=profile)
    return world.saw(*(a_snapshot(policy, of=name) for name, policy in policies.items()))


def short() -> PolicyBuilder:
    return a_policy().pick_n(3)


def a_binding_of(placement: str, cluster: str, *, state: str = BOUND, snapshot: str = "") -> Binding:
    return Binding(
        metadata=Metadata(name=f"{placement}-{cluster}", labels={PARENT_PLACEMENT: placement}),
        spec=BindingSpec(
            target_cluster=cluster, state=state, scheduling_policy_snapshot_name=snapshot or f"{placement}-0"
        ),
    )


# --- how many attempts there are --------------------------------------------------------------------------------------


def test_only_whom_a_new_cluster_helps_is_attempted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a whole scheduler: 300 placements with a policy each, of which a first cluster helps none and a second one."""
    monkeypatch.setattr(joining, "CLUSTERS", 12)
    joined = joining.join_two(300)
    assert (joined.useless.attempts, joined.useful.attempts) == (0, 1)


def test_with_the_hints_switched_off_all_are_attempted_that_read_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "CLUSTERS", 12)
    joined = joining.join_two(30, hints=False)
    assert (joined.useless.attempts, joined.useful.attempts) == (30, 30)


def test_a_change_that_nobody_reads_builds_no_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for placements nor for groups of them."""
    frozen: list[MemberCluster | None] = []
    freeze = cluster_hints._freeze

    def count(cluster: MemberCluster | None, *beside: Any) -> Frame:
        frozen.append(cluster)
        return freeze(cluster, *beside)

    monkeypatch.setattr(cluster_hints, "_freeze", count)
    world = a_world().start()
    world.saw(WELL, WELL.labelled(region="west"))
    assert frozen == []
    world.saw(a_snapshot(short().require(IN_EAST), of="east"), WELL)
    assert len(frozen) == 2, "before and after"


# --- clusters that qualify --------------------------------------------------------------------------------------------


def test_a_cluster_that_joins_helps_those_whose_policy_it_fits() -> None:
    world = a_world(
        east=short().require(IN_EAST),
        west=short().require(label("region", "In", "west")),
        everywhere=a_policy().require(IN_EAST),
        elsewhere=a_policy().require(label("region", "NotIn", "east")),
    ).start()
    world.saw(WELL)
    assert world.queue.woken == [(["east", "everywhere"], "MemberCluster/Add c7")]


def test_a_change_that_leaves_the_cluster_as_good_or_bad_as_it_was_helps_none() -> None:
    world = a_world(east=short().require(IN_EAST), all=a_policy().require(label("region", "Exists"))).saw(WELL).start()
    world.saw(WELL.labelled(region="north"), WELL.labelled(region="south"), WELL.labelled(region="south", zone="z"))
    assert world.queue.woken == []
    world.saw(WELL)
    assert world.queue.keys == ["east"]


def test_all_filters_count_and_not_only_the_one_that_reads_the_change() -> None:
    world = a_world(east=short().require(IN_EAST)).saw(a_cluster("c7").tainted("gpu")).start()
    world.saw(WELL.tainted("gpu"))
    assert world.queue.woken == []
    world.saw(WELL)
    assert world.queue.keys == ["east"]


def test_a_cluster_that_changes_twice_is_compared_with_what_it_was_before() -> None:
    world = a_world(east=short().require(IN_EAST)).saw(a_cluster("c7")).start()
    world.saw(WELL, WELL.labelled(zone="z1"))
    assert world.queue.keys == ["east"]
    world.saw(WELL.labelled(region="west"), WELL)
    assert world.queue.keys == ["east", "east"]


def test_a_cluster_that_time_made_ineligible_helps_by_its_next_heartbeat() -> None:
    world = a_world(short=short()).saw(WELL).start()
    world.clock.set(world.clock.moment + 400 * 10**9)
    world.saw(WELL.heard(-400))
    assert world.queue.woken == [(["short"], "MemberCluster/UpdateHealth c7")]


def test_a_list_of_names_waits_for_its_own_clusters() -> None:
    world = a_world(named=a_policy().pick_fixed("c7"), other=a_policy().pick_fixed("c8")).start()
    world.saw(WELL)
    assert world.queue.keys == ["named"]


def test_placements_of_one_policy_in_two_namespaces_are_judged_apart() -> None:
    policy = short()
    world = World(hinted=True).saw(
        a_snapshot(policy.in_namespace("blue"), of="web"), a_snapshot(policy.in_namespace("green"), of="web")
    )
    world.saw(WELL.with_namespaces("red")).start().saw(WELL.with_namespaces("red", "blue"))
    assert world.queue.keys == ["blue/web"]


# --- clusters in use --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [SCHEDULED, BOUND])
def test_a_cluster_that_the_placement_is_on_does_not_help_it_again(state: str) -> None:
    silent = WELL.heard(3600)
    world = a_world(all=a_policy(), short=short()).saw(silent, a_binding_of("all", "c7", state=state)).start()
    world.saw(WELL)
    assert world.queue.keys == ["short"]


@pytest.mark.parametrize("binding", [{"state": UNSCHEDULED}, {"snapshot": "all-former"}], ids=str)
def test_a_binding_that_was_given_up_or_is_of_an_earlier_policy_is_no_use(binding: dict[str, str]) -> None:
    world = a_world(all=a_policy()).saw(WELL.heard(3600), a_binding_of("all", "c7", **binding)).start()
    world.saw(WELL)
    assert world.queue.keys == ["all"]


def test_a_list_of_names_counts_its_clusters_again() -> None:
    world = a_world(named=a_policy().pick_fixed("c7")).saw(WELL.heard(3600), a_binding_of("named", "c7")).start()
    world.saw(WELL)
    assert world.queue.keys == ["named"]


def test_a_deleted_cluster_concerns_those_that_use_name_or_compare_it() -> None:
    world = a_world(
        uses=a_policy(),
        gave_up=a_policy(),
        names=a_policy().pick_fixed("c7", "c8"),
        compares=short().spread("region"),
        lacks=short(),
    )
    world.saw(WELL, a_binding_of("uses", "c7"), a_binding_of("gave_up", "c7", state=UNSCHEDULED))
    world.saw(satisfied(a_snapshot(short().spread("region"), of="compared"))).start()
    world.gone(world.caches.clusters, "c7")
    assert world.queue.woken == [(["compares", "names", "uses"], "MemberCluster/Delete c7")]


# --- attempts in flight -----------------------------------------------------------------------------------------------


def test_a_cluster_that_joins_during_an_attempt_helps_whatever_bindings_there_are() -> None:
    world = a_world(short=short()).saw(WELL.heard(3600), a_binding_of("short", "c7")).start()
    with world.handlers.track_attempt(PlacementKey.parse("short")):
        world.saw(WELL)
    assert world.queue.keys == ["short"]


def test_a_cluster_that_is_deleted_during_an_attempt_concerns_it() -> None:
    world = a_world(short=short()).saw(WELL).start()
    with world.handlers.track_attempt(PlacementKey.parse("short")):
        world.gone(world.caches.clusters, "c7")
    assert world.queue.keys == ["short"]


# --- in doubt ---------------------------------------------------------------------------------------------------------


def test_spread_constraints_compare_clusters_so_every_change_of_what_they_read_counts() -> None:
    world = a_world(spread=short().require(IN_EAST).spread("zone"), soft=short().spread_softly("zone"))
    world.saw(a_cluster("c7").labelled(region="west")).start()
    world.saw(a_cluster("c7").labelled(region="west", zone="z1"))
    assert world.queue.woken == [(["soft", "spread"], "MemberCluster/UpdateLabels c7")]


def test_a_cluster_in_use_that_moves_to_another_domain_makes_room_there_and_elsewhere() -> None:
    world = a_world(spread=short().spread("zone")).saw(WELL.labelled(zone="z1"), a_binding_of("spread", "c7")).start()
    world.saw(WELL.labelled(zone="z2"))
    assert world.queue.keys == ["spread"]


def test_a_policy_that_cannot_be_evaluated_is_not_judged() -> None:
    world = a_world(odd=short().require(label("region", "Like", "e*"))).start().saw(WELL)
    assert world.queue.keys == ["odd"]


class Judging(PluginTraits):
    """A filter by the label `quarantine`, which does not say what it reads in a policy, nor which events matter."""

    def __init__(self, *, local: bool = True, reads: tuple[str, ...] = ("labels",), fails: bool = False) -> None:
        self.ROW_LOCAL, self.READS = local, reads  # type: ignore[misc]
        self._fails = fails

    def name(self) -> str:
        return "Judging"

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        if self._fails:
            raise RuntimeError("boom")
        return Verdict(ok=~frame.labels("quarantine").exists() if req.placement != "exempt" else -1)


class Remembering(Judging):
    """Accepts nothing for policies without required terms, by what it wrote down for the others."""

    READS_POLICY_ONLY = True
    WROTE = StateKey("preFilter/Judging")

    def pre_filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame
    ) -> tuple[Mask | None, Status | None]:
        if req.required:
            state.write(self.WROTE, FrozenState())
        return None, None

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        return Verdict(ok=0 if state.read(self.WROTE, default=None) else -1)


class Sizing(Judging):
    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
        return (ClusterEvent(ClusterEventKind.UPDATE_CAPACITY),)


class Limiting(PluginTraits):
    """Looks at the whole fleet between rounds."""

    READS = ("labels",)

    def name(self) -> str:
        return "Judging"

    def post_batch(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, desired: int
    ) -> tuple[int, Status | None]:
        return desired, None


def judged_by(plugin: PluginTraits, *hooks: str) -> CompiledProfile:
    def build(raw: object, handle: Handle) -> PluginTraits:
        return plugin

    registry = in_tree_registry()
    registry.register("Judging", build)
    plugins = dict(DEFAULT_PLUGINS)
    for hook in hooks or ("filter",):
        plugins[hook] = (*DEFAULT_PLUGINS.get(hook, ()), PluginRef("Judging"))
    return compile_default(default_profile(plugins=plugins), registry=registry)


QUARANTINED = WELL.labelled(quarantine="yes")


def test_E6_a_plugin_that_names_no_events_hears_of_every_change_and_is_asked() -> None:
    world = a_world(judged_by(Judging()), web=short(), exempt=short()).saw(QUARANTINED).start()
    world.saw(QUARANTINED.heard(1), QUARANTINED.labelled(rack="r1"))
    assert world.queue.woken == []
    world.saw(WELL.labelled(rack="r1"))
    assert world.queue.woken == [(["web"], "MemberCluster/UpdateLabels c7")]


@pytest.mark.parametrize(
    "plugin", [Judging(local=False), Judging(reads=("feeds",)), Judging(reads=("*",))], ids=["compares", "feeds", "all"]
)
def test_a_plugin_that_looks_beyond_the_cluster_is_not_asked(plugin: Judging) -> None:
    world = a_world(judged_by(plugin), web=short()).saw(QUARANTINED).start().saw(QUARANTINED.labelled(rack="r1"))
    assert world.queue.keys == ["web"]


def test_a_plugin_that_limits_rounds_by_the_whole_fleet_is_not_asked() -> None:
    world = a_world(judged_by(Limiting(), "postBatch"), web=short().require(IN_EAST)).saw(a_cluster("c7")).start()
    assert world.saw(a_cluster("c7").labelled(freeze="no")).queue.keys == ["web"]


def test_what_a_plugin_writes_down_for_one_policy_is_not_there_for_the_next() -> None:
    plain, choosy = short(), short().require(label("region", "In", "west"))
    world = a_world(judged_by(Remembering(), "preFilter", "filter"), choosy=choosy, plain=plain).start()
    assert world.saw(WELL).queue.keys == ["plain"]


class Quarantining(Judging):
    APPLIES_TO_FIXED = True

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
        return (ClusterEvent(ClusterEventKind.UPDATE_LABELS, ("quarantine",)),)


class Night(Judging):
    """Rejects clusters with the label `night` until the minute after the world began."""

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        return Verdict(ok=-1 if ctx.now > NOW else ~frame.labels("night").exists())


def test_a_plugin_that_reads_the_clock_may_have_judged_the_former_cluster_differently() -> None:
    night = WELL.labelled(night="yes")
    world = a_world(judged_by(Night()), web=short(), east=short().require(label("region", "In", "north")))
    world.saw(night).start()
    world.clock.moment += MINUTE
    assert world.saw(night.labelled(rack="r1")).queue.keys == ["web"]


def test_a_list_of_names_hears_what_its_plugins_read_of_its_clusters() -> None:
    world = a_world(judged_by(Quarantining()), web=a_policy().pick_fixed("c7"), other=a_policy().pick_fixed("c8"))
    world.saw(QUARANTINED).start().saw(WELL)
    assert world.queue.woken == [(["web"], "MemberCluster/UpdateLabels c7")]


def test_a_placement_with_a_mistake_of_its_own_does_not_speak_for_its_policy() -> None:
    odd = a_placement(name="odd")
    odd = with_metadata(odd, annotations={SCHEDULER_NAME: "No_Name"})
    world = a_world(odd=short().require(IN_EAST), web=short().require(IN_EAST)).saw(odd, a_placement(name="web"))
    world.start().saw(a_cluster("c7").labelled(region="west"))
    assert "web" not in world.queue.keys


def test_a_large_policy_is_left_to_its_attempt() -> None:
    """To judge it would hold the event loop; it is decided in a thread."""
    large = short().require(*(label("region", "In", f"r{number}") for number in range(PARTS_ON_LOOP + 1)))
    assert a_world(large=large).start().saw(WELL).queue.keys == ["large"]


def test_Q_09_a_plugin_that_fails_loses_no_chance() -> None:
    with capture_logs() as logs:
        world = a_world(judged_by(Judging(fails=True)), web=short()).start().saw(WELL)
    assert world.queue.keys == ["web"]
    assert any("could not judge" in line["event"] for line in logs)


def test_Q_09_where_a_plugin_fails_freed_room_is_offered_to_whom_another_filter_had_refused() -> None:
    world = a_world(judged_by(Sizing(fails=True)), web=short()).start().saw(WELL)
    world.queue.woken.clear()
    giving = PlacementKey("", "gone")
    world.handlers.on_freed("c7", {"cpu": 1}, {}, giving=giving, seeks=lambda _: False, may_seek=lambda _: True)
    assert world.queue.keys == ["web"]


def test_Q_09_a_hint_that_fails_for_one_placement_loses_no_chance_of_the_others() -> None:
    def fail_for_web(key: PlacementKey) -> Hint | None:
        if key.name == "web":
            raise KeyError("a quota that is gone")
        return None

    world = World(hinted=True, hint_of_quota=fail_for_web)
    policies = {"east": short().require(IN_EAST), "west": short().require(label("region", "In", "west"))}
    world.saw(*(a_snapshot(policy, of=name) for name, policy in {**policies, "web": short()}.items())).start()
    with capture_logs() as logs:
        world.saw(WELL)
    assert world.queue.woken == [(["east", "web"], "MemberCluster/Add c7")]
    assert [line["placement"] for line in logs] == ["web"]


# --- upkeep -----------------------------------------------------------------------------------------------------------


def test_a_new_policy_is_the_one_that_counts() -> None:
    old, new = a_snapshot(short().require(IN_EAST)), a_snapshot(short().require(label("env", "Exists")), index=1)
    world = World(hinted=True).saw(old).start()
    world.saw(labelled_latest(old, "false"), new, WELL)
    assert world.queue.woken == []
    world.saw(WELL.labelled(env="prod"))
    assert [keys for keys, _ in world.queue.woken] == [["web"]]


def test_without_a_latest_snapshot_nothing_is_judged() -> None:
    world = a_world(web=short()).start()
    world.gone(world.caches.kinds[0].policy_snapshots.store, "web-0")
    world.saw(WELL)
    assert world.queue.keys == []
