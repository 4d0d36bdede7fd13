"""The configuration file is edited while the controller runs."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.manager.config_reload import INTERVAL, SECRETS_INTERVAL, ConfigReload
from fleet.manager.health import HealthChecks
from fleet.manager.manager import Manager
from fleet.manager.secret_values import read_secrets
from fleet.settings import Effective, load_settings
from fleet.settings.document.substitution import SecretValues
from tests.e2e.hub import LEASE_NAMESPACE, soon
from tests.e2e.world import ANYTHING, SECRETS, World
from tests.faults.acting import acting_plugins
from tests.faults.configured import Attempts
from tests.faults.hub_api import a_hub
from tests.faults.virtual import VirtualClock, no_jitter, virtual

HEAD: Final = "apiVersion: scheduling.fleet.dev/v1\nkind: FleetSchedulerConfiguration\n"
STRICT: Final = f"{HEAD}profiles: [{{schedulerName: DefaultScheduler}}]\n"
LENIENT: Final = f"""{HEAD}profiles:
- schedulerName: DefaultScheduler
  plugins: {{filter: {{disabled: [{{name: TaintToleration}}]}}}}
"""
WITH_MINE: Final = f"{HEAD}profiles: [{{schedulerName: DefaultScheduler}}, {{schedulerName: mine}}]\n"
OFF: Final = ("metrics.address=off", "health.address=off", "eligibility.heartbeatTimeout=24h")
QUICK: Final = ("resourceSnapshots.minimumInterval=0s", "resourceSnapshots.collectionTime=0s", "api.qps=10000")
NOTICED: Final = 2 * INTERVAL + 0.5
"""Virtual seconds until an edit has taken effect."""
THREE: Final = {"placementType": "PickN", "numberOfClusters": 3}


@dataclass
class Edited:
    file: Path
    world: World
    controller: Manager
    reload: ConfigReload
    health: HealthChecks
    attempts: Attempts

    async def edit(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8")
        await asyncio.sleep(NOTICED)

    def count(self, result: str) -> float:
        counted = self.controller.registry.get_sample_value("fleet_config_reloads_total", {"result": result})
        assert counted is not None
        return counted

    @property
    def has_failed(self) -> bool:
        return self.controller.registry.get_sample_value("fleet_config_reload_failed") == 1


def load(file: Path, secrets: SecretValues | None = None, text: str | None = None) -> Effective:
    return load_settings(file, {}, [*OFF, *QUICK, "api.burst=10000"], secrets=secrets, text=text)


@asynccontextmanager
async def edited(file: Path, **secret: bytes) -> AsyncIterator[Edited]:
    """A controller with two clusters that any placement may use, and one that is tainted. `secret` is what the Secret
    `outside` holds."""
    hub, clock = a_hub(), VirtualClock()
    world, effective = World(hub), load(file)
    if secret:
        await world.create(SECRETS, {"metadata": {"name": "outside", "namespace": LEASE_NAMESPACE}})
        await fill_secret(world, **secret)
        effective = load(file, await read_secrets(hub, effective))
    for name in ("ams", "dub", "osl"):
        await world.join(name)
    await world.taint("osl", {"key": "dedicated", "value": "batch", "effect": "NoSchedule"})
    attempts = Attempts()
    controller = Manager(hub, effective.settings, elects=False, recorder=attempts, clock=clock, jitter=no_jitter)
    scheduler = controller.scheduler
    assert scheduler is not None
    reload = ConfigReload(
        file,
        effective,
        load=partial(load, file),
        apply=lambda found: scheduler.reload(found.settings),
        registry=controller.registry,
        clock=clock,
        read_secrets=partial(read_secrets, hub),
    )
    health = HealthChecks(clock)
    health.add_notice("configuration", lambda: reload.problem)
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run(), name="controller")
        watching = group.create_task(reload.run(), name="watching the configuration")
        await controller.ready()
        yield Edited(file, world, controller, reload, health, attempts)
        watching.cancel()
        controller.stop()


async def fill_secret(world: World, **values: bytes) -> None:
    data = {key: base64.b64encode(value).decode() for key, value in values.items()}
    await world.patch(SECRETS, f"{LEASE_NAMESPACE}/outside", {"data": data})


def written(folder: Path, text: str) -> Path:
    file = folder / "fleet.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@virtual
async def test_an_edit_decides_what_waits(tmp_path: Path) -> None:
    async with edited(written(tmp_path, STRICT)) as site:
        await site.world.place("web", THREE)
        await site.world.soon_scheduled("web", status="False")
        assert await site.world.in_use("web") == {"ams", "dub"}
        await site.edit(LENIENT)
        await site.world.soon_on("web", "ams", "dub", "osl")
        assert (site.count("applied"), site.count("refused"), site.has_failed) == (1, 0, False)
        await site.edit(STRICT)
        await site.world.place("later", THREE)
        await site.world.soon_scheduled("later", status="False")
        assert await site.world.in_use("later") == {"ams", "dub"}


WITH_FIRST: Final = f"""{HEAD}profiles:
- schedulerName: DefaultScheduler
  plugins: {{preBind: {{enabled: [{{name: First}}]}}}}
"""


@virtual
async def test_C_11_an_edit_changes_the_next_attempt_and_none_under_way(tmp_path: Path) -> None:
    released = asyncio.Event()
    with acting_plugins(tmp_path) as script:
        async with edited(written(tmp_path, WITH_FIRST)) as site:
            script.answers["First", "pre_bind"] = lambda cluster: _after(released)
            await site.world.place("web", THREE)
            await asyncio.sleep(5)
            assert script.journal == ["First.pre_bind(dub)"]
            await site.edit(LENIENT)
            with capture_logs():
                await site.edit(f"{LENIENT}  base: Nix\n")
            assert (site.count("applied"), site.count("refused"), site.has_failed) == (1, 1, True)
            await site.world.place("later", THREE)
            await site.world.soon_on("later", "ams", "dub", "osl")
            assert await site.world.bindings("web") == []
            released.set()
            await site.world.soon_on("web", "ams", "dub", "osl")
    assert script.journal == ["First.pre_bind(dub)", "First.pre_bind(ams)"]
    by_attempt = [attempt.inputs.profile for attempt in site.attempts.of("web") if attempt.inputs is not None]
    (later,) = {each.inputs.profile.config_hash for each in site.attempts.of("later") if each.inputs is not None}
    assert [bool(profile.hooks["preBind"]) for profile in by_attempt] == [True, False]
    assert by_attempt[0].config_hash != by_attempt[1].config_hash == later


async def _after(event: asyncio.Event) -> None:
    await event.wait()


@virtual
async def test_the_links_of_a_mounted_config_map_are_followed(tmp_path: Path) -> None:
    for name, text in (("..1", STRICT), ("..2", LENIENT)):
        (tmp_path / name).mkdir()
        written(tmp_path / name, text)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "fleet.yaml").symlink_to("..data/fleet.yaml")
    async with edited(tmp_path / "fleet.yaml") as site:
        await site.world.place("web", THREE)
        await site.world.soon_scheduled("web", status="False")
        (tmp_path / "..next").symlink_to("..2")
        (tmp_path / "..next").replace(tmp_path / "..data")
        await site.world.soon_on("web", "ams", "dub", "osl")


@virtual
async def test_C_11_a_broken_edit_changes_nothing_and_is_told(tmp_path: Path) -> None:
    async with edited(written(tmp_path, STRICT)) as site:
        scheduler = site.controller.scheduler
        assert scheduler is not None
        before = scheduler.frameworks.default.profile
        for broken in (f"{HEAD}profiles: [{{schedulerName: DefaultScheduler, base: Nix}}]\n", "{", "\0"):
            with capture_logs() as logs:
                await site.edit(broken)
                await asyncio.sleep(10 * INTERVAL)
            assert [line["log_level"] for line in logs if "is refused" in line["event"]] == ["error"]
            assert (scheduler.frameworks.default.profile, site.has_failed) == (before, True)
        assert site.count("refused") == 3
        assert site.health.list_notices()["configuration"].startswith("the last edit of the configuration was refused")
        assert not any(site.health.readiness().values())
        await site.edit(STRICT)
        assert (site.has_failed, site.health.list_notices()) == (False, {"configuration": ""})
        assert scheduler.frameworks.default.profile is before


@virtual
async def test_C_11_settings_that_need_a_restart_are_named(tmp_path: Path) -> None:
    async with edited(written(tmp_path, STRICT)) as site:
        await site.edit(f"{LENIENT}workers: 3\nqueue: {{burst: 7}}\n")
        assert site.health.list_notices() == {"configuration": "needs a restart: workers, queue.burst"}
        assert not site.has_failed
        await site.world.place("web", THREE)
        await site.world.soon_on("web", "ams", "dub", "osl")
        await site.edit(LENIENT)
        assert site.health.list_notices() == {"configuration": ""}


@virtual
async def test_a_profile_that_is_new_decides_and_one_that_is_gone_leaves_alone(tmp_path: Path) -> None:
    async with edited(written(tmp_path, STRICT)) as site:
        metadata = {"name": "web", "annotations": {"scheduling.fleet.dev/scheduler-name": "mine"}}
        spec = {"resourceSelectors": [ANYTHING], "policy": THREE}
        await site.world.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": spec})
        await asyncio.sleep(60)
        assert await site.world.bindings("web") == []
        await site.edit(WITH_MINE)
        await site.world.soon_on("web", "ams", "dub")
        assert site.health.list_notices() == {"configuration": ""}
        await site.edit(STRICT)
        await site.world.edit_policy("web", numberOfClusters=1)
        await asyncio.sleep(60)
        assert await site.world.in_use("web") == {"ams", "dub"}
        await site.edit(WITH_MINE)

        async def has_shrunk() -> bool:
            return len(await site.world.in_use("web")) == 1

        await soon(has_shrunk)


@virtual
async def test_a_hundred_edits_under_load_lose_no_placement(tmp_path: Path) -> None:
    async with edited(written(tmp_path, STRICT)) as site:
        names = [f"web-{number}" for number in range(100)]
        for number, name in enumerate(names):
            site.file.write_text((LENIENT, STRICT)[number % 2] + f"# {number}\n", encoding="utf-8")
            await asyncio.sleep(NOTICED * number / len(names))
            await site.world.place(name, THREE)
            await asyncio.sleep(NOTICED * (1 - number / len(names)))
        assert site.count("applied") == len(names)
        await site.edit(LENIENT)
        for name in names:
            await site.world.soon_on(name, "ams", "dub", "osl")


FED: Final = f"""{HEAD}feeds:
- name: prices
  static: {{ams: 3, dub: 3}}
profiles:
- schedulerName: DefaultScheduler
  plugins: {{filter: {{enabled: [{{name: FeedLimit}}]}}}}
  pluginConfig: [{{name: FeedLimit, args: {{limits: [{{feed: prices, atMost: 2}}]}}}}]
"""


@virtual
async def test_an_edited_feed_wakes_what_it_can_help(tmp_path: Path) -> None:
    async with edited(written(tmp_path, FED)) as site:
        await site.world.place("web", {"placementType": "PickN", "numberOfClusters": 1})
        await site.world.soon_scheduled("web", status="False")
        await site.edit(FED.replace("dub: 3", "dub: 1"))
        await site.world.soon_on("web", "dub")
        assert (site.count("applied"), site.reload.problem) == (1, "")


OUTSIDE: Final = f"""{HEAD}substitution: {{fromSecret: [outside]}}
extenders: [{{name: budget, urlPrefix: "https://x.example.com/${{PATH}}", filterVerb: filter, ignorable: true}}]
feeds: [{{name: prices, intervalSeconds: 10, http: {{url: "http://x.example.com", bearerToken: "${{TOKEN}}"}}}}]
profiles:
- schedulerName: DefaultScheduler
  plugins: {{filter: {{enabled: [{{name: FeedLimit}}]}}}}
  pluginConfig: [{{name: FeedLimit, args: {{limits: [{{feed: prices, atMost: 2, acceptUnknown: true}}]}}}}]
"""
BINARY: Final = b"\xff\xfe-hush"


class Service:
    """Feed and extender outside: notes what it is sent."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.sent: list[tuple[str, str]] = []
        """Hosts that were asked for feeds, with the tokens."""
        self.urls: list[str] = []

    async def fetch(self, method: str, url: str, *, headers: dict[str, str] | None = None, **more: Any) -> bytes:
        if method == "POST":
            self.urls.append(url)
            return b'{"NodeNames": ["ams", "dub"]}'
        self.tokens.append((headers or {}).get("Authorization", ""))
        self.sent.append((str(urlsplit(url).hostname), self.tokens[-1]))
        return b'{"dub": 3}'


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    service = Service()
    monkeypatch.setattr("fleet.external.feed_collector.fetch", service.fetch)
    monkeypatch.setattr("fleet.external.extender_client.fetch", service.fetch)
    return service


@virtual
async def test_a_value_that_is_no_text_costs_only_its_extender_or_feed_until_it_is_repaired(
    tmp_path: Path, service: Service
) -> None:
    with capture_logs() as logs:
        async with edited(written(tmp_path, OUTSIDE), TOKEN=BINARY, PATH=BINARY, UNUSED=BINARY) as site:
            await site.world.place("web", THREE)
            await site.world.soon_on("web", "ams", "dub")
            assert (service.tokens, service.urls) == ([], [])
            notice = site.health.list_notices()["configuration"]
            assert "key TOKEN of Secret fleet-system/outside is not UTF-8 text" in notice
            assert "key PATH of Secret" in notice
            assert "UNUSED" not in notice
            assert not any(site.health.readiness().values())
            await fill_secret(site.world, TOKEN=b"mended", PATH=BINARY)
            await asyncio.sleep(SECRETS_INTERVAL + NOTICED)
            assert set(service.tokens) == {"Bearer mended"}
            assert "TOKEN" not in site.health.list_notices()["configuration"]
            await fill_secret(site.world, PATH=b"budget")
            await asyncio.sleep(SECRETS_INTERVAL + NOTICED)
            assert site.health.list_notices() == {"configuration": ""}
            await site.world.place("later", THREE)
            await site.world.soon_on("later", "ams")
            assert set(service.urls) == {"https://x.example.com/budget/filter"}
            assert (site.count("applied"), site.count("refused")) == (2, 0)
    assert any("TOKEN of Secret fleet-system/outside" in line.get("problems", "") for line in logs)
    assert any(line["event"] == "all values of Secrets can be used again" for line in logs)
    assert "hush" not in str(logs)


@virtual
async def test_a_rotated_secret_is_used_without_a_restart_and_a_lost_one_as_it_was(
    tmp_path: Path, service: Service
) -> None:
    async with edited(written(tmp_path, OUTSIDE), TOKEN=b"first", PATH=b"budget") as site:
        await asyncio.sleep(SECRETS_INTERVAL + NOTICED)
        assert set(service.tokens) == {"Bearer first"}
        assert site.count("applied") == 0
        await fill_secret(site.world, TOKEN=b"second")
        await asyncio.sleep(SECRETS_INTERVAL + NOTICED)
        assert service.tokens[-1] == "Bearer second"
        service.tokens.clear()
        await site.world.delete(SECRETS, f"{LEASE_NAMESPACE}/outside")
        await asyncio.sleep(2 * SECRETS_INTERVAL)
        assert set(service.tokens) == {"Bearer second"}
        notice = site.health.list_notices()["configuration"]
        assert notice.startswith("Secret fleet-system/outside cannot be read: ")
        assert notice.endswith("(its last value is used)")
        await site.world.create(SECRETS, {"metadata": {"name": "outside", "namespace": LEASE_NAMESPACE}})
        await fill_secret(site.world, TOKEN=b"third", PATH=b"budget")
        await asyncio.sleep(SECRETS_INTERVAL + NOTICED)
        assert service.tokens[-1] == "Bearer third"
        assert site.health.list_notices() == {"configuration": ""}


@virtual
async def test_an_edit_may_name_a_secret(tmp_path: Path, service: Service) -> None:
    async with edited(written(tmp_path, STRICT), TOKEN=b"first", PATH=b"budget") as site:
        await site.edit(OUTSIDE)
        await asyncio.sleep(SECRETS_INTERVAL)
        assert set(service.tokens) == {"Bearer first"}
        assert site.health.list_notices() == {"configuration": ""}


SERVICES: Final = f"""{HEAD}substitution: {{fromSecret: [lost]}}
feeds: [{{name: prices, intervalSeconds: 10, http: {{url: "http://x.example.com", bearerToken: "${{TOKEN}}"}}}}]
profiles:
- schedulerName: DefaultScheduler
  base: LoadAware
  pluginConfig:
  - name: TargetLoadPacking
    args:
      metricProvider:
        {{type: Prometheus, address: "http://m.example.com", tokenFrom: {{secretName: outside, key: TOKEN}}}}
"""


@virtual
async def test_T_05_a_token_of_the_metrics_is_sent_to_no_other_service(tmp_path: Path, service: Service) -> None:
    """Not even while the Secret that another service takes its token from cannot be read."""
    async with edited(written(tmp_path, SERVICES), TOKEN=b"metrics") as site:
        await asyncio.sleep(SECRETS_INTERVAL)
        assert set(service.sent) == {("m.example.com", "Bearer metrics")}
        assert "Secret fleet-system/lost cannot be read" in site.health.list_notices()["configuration"]


@virtual
async def test_a_secret_of_a_token_is_no_source_of_references(tmp_path: Path) -> None:
    text = SERVICES.replace("substitution: {fromSecret: [lost]}\n", "")
    with capture_logs() as logs:
        async with edited(written(tmp_path, STRICT), TOKEN=b"metrics") as site:
            await site.edit(text)
            assert (site.count("refused"), site.has_failed) == (1, True)
    assert any("${TOKEN} has no source" in line.get("problems", "") for line in logs)


@virtual
async def test_a_refused_edit_is_reported_once_while_secrets_are_read_again(tmp_path: Path, service: Service) -> None:
    """And what is wrong with the Secrets of that edit is not said of those in effect."""
    refused = OUTSIDE.replace("fromSecret: [outside]", "fromSecret: [lost]").replace("name: FeedLimit}]", "name: Nix}]")
    with capture_logs() as logs:
        async with edited(written(tmp_path, OUTSIDE), TOKEN=b"first", PATH=b"budget") as site:
            await site.edit(refused)
            assert site.count("refused") == 1
            assert "Secret" not in site.health.list_notices()["configuration"]
            await asyncio.sleep(3 * SECRETS_INTERVAL)
            assert site.count("refused") == 1
            await site.edit(OUTSIDE)
            assert site.health.list_notices() == {"configuration": ""}
    assert len([line for line in logs if line["log_level"] == "error"]) == 1


@virtual
async def test_secrets_are_rotated_while_an_edit_is_refused(tmp_path: Path, service: Service) -> None:
    with capture_logs():
        async with edited(written(tmp_path, OUTSIDE), TOKEN=b"first", PATH=b"budget") as site:
            await site.edit(OUTSIDE.replace("name: FeedLimit}]", "name: Nix}]"))
            assert site.has_failed
            await fill_secret(site.world, TOKEN=b"second")
            await asyncio.sleep(SECRETS_INTERVAL + NOTICED)
            assert service.tokens[-1] == "Bearer second"
            assert site.has_failed
            assert "the last edit of the configuration was refused" in site.reload.problem
            await site.edit(OUTSIDE)
            assert (site.has_failed, site.reload.problem) == (False, "")


@virtual
async def test_values_that_are_refused_are_reported_once_and_until_they_are_repaired(
    tmp_path: Path, service: Service
) -> None:
    with capture_logs() as logs:
        async with edited(written(tmp_path, OUTSIDE), TOKEN=b"first", PATH=b"budget") as site:
            await fill_secret(site.world, PATH=b"\n?a=b#c")
            await asyncio.sleep(3 * SECRETS_INTERVAL)
            assert site.has_failed
            assert "new values of Secrets were refused" in site.reload.problem
            await fill_secret(site.world, PATH=b"budget")
            await asyncio.sleep(SECRETS_INTERVAL + NOTICED)
            assert (site.has_failed, site.reload.problem, site.count("refused")) == (False, "", 1)
    assert len([line for line in logs if line["log_level"] == "error"]) == 1


@virtual
async def test_no_later_secret_stands_in_for_one_that_cannot_be_read(tmp_path: Path, service: Service) -> None:
    text = OUTSIDE.replace("fromSecret: [outside]", "fromSecret: [before, outside]")
    before = f"{LEASE_NAMESPACE}/before"
    async with edited(written(tmp_path, text), TOKEN=b"another", PATH=b"budget") as site:
        await asyncio.sleep(SECRETS_INTERVAL)
        assert service.tokens == []
        assert "it may hold TOKEN" in site.health.list_notices()["configuration"]
        await site.world.create(SECRETS, {"metadata": {"name": "before", "namespace": LEASE_NAMESPACE}})
        data = {"TOKEN": base64.b64encode(b"own").decode()}
        await site.world.patch(SECRETS, before, {"data": data})
        await asyncio.sleep(SECRETS_INTERVAL + NOTICED)
        assert set(service.tokens) == {"Bearer own"}
        assert site.health.list_notices() == {"configuration": ""}
        await site.world.delete(SECRETS, before)
        await asyncio.sleep(2 * SECRETS_INTERVAL)
        assert set(service.tokens) == {"Bearer own"}
