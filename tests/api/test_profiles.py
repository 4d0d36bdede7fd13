"""Profiles of a document, through the API beside a controller that decides with them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.app import create_app, reload_app
from api.auth.access import HubAuthorizer
from api.live.live import LiveState
from fleet.clock import SystemClock
from fleet.errors import ConfigurationError
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.keys import SCHEDULER_NAME
from fleet.settings import load_settings
from tests.api.stage import CLUSTERS, PATIENT, Stage, a_stage
from tests.e2e.world import ANYTHING, all_recorded, soon
from tests.installed import an_installed_package, install_example_package, lettered_plugins, the_example_package
from tests.unit.scheduler.test_configured_profiles import HEAD, WORKED_EXAMPLE

TWO_PROFILES = """
profiles:
- schedulerName: DefaultScheduler
- schedulerName: mine
  base: ExtendedProfile
  plugins:
    filter: {enabled: [{name: OnlyDublin}]}
  pluginConfig:
  - {name: OnlyDublin, args: {region: dub, token: hush}}
"""
ONLY_DUBLIN = """
from dataclasses import dataclass

from fleet.framework.arguments import decode_into
from fleet.framework.scalar import ScalarPlugin
from fleet.framework.status import Code, Status


@dataclass
class OnlyDublinArgs:
    region: str = "dub"
    token: str = ""


class OnlyDublin(ScalarPlugin):
    ROW_LOCAL = True
    READS = ("labels",)

    def __init__(self, raw=None, handle=None):
        self._region = decode_into(raw, OnlyDublinArgs).region

    def name(self):
        return "OnlyDublin"

    def filter_one(self, ctx, state, placement, cluster):
        if cluster.labels.get("region") == self._region:
            return None
        return Status.new(Code.UNSCHEDULABLE, f"is not in region {self._region}")
"""


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "only-dublin"
    folder.mkdir()
    with an_installed_package(folder, ONLY_DUBLIN, {"OnlyDublin": "OnlyDublin"}):
        yield tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "fleet.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    return path


async def place(stage: Stage, name: str, scheduler: str, **policy: Any) -> None:
    """With its annotation, in one request."""
    metadata = {"name": name, "annotations": {SCHEDULER_NAME: scheduler}}
    spec = {"resourceSelectors": [ANYTHING], "policy": policy}
    await stage.world.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": spec})


def test_C_04_the_worked_example_is_read_from_the_api(tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()

    async def main() -> None:
        async with a_stage(file=write(tmp_path, WORKED_EXAMPLE)) as stage:
            profile = await stage.json("/v1/profiles/DefaultScheduler")
            listed = [(plugin["name"], plugin["weight"]) for plugin in profile["plugins"]["score"]]
            assert listed == [("C", 9), ("B", 5), ("F", 1), ("E", 4)]
            assert (profile["compatible"], profile["deviation"]) == (False, "other plugins at score")
            assert profile["packages"]["C"] == "plugins_of_letters 1.0"

    with lettered_plugins(folder):
        asyncio.run(main())


def test_O_14_a_scheduler_describes_its_profiles_beside_its_metrics_as_the_api_does(package: Path) -> None:
    async def main() -> None:
        async with a_stage(package, file=write(package, TWO_PROFILES)) as stage:
            for path in ("/v1/profiles", "/v1/profiles/mine"):
                page = stage.controller.find_page(path)
                assert page is not None
                assert msgspec.json.decode(page) == await stage.json(path)
                assert b"hush" not in page
            assert stage.controller.find_page("/v1/profiles/nix") is None
            assert stage.controller.find_page("/v1/config") is None

    asyncio.run(main())


MERGED = """
profiles:
- schedulerName: DefaultScheduler
  plugins:
    score: {enabled: [{name: E, weight: 4}, {name: SamePlacementAntiAffinity, weight: 5}]}
- schedulerName: mine
  base: ExtendedProfile
  plugins:
    multiPoint: {enabled: [{name: A, weight: 2}, {name: OnlyDublin}]}
    score: {disabled: [{name: "*"}], enabled: [{name: B, weight: 3}]}
"""


def test_F3_090_C_02_C_03_the_plugins_of_a_profile_are_listed_as_they_run(package: Path) -> None:
    folder = package / "letters"
    folder.mkdir()

    async def main() -> None:
        async with a_stage(file=write(package, MERGED)) as stage:
            scheduler = stage.controller.scheduler
            assert scheduler is not None
            listed = {}
            for framework in scheduler.frameworks:
                profile = await stage.json(f"/v1/profiles/{framework.scheduler_name}")
                listed[framework.scheduler_name] = profile["plugins"]
                assert {
                    hook: [(plugin["name"], plugin["form"], plugin["weight"]) for plugin in plugins]
                    for hook, plugins in profile["plugins"].items()
                } == {hook: [*map(tuple, entries)] for hook, entries in framework.list_plugins().items() if entries}

            weights = {
                name: [(plugin["name"], plugin["weight"]) for plugin in plugins["score"]]
                for name, plugins in listed.items()
            }
            kept = [("ClusterAffinity", 1), ("SamePlacementAntiAffinity", 5), ("TopologySpreadConstraints", 1)]
            assert weights == {"DefaultScheduler": [*kept, ("E", 4)], "mine": [("B", 3)]}
            forms = {plugin["name"]: plugin["form"] for plugin in listed["mine"]["filter"]}
            assert (forms.pop("OnlyDublin"), set(forms.values())) == ("scalar", {"vector"})

    with lettered_plugins(folder):
        asyncio.run(main())


def test_F3_045_F3_056_a_simulation_judges_a_fleet_of_its_own_beside_the_live_one(package: Path) -> None:
    edit = {"op": "labelCluster", "cluster": "ams-1", "key": "region", "value": "dub"}

    async def main() -> None:
        async with a_stage(package, file=write(package, TWO_PROFILES)) as stage:
            await place(stage, "irish", "mine", placementType="PickN", numberOfClusters=3)
            await stage.world.soon_scheduled("irish", status="False")
            scheduler = stage.controller.scheduler
            assert scheduler is not None
            live = scheduler.table.frame()
            content = live.content_hash()

            for _ in range(2):
                answer = await stage.post("/v1/simulate", {"placement": {"ref": "irish"}, "edits": [edit]})
                assert answer.status_code == 200, answer.text
                assert answer.json()["compare"]["gained"] == ["ams-1"]
                why = await stage.json("/v1/placements/-/irish/why")
                (row,) = [each for each in why["attempt"]["clusters"] if each["name"] == "ams-1"]
                assert row["first"] == "OnlyDublin"
            assert scheduler.table.frame() is live
            assert live.content_hash() == content
            assert await stage.world.in_use("irish") == {"dub-1", "dub-2"}

    asyncio.run(main())


def test_a_profile_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with a_stage() as stage:
            answer = await stage.get("/v1/profiles/nix")
            assert answer.status_code == 404
            assert answer.json()["next"] == "GET /v1/profiles lists DefaultScheduler"
            assert (await stage.json("/v1/profiles/DefaultScheduler"))["compatible"] is True

    asyncio.run(main())


def test_C_07_F3_046_two_profiles_decide_on_one_cache(package: Path) -> None:
    async def main() -> None:
        async with a_stage(package, file=write(package, TWO_PROFILES)) as stage:
            await place(stage, "irish", "mine", placementType="PickN", numberOfClusters=2)
            await stage.world.soon_on("irish", "dub-1", "dub-2")
            why = await stage.json("/v1/placements/-/irish/why?cluster=ams-1")
            assert why["attempt"]["profile"] == "mine"
            assert "is not in region dub" in str(why["attempt"]["clusters"])

            named = {profile["schedulerName"]: profile for profile in (await stage.json("/v1/profiles"))["items"]}
            assert named["mine"]["configHash"] == why["attempt"]["configHash"]
            assert named["mine"]["configHash"] != named["DefaultScheduler"]["configHash"]
            web = await stage.json("/v1/placements/-/web/why")
            assert web["attempt"]["configHash"] == named["DefaultScheduler"]["configHash"]

            await place(stage, "again", "mine", placementType="PickN", numberOfClusters=1)
            await stage.world.soon_scheduled("again")
            assert await stage.world.in_use("again") <= {"dub-1", "dub-2"}
            assert stage.history is not None
            await all_recorded(stage.controller, stage.history)
            report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
            assert (report["same"], report["different"]) == (report["attempts"], [])

    asyncio.run(main())


TURNED = """
profiles:
- schedulerName: DefaultScheduler
- schedulerName: turned
  plugins:
    filter:
      disabled: [{name: TaintToleration}]
      enabled: [{name: OnlyDublin}, {name: TaintToleration}]
"""


def test_F3_132_F3_077_F3_140_W_14_every_verdict_agrees_with_the_first_and_changes_no_decision(package: Path) -> None:
    async def main() -> None:
        async with a_stage(package, file=write(package, TURNED)) as stage:
            await place(stage, "irish", "turned", placementType="PickN", numberOfClusters=3)
            await stage.world.soon_on("irish", "dub-1", "dub-2")
            await stage.wait_until_recorded()
            first, every = [await stage.json(f"/v1/placements/-/irish/why{ask}") for ask in ("", "?explain=all")]
            digests = [answer["attempt"]["digest"] for answer in (first, every)]
            assert digests == [first["recorded"]["digest"]] * 2

            profile = await stage.json("/v1/profiles/turned")
            filters = [plugin["name"] for plugin in profile["plugins"]["filter"]]
            (warning,) = profile["warnings"]
            assert "OnlyDublin" in warning
            assert "TaintToleration" in warning
            for shown, full in zip(*(answer["attempt"]["clusters"] for answer in (first, every)), strict=True):
                verdicts = {each["plugin"]: each["verdict"] for each in full["rejections"]}
                rejecting = [name for name in filters if verdicts.get(name) == "reject"]
                assert [name for name in filters if name in verdicts] == list(verdicts)
                assert shown["first"] == full["first"] == next(iter(rejecting), "")
                assert [each["plugin"] for each in shown["rejections"]] == rejecting[:1]
            osl = next(row for row in every["attempt"]["clusters"] if row["name"] == "osl-1")
            assert [each["plugin"] for each in osl["rejections"] if each["verdict"] == "reject"] == [
                "OnlyDublin",
                "TaintToleration",
            ]

    asyncio.run(main())


@pytest.mark.parametrize(
    "profile, is_eligible",
    [
        ("", False),
        ("pluginConfig: [{name: ClusterEligibility, args: {heartbeatTimeout: 10000h}}]", True),
        ("plugins: {filter: {disabled: [{name: ClusterEligibility}]}}", True),
    ],
    ids=["settings", "arguments", "not filtered"],
)
def test_clusters_are_eligible_by_the_profile_of_placements_without_a_name(
    package: Path, profile: str, *, is_eligible: bool
) -> None:
    first = ", ".join(filter(None, ("schedulerName: DefaultScheduler", profile)))
    text = f"profiles:\n- {{{first}}}\n- {{schedulerName: strict, base: ExtendedProfile}}\n"

    async def main() -> None:
        async with a_stage(package, file=write(package, text)) as stage:
            await stage.world.report("ams-1", silent_for=9000 * 3600)

            async def is_shown() -> bool:
                return (await stage.json("/v1/clusters/ams-1"))["eligible"] is is_eligible

            await soon(is_shown)
            items = (await stage.json("/v1/clusters"))["items"]
            assert {each["name"]: each["eligible"] for each in items} == dict.fromkeys(CLUSTERS, True) | {
                "ams-1": is_eligible
            }
            status = await stage.json("/v1/status")
            assert status["clusters"]["eligible"] == len(CLUSTERS) - (not is_eligible)

    asyncio.run(main())


def test_C_08_the_origin_of_every_value_of_a_profile_is_shown(package: Path) -> None:
    async def main() -> None:
        file = write(package, TWO_PROFILES)
        async with a_stage(file=file) as stage:
            origins = {
                item["name"]: (item["value"], item["origin"]) for item in (await stage.json("/v1/config"))["items"]
            }
            assert origins["profiles[1].base"] == ("ExtendedProfile", f"{file}:7")
            assert origins["profiles[0].base"] == ("DefaultProfile", "default")
            assert origins["profiles[1].plugins.filter.enabled[0].name"] == ("OnlyDublin", f"{file}:9")
            assert origins["profiles[1].pluginConfig[0].args.region"] == ("dub", f"{file}:11")
            assert origins["profiles[1].pluginConfig[0].args.token"] == ("***", f"{file}:11")
            assert origins["queue.maxDelay"] == ("30s", "--set")

    asyncio.run(main())


def test_C_06_a_placement_of_another_scheduler_is_left_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with a_stage(tmp_path) as stage:
            await place(stage, "theirs", "another", placementType="PickN", numberOfClusters=1)
            await soon(lambda: stage.world.latest_snapshot("theirs"))
            await stage.world.taint("osl-1")  # wakes placements
            await place(stage, "later", "", placementType="PickAll")
            await stage.world.soon_scheduled("later")

            assert await stage.world.bindings("theirs") == []
            assert "status" not in (await stage.world.latest_snapshot("theirs") or {})
            why = await stage.json("/v1/placements/-/theirs/why")
            assert why["verdict"]["state"] == "ForeignScheduler"
            note = why["statusNotes"][0]
            assert note["reason"] == "ForeignScheduler"
            assert note["message"] == (
                "its scheduler is another, which is no profile here: it is left alone. "
                "The profiles here are DefaultScheduler; what follows is how DefaultScheduler would decide"
            )
            headline = "left alone, its scheduler is another; DefaultScheduler would decide: 1/"
            assert why["verdict"]["summary"].startswith(headline)
            text = (await stage.get("/v1/placements/-/theirs/why", Accept="text/plain")).text
            assert f"\n{headline}" in text

            await stage.world.patch(
                CLUSTER_SCOPED.placement, "theirs", {"metadata": {"annotations": {SCHEDULER_NAME: None}}}
            )
            await stage.world.soon_scheduled("theirs")

    asyncio.run(main())


def test_C_06_a_placement_whose_companion_names_another_scheduler_is_left_alone(tmp_path: Path) -> None:
    two = "profiles: [{schedulerName: DefaultScheduler}, {schedulerName: mine, tieBreak: nameAscending}]"

    async def main() -> None:
        async with a_stage(tmp_path, file=write(tmp_path, two)) as stage:
            options = {"metadata": {"name": "theirs"}, "spec": {"schedulerName": "another"}}
            await stage.world.create(CLUSTER_SCOPED.options, options)
            await place(stage, "theirs", "mine", placementType="PickN", numberOfClusters=1)
            await soon(lambda: stage.world.latest_snapshot("theirs"))
            await stage.world.taint("osl-1")  # wakes placements
            await place(stage, "later", "", placementType="PickAll")
            await stage.world.soon_scheduled("later")

            assert await stage.world.bindings("theirs") == []
            assert "status" not in (await stage.world.latest_snapshot("theirs") or {})
            why = await stage.json("/v1/placements/-/theirs/why")
            assert why["verdict"]["state"] == "ForeignScheduler"
            message = why["statusNotes"][0]["message"]
            assert message.startswith("its scheduler is another, which is no profile here: it is left alone. ")
            assert "The profiles here are DefaultScheduler, mine" in message

            await stage.world.delete(CLUSTER_SCOPED.options, "theirs")
            await stage.world.soon_scheduled("theirs")
            assert (await stage.json("/v1/placements/-/theirs/why"))["attempt"]["profile"] == "mine"

    asyncio.run(main())


def test_a_name_that_no_scheduler_can_have_is_a_mistake_of_the_placement(tmp_path: Path) -> None:
    async def main() -> None:
        async with a_stage(tmp_path) as stage:
            await place(stage, "odd", "My Own", placementType="PickAll")
            await stage.world.soon_scheduled("odd", status="False")
            why = await stage.json("/v1/placements/-/odd/why")
            assert why["verdict"]["state"] == "InputError"
            (problem,) = why["verdict"]["problems"]
            assert problem["field"] == f"metadata.annotations[{SCHEDULER_NAME}]"
            assert await stage.world.bindings("odd") == []

    asyncio.run(main())


def test_scores_of_in_tree_plugins_are_weighed(package: Path) -> None:
    """Preferences and spreading, which count below zero and above a hundred on their own."""

    async def main() -> None:
        spread = [{"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]
        avoids_ams = {"weight": -50, "preference": {"labelSelector": {"matchLabels": {"region": "ams"}}}}
        affinity = {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [avoids_ams]}}
        text = "profiles: [{schedulerName: DefaultScheduler}, {schedulerName: mine, base: ExtendedProfile}]"
        async with a_stage(package, file=write(package, text)) as stage:
            policy = {"placementType": "PickN", "numberOfClusters": 3, "topologySpreadConstraints": spread}
            await place(stage, "wide", "mine", **policy, affinity=affinity)
            await stage.world.soon_scheduled("wide")
            why = await stage.json("/v1/placements/-/wide/why")
            assert (why["attempt"]["profile"], why["attempt"]["ranking"]) == ("mine", "weighted")

    asyncio.run(main())


def test_a_change_that_an_installed_plugin_reads_wakes_the_placement(package: Path) -> None:
    async def main() -> None:
        async with a_stage(package, file=write(package, TWO_PROFILES)) as stage:
            await place(stage, "irish", "mine", placementType="PickN", numberOfClusters=3)
            await stage.world.soon_scheduled("irish", status="False")
            assert await stage.world.in_use("irish") == {"dub-1", "dub-2"}
            await stage.world.relabel("ams-1", region="dub")
            await stage.world.soon_on("irish", "dub-1", "dub-2", "ams-1")

    asyncio.run(main())


QUARANTINE = """
profiles:
- schedulerName: DefaultScheduler
- schedulerName: mine
  plugins: {filter: {enabled: [{name: RegionQuarantine}]}}
  pluginConfig: [{name: RegionQuarantine, args: {regions: [dub], key: region}}]
"""


def test_why_names_the_plugin_of_a_wheel_and_what_it_looked_at(tmp_path: Path) -> None:
    async def main() -> None:
        async with a_stage(tmp_path, file=write(tmp_path, QUARANTINE)) as stage:
            await place(stage, "fenced", "mine", placementType="PickAll")
            await stage.world.soon_scheduled("fenced")
            assert await stage.world.in_use("fenced") == {"ams-1", "ams-2"}
            why = await stage.json("/v1/placements/-/fenced/why?explain=all")
            (row,) = [each for each in why["attempt"]["clusters"] if each["name"] == "dub-1"]
            (rejection,) = [each for each in row["rejections"] if each["verdict"] == "reject"]
            assert (rejection["plugin"], rejection["reason"]) == ("RegionQuarantine", "RegionQuarantined")
            assert rejection["message"] == "region dub is in quarantine"
            assert rejection["details"] == {"region": "dub"}
            assert (await stage.json("/v1/profiles/mine"))["packages"]["RegionQuarantine"].startswith("acme")
            await stage.world.relabel("dub-1", region="ams")
            await stage.world.soon_on("fenced", "ams-1", "ams-2", "dub-1")

    (folder := tmp_path / "site-packages").mkdir()
    install_example_package(folder)
    with the_example_package(folder):
        asyncio.run(main())


OTHER = "profiles: [{schedulerName: DefaultScheduler}, {schedulerName: other}]\n"
MINE = """
profiles:
- schedulerName: DefaultScheduler
- schedulerName: mine
  plugins:
    filter: {{enabled: [{{name: OnlyDublin}}]}}
  pluginConfig:
  - {{name: OnlyDublin, args: {args}}}
"""


async def replay_after_an_edit(folder: Path, before: str, after: str) -> dict[str, Any]:
    """Attempts under the first file, evaluated again by an API that was started with the second."""
    file = write(folder, before)
    async with a_stage(folder, file=file) as stage:
        await place(stage, "irish", "mine", placementType="PickN", numberOfClusters=1)
        await stage.world.soon_scheduled("irish")
        await stage.wait_until_recorded()
    write(folder, after)
    async with a_stage(folder, file=file) as stage:
        report: dict[str, Any] = (await stage.post("/v1/replay", {"select": {"limit": 1000}})).json()
        return report


def test_attempts_under_an_earlier_file_replay(package: Path) -> None:
    before, after = MINE.format(args="{region: dub}"), MINE.format(args="{region: ams}")
    report = asyncio.run(replay_after_an_edit(package, before, after))
    assert (report["same"], report["different"], report["skipped"]) == (report["attempts"], [], [])


def test_an_api_with_another_package_of_a_plugin_says_so(package: Path) -> None:
    async def main() -> None:
        file = write(package, MINE.format(args="{region: dub}"))
        async with a_stage(package, file=file) as stage:
            await place(stage, "irish", "mine", placementType="PickN", numberOfClusters=1)
            await stage.world.soon_scheduled("irish")
            await stage.wait_until_recorded()
            number = (await stage.json("/v1/placements/-/irish/history"))["items"][0]["n"]
            (metadata,) = package.glob("only-dublin/*/METADATA")
            metadata.write_text(metadata.read_text("utf-8").replace("Version: 1.0", "Version: 2.0"), "utf-8")
            settings, clock = load_settings(file, {}, [PATIENT]), SystemClock()
            live = LiveState.standalone(stage.hub, settings.settings, clock=clock, jitter=lambda: 0.0)
            app = create_app(live, stage.history, HubAuthorizer(stage.hub, clock=clock), settings)
            watching = asyncio.create_task(live.run())
            await live.caches.wait_until_synced()
            other = Stage(stage.hub, stage.world, app, stage.history, stage.controller)
            for path in ("", f"?attempt={number}"):
                said = [await each.json(f"/v1/placements/-/irish/why{path}") for each in (stage, other)]
                assert [note["reason"] for note in said[0]["statusNotes"] if note["reason"] == OTHER_NOTE] == []
                (note,) = [note for note in said[1]["statusNotes"] if note["reason"] == OTHER_NOTE]
                assert "cannot be built here: its plugins, their packages" in note["message"]
                assert "Packages of plugins here: plugins_of_only_dublin 2.0." in note["message"]
            watching.cancel()
            await asyncio.wait((watching,))

    asyncio.run(main())


OTHER_NOTE = "OtherConfiguration"


def test_a_profile_that_has_a_secret_is_not_kept(package: Path) -> None:
    before, after = MINE.format(args="{region: dub, token: hush}"), MINE.format(args="{region: ams}")
    report = asyncio.run(replay_after_an_edit(package, before, after))
    assert {each["difference"]["stage"] for each in report["different"]} == {"configuration"}
    for file in package.glob("history.sqlite*"):
        assert b"hush" not in file.read_bytes()


def test_the_api_answers_by_an_edited_file(package: Path) -> None:
    async def main() -> None:
        file = write(package, MINE.format(args="{region: dub}"))
        async with a_stage(package, file=file) as stage:
            await place(stage, "irish", "mine", placementType="PickN", numberOfClusters=3)
            await stage.world.soon_scheduled("irish", status="False")
            await stage.wait_until_recorded()
            before = await stage.json("/v1/profiles/mine")
            write(package, MINE.format(args="{region: ams}"))
            reload_app(stage.app, load_settings(file, {}, []))
            after = await stage.json("/v1/profiles/mine")
            assert before["configHash"] != after["configHash"]
            origins = {item["name"]: item["value"] for item in (await stage.json("/v1/config"))["items"]}
            assert origins["profiles[1].pluginConfig[0].args.region"] == "ams"
            report = (await stage.post("/v1/replay", {"select": {"limit": 1000}})).json()
            assert (report["same"], report["different"]) == (report["attempts"], [])

            write(package, MINE.format(args="{regions: ams}"))
            with pytest.raises(ConfigurationError, match="regions: unknown field"):
                reload_app(stage.app, load_settings(file, {}, []))
            assert await stage.json("/v1/profiles/mine") == after
            assert (await stage.json("/readyz"))["checks"] == {"caches": "", "history": ""}
            stage.app.state.shared.backend.notices["configuration"] = lambda: "needs a restart: workers"
            ready = await stage.json("/readyz")
            assert (ready["status"], ready["checks"]["configuration"]) == ("ok", "needs a restart: workers")

            write(package, OTHER)
            reload_app(stage.app, load_settings(file, {}, []))
            names = [item["schedulerName"] for item in (await stage.json("/v1/profiles"))["items"]]
            assert names == ["DefaultScheduler", "other"]

    asyncio.run(main())
