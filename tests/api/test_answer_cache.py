"""Answers served from bytes made once: always the answer that would be made now, for the caller who asks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.live.answer_cache import (
    MAX_BYTES,
    RECHECK_SECONDS,
    AnswerCache,
    AnswerKey,
    CachedAnswer,
    FleetChanges,
    StateMark,
    encode_answer,
)
from api.routers import why
from api.routers.request_context import AppState, ParsedTargetRoute
from api.services.why import explain_placement
from fleet.clock import Clock, SystemClock, to_nanoseconds
from fleet.kube.cache.store import Codec, Store
from fleet.kube.scopes import CLUSTER_SCOPED, find_scope
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import HOUR, MINUTE, SECOND, format_timestamp
from fleet.model.views import MemberCluster
from fleet.scheduler.profiles.frameworks import build_compiled_profiles, build_configured_frameworks
from fleet.scheduler.queue.async_queue import AsyncQueue
from fleet.scheduler.queue.scheduling_queue import SchedulingQueue
from fleet.settings import load_settings
from fleet.snapshot.columns.signals import Eligibility
from tests.api.stage import ADMIN, AUTHOR, OPERATOR, PATIENT, Stage, alone, live_beside
from tests.builders import NOW, ClusterBuilder, a_cluster, a_frame
from tests.control_plane.waiting import SECONDS_TO_HAPPEN
from tests.e2e.hub import soon
from tests.fake_clock import FakeClock

Json = dict[str, Any]

LONG: Final = os.environ.get("FLEET_LONG", "") not in ("", "0")
STEPS: Final = 200 if LONG else 12
WHY: Final = "/v1/placements/-/{}/why"
HEAD: Final = "apiVersion: scheduling.fleet.dev/v1\nkind: FleetSchedulerConfiguration\n"
QUESTIONS: Final = (
    WHY.format("web"),
    WHY.format("big"),
    WHY.format("big") + "?fixes=none&explain=all",
    WHY.format("web") + "?attempt=1",
    WHY.format("gone"),
    WHY.format("web") + "?cluster=ams-1",
    "/v1/placements/shop/cache/why",
    "/v1/clusters/osl-1/why-not?placement=big",
)


@contextmanager
def counting() -> Iterator[list[str]]:
    """The placements for which an answer was made."""
    found: list[str] = []

    async def counted(backend: Any, permissions: Any, query: Any) -> Any:
        found.append(query.key)
        return await explain_placement(backend, permissions, query)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("api.services.answers.explain_placement", counted)
        yield found


def without_moment(answer: Json) -> Json:
    """An answer about the present says when it was evaluated, and ages as of then."""
    attempt = answer.get("attempt", {})
    if attempt.get("evaluatedOn") == "current":
        attempt |= {"at": "", "frameGeneration": 0}
        for row in attempt["clusters"]:
            for rejection in row["rejections"]:
                rejection["lines"] = [line.partition(", ")[0] for line in rejection["lines"]]
    return answer


async def ask(stage: Stage, path: str, token: str) -> tuple[int, Json]:
    answer = await stage.get(path, token)
    return answer.status_code, without_moment(answer.json())


def stage_beside(stage: Stage, *, is_alone: bool, max_bytes: int, clock: Clock | None = None) -> Stage:
    """Another API beside the same controller: with its queue and history, or alone, as without a history.
    Without room for answers it makes every one anew."""
    live = live_beside(stage, clock=clock)
    if is_alone:
        live.queue = None
    history, settings = None if is_alone else stage.history, load_settings(None, {}, [PATIENT, "queue.maxDelay=30s"])
    app = create_app(live, history, HubAuthorizer(stage.hub, clock=SystemClock()), settings)
    shared: AppState = app.state.shared
    app.state.shared = replace(shared, backend=replace(shared.backend, answers=AnswerCache(max_bytes)))
    return replace(stage, app=app)


def draw_change(random: Random, stage: Stage) -> Callable[[], Awaitable[Any]]:
    world, cluster = stage.world, random.choice(["ams-1", "ams-2", "dub-1", "dub-2", "osl-1"])
    taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
    return random.choice(
        [
            lambda: world.taint(cluster, taint),
            lambda: world.taint(cluster),
            lambda: world.relabel(cluster, region=random.choice(["ams", "dub", "osl"])),
            lambda: world.edit_policy("web", numberOfClusters=random.randint(1, 4)),
            lambda: world.edit_policy("big", numberOfClusters=random.randint(3, 6)),
            lambda: world.join(f"new-{random.randint(0, 10**6)}", labels={"region": "ams"}),
            lambda: release(stage, "web"),
            lambda: asyncio.sleep(RECHECK_SECONDS),
        ]
    )


async def release(stage: Stage, key: str) -> None:
    for binding in (await stage.world.bindings(key))[:1]:
        await stage.world.delete(find_scope(key).binding, binding["metadata"]["name"])


@alone
async def test_an_answer_from_the_cache_equals_one_made_now_after_random_changes(stage: Stage) -> None:
    """Where two that are made one after the other are equal, the cached one asked between them is, too."""
    random, compared = Random(20_261), 0
    pairs = [
        tuple(stage_beside(stage, is_alone=is_alone, max_bytes=size) for size in (MAX_BYTES, 0))
        for is_alone in (False, True)
    ]
    pauses: list[Callable[[], Awaitable[Any]]] = [
        partial(asyncio.sleep, 0),
        partial(asyncio.sleep, 0.05),
        stage.wait_until_recorded,
    ]
    for _ in range(STEPS):
        (cached, anew), token = random.choice(pairs), random.choice([ADMIN, OPERATOR, AUTHOR])
        for path in QUESTIONS:
            await ask(cached, path, token)
        await draw_change(random, stage)()
        await random.choice(pauses)()
        for path in QUESTIONS:
            before = await ask(anew, path, token)
            answers = [await ask(cached, path, token), await ask(cached, path, token)]
            if before == await ask(anew, path, token):
                compared += 1
                assert answers == [before, before], path
    assert compared > STEPS


@alone
async def test_an_unchanged_placement_is_explained_once_in_each_form(stage: Stage) -> None:
    with counting() as made:
        first = [await stage.get(WHY.format("web"), Accept=form) for form in ("application/json", "text/plain")]
        second = [await stage.get(WHY.format("web"), Accept=form) for form in ("application/json", "text/plain")]

        assert made == ["web", "web"]
        assert [answer.content for answer in second] == [answer.content for answer in first]
        assert [answer.headers["etag"] for answer in second] == [answer.headers["etag"] for answer in first]
        assert second[0].headers["fleet-state"] == "Scheduled"
        unchanged = await stage.get(WHY.format("web"), **{"If-None-Match": first[0].headers["etag"]})
        assert (unchanged.status_code, unchanged.content) == (304, b"")


@alone
async def test_requests_at_the_same_time_share_one_answer(stage: Stage) -> None:
    """More than the API would evaluate at a time."""
    with counting() as made:
        got = await asyncio.gather(*(stage.get(WHY.format("web")) for _ in range(30)))

        assert {answer.status_code for answer in got} == {200}
        assert made == ["web"]


@alone
async def test_callers_with_other_rights_get_an_answer_of_their_own(stage: Stage) -> None:
    whole, part = await stage.get(WHY.format("big")), await stage.get(WHY.format("big"), AUTHOR)

    assert "dub-1" in whole.text
    assert "dub-1" not in part.text
    assert "dub-1" not in (await stage.get(WHY.format("big"), AUTHOR)).text
    assert "dub-1" in (await stage.get(WHY.format("big"))).text


@alone
async def test_a_record_from_another_process_shows_after_a_second(stage: Stage) -> None:
    with counting() as made:
        assert stage.history is not None
        first = await stage.json(WHY.format("web"))
        with stage.history._database.writing() as connection:
            connection.exec_driver_sql("UPDATE attempts SET repeats = repeats + 7 WHERE key = 'web'")
        await asyncio.sleep(RECHECK_SECONDS)

        second = await stage.json(WHY.format("web"))

        assert second["history"][0]["repeats"] == first["history"][0]["repeats"] + 7
        assert made == ["web", "web"]


@alone
async def test_a_record_that_is_as_it_was_is_only_read_again(stage: Stage) -> None:
    with counting() as made:
        path = f"{WHY.format('web')}?attempt=1"  # of the past, which no cluster and no clock changes
        first = await stage.get(path)
        await asyncio.sleep(RECHECK_SECONDS)

        assert (await stage.get(path)).content == first.content
        assert made == ["web"]


@alone
async def test_a_lost_right_counts_although_the_answer_is_cached(stage: Stage) -> None:
    await stage.get(WHY.format("web"))

    assert (await stage.get(WHY.format("web"), "nonsense")).status_code == 401
    assert (await stage.get(WHY.format("web"), "stranger-token")).status_code == 403


@alone
async def test_an_answer_about_the_present_is_served_again_until_a_cluster_changes(stage: Stage) -> None:
    with counting() as made:
        path = WHY.format("big")  # what would help is tried on the present fleet
        await stage.get(path)
        await stage.get(path)
        assert made == ["big"]

        await stage.world.taint("ams-1", {"key": "gpu", "effect": "NoSchedule"})

        state: AppState = stage.app.state.shared
        await until(lambda: state.backend.live.caches.clusters.get("ams-1").spec.taints)  # type: ignore[union-attr]
        await stage.get(path)
        assert len(made) == 2


@alone
async def test_an_answer_about_the_present_lasts_as_long_as_nothing_changes(stage: Stage) -> None:
    """Without a history and a queue there is nothing that another process could have changed unseen."""
    beside = stage_beside(stage, is_alone=True, max_bytes=MAX_BYTES)
    with counting() as made:
        first = await beside.get(WHY.format("big"))
        await asyncio.sleep(RECHECK_SECONDS)

        assert (await beside.get(WHY.format("big"))).content == first.content
        assert made == ["big"]


@alone
async def test_an_answer_about_the_present_ends_when_other_hints_are_in_force(stage: Stage) -> None:
    """They end; one that ends more than a day from now is none yet."""
    clock = ShiftedClock()
    beside = stage_beside(stage, is_alone=True, max_bytes=MAX_BYTES, clock=clock)
    hints = [
        {
            "cluster": cluster,
            "owner": "planner",
            "expiresAt": format_timestamp(to_nanoseconds(clock.now().timestamp()) + hours * HOUR),
        }
        for cluster, hours in (("dub-1", 1), ("ams-1", 26))
    ]
    options = {"schedulerName": "nobody", "placementHints": hints}  # which would decide meanwhile
    await stage.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": "hinted"}, "spec": options})
    await stage.world.place("hinted", {"placementType": "PickN", "numberOfClusters": 1})

    async def ask_after(minutes: int) -> list[str]:
        clock.shift = timedelta(minutes=minutes)
        answer = await soon(lambda: read_present(beside, "hinted"))
        return [row["name"] for row in answer["attempt"]["clusters"] if row["outcome"] == "selected"]

    assert await ask_after(0) == ["dub-1"]
    with counting() as made:
        assert await ask_after(50) == ["dub-1"]
        assert await ask_after(61) == ["dub-2"]
        assert await ask_after(110) == ["dub-2"]
        assert await ask_after(121) == ["ams-1"]
    assert len(made) <= 3  # the first one may have been asked for before the scheduler had looked at it


class ShiftedClock(SystemClock):
    """Of a later time of day."""

    shift = timedelta()

    def now(self) -> datetime:
        return super().now() + self.shift


async def read_present(stage: Stage, placement: str) -> Json | None:
    answer = await stage.get(WHY.format(placement) + "?fixes=none")
    return answer.json() if answer.status_code == 200 else None


@alone
async def test_an_answer_of_plugins_from_elsewhere_is_made_again_after_a_second(stage: Stage) -> None:
    beside = stage_beside(stage, is_alone=True, max_bytes=MAX_BYTES)
    with counting() as made, pytest.MonkeyPatch.context() as patched:
        patched.setattr("fleet.framework.profiles.profile._IN_TREE", "nowhere.")
        await beside.get(WHY.format("big"))
        await asyncio.sleep(RECHECK_SECONDS)
        await beside.get(WHY.format("big"))

    assert made == ["big", "big"]


@pytest.mark.parametrize("base, lasts", [("DefaultProfile", True), ("ExtendedProfile", False), ("LoadAware", False)])
def test_only_in_tree_plugins_that_read_clusters_have_answers_that_last(
    base: str, tmp_path: Path, *, lasts: bool
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(f"{HEAD}profiles: [{{base: {base}}}]\n", encoding="utf-8")

    assert build_compiled_profiles(load_settings(file, {}, []).settings).default.reads_clusters_only == lasts


@alone
async def test_parameters_that_were_parsed_once_mean_the_same_again(stage: Stage) -> None:
    """And those that were refused are refused again, as are callers whose request was understood."""
    short, long = WHY.format("big") + "?limit=1", WHY.format("big") + "?limit=3"
    for _ in range(3):
        assert [len((await stage.json(path))["attempt"]["clusters"]) for path in (short, long)] == [1, 3]
        assert (await stage.get(WHY.format("big") + "?limit=0")).status_code == 422
        assert (await stage.get(WHY.format("big") + "?limits=3")).status_code == 422
        assert (await stage.get(short, "nonsense")).status_code == 401
        assert (await stage.get(short, "stranger-token")).status_code == 403


@alone
async def test_parsed_parameters_are_kept_for_few_short_targets(stage: Stage) -> None:
    [route] = (each for each in why.router.routes if isinstance(each, ParsedTargetRoute) and "placements" in each.path)
    route._parsed.clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("api.routers.request_context._MOST_TARGETS", 5)
        for number in range(20):
            await stage.get(WHY.format("web") + f"?limit={number + 1}")
    kept = list(route._parsed)
    await stage.get(WHY.format("web") + "?limit=7" + "&limit=7" * 100)

    assert [query for _, query in kept] == [b"limit=16", b"limit=17", b"limit=18", b"limit=19", b"limit=20"]
    assert list(route._parsed) == kept


@contextmanager
def without_recheck() -> Iterator[None]:
    """Nothing but a difference makes an answer anew."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("api.live.answer_cache.RECHECK_SECONDS", 1e9)
        yield


@alone
async def test_an_attempt_that_only_confirmed_shows_as_soon_as_it_is_recorded(stage: Stage) -> None:
    """Neither the placement nor its place in the queue differs."""
    scheduler, history = stage.controller.scheduler, stage.history
    assert scheduler is not None
    assert history is not None
    with without_recheck():
        await stage.json(WHY.format("web"))
        scheduler.queue.add(PlacementKey.parse("web"), trigger="a test")
        await until(lambda: len(history.attempts("web", limit=5)) == 2)
        second = await stage.json(WHY.format("web"))

    assert [(attempt["n"], attempt["outcome"]) for attempt in second["history"]] == [(2, "Unchanged"), (1, "Selected")]


@alone
async def test_an_edit_of_the_policy_shows_without_a_history(stage: Stage) -> None:
    beside = stage_beside(stage, is_alone=True, max_bytes=MAX_BYTES)
    with without_recheck():
        await beside.json(WHY.format("web"))
        await stage.world.edit_policy("web", numberOfClusters=1)
        await stage.world.soon_scheduled("web")

        assert (await beside.json(WHY.format("web")))["verdict"]["wanted"] == 1


@alone
async def test_a_step_in_the_queue_shows_although_nothing_else_differs(stage: Stage) -> None:
    clock, key = SystemClock(), PlacementKey.parse("big")
    queue = AsyncQueue(SchedulingQueue(), clock=clock)
    beside = stage_beside(stage, is_alone=True, max_bytes=MAX_BYTES)
    shared: AppState = beside.app.state.shared
    shared.backend.live.queue = queue
    spaces = []
    with without_recheck():
        steps: list[Callable[[], object]] = [
            lambda: None,
            lambda: queue.add(key, trigger="a test"),
            lambda: queue.add(PlacementKey.parse("web"), trigger="a test"),
            lambda: queue._queue.pop(to_nanoseconds(clock.monotonic())),
            lambda: queue.mark_unschedulable(key, rejectors=["TaintToleration"]),
        ]
        for step in steps:
            step()
            found = (await beside.json(WHY.format("big")))["queue"]
            spaces.append((found["space"], found["ready"]))

    assert spaces == [("none", 0), ("active", 1), ("active", 2), ("in_flight", 1), ("unschedulable", 1)]


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS_TO_HAPPEN):
        while not is_so():
            await asyncio.sleep(0.01)


# --- the cache --------------------------------------------------------------------------------------------------------


def an_entry(size: int) -> CachedAnswer:
    answer = encode_answer(b"x" * size, "text/plain", tag="t", state="Scheduled")
    made = StateMark((), 0, 0, 0.0)
    return CachedAnswer(answer=answer, made=made, placement=None, queue=None, record=b"", holds_until=None)


def a_key(question: object, visible: bytes = b"") -> AnswerKey:
    return AnswerKey(question, visible, may_edit_clusters=False)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30_000)), max_size=200))
def test_the_cache_never_exceeds_its_size(puts: list[tuple[int, int]]) -> None:
    cache = AnswerCache(max_bytes=100_000)
    for question, size in puts:
        cache.put(a_key(question), an_entry(size))

        assert 0 <= cache.size <= 100_000
        assert cache.size == sum(len(entry.answer.body) + 1_024 for entry in cache._entries.values())
    assert all(cache.has_any(key.question) for key in cache._entries)


def test_the_answer_that_was_asked_for_least_recently_leaves_first() -> None:
    cache = AnswerCache(max_bytes=30_000)
    for question in ("a", "b", "a", "c", "d", "e", "f", "g", "h", "i", "j"):
        if cache.get(a_key(question)) is None:
            cache.put(a_key(question), an_entry(2_000))
        cache.get(a_key("a"))

    assert cache.has_any("a")
    assert not cache.has_any("b")


def test_an_answer_that_would_displace_all_others_is_not_kept() -> None:
    cache = AnswerCache(max_bytes=30_000)
    cache.put(a_key("a"), an_entry(100))
    cache.put(a_key("huge"), an_entry(29_000))

    assert (cache.has_any("a"), cache.has_any("huge")) == (True, False)


# --- the fleet --------------------------------------------------------------------------------------------------------

RULE: Final = Eligibility(heartbeat_timeout=5 * MINUTE, unhealthy_timeout=5 * MINUTE)
AGES: Final = st.integers(-60, 1_000)


@given(st.lists(st.tuples(AGES, st.sampled_from(["True", "False"]), AGES), max_size=5), st.floats(0, 1))
def test_signals_are_judged_alike_until_the_moment_that_is_named(
    fleet: list[tuple[int, str, int]], share: float
) -> None:
    frame = a_frame(
        *(a_cluster(f"c{n}").heard(heard).healthy(status, since_seconds=since) for n, (heard, status, since) in
          enumerate(fleet))
    )  # fmt: skip

    until = RULE.holds_until(frame.signals, NOW, retention=15 * MINUTE)

    later = NOW + round(share * (min(until, NOW + 10_000 * SECOND) - NOW))
    for moment in (later, min(until, NOW + 10_000 * SECOND)):
        assert (RULE.rows(frame.signals, moment) == RULE.rows(frame.signals, NOW)).all()


def test_the_moment_that_is_named_is_the_last() -> None:
    frame = a_frame(a_cluster("a").heard(100), a_cluster("b").heard(290))

    until = RULE.holds_until(frame.signals, NOW)

    assert until == NOW + 10 * SECOND
    assert RULE.rows(frame.signals, until).tolist().count(True) == 2
    assert RULE.rows(frame.signals, until + 1).tolist().count(True) == 1


class Watched:
    """Changes of a store of clusters, counted at a moment in which an answer about the present is cached."""

    def __init__(self, file: Path | None = None) -> None:
        self.clock = FakeClock()
        self.store = Store(Codec(msgspec.json.Decoder(MemberCluster).decode, lambda cluster: cluster.metadata))
        frameworks = build_configured_frameworks(load_settings(file, {}, []).settings)
        self.changes = FleetChanges(self.store, frameworks.list_signal_rules, self.clock)
        self.changes.find_next_expiry(a_frame(), NOW)

    def count(self, old: ClusterBuilder, new: ClusterBuilder) -> int:
        before = self.changes.count
        self.changes._note(old.build(), new.build())
        return self.changes.count - before


def test_a_heartbeat_of_a_healthy_cluster_changes_no_answer() -> None:
    assert Watched().count(a_cluster("a").heard(30), a_cluster("a").heard(0)) == 0


@pytest.mark.parametrize(
    "old, new",
    [
        (a_cluster("a").heard(30), a_cluster("a").heard(0).labelled(tier="gold")),
        (a_cluster("a").heard(30), a_cluster("a").heard(0).tainted("gpu")),
        (a_cluster("a").heard(30), a_cluster("a").heard(0).leaving()),
        (a_cluster("a").heard(30), a_cluster("a").heard(0).measured({"nodes": "3"})),
        (a_cluster("a").heard(600), a_cluster("a").heard(0)),
        (a_cluster("a").heard(900), a_cluster("a").heard(600)),
    ],
    ids=["label", "taint", "leaves", "property", "silent, and back", "silent, and shown as such"],
)
def test_everything_else_may_change_one(old: ClusterBuilder, new: ClusterBuilder) -> None:
    assert Watched().count(old, new) == 1


IMPATIENT: Final = f"""{HEAD}
eligibility: {{heartbeatTimeout: 1h}}
profiles:
- schedulerName: DefaultScheduler
- schedulerName: impatient
  pluginConfig: [{{name: ClusterEligibility, args: {{heartbeatTimeout: 1m, retention: 2m}}}}]
"""


def test_the_times_of_a_profile_count_besides_those_of_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(IMPATIENT, encoding="utf-8")
    watched = Watched(file)

    for heard, expiry in ((50, 10), (70, 50), (130, 900 - 130)):
        frame = a_frame(a_cluster("a").heard(heard))
        assert watched.changes.find_next_expiry(frame, NOW) == NOW + expiry * SECOND
    assert watched.count(a_cluster("a").heard(50), a_cluster("a").heard(0)) == 0
    assert watched.count(a_cluster("a").heard(70), a_cluster("a").heard(0)) == 1


def test_nothing_is_compared_while_no_answer_about_the_present_is_cached() -> None:
    watched = Watched()
    watched.clock.advance(RECHECK_SECONDS + 1)

    assert watched.count(a_cluster("a").heard(30), a_cluster("a").heard(0)) == 1
