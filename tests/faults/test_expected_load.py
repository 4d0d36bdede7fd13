"""The load that placements are expected to be, by the limits and requests of their selected workloads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.e2e.hub import soon
from tests.faults.configured import Scene, a_scene
from tests.faults.test_controller_load import find_remark
from tests.faults.test_workload_requests import (
    ALL,
    container,
    join_labelled,
    override_namespace,
    own,
    place,
    pods,
    read_annotation,
    replicated,
    rule,
    template,
)
from tests.faults.virtual import virtual

Json = dict[str, Any]

LIMITS: Final = "scheduling.fleet.dev/workload-limits"
SIDECAR: Final = container("proxy", limits={"cpu": "200m"}) | {"restartPolicy": "Always"}
MANY: Final = [container(f"c{number}", cpu=f"{2 * number}m") for number in range(1, 31)]
TABLE: Final[Mapping[str, tuple[str, Json, int]]] = {
    "a limit beats a request": ("Deployment", replicated(pods(container(limits={"cpu": "2"}, cpu="500m"))), 2000),
    "a request counts one and a half times": ("StatefulSet", replicated(pods(container(cpu="1"))), 1500),
    "a container with neither counts by default": ("Deployment", replicated(pods(container(memory="1Gi"))), 1000),
    "overhead is added": ("Deployment", replicated(pods(container(cpu="1"), overhead={"cpu": "250m"})), 1750),
    "replicas multiply": ("Deployment", replicated(pods(container(cpu="1"), overhead={"cpu": "250m"}), 3), 5250),
    "each container is rounded": ("Deployment", replicated(pods(container(cpu="333m")), 2), 1000),
    "containers add up": (
        "Deployment",
        replicated(pods(container(limits={"cpu": "2"}), container("a", cpu="1"), container("b"), init=(SIDECAR,)), 2),
        2 * (2000 + 1500 + 1000 + 200),
    ),
    "init containers that end do not count": (
        "Deployment",
        replicated(pods(container(cpu="1"), init=(container("warm", cpu="9"),))),
        1500,
    ),
    "the pod as a whole": (
        "Deployment",
        replicated(pods(container(cpu="1"), container("b"), resources={"limits": {"cpu": "4"}})),
        4000,
    ),
    "a job": (
        "Job",
        {"template": template(pods(container(limits={"cpu": "1"}), restartPolicy="Never")), "parallelism": 4},
        4000,
    ),
    "each node": ("DaemonSet", replicated(pods(container(limits={"cpu": "100m"}))), 300),
    "more sizes than are kept apart": ("Deployment", replicated(pods(*MANY)), 1395),
}


def profiles(load: float, *, target: int = 70, clusters: tuple[str, ...] = ("c1",)) -> str:
    loads = ", ".join(f"{name}: {{cpu: {load}}}" for name in clusters)
    return f"""
feeds:
- name: load
  static: {{{loads}}}
profiles:
- ranking: weighted
  plugins: {{score: {{disabled: [{{name: "*"}}], enabled: [{{name: TargetLoadPacking}}]}}}}
  pluginConfig:
  - {{name: TargetLoadPacking, args: {{feed: load, targetUtilization: {target}}}}}
"""


async def find_expected(scene: Scene, placement: str, cluster: str = "c1") -> tuple[int, float]:
    """Score, and the load with the placement in percent."""

    async def is_placed() -> bool:
        return cluster in await scene.world.in_use(placement)

    await soon(is_placed)
    score, remark = find_remark(scene, placement, cluster)
    found = re.search(r"([\d.]+)% with this placement", remark)
    assert found is not None, remark
    return score, float(found[1])


@virtual
async def test_T_02_a_placement_is_expected_to_use_what_its_containers_say(tmp_path: Path) -> None:
    """On a cluster with one core, each alone, so that a percent is a hundredth of it."""
    names = tuple(f"c{number}" for number in range(len(TABLE)))
    async with a_scene(tmp_path, profiles(0, clusters=names)) as scene:
        for number, (kind, spec, _) in enumerate(TABLE.values()):
            await join_labelled(scene, names[number], "1", nodes=3)
            await own(scene, kind, "app", spec, f"case-{number}")
            fixed = {"placementType": "PickN", "numberOfClusters": 1, **selects(names[number])}
            await scene.world.relabel(names[number], case=names[number])
            await place(scene, f"case-{number}", f"case-{number}", policy=fixed)
        expected = {
            case: round(10 * (await find_expected(scene, f"case-{number}", names[number]))[1])
            for number, case in enumerate(TABLE)
        }
        assert expected == {case: cpu for case, (_, _, cpu) in TABLE.items()}


def selects(case: str) -> Json:
    terms = [{"labelSelector": {"matchLabels": {"case": case}}}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}
    return {"affinity": {"clusterAffinity": required}}


@virtual
async def test_T_02_the_worked_prediction_of_a_placement_beside_a_recent_one(tmp_path: Path) -> None:
    async with a_scene(tmp_path, profiles(30)) as scene:
        await join_labelled(scene, "c1", "64")
        await own(scene, "Deployment", "first", replicated(pods(container(limits={"cpu": "2"}))), "first")
        await place(scene, "first", "first")
        await find_expected(scene, "first")
        spec = replicated(pods(container(cpu="1"), overhead={"cpu": "250m"}), 3)
        await own(scene, "Deployment", "web", spec)
        await place(scene, "shop")
        assert await find_expected(scene, "shop") == (88, 41.3)
        assert ", 1 placed since" in find_remark(scene, "shop", "c1")[1]


@virtual
async def test_T_02_overrides_count_where_they_are_for_also_for_those_that_follow(tmp_path: Path) -> None:
    async with a_scene(tmp_path, profiles(0, clusters=("p", "l"))) as scene:
        await join_labelled(scene, "p", "10", env="prod")
        await join_labelled(scene, "l", "10", env="lab")
        await own(scene, "Deployment", "web", replicated(pods(container(cpu="1", limits={"cpu": "1"})), 1))
        more = rule("replace", "/spec/replicas", 5, env="prod")
        await override_namespace(scene, "own", more)
        await place(scene, "shop", policy={"placementType": "PickN", "numberOfClusters": 2})
        loads = {name: (await find_expected(scene, "shop", name))[1] for name in ("p", "l")}
        assert loads == {"p": 50.0, "l": 10.0}
        await place(scene, "next", policy={"placementType": "PickN", "numberOfClusters": 2})
        loads = {name: (await find_expected(scene, "next", name))[1] for name in ("p", "l")}
        assert loads == {"p": 100.0, "l": 20.0}


@virtual
async def test_T_02_what_the_placement_says_comes_first(tmp_path: Path) -> None:
    async with a_scene(tmp_path, profiles(0)) as scene:
        await join_labelled(scene, "c1", "10")
        await own(scene, "Deployment", "web", replicated(pods(container(limits={"cpu": "8"}))))
        await place(scene, "shop", requests="cpu=2")
        assert (await find_expected(scene, "shop"))[1] == 30.0
        await place(scene, "other")
        assert (await find_expected(scene, "other"))[1] == 110.0


@virtual
async def test_T_02_limits_are_not_written_for_profiles_that_do_not_read_them(tmp_path: Path) -> None:
    others = "{schedulerName: DefaultScheduler, base: ExtendedProfile}, {schedulerName: packed, base: LoadAware}"
    async with a_scene(tmp_path, f"profiles: [{others}]\n") as scene:
        await join_labelled(scene, "c1", "10")
        await own(scene, "Deployment", "web", replicated(pods(container(cpu="1", limits={"cpu": "8"}))))
        await place(scene, "shop", policy=ALL)
        await place(scene, "packed", policy=ALL, scheduler_name="packed")
        for name in ("shop", "packed"):
            await scene.world.soon_scheduled(name)
        assert await read_annotation(scene, "shop", LIMITS) == ""
        assert await read_annotation(scene, "packed", LIMITS) == "cpu=8,cpu-limited=8000"
        await scene.annotate("shop", scheduler_name="packed")

        async def has_limits() -> bool:
            return bool(await read_annotation(scene, "shop", LIMITS))

        await soon(has_limits)
        assert len(await scene.world.all(CLUSTER_SCOPED.policy_snapshot)) == 2


# --- overcommitment ---------------------------------------------------------------------------------------------------

OVERCOMMITMENT: Final = """
feeds:
- name: load
  static: {c1: {cpu: 30, cpuDeviation: 5}, c2: {gpu: 1}}
profiles:
- ranking: weighted
  plugins: {score: {disabled: [{name: "*"}], enabled: [{name: LowRiskOverCommitment}]}}
  pluginConfig: [{name: LowRiskOverCommitment, args: {feed: load}}]
"""
EVERY: Final = {"placementType": "PickN", "numberOfClusters": 2}


async def find_risk(scene: Scene, placement: str, cluster: str) -> tuple[int, str]:
    async def is_placed() -> bool:
        return cluster in await scene.world.in_use(placement)

    await soon(is_placed)
    return find_remark(scene, placement, cluster)


@virtual
async def test_T_10_limits_of_workloads_beyond_what_a_cluster_has_are_a_risk(tmp_path: Path) -> None:
    """The fixture: of 8 cores 4 are requested, and 12 or 6 may be used."""
    load = "requests 50%, risk of a higher load 4.9% (feed load, 0s old)"
    expected = {
        "12": (73, f"cpu limits 150%, risk 50.0%; {load}"),
        "6": (98, f"cpu limits 75%, risk 0.0%; {load}"),
        "": (0, "the placement has no requests and limits"),
    }
    scores = {}
    for limit in expected:
        async with a_scene(tmp_path, OVERCOMMITMENT) as scene:
            await join_labelled(scene, "c1", "8")
            sized = container(limits={"cpu": limit}, cpu="4") if limit else container()
            await own(scene, "Deployment", "web", replicated(pods(sized)))
            await place(scene, "shop")
            scores[limit] = await find_risk(scene, "shop", "c1")
    assert scores == expected


@virtual
async def test_T_10_limits_of_placements_on_a_cluster_count_for_those_that_follow_also_after_a_restart(
    tmp_path: Path,
) -> None:
    """The member reports what the first one requests, and not its limits."""
    async with a_scene(tmp_path, OVERCOMMITMENT) as scene:
        await join_labelled(scene, "c1", "8")
        await own(scene, "Deployment", "web", replicated(pods(container(limits={"cpu": "10"}, cpu="2"))), "first")
        await own(scene, "Deployment", "web", replicated(pods(container(cpu="2"))), "next")
        await place(scene, "first", "first")
        await find_risk(scene, "first", "c1")
        await place(scene, "next", "next")
        expected = "cpu limits 150%, risk 50.0%; requests 50%, risk of a higher load 4.9% (feed load, 0s old)"
        assert await find_risk(scene, "next", "c1") == (73, expected)
    async with a_scene(tmp_path, OVERCOMMITMENT, after=scene) as again:
        await place(again, "later", "next")
        score, remark = await find_risk(again, "later", "c1")
        assert remark.startswith("cpu limits 175%, risk 75.0%; requests 75%, ")
        assert score == 62


@virtual
async def test_T_10_a_cluster_without_a_load_scores_nothing_and_why_names_the_source(tmp_path: Path) -> None:
    async with a_scene(tmp_path, OVERCOMMITMENT) as scene:
        await join_labelled(scene, "c1", "8")
        await join_labelled(scene, "c2", "8")
        await own(scene, "Deployment", "web", replicated(pods(container(cpu="1"))))
        await place(scene, "shop", policy=EVERY)
        assert (await find_risk(scene, "shop", "c1"))[0] > 0
        assert await find_risk(scene, "shop", "c2") == (0, "feed load has no cpu for this cluster")
