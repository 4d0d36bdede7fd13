"""The second half of attempts, through a running controller: plugins at every hook that acts, in virtual time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from fleet.clock import SystemClock, epoch_nanoseconds
from fleet.errors import StateExpired
from fleet.explain.replay.replay import build_evidence, replay
from fleet.framework.state import StateKey
from fleet.framework.status import Code, Status, message_of
from fleet.kube.api import Method, Request
from fleet.kube.scopes import MEMBER_CLUSTERS, find_scope
from fleet.model.keys import PLACEMENT_GENERATION
from fleet.model.placement_key import PlacementKey
from fleet.recorder.attempt_summary import summarize_attempt
from fleet.scheduler.attempt_record import AttemptResult
from fleet.scheduler.binding.waiting_store import WaitingState
from tests.e2e.hub import soon
from tests.e2e.world import EVENTS, World
from tests.fake_hub import Fault, Slow
from tests.faults.acting import TWO, Running, Script, a_document, acting_plugins, at_every_hook, killed, running
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.recorded import read_recorded
from tests.faults.virtual import VirtualClock, virtual
from tests.unit.framework.plugin_fakes import Counter

HOOKS: Final = ("reserve", "permit", "pre_bind", "bind", "post_bind")
WAIT: Final = Status.new(Code.WAIT, "ask the owner")
POLICIES: Final[dict[str, Any]] = {
    "PickN": TWO,
    "PickAll": {"placementType": "PickAll"},
    "PickFixed": {"placementType": "PickFixed", "clusterNames": ["dub", "ams"]},
}


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    with acting_plugins(tmp_path) as script:
        yield script


async def a_fleet(*names: str) -> tuple[HubApi, World]:
    hub = a_hub()
    world = World(hub)
    for name in names or ("ams", "dub"):
        await world.join(name)
    return hub, world


def expected_calls(*clusters: str, plugins: tuple[str, ...] = ("First", "Second")) -> list[str]:
    """All targets of a hook before the next hook, and for each target the plugins in order."""
    return [f"{plugin}.{hook}({cluster})" for hook in HOOKS for cluster in clusters for plugin in plugins]


async def _has_ended(site: Running) -> bool:
    return any(one.effects for one in site.of("web"))


def creates(request: Request) -> bool:
    return request.method is Method.POST and request.path.endswith("bindings")


# --- the order --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", POLICIES)
@virtual
async def test_L_06_F3_006_F3_067_F3_071_F3_082_every_hook_runs_in_order_for_every_kind_of_placement(
    script: Script, tmp_path: Path, kind: str
) -> None:
    hub, world = await a_fleet()
    async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First", "Second")) as site:
        await world.place("web", POLICIES[kind])
        await world.soon_scheduled("web")
        await asyncio.sleep(1)
        (decided,) = [one for one in site.of("web") if one.effects]
    assert decided.decision is not None
    ranked = [target.cluster for target in decided.decision.targets]
    assert sorted(ranked) == ["ams", "dub"]
    assert ranked == {"PickN": ranked, "PickAll": ["ams", "dub"], "PickFixed": ["dub", "ams"]}[kind]
    assert script.journal == expected_calls(*ranked)
    answered = [(one.hook, one.plugin, one.target, one.status.code) for one in decided.effects]
    assert answered == [
        *(("reserve", plugin, name, Code.SUCCESS) for name in ranked for plugin in ("First", "Second")),
        *(("permit", plugin, name, Code.SUCCESS) for name in ranked for plugin in ("First", "Second")),
        *(("preBind", plugin, name, Code.SUCCESS) for name in ranked for plugin in ("First", "Second")),
        *(
            ("bind", plugin, name, code)
            for name in ranked
            for plugin, code in (
                ("First", Code.SKIP),
                ("Second", Code.SKIP),
                ("HubBindingBinder", Code.SUCCESS),
            )
        ),
    ]


@virtual
async def test_the_default_profile_asks_none_of_them(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet()
    async with running(hub, tmp_path / "fleet.yaml", "api: {}\n") as site:
        await world.place("web", TWO)
        await world.soon_scheduled("web")
        assert not any(one.effects for one in site.records)
    assert script.journal == []


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", ["reserve", "permit"])
@virtual
async def test_F3_064_F3_068_F3_083_a_refusal_creates_nothing_and_names_its_plugin(
    script: Script, tmp_path: Path, hook: str
) -> None:
    hub, world = await a_fleet()
    no = Status.new(Code.UNSCHEDULABLE, "over quota")
    answer = no if hook == "reserve" else (no, timedelta(0))
    script.answers["Second", hook] = lambda cluster: answer if cluster == "ams" else None
    script.answers["First", "permit"] = (WAIT, timedelta(seconds=600))
    async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First", "Second")) as site:
        await world.place("web", POLICIES["PickAll"])
        await asyncio.sleep(5)
        item = site.scheduler.queue.peek(PlacementKey.parse("web"))
        (record,) = site.of("web")[-1:]
        assert len(site.scheduler.parked) == 0
    assert not any(creates(request) for request in hub.requests)
    assert (item.rejectors, record.result) == ({"Second"}, AttemptResult.REJECTED)
    assert record.failure == f"Second at {hook} of cluster ams: over quota"
    said = {event["message"] for event in await world.all(EVENTS) if event["reason"] == "Unschedulable"}
    assert said == {f"not scheduled: {record.failure}"}
    undone = [call for call in script.journal if "unreserve" in call]
    reserved = ["First.reserve(ams)", "Second.reserve(ams)"]
    if hook == "permit":
        reserved += ["First.reserve(dub)", "Second.reserve(dub)"]
    assert undone == [call.replace("reserve", "unreserve") for call in reversed(reserved)]


@virtual
async def test_F3_070_F3_085_a_failed_preparation_binds_nothing_and_is_tried_again(
    script: Script, tmp_path: Path
) -> None:
    hub, world = await a_fleet()
    failures = iter([Status.new(Code.UNSCHEDULABLE, "namespace taken"), None])
    script.answers["First", "pre_bind"] = lambda cluster: next(failures, None) if cluster == "dub" else None
    async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First")) as site:
        await world.place("web", POLICIES["PickAll"])
        await world.soon_scheduled("web")
        await asyncio.sleep(1)
        endings = [one for one in site.endings("web") if one is not AttemptResult.NO_SNAPSHOT]
        failed = next(one for one in site.of("web") if one.result is AttemptResult.BIND_FAILED)
    assert endings == [AttemptResult.BIND_FAILED, AttemptResult.DECIDED]
    assert failed.writes == []
    first = script.journal[: script.journal.index("First.unreserve(ams)") + 1]
    assert first[-4:] == ["First.pre_bind(ams)", "First.pre_bind(dub)", "First.unreserve(dub)", "First.unreserve(ams)"]
    assert not any(".bind(" in call for call in first)


@virtual
async def test_F3_085_a_preparation_that_goes_on_failing_is_tried_more_and_more_rarely(
    script: Script, tmp_path: Path
) -> None:
    hub, world = await a_fleet("ams")
    script.answers["First", "pre_bind"] = Status.new(Code.UNSCHEDULABLE, "namespace taken")
    async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First")) as site:
        await world.place("web", POLICIES["PickAll"])
        await asyncio.sleep(20)
        failed = [one for one in site.of("web") if one.result is AttemptResult.BIND_FAILED]
        said = {event["message"] for event in await world.all(EVENTS) if event["reason"] == "BindFailed"}
    delays = [after.started - before.started for before, after in pairwise(failed)]
    assert len(delays) > 4
    assert all(1.8 < later / earlier < 2.2 for earlier, later in pairwise(delays[1:]))
    assert [message.partition(": ")[2] for message in said] == ["First at preBind of cluster ams: namespace taken"]


@pytest.mark.parametrize("hook", ["permit", "pre_bind"])
@virtual
async def test_what_an_attempt_gives_back_wakes_who_was_refused_for_it(
    script: Script, tmp_path: Path, hook: str
) -> None:
    """Only one cluster may be reserved; the placement that has it is refused later, or fails, again and again."""
    hub, world = await a_fleet()
    reserved: list[str] = []

    def take(cluster: str) -> Status | None:
        if reserved:
            return Status.new(Code.UNSCHEDULABLE, "taken")
        reserved.append(cluster)
        return None

    async def fail() -> Any:
        await asyncio.sleep(5)
        no = Status.new(Code.UNSCHEDULABLE, "not here")
        return (no, timedelta(0)) if hook == "permit" else no

    script.answers["Quota", "reserve"] = take
    script.answers["Quota", "unreserve"] = lambda on: reserved.remove(on) if on in reserved else None
    script.answers["Quota", hook] = lambda on: fail() if on == "ams" else None
    text = a_document(
        "".join(f"    {each}: {{enabled: [{{name: Quota}}]}}\n" for each in ("reserve", "permit", "preBind"))
    )
    async with running(hub, tmp_path / "fleet.yaml", text):
        await world.place("api", {"placementType": "PickFixed", "clusterNames": ["ams"]})
        await asyncio.sleep(2)
        await world.place("web", {"placementType": "PickFixed", "clusterNames": ["dub"]})
        await world.soon_on("web", "dub")


@virtual
async def test_placements_that_are_refused_do_not_wake_each_other(script: Script, tmp_path: Path) -> None:
    """The first plugin gives back what it reserved whenever the second one refuses."""
    hub, world = await a_fleet("ams")
    script.answers["Quota", "reserve"] = Status.new(Code.UNSCHEDULABLE, "taken")
    text = a_document("    reserve: {enabled: [{name: First}, {name: Quota}]}\n")
    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        for name in ("api", "web"):
            await world.place(name, POLICIES["PickAll"])
        await asyncio.sleep(60)
        refused = [one for one in site.records if one.result is AttemptResult.REJECTED]
    assert {one.failure for one in refused} == {"Quota at reserve of cluster ams: taken"}
    assert len(refused) < 10


@pytest.mark.parametrize("backs_off", ["false", "true"])
@pytest.mark.parametrize("hook", ["permit", "pre_bind"])
@virtual
async def test_placements_that_a_plugin_reserves_for_and_then_refuses_wake_each_other_more_and_more_rarely(
    script: Script, tmp_path: Path, hook: str, backs_off: str
) -> None:
    """Each gives back what the other one is told to wait for."""
    hub, world = await a_fleet("ams")
    no = Status.new(Code.UNSCHEDULABLE, "not now")
    script.answers["Quota", hook] = (no, timedelta(0)) if hook == "permit" else no
    hooks = "".join(f"    {each}: {{enabled: [{{name: Quota}}]}}\n" for each in ("reserve", "permit", "preBind"))
    text = a_document(hooks, backoffOnRejection=backs_off)
    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        for name in ("api", "web"):
            await world.place(name, POLICIES["PickAll"])
        await asyncio.sleep(60)
        attempts = len([one for one in site.records if one.effects])
        await asyncio.sleep(60)
        later = len([one for one in site.records if one.effects]) - attempts
    assert 2 < attempts < 30
    assert 0 < later <= 2 * 60 / 10 + 2  # each waits for ten seconds by now


@virtual
async def test_F3_064_with_a_fallback_the_same_attempt_takes_another_cluster(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub", "osl")
    script.answers["First", "reserve"] = lambda cluster: (
        Status.new(Code.UNSCHEDULABLE, "full") if cluster == "osl" else None
    )
    text = a_document("    reserve: {enabled: [{name: First}]}\n", reserveFallback="true")
    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        await world.place("web", TWO)
        await world.soon_on("web", "ams", "dub")
        (record,) = [one for one in site.of("web") if one.effects]
    refused = [(one.target, one.status.code) for one in record.effects if one.status.code is not Code.SUCCESS]
    assert refused[0] == ("osl", Code.UNSCHEDULABLE)
    assert record.result is AttemptResult.DECIDED
    assert script.journal[-2:] == ["First.reserve(dub)", "First.reserve(ams)"]


@virtual
async def test_a_cluster_that_refused_does_not_count_as_loaded_while_the_attempt_goes_on(
    script: Script, tmp_path: Path
) -> None:
    hub, world = await a_fleet("ams", "dub")
    refusal = Status.new(Code.UNSCHEDULABLE, "full")
    script.answers["First", "reserve"] = lambda cluster: refusal if cluster == "dub" else None
    text = a_document(
        "    reserve: {enabled: [{name: First}]}\n    preBind: {enabled: [{name: First}]}\n", reserveFallback="true"
    )
    expected: list[int] = []
    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        script.answers["First", "pre_bind"] = lambda _: expected.append(len(site.scheduler.recent))
        await world.place("web", TWO)
        await world.soon_on("web", "ams")
    assert expected == [1]


@virtual
async def test_a_longest_wait_can_be_configured(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams")
    script.answers["First", "permit"] = (WAIT, timedelta(seconds=600))
    text = a_document("    permit: {enabled: [{name: First}]}\n") + "maxPermitWaitSeconds: 20\n"
    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        await world.place("web", POLICIES["PickAll"])
        await asyncio.sleep(30)
        (record,) = site.of("web")[-1:]
    assert "rejected due to timeout after waiting 20s at plugin First" in record.failure


def test_hooks_may_be_plain_functions(script: Script, tmp_path: Path) -> None:
    """In threads, so in real time."""

    async def play() -> None:
        hub, world = await a_fleet()
        hooks = ("reserve", "preBind")
        text = a_document("".join(f"    {hook}: {{enabled: [{{name: Plain}}, {{name: First}}]}}\n" for hook in hooks))
        script.answers["Plain", "pre_bind"] = lambda _: Status(Code.SUCCESS, (threading.current_thread().name,))
        async with running(hub, tmp_path / "fleet.yaml", text, clock=SystemClock()) as site:
            await world.place("web", POLICIES["PickAll"])
            await world.soon_on("web", "ams", "dub")
            await soon(lambda: _has_ended(site))
            (record,) = [one for one in site.of("web") if one.effects]
        names = ["reserve", "pre_bind"]
        calls = [f"{who}.{hook}({on})" for hook in names for on in ("ams", "dub") for who in ("Plain", "First")]
        assert script.journal == calls
        threads = [message_of(one.status) for one in record.effects if (one.hook, one.plugin) == ("preBind", "Plain")]
        assert all(name.startswith("effect-hooks") for name in threads)

    asyncio.run(play())


@virtual
async def test_F3_066_F3_072_F3_074_an_error_of_a_binder_ends_the_chain_and_undoes_everything(
    script: Script, tmp_path: Path
) -> None:
    hub, world = await a_fleet()
    failures = iter([Status.new(Code.ERROR, "refused")])
    script.answers["First", "bind"] = lambda _: next(failures, None)
    script.answers["Second", "unreserve"] = ValueError("not mine")
    async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First", "Second")) as site:
        await world.place("web", POLICIES["PickAll"])
        await world.soon_on("web", "ams", "dub")
        failed = next(one for one in site.of("web") if one.effects)
    assert (failed.result, failed.writes) == (AttemptResult.BIND_FAILED, [])
    first = script.journal[: script.journal.index("First.unreserve(ams)") + 1]
    assert first[first.index("First.bind(ams)") :] == [
        "First.bind(ams)",
        *("Second.unreserve(dub)", "First.unreserve(dub)", "Second.unreserve(ams)", "First.unreserve(ams)"),
    ]
    assert not any("post_bind" in call for call in first)


@virtual
async def test_F3_011_F3_086_binders_that_all_decline_bind_nothing(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams")
    text = a_document("    bind: {disabled: [{name: HubBindingBinder}], enabled: [{name: First}]}\n")
    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        await world.place("web", POLICIES["PickAll"])
        await asyncio.sleep(5)
        failed = next(one for one in site.of("web") if one.effects)
    assert (failed.result, failed.writes) == (AttemptResult.BIND_FAILED, [])
    assert failed.failure == "the scheduler at bind of cluster ams: no bind plugin handled"


@virtual
async def test_F3_073_F3_087_what_comes_after_a_binding_changes_nothing(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams")
    script.answers["First", "post_bind"] = ValueError("boom")
    script.answers["Second", "post_bind"] = Status.new(Code.UNSCHEDULABLE, "too late")
    async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First", "Second")) as site:
        await world.place("web", POLICIES["PickAll"])
        await world.soon_scheduled("web")
        await asyncio.sleep(1)
        (record,) = [one for one in site.of("web") if one.effects]
    assert record.result is AttemptResult.DECIDED
    assert script.journal[-2:] == ["First.post_bind(ams)", "Second.post_bind(ams)"]


@virtual
async def test_F3_011_F3_070_what_needs_no_preparation_is_not_prepared(script: Script, tmp_path: Path) -> None:
    """Each cluster is looked at once; where none needs anything, nothing is remembered on the hub either."""
    hub, world = await a_fleet("ams", "dub")
    unready: Any = {"dub"}
    script.answers["Looking", "pre_bind_preflight"] = lambda cluster: (
        None if cluster in unready else Status.new(Code.SKIP)
    )
    text = a_document("    preBind: {enabled: [{name: Looking}, {name: First}]}\n")
    script.answers["First", "pre_bind"] = None
    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        await world.place("web", POLICIES["PickAll"])
        await world.soon_on("web", "ams", "dub")
        await soon(lambda: _has_ended(site))
        (record,) = [one for one in site.of("web") if one.effects]
    answered = [(one.plugin, one.target, one.status.code) for one in record.effects if one.hook == "preBind"]
    assert answered == [
        ("Looking", "ams", Code.SKIP),
        ("First", "ams", Code.SUCCESS),
        ("Looking", "dub", Code.SUCCESS),
        ("First", "dub", Code.SUCCESS),
    ]
    assert [call for call in script.journal if "Looking" in call] == [
        "Looking.pre_bind_preflight(ams)",
        "Looking.pre_bind_preflight(dub)",
        "Looking.pre_bind(dub)",
    ]


@virtual
async def test_F3_070_where_no_cluster_needs_preparation_nothing_is_remembered(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub")
    options = find_scope("web").options
    script.answers["Looking", "pre_bind_preflight"] = Status.new(Code.SKIP)
    text = a_document("    preBind: {enabled: [{name: Looking}]}\n")
    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        await world.place("web", TWO)
        await world.soon_on("web", "ams", "dub")
        await soon(lambda: _has_ended(site))
        assert await world.find(options, "web") is None
    assert not any("pre_bind(" in call for call in script.journal)


@virtual
async def test_F3_065_a_plugin_that_only_unreserves_cleans_up_after_others(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams")
    script.answers["First", "reserve"] = Status.new(Code.UNSCHEDULABLE, "full")
    text = a_document("    reserve: {enabled: [{name: Undoing}, {name: First}]}\n")
    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        await world.place("web", {"placementType": "PickFixed", "clusterNames": ["ams"]})
        await soon(lambda: _has_ended(site))
    assert script.journal == ["First.reserve(ams)", "First.unreserve(ams)", "Undoing.unreserve(ams)"]


@virtual
async def test_F3_101_a_plugin_that_acts_reads_the_fleet_of_today(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams")
    seen: list[Any] = []

    def look(cluster: str) -> None:
        handle = script.handles["First"]
        seen.append((cluster in handle.snapshot().names, cluster in handle.cache_view().names))

    script.answers["First", "pre_bind"] = look
    async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First")):
        await world.place("web", {"placementType": "PickFixed", "clusterNames": ["ams"]})
        await world.soon_on("web", "ams")
    assert seen == [(True, True)]


@pytest.mark.parametrize("hook", ["reserve", "permit", "pre_bind"])
@virtual
async def test_F3_101_with_checks_a_plugin_that_acts_may_not_read_the_fleet_that_was_decided_on(
    script: Script, tmp_path: Path, hook: str
) -> None:
    hub, world = await a_fleet("ams")
    seen: list[Any] = []
    script.answers["First", hook] = lambda _: bool(script.handles["First"].snapshot())
    script.answers["First", "pre_filter"] = lambda _: seen.append(script.handles["First"].snapshot().names)
    script.answers["First", "post_bind"] = lambda _: seen.append(script.handles["First"].cache_view().names)
    text = at_every_hook("First") + "    preFilter: {enabled: [{name: First}]}\n"
    with capture_logs():
        async with running(hub, tmp_path / "fleet.yaml", text, "evaluation.checkPlugins=true") as site:
            await world.place("web", POLICIES["PickAll"])
            await asyncio.sleep(1)
            failed = next(one for one in site.of("web") if one.effects)
            assert await world.bindings("web") == []
            del script.answers["First", hook]
            await world.soon_on("web", "ams")
            await asyncio.sleep(1)
    assert failed.failure.endswith("the frame of the decision is out of date in effect hooks: use handle.cache_view()")
    assert all("ams" in names for names in seen)
    assert len(seen) > 1


def test_F3_026_F3_027_F3_028_F3_029_a_state_is_shared_between_threads(script: Script, tmp_path: Path) -> None:
    key, found = StateKey("reserve/Plain"), []

    def use(cluster: str) -> None:
        state = script.states[-1]
        state.write(key, Counter())
        together = threading.Barrier(8)

        def count(number: int) -> None:
            for _ in range(100):
                with state.lock():
                    state.poke(key, Counter(state.peek(key).value + 1))

        def read(number: int) -> None:
            with state.rlock():
                together.wait(timeout=60)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(count, range(8)))
            list(pool.map(read, range(8)))
        for take in (state.lock, state.rlock):
            with suppress(KeyError), take():
                raise KeyError
        with pytest.raises(RuntimeError):
            state.unlock()
        found.append(state.read(key).value)

    async def run() -> None:
        hub, world = await a_fleet("ams")
        text = a_document("    reserve: {enabled: [{name: First}, {name: Plain}]}\n")
        async with running(hub, tmp_path / "fleet.yaml", text, clock=SystemClock()):
            await world.place("web", {"placementType": "PickFixed", "clusterNames": ["ams"]})
            await world.soon_on("web", "ams")

    script.answers["Plain", "reserve"] = use
    asyncio.run(run())
    assert found == [800]


@virtual
async def test_F3_020_a_state_is_of_no_use_after_its_attempt(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams")
    async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First")):
        await world.place("web", POLICIES["PickAll"])
        await world.soon_scheduled("web")
        await asyncio.sleep(1)
        (state,) = script.states
        with pytest.raises(StateExpired):
            state.read(StateKey("reserve/First"))


@virtual
async def test_F3_111_W_01_the_history_has_the_answers_and_replays_the_decision(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub", "osl")
    script.answers["First", "reserve"] = lambda on: Status.new(Code.UNSCHEDULABLE, "full") if on == "osl" else None
    script.answers["First", "permit"] = (WAIT, timedelta(seconds=30))
    text = a_document(
        "    reserve: {enabled: [{name: First}]}\n    permit: {enabled: [{name: First}]}\n", reserveFallback="true"
    )
    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        await world.place("web", TWO)
        await asyncio.sleep(60)
        record = next(one for one in site.of("web") if one.result is AttemptResult.REJECTED)
        attempt = summarize_attempt(record, "a-1")
        (inputs,) = read_recorded(site, [record], tmp_path)
    said = [(one.hook, one.plugin, one.cluster, one.code, one.message) for one in attempt.effects]
    assert ("reserve", "First", "osl", "Unschedulable", "full") in said
    assert ("permit", "First", "ams", "Wait", "ask the owner") in said
    assert said[-1][3:] == ("Unschedulable", "rejected due to timeout after waiting 30s at plugin First")
    assert [one.deadline for one in attempt.effects if one.code == "Wait"] == [record.started + 30_000_000_000] * 2
    assert inputs.set_aside == ("osl",)
    assert record.inputs is not None
    assert replay(inputs, build_evidence(attempt), record.inputs.profile).same


# --- waiting ----------------------------------------------------------------------------------------------------------


PERMIT: Final = a_document("    reserve: {enabled: [{name: First}]}\n    permit: {enabled: [{name: First}]}\n")


@virtual
async def test_F3_103_F3_107_F3_110_what_is_allowed_is_bound(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet()
    script.answers["First", "permit"] = (WAIT, timedelta(seconds=60))
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        await world.place("web", POLICIES["PickAll"])
        await asyncio.sleep(20)
        parked: list[Any] = []
        script.handles["First"].for_each_waiting(parked.append)
        (item,) = parked
        assert (item.targets, item.pending_plugins()) == (("ams", "dub"), ["First"])
        assert not any(creates(request) for request in hub.requests)
        assert item.allow("Other") is False
        assert item.allow("First", "ams")
        await asyncio.sleep(1)
        assert (item.pending_plugins("ams"), item.pending_plugins("dub")) == ([], ["First"])
        assert script.handles["First"].allow_waiting(item.uid, "First")
        await world.soon_on("web", "ams", "dub")
        assert script.handles["First"].get_waiting(item.uid) is None
        assert (item.allow("First"), item.reject("First", "too late")) == (False, False)
        assert site.endings("web")[-2:] == [AttemptResult.WAITING, AttemptResult.DECIDED]


@virtual
async def test_F3_111_the_shortest_time_counts_and_says_so(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet()
    times = {"ams": 60, "dub": 30}
    script.answers["First", "permit"] = lambda cluster: (WAIT, timedelta(seconds=times[cluster]))
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        await world.place("web", POLICIES["PickAll"])
        await asyncio.sleep(29)
        assert site.endings("web")[-1] is AttemptResult.WAITING
        await asyncio.sleep(3)
        record = site.of("web")[-1]
    assert record.result is AttemptResult.REJECTED
    assert record.failed is not None
    assert message_of(record.failed.status) == "rejected due to timeout after waiting 30s at plugin First"
    assert script.journal[-2:] == ["First.unreserve(dub)", "First.unreserve(ams)"]
    assert not any(creates(request) for request in hub.requests)


@virtual
async def test_F3_108_an_edit_ends_the_wait(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet()
    answers = iter([(WAIT, timedelta(seconds=600))])
    script.answers["First", "permit"] = lambda _: next(answers, None)
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        await world.place("web", {"placementType": "PickN", "numberOfClusters": 1})
        await asyncio.sleep(20)
        await world.edit_policy("web", numberOfClusters=2)
        await world.soon_on("web", "ams", "dub")
        refused = next(one for one in site.of("web") if one.result is AttemptResult.REJECTED)
    assert refused.failure.startswith("the scheduler at permit of cluster dub: SpecChanged: ")


@pytest.mark.parametrize("change", ["edit", "departure"])
@virtual
async def test_F3_108_what_changes_while_plugins_are_asked_is_not_waited_for(
    script: Script, tmp_path: Path, change: str
) -> None:
    hub, world = await a_fleet("ams")

    async def think() -> Any:
        if change == "edit":
            await world.edit_policy("web", clusterNames=["ams", "dub"])
        else:
            await world.delete(MEMBER_CLUSTERS, "ams")
        await asyncio.sleep(5)
        return WAIT, timedelta(seconds=600)

    script.answers["First", "permit"] = lambda _: think()
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        await world.place("web", {"placementType": "PickFixed", "clusterNames": ["ams"]})
        await asyncio.sleep(8)
        refused = next(one for one in site.of("web") if one.result is AttemptResult.REJECTED)
        script.answers.clear()
    expected = {"edit": "SpecChanged: ", "departure": "cluster ams no longer qualifies: it left the fleet"}
    assert expected[change] in refused.failure
    assert "First.unreserve(ams)" in script.journal


@virtual
async def test_an_attempt_that_comes_to_its_wait_after_the_stop_does_not_wait(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams")
    script.answers["First", "permit"] = (WAIT, timedelta(seconds=600))
    reading = asyncio.Event()

    def slow_lists(request: Request) -> Fault:
        if "labelSelector" not in dict(request.query) or not request.path.endswith("bindings"):
            return None
        reading.set()
        return Slow(2)

    started = 0.0
    async with running(hub, tmp_path / "fleet.yaml", PERMIT, "bindings.read=List", fault=slow_lists) as site:
        await world.place("web", POLICIES["PickAll"])
        await reading.wait()
        started = asyncio.get_running_loop().time()
    assert AttemptResult.WAITING in site.endings("web")
    assert asyncio.get_running_loop().time() - started < 10
    assert "unreserve" not in " ".join(script.journal)


@pytest.mark.parametrize("hook", ["pre_bind", "bind"])
@virtual
async def test_a_plugin_that_is_cancelled_by_itself_fails_its_attempt_only(
    script: Script, tmp_path: Path, hook: str
) -> None:
    hub, world = await a_fleet("ams")

    async def lose() -> None:
        lost = asyncio.create_task(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(lost.cancel)
        await lost

    answers = iter([lose])
    script.answers["First", hook] = lambda _: next(answers, lambda: None)()
    async with running(hub, tmp_path / "fleet.yaml", at_every_hook("First")) as site:
        await world.place("web", POLICIES["PickAll"])
        await world.soon_on("web", "ams")
        failed = next(one for one in site.of("web") if one.effects)
    assert failed.failure.endswith("its call was cancelled, but not by the scheduler")
    assert "First.unreserve(ams)" in script.journal


@virtual
async def test_Q_47_a_deleted_placement_does_not_wait_any_longer(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet()
    script.answers["First", "permit"] = (WAIT, timedelta(seconds=600))
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        await world.place("web", TWO)
        await asyncio.sleep(20)
        assert len(site.scheduler.parked) == 1
        await world.delete(find_scope("web").placement, "web")
        await asyncio.sleep(20)
        assert len(site.scheduler.parked) == 0
        assert await world.find(find_scope("web").placement, "web") is None
        assert PlacementKey.parse("web") not in site.scheduler.queue
    assert script.journal[-2:] == ["First.unreserve(ams)", "First.unreserve(dub)"] or script.journal[-2:] == [
        "First.unreserve(dub)",
        "First.unreserve(ams)",
    ]


@virtual
async def test_F3_104_F3_111_a_rejection_gives_everything_back_and_says_why(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet()
    script.answers["First", "permit"] = (WAIT, timedelta(seconds=600))
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        await world.place("web", POLICIES["PickAll"])
        await asyncio.sleep(20)
        handle, uid = script.handles["First"], str((await world.placement("web"))["metadata"]["uid"])
        assert handle.reject_waiting("other", "First", "no") is False
        assert handle.reject_waiting(uid, "First", "not in the freeze")
        assert handle.reject_waiting(uid, "First", "again") is False
        await asyncio.sleep(1)
        (record,) = site.of("web")[-1:]
        item = site.scheduler.queue.peek(PlacementKey.parse("web"))
    assert (record.result, item.rejectors) == (AttemptResult.REJECTED, {"First"})
    assert record.failure == "First at permit of cluster ams: not in the freeze"
    assert script.journal[-2:] == ["First.unreserve(dub)", "First.unreserve(ams)"]
    assert not any(creates(request) for request in hub.requests)


@virtual
async def test_F3_110_an_answer_that_comes_before_the_wait_is_not_lost(script: Script, tmp_path: Path) -> None:
    """The first plugin waits; while the second is still asked, somebody allows the first."""
    hub, world = await a_fleet("ams")

    async def think() -> Any:
        await asyncio.sleep(5)
        uid = str((await world.placement("web"))["metadata"]["uid"])
        assert script.handles["First"].get_waiting(uid) is None
        assert script.handles["First"].allow_waiting(uid, "First", "ams")
        return WAIT, timedelta(seconds=30)

    script.answers["First", "permit"] = (WAIT, timedelta(seconds=60))
    script.answers["Second", "permit"] = lambda _: think()
    text = a_document("    permit: {enabled: [{name: First}, {name: Second}]}\n")
    async with running(hub, tmp_path / "fleet.yaml", text) as site:
        await world.place("web", POLICIES["PickAll"])
        await asyncio.sleep(20)
        (item,) = site.scheduler.parked._list()
        assert item.pending_plugins() == ["Second"]
        assert item.allow("Second")
        await world.soon_on("web", "ams")


@virtual
async def test_an_answer_during_a_refused_attempt_makes_another_one(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams")
    answers = iter([(Status.new(Code.PENDING, "one more owner"), timedelta(0))])

    async def think() -> Any:
        await asyncio.sleep(5)
        uid = str((await world.placement("web"))["metadata"]["uid"])
        script.handles["First"].allow_waiting(uid, "First", "ams")
        return next(answers, None)

    script.answers["First", "permit"] = lambda _: think()
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        await world.place("web", POLICIES["PickAll"])
        await world.soon_on("web", "ams")
        assert AttemptResult.REJECTED in site.endings("web")


@virtual
async def test_a_cluster_that_leaves_ends_the_wait(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub", "osl")
    answers = iter([(WAIT, timedelta(seconds=600))] * 2)
    script.answers["First", "permit"] = lambda _: next(answers, None)
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        await world.place("web", TWO)
        await asyncio.sleep(20)
        (item,) = site.scheduler.parked._list()
        gone = item.targets[0]
        await world.delete(MEMBER_CLUSTERS, gone)
        await world.soon_on("web", *({"ams", "dub", "osl"} - {gone}))
        refused = next(one for one in site.of("web") if one.result is AttemptResult.REJECTED)
    assert f"cluster {gone} left the fleet while the placement waited" in refused.failure


@virtual
async def test_a_decision_is_judged_again_when_the_wait_is_over(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub", "osl")
    answers = iter([(WAIT, timedelta(seconds=600))] * 2)
    script.answers["First", "permit"] = lambda _: next(answers, None)
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        await world.place("web", TWO)
        await asyncio.sleep(20)
        (item,) = site.scheduler.parked._list()
        tainted = item.targets[0]
        await world.taint(tainted, {"key": "dedicated", "value": "batch", "effect": "NoSchedule"})
        await asyncio.sleep(5)
        assert item.allow("First")
        await world.soon_on("web", *({"ams", "dub", "osl"} - {tainted}))
        refused = next(one for one in site.of("web") if one.result is AttemptResult.REJECTED)
    assert f"cluster {tainted} no longer qualifies: TaintToleration rejects it now" in refused.failure
    assert not any(tainted in request.path for request in hub.requests if creates(request))


@virtual
async def test_existing_bindings_stay_until_the_new_ones_are_allowed(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub", "osl")
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        await world.place("web", {"placementType": "PickFixed", "clusterNames": ["ams"]})
        await world.soon_on("web", "ams")
        script.answers["First", "permit"] = (WAIT, timedelta(seconds=600))
        await world.edit_policy("web", clusterNames=["dub"])
        await asyncio.sleep(60)
        before = (await world.latest_snapshot("web") or {}).get("status")
        assert (await world.in_use("web"), before) == ({"ams"}, None)
        (item,) = site.scheduler.parked._list()
        assert item.allow("First")
        await world.soon_on("web", "dub")


# --- what survives ----------------------------------------------------------------------------------------------------


@virtual
async def test_X_11_after_a_restart_the_rest_of_the_wait_counts_for_the_same_clusters(
    script: Script, tmp_path: Path
) -> None:
    hub, world = await a_fleet("ams", "dub")
    script.answers["First", "permit"] = (WAIT, timedelta(seconds=60))
    clock = VirtualClock()
    async with killed(running(hub, tmp_path / "fleet.yaml", PERMIT, clock=clock)) as site:
        await world.place("web", TWO)
        await asyncio.sleep(20)
        (first,) = site.scheduler.parked._list()
    script.journal.clear()
    for name in ("yyy", "zzz"):  # a scan would choose them: among equals the greatest name is first
        await world.join(name)
    async with running(hub, tmp_path / "fleet.yaml", PERMIT, clock=clock) as site:
        await asyncio.sleep(1)
        (second,) = site.scheduler.parked._list()
        assert (second.targets, second.pending) == (first.targets, first.pending)
        assert second.allow("First")
        await world.soon_on("web", *first.targets)
        assert site.scheduler.companion_status.load(PlacementKey.parse("web"), second.uid).is_empty
    assert "unreserve" not in " ".join(script.journal)


@virtual
async def test_a_wait_that_ran_out_during_a_restart_is_over(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet()
    script.answers["First", "permit"] = (WAIT, timedelta(seconds=60))
    clock = VirtualClock()
    async with killed(running(hub, tmp_path / "fleet.yaml", PERMIT, clock=clock)):
        await world.place("web", TWO)
        await asyncio.sleep(20)
    await asyncio.sleep(100)
    async with running(hub, tmp_path / "fleet.yaml", PERMIT, clock=clock) as site:
        await asyncio.sleep(1)
        (record,) = [one for one in site.of("web") if one.result is AttemptResult.REJECTED]
    assert "rejected due to timeout after waiting 60s at plugin First" in record.failure
    assert not any(creates(request) for request in hub.requests)


@pytest.mark.parametrize("edited", ["selection", "options", "own options"])
@virtual
async def test_F3_108_X_11_what_is_edited_during_a_restart_is_asked_about_anew(
    script: Script, tmp_path: Path, edited: str
) -> None:
    hub, world = await a_fleet("ams", "dub")
    script.answers["First", "permit"] = (WAIT, timedelta(seconds=60))
    options = find_scope("web").options
    if edited == "options":
        await world.create(options, {"metadata": {"name": "web"}, "spec": {"priority": 1}})
    clock = VirtualClock()
    async with killed(running(hub, tmp_path / "fleet.yaml", PERMIT, clock=clock)) as site:
        await world.place("web", POLICIES["PickFixed"])
        await asyncio.sleep(20)
        (first,) = site.scheduler.parked._list()
    if edited == "selection":
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "other"}
        await world.patch(find_scope("web").placement, "web", {"spec": {"resourceSelectors": [selector]}})
        snapshot = await world.latest_snapshot("web")
        assert snapshot is not None
        seen = {PLACEMENT_GENERATION: str((await world.placement("web"))["metadata"]["generation"])}
        name = snapshot["metadata"]["name"]
        await world.patch(find_scope("web").policy_snapshot, name, {"metadata": {"annotations": seen}})
    else:
        await world.patch(options, "web", {"spec": {"priority": 2}})
    started = epoch_nanoseconds(clock)
    async with running(hub, tmp_path / "fleet.yaml", PERMIT, clock=clock) as site:
        await asyncio.sleep(20)
        (second,) = site.scheduler.parked._list()
        deadlines = {deadline for each in second.pending.values() for deadline in each.values()}
        assert set(second.targets) == set(first.targets) == {"ams", "dub"}
        assert min(deadlines) >= started + 60_000_000_000
        state = site.scheduler.companion_status.load(PlacementKey.parse("web"), second.uid)
        assert {entry.deadline for entry in state.waiting} == deadlines


@virtual
async def test_Q_35_Q_36_a_restart_during_preparation_prepares_the_same_clusters(
    script: Script, tmp_path: Path
) -> None:
    hub, world = await a_fleet("ams", "dub")
    script.answers["First", "pre_bind"] = lambda _: asyncio.sleep(50)
    text = a_document("    preBind: {enabled: [{name: First}]}\n")
    clock = VirtualClock()
    async with killed(running(hub, tmp_path / "fleet.yaml", text, clock=clock)) as site:
        await world.place("web", {"placementType": "PickN", "numberOfClusters": 1})
        await asyncio.sleep(20)
        uid = str((await world.placement("web"))["metadata"]["uid"])
        (nominated,) = site.scheduler.companion_status.load(PlacementKey.parse("web"), uid).nominated
    for name in ("yyy", "zzz"):
        await world.join(name)
    script.answers.clear()
    async with running(hub, tmp_path / "fleet.yaml", text, clock=clock) as site:
        await world.soon_on("web", nominated.cluster)
        assert site.scheduler.companion_status.load(PlacementKey.parse("web"), uid).is_empty
    assert nominated.cause == "PreBind"


@virtual
async def test_Q_35_without_work_nothing_is_published(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[Any] = []

    async def publish(key: PlacementKey, state: WaitingState) -> None:
        published.append(state)

    hub, world = await a_fleet()
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        monkeypatch.setattr(site.scheduler.companion_status, "publish", publish)
        await world.place("web", TWO)
        await world.soon_scheduled("web")
    assert published == []


@virtual
async def test_pending_keeps_the_chosen_clusters_and_holds_nothing(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub")
    unready = Status(Code.PENDING, ("one more owner",), details={"rules": ("prod", "eu")})
    script.answers["First", "permit"] = (unready, timedelta(0))
    key = PlacementKey.parse("web")
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        await world.place("web", TWO)
        await asyncio.sleep(5)
        item = site.scheduler.queue.peek(key)
        uid = str((await world.placement("web"))["metadata"]["uid"])
        state = site.scheduler.companion_status.load(key, uid)
        assert (item.rejectors, item.pending) == (set(), {"First"})
        asked = {(entry.cluster, entry.plugin, entry.rule, entry.deadline) for entry in state.waiting}
        assert asked == {(name, "First", rule, None) for name in ("ams", "dub") for rule in ("prod", "eu")}
        assert {(one.cluster, one.cause) for one in state.nominated} == {("ams", "Permit"), ("dub", "Permit")}
        assert [call for call in script.journal if "unreserve" in call]
        for name in ("yyy", "zzz"):
            await world.join(name)
        script.answers.clear()
        site.scheduler.queue.add(key, trigger="Approval/Recorded web-1")
        await world.soon_on("web", "ams", "dub")
        assert site.scheduler.companion_status.load(key, uid).is_empty


@virtual
async def test_what_was_pending_is_forgotten_when_nothing_is_chosen_any_more(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub")
    key = PlacementKey.parse("web")
    async with running(hub, tmp_path / "fleet.yaml", PERMIT) as site:
        script.answers["First", "permit"] = (Status(Code.PENDING, ("one more owner",)), timedelta(0))
        await world.place("web", POLICIES["PickFixed"])
        await asyncio.sleep(20)
        uid = str((await world.placement("web"))["metadata"]["uid"])
        assert not site.scheduler.companion_status.load(key, uid).is_empty
        await world.edit_policy("web", clusterNames=["osl"])
        await asyncio.sleep(20)
        assert site.endings("web")[-1] is AttemptResult.SHORT
        assert site.scheduler.companion_status.load(key, uid).is_empty


@virtual
async def test_who_loses_the_lease_while_waiting_writes_and_undoes_nothing(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet()
    script.answers["First", "permit"] = (WAIT, timedelta(seconds=60))
    async with killed(running(hub, tmp_path / "fleet.yaml", PERMIT)) as site:
        await world.place("web", TWO)
        await asyncio.sleep(20)
        (item,) = site.scheduler.parked._list()
        before = len([request for request in hub.requests if request.is_write])
        site.controller._gate.close()
        assert item.allow("First")
        await asyncio.sleep(120)
    assert len([request for request in hub.requests if request.is_write]) == before
    assert "unreserve" not in " ".join(script.journal)
