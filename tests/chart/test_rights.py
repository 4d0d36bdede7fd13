"""Both roles live with the rights that the chart gives them: nothing they ask for is denied, nothing is left over."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final

import pytest

from fleet.clock import SystemClock
from fleet.demo.agents import RolloutSimulator
from fleet.kube.backoff import JITTER
from fleet.kube.scopes import find_scope
from fleet.model.keys import PARENT_PLACEMENT
from tests.chart.pods import Container, Machine
from tests.chart.release import Release, install_definitions, provide_volume
from tests.chart.rights import Asked, Right, granted, requests_of, unused, user_of
from tests.control_plane import waiting
from tests.control_plane.access import Access
from tests.control_plane.cluster import ClearedCluster
from tests.control_plane.http_client import HttpClient
from tests.control_plane.process import ServerProcess
from tests.e2e.hub import Hub, soon
from tests.e2e.world import World
from tests.faults.controller import scenario

pytestmark = pytest.mark.timeout(900)

ACCOUNTS: Final = ("fleet-controller", "fleet-api")
SETTINGS: Final = (
    "--set=settings.resourceSnapshots.minimumInterval=0s",
    "--set=settings.resourceSnapshots.collectionTime=0s",
    "--set=settings.eligibility.heartbeatTimeout=8760h",
)
SCHEDULER_ONLY: Final = "scheduler-only"
MODES: Final = {
    "everything-selectable": (),
    "few-kinds-selectable": (
        '--set-json=settings.selection.allowedKinds=["v1/Namespace,ConfigMap"]',
        '--set-json=rbac.selectable=[{"apiGroups": [""], "resources": ["configmaps"]}]',
    ),
    SCHEDULER_ONLY: ("--set=mode=scheduler-only",),
}
"""Values that make other roles."""
PEOPLE: Final = {
    ("alice", "/v1/placements/shop/some/why"): 200,
    ("alice", "/v1/placements/-/some/why"): 403,
    ("alice", "/v1/config"): 403,
    ("bob", "/v1/placements/-/some/why"): 200,
    ("bob", "/v1/config"): 200,
    ("bob", "/v1/snapshot"): 200,
}
"""Who asks for what, and how the API answers."""
SECONDS: Final = 90.0


def _rights(verb: str, *resources: str) -> list[Right]:
    return [Right(one, "placement.kubernetes-fleet.io", verb) for one in resources]


_OPTIONS: Final = ("placementoptions", "clusterplacementoptions")
_QUOTAS: Final = ("placementquotas", "clusterplacementquotas")
_GROUPS: Final = ("placementgroups", "clusterplacementgroups")
_APPROVALS: Final = ("placementapprovals", "clusterplacementapprovals")
NOT_USED: Final = {
    "to look again after somebody else's change came first": _rights(
        "get",
        "clusterresourceplacements",
        "resourceplacements",
        "clusterresourcebindings",
        "resourcebindings",
        "clusterschedulingpolicysnapshots",
        "schedulingpolicysnapshots",
        "clusterresourceplacementstatuses",
    ),
    "to count what is told again": [Right("events", "", "patch")],
    "for a standby, which watches the lease of the leader": [Right("leases", "coordination.k8s.io", "watch")],
    "part of the role of Kubernetes with which the ConfigMap about the API server's front proxy is read": [
        Right("configmaps", "", "list"),
        Right("configmaps", "", "watch"),
    ],
    "asked for by an admission plugin on behalf of whoever creates snapshots, which is no request": _rights(
        "update", "clusterresourceplacements/finalizers", "resourceplacements/finalizers"
    ),
    "for profiles that look at room, of which the story has none": [
        *_rights("list", "clusterresourceoverrides", "resourceoverrides"),
        *_rights("watch", "clusterresourceoverrides", "resourceoverrides"),
    ],
    "for profiles with quotas, of which the story has none": [
        *(Right(kind, "scheduling.fleet.dev", verb) for kind in _QUOTAS for verb in ("get", "list", "watch")),
        *(Right(f"{kind}/status", "scheduling.fleet.dev", "update") for kind in _QUOTAS),
    ],
    "for profiles with groups, of which the story has none": [
        *(Right(kind, "scheduling.fleet.dev", verb) for kind in _GROUPS for verb in ("get", "list", "watch")),
        *(Right(f"{kind}/status", "scheduling.fleet.dev", "update") for kind in _GROUPS),
    ],
    "for schedulers that share the fleet, of which the story has none": [
        Right("clusterreservations", "scheduling.fleet.dev", verb)
        for verb in ("create", "delete", "get", "list", "update", "watch")
    ],
    "for profiles that evict": _rights("list", "clusterresourceplacementdisruptionbudgets")
    + _rights("watch", "clusterresourceplacementdisruptionbudgets"),
    "for placements with options, approvals or a priority class, of which the story has none": [
        *(Right(kind, "scheduling.fleet.dev", verb) for kind in _OPTIONS for verb in ("create", "get", "patch")),
        *(Right(f"{kind}/status", "scheduling.fleet.dev", "update") for kind in _OPTIONS),
        *(Right(kind, "scheduling.fleet.dev", verb) for kind in _APPROVALS for verb in ("create", "get", "delete")),
        *(Right("priorityclasses", "scheduling.k8s.io", verb) for verb in ("list", "watch")),
    ],
}
"""Rights that the story below need not use, and what they are there for."""


@dataclass(frozen=True)
class Told:
    """What was seen while everything ran."""

    mode: str
    answers: dict[tuple[str, str], int]
    asked: dict[str, list[Asked]]
    granted: dict[str, set[Right]]


@pytest.fixture(scope="module", params=MODES)
def told(request: pytest.FixtureRequest, clusters: ClearedCluster, tmp_path_factory: pytest.TempPathFactory) -> Told:
    mode, folder, cluster = str(request.param), tmp_path_factory.mktemp("rights"), clusters.cleared()
    release = Release(cluster.access, folder)
    provide_volume(release.hub, "history")
    install_definitions(release)
    release.install(*SETTINGS, *MODES[mode])
    answers = seen_while_running(Machine(release, folder), mode)
    asked = {one: requests_of(cluster.audit_log, user_of(one, namespace=release.namespace)) for one in ACCOUNTS}
    may = {one: granted(release.hub, one, namespace=release.namespace) for one in ACCOUNTS}
    return Told(mode, answers, asked, may)


def seen_while_running(machine: Machine, mode: str) -> dict[tuple[str, str], int]:
    done = machine.container_of("fleet-controller", name="migrate").run_to_its_end()
    assert done.returncode == 0, done.stderr
    with (
        placed_by_somebody_else(machine) if mode == SCHEDULER_ONLY else nullcontext(),
        machine.container_of("fleet-controller").running(),
        machine.container_of("fleet-api").running() as api,
    ):
        return asyncio.run(live(machine.release.access, api))


@contextmanager
def placed_by_somebody_else(machine: Machine) -> Iterator[None]:
    """The placement controller of another program, for which ours stands in."""
    settings = [word.replace("--set=settings.", "--set=") for word in SETTINGS]
    options = [f"--kubeconfig={machine.release.access.kubeconfig}", "--controllers=placement", "--no-leader-elect"]
    quiet = ["--health-address=off", "--metrics-address=off"]
    command = [sys.executable, "-m", "fleet.cli", "controller", *options, *quiet, *settings]
    process = ServerProcess(command, log=machine.folder / "placement.log")
    process.start()
    try:
        yield
    finally:
        process.stop()


async def live(access: Access, api: Container) -> dict[tuple[str, str], int]:
    """Placements of every type and in both scopes come, change and go, while somebody rolls them out."""
    async with Hub("real", access).connected() as admin, asyncio.TaskGroup() as beside:
        world = World(admin)
        await scenario.prepare(world)
        stand_in = RolloutSimulator(admin, clock=SystemClock(), jitter=JITTER)
        rolling = beside.create_task(stand_in.run(), name="rollout")
        for step, ends in STORY:
            await step(world)
            for name, clusters in ends.items():
                for key in both(name):
                    await soon_uses(world, key, clusters)
        for key in both("some"):
            await soon(lambda key=key: keeps_one_revision(world, key), within=SECONDS)
        answers = await asyncio.to_thread(asked_by_people, access, api)
        await scenario.delete(world)
        for name in ("all", "fixed"):
            for key in both(name):
                await soon(lambda key=key: is_gone(world, key), within=SECONDS)
        rolling.cancel()
    return answers


def both(name: str) -> tuple[str, str]:
    """The placements of this name in both scopes."""
    return name, f"shop/{name}"


async def keep_one_revision(world: World) -> None:
    for key in both("some"):
        await world.patch(find_scope(key).placement, key, {"spec": {"revisionHistoryLimit": 1}})


async def keeps_one_revision(world: World, key: str) -> bool:
    namespace, _, name = key.rpartition("/")
    kinds, labels = (find_scope(key).policy_snapshot, find_scope(key).resource_snapshot), f"{PARENT_PLACEMENT}={name}"
    return [len(await world.all(kind, namespace=namespace, labels=labels)) for kind in kinds] == [1, 1]


async def leave_the_rollout_to_somebody_else(world: World) -> None:
    for key in both("staged"):
        await world.place(key, {"placementType": "PickAll"}, strategy={"type": "External"})


STORY: Final[tuple[tuple[scenario.Step, dict[str, set[str] | int]], ...]] = (
    (scenario.place, {"all": set("abcdef"), "fixed": set("ac"), "some": 3}),
    (scenario.want_more, {"some": 5}),
    (scenario.want_fewer, {"some": 2}),
    (leave_the_rollout_to_somebody_else, {"staged": set("abcdef")}),
    (keep_one_revision, {}),
    (scenario.change_policies, {"all": set("abcde"), "fixed": set("bc"), "some": 2}),
    (scenario.change_content, {"all": set("abcde")}),
    (scenario.lose_a_cluster, {"all": set("abde"), "fixed": {"b"}, "some": 2}),
)
"""Steps, and where each placement is after them: on which clusters, or on how many."""


async def soon_uses(world: World, key: str, clusters: set[str] | int) -> None:
    async def look() -> bool:
        found = await world.in_use(key)
        return len(found) == clusters if isinstance(clusters, int) else found == clusters

    await soon(look, within=SECONDS)


async def is_gone(world: World, key: str) -> bool:
    return await world.find(find_scope(key).placement, key) is None and not await world.bindings(key)


def may_read(client: HttpClient, collection: str) -> bool:
    return client.get(collection).status == 200


def asked_by_people(access: Access, api: Container) -> dict[tuple[str, str], int]:
    """How the API answers them, by who asks and for what. Alice may view a namespace, Bob administers the cluster.

    The API server hears of their roles a moment later, by a watch of its own."""
    rbac, group = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    for user, role, path in (
        ("alice", "view", f"{rbac}/namespaces/shop/rolebindings"),
        ("bob", "admin", f"{rbac}/clusterrolebindings"),
    ):
        referred = {"apiGroup": group, "kind": "ClusterRole", "name": role}
        subject = {"apiGroup": group, "kind": "User", "name": user}
        binding = {"metadata": {"name": user}, "roleRef": referred, "subjects": [subject]}
        HttpClient(access).post(path, binding).ok()
        waiting.soon(partial(may_read, HttpClient(access, user=user), "/api/v1/namespaces/shop/configmaps"))
    return {(user, path): HttpClient(api.api(), user=user).get(path).status for user, path in PEOPLE}


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_request_is_denied(told: Told, account: str) -> None:
    assert told.asked[account]
    assert [str(one) for one in told.asked[account] if one.is_denied or one.code in (401, 403)] == []


@pytest.mark.parametrize("account", ACCOUNTS)
def test_every_right_is_used_or_justified(told: Told, account: str) -> None:
    justified = {right for rights in NOT_USED.values() for right in rights}
    left_over = unused(told.granted[account], told.asked[account]) - justified
    assert sorted(map(str, left_over)) == []


def test_only_rights_that_are_granted_are_justified(told: Told) -> None:
    if told.mode != SCHEDULER_ONLY:
        justified = {right for rights in NOT_USED.values() for right in rights}
        assert justified <= told.granted["fleet-controller"] | told.granted["fleet-api"]


def test_the_usual_roles_of_people_say_what_they_are_told(told: Told) -> None:
    assert told.answers == PEOPLE
