"""What a deletion does to other objects."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from fleet.errors import RequestRefused
from fleet.hub.storage.store import HubStore, StoreChange, durability_error
from tests.unit.hub.asking import CONFIG_MAPS, DEFINITIONS, NAMESPACES, THINGS, Asker, a_config_map, a_thing

MERGE = "application/merge-patch+json"


def owned(name: str, *owners: dict[str, Any], **reference: Any) -> dict[str, Any]:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        | reference
        for owner in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": references}}


@pytest.fixture
def owner(ask: Asker) -> dict[str, Any]:
    created: dict[str, Any] = ask("POST", CONFIG_MAPS, a_config_map("owner")).json
    return created


def test_dependents_go_after_their_owner(ask: Asker, owner: dict[str, Any]) -> None:
    ask("POST", CONFIG_MAPS, owned("dependent", owner))
    ask("DELETE", f"{CONFIG_MAPS}/owner")
    assert ask.names(CONFIG_MAPS) == ["dependent"]
    ask.settle()
    assert ask.names(CONFIG_MAPS) == []


def test_dependents_of_dependents_go_too(ask: Asker, owner: dict[str, Any]) -> None:
    child = ask("POST", CONFIG_MAPS, owned("child", owner)).json
    ask("POST", CONFIG_MAPS, owned("grandchild", child))
    ask("DELETE", f"{CONFIG_MAPS}/owner")
    ask.settle()
    assert ask.names(CONFIG_MAPS) == []


def test_a_dependent_stays_while_it_has_another_owner(ask: Asker, owner: dict[str, Any]) -> None:
    other = ask("POST", CONFIG_MAPS, a_config_map("other")).json
    ask("POST", CONFIG_MAPS, owned("dependent", owner, other))
    ask("DELETE", f"{CONFIG_MAPS}/owner")
    ask.settle()
    references = ask("GET", f"{CONFIG_MAPS}/dependent").json["metadata"]["ownerReferences"]
    assert [reference["name"] for reference in references] == ["other"]


def test_orphans_stay_without_their_owner(ask: Asker, owner: dict[str, Any]) -> None:
    ask("POST", CONFIG_MAPS, owned("dependent", owner))
    ask("DELETE", f"{CONFIG_MAPS}/owner?propagationPolicy=Orphan")
    ask.settle()
    assert ask.names(CONFIG_MAPS) == ["dependent"]
    assert "ownerReferences" not in ask("GET", f"{CONFIG_MAPS}/dependent").json["metadata"]


def test_in_the_foreground_the_owner_waits_for_dependents_that_block(ask: Asker, owner: dict[str, Any]) -> None:
    dependent = owned("dependent", owner, blockOwnerDeletion=True)
    dependent["metadata"]["finalizers"] = ["example.com/wait"]
    ask("POST", CONFIG_MAPS, dependent)
    ask("DELETE", f"{CONFIG_MAPS}/owner?propagationPolicy=Foreground")
    ask.settle()
    assert ask.names(CONFIG_MAPS) == ["dependent", "owner"]
    ask("PATCH", f"{CONFIG_MAPS}/dependent", {"metadata": {"finalizers": None}}, media_type=MERGE)
    ask.settle()
    assert ask.names(CONFIG_MAPS) == []


def test_a_dependent_of_nobody_is_collected(ask: Asker, owner: dict[str, Any]) -> None:
    ask("DELETE", f"{CONFIG_MAPS}/owner")
    ask("POST", CONFIG_MAPS, owned("late", owner))
    ask.settle()
    assert ask.names(CONFIG_MAPS) == []


def test_owners_of_kinds_that_are_not_served_are_taken_to_live(ask: Asker) -> None:
    stranger = {"metadata": {"name": "x", "uid": "elsewhere"}}
    ask("POST", CONFIG_MAPS, owned("dependent", stranger, apiVersion="v1", kind="Node"))
    ask.settle()
    assert ask.names(CONFIG_MAPS) == ["dependent"]


def test_a_namespace_goes_when_it_is_empty(ask: Asker) -> None:
    ask("POST", NAMESPACES, {"metadata": {"name": "old"}})
    waiting = a_config_map("waiting")
    waiting["metadata"]["finalizers"] = ["example.com/wait"]
    for document in (waiting, a_config_map("other")):
        ask("POST", f"{NAMESPACES}/old/configmaps", document)
    assert ask("DELETE", f"{NAMESPACES}/old").json["status"]["phase"] == "Terminating"
    ask.settle()
    assert ask.names(f"{NAMESPACES}/old/configmaps") == ["waiting"]
    ask("PATCH", f"{NAMESPACES}/old/configmaps/waiting", {"metadata": {"finalizers": None}}, media_type=MERGE)
    ask.settle()
    assert ask("GET", f"{NAMESPACES}/old").code == 404


def test_a_definition_takes_its_objects_with_it(things: Asker) -> None:
    things("POST", THINGS, a_thing("t"))
    things("DELETE", f"{DEFINITIONS}/things.example.com")
    things.settle()
    assert things("GET", THINGS).code == 404
    assert things("GET", f"{DEFINITIONS}/things.example.com").code == 404
    assert not things.hub.store.collection("things.example.com").entries


# --- steps that fail --------------------------------------------------------------------------------------------------


@dataclass
class Disk:
    """A journal that keeps everything, unless it is full."""

    store: HubStore
    is_full: bool = False

    def append(self, change: StoreChange, on_durable: asyncio.Future[None]) -> None:
        if self.is_full:
            self.store.discard_in_flight()
            on_durable.set_exception(durability_error(OSError("disk is full")))
        else:
            self.store.apply([change])
            on_durable.set_result(None)


def tear_down(ask: Asker, runner: asyncio.Runner, *, disk: Disk | None = None) -> None:
    """Lets the hub tear down in the background for half a minute; in the middle of it room is made on the disk."""

    async def scenario() -> None:
        task = asyncio.create_task(ask.hub.garbage_collector.run(), name="teardown")
        await asyncio.sleep(15)
        if disk is not None:
            disk.is_full = False
        await asyncio.sleep(15)
        task.cancel()

    runner.run(scenario())


def test_a_step_that_was_lost_on_a_full_disk_is_made_later(
    ask: Asker, runner: asyncio.Runner, owner: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    ask("POST", CONFIG_MAPS, owned("dependent", owner))
    ask("DELETE", f"{CONFIG_MAPS}/owner")
    ask.hub.store.journal = disk = Disk(ask.hub.store, is_full=True)
    tear_down(ask, runner, disk=disk)
    assert ask.names(CONFIG_MAPS) == []
    assert caplog.text.count("a write of the garbage collector was lost") == 2


def test_a_step_that_was_refused_is_tried_again(
    ask: Asker, runner: asyncio.Runner, owner: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("POST", CONFIG_MAPS, owned("dependent", owner))
    ask("DELETE", f"{CONFIG_MAPS}/owner")
    refusals, delete = iter(range(2)), ask.hub.objects.delete

    def reluctant(*arguments: Any) -> Any:
        if next(refusals, None) is not None:
            raise RequestRefused(422, "Invalid", "not now")
        return delete(*arguments)

    monkeypatch.setattr(ask.hub.objects, "delete", reluctant)
    tear_down(ask, runner)
    assert ask.names(CONFIG_MAPS) == []
