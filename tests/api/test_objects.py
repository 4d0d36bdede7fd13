"""Placements, clusters, bindings and configuration as callers see them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from api.services import export, objects
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.views import MemberCluster, Observed
from tests.api.stage import AUTHOR, CLUSTERS, HIDDEN, READER, SEEN, Stage, staged


@staged
async def test_a_placement_tells_where_it_is(stage: Stage) -> None:
    found = await stage.json("/v1/placements/-/web")

    assert found["key"] == "web"
    assert (found["type"], found["wanted"], found["fulfilled"]) == ("PickN", 2, True)
    assert set(found["targets"]) == await stage.world.in_use("web")
    assert found["redacted"] == 0


@staged
async def test_placements_of_both_scopes_are_listed_by_key(stage: Stage) -> None:
    found = await stage.json("/v1/placements")

    assert [one["key"] for one in found["items"]] == ["big", "shop/cache", "web"]
    assert [one["fulfilled"] for one in found["items"]] == [False, True, True]


@staged
async def test_a_namespace_narrows_the_list_of_placements(stage: Stage) -> None:
    found = await stage.json("/v1/placements?namespace=shop")

    assert [one["key"] for one in found["items"]] == ["shop/cache"]


@staged
async def test_who_may_list_cluster_scoped_placements_only_is_given_those(stage: Stage) -> None:
    found = await stage.json("/v1/placements", AUTHOR)

    assert [one["key"] for one in found["items"]] == ["big", "web"]


@staged
async def test_pages_go_on_where_the_last_one_ended_and_tell_when_there_is_no_more(stage: Stage) -> None:
    names, cursor = [], ""
    while True:
        page = await stage.json(f"/v1/clusters?limit=2{cursor}")
        names.append([one["name"] for one in page["items"]])
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"

    assert names == [["ams-1", "ams-2"], ["dub-1", "dub-2"], ["osl-1"]]


@staged
async def test_a_cluster_tells_what_its_agent_says_and_whether_it_takes_work(stage: Stage) -> None:
    found = await stage.json("/v1/clusters/osl-1")

    assert (found["eligible"], found["joined"], found["healthy"]) == (True, "True", "True")
    assert found["taints"] == [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
    assert found["labels"]["region"] == "osl"


@staged
async def test_bindings_can_be_asked_for_by_placement_and_cluster(stage: Stage) -> None:
    of_all = await stage.json("/v1/bindings?placement=shop/cache")
    of_one = await stage.json("/v1/bindings?placement=shop/cache&cluster=dub-1")

    assert {one["cluster"] for one in of_all["items"]} == set(CLUSTERS) - {"osl-1"}
    assert [(one["placement"], one["cluster"]) for one in of_one["items"]] == [("shop/cache", "dub-1")]


@staged
async def test_profiles_list_their_plugins_in_order(stage: Stage) -> None:
    (profile,) = (await stage.json("/v1/profiles"))["items"]

    filters = [one["name"] for one in profile["plugins"]["filter"]]
    assert filters.index("ClusterEligibility") < filters.index("TaintToleration")
    assert profile["configHash"] == stage.controller.scheduler.frameworks.default.profile.config_hash  # type: ignore[union-attr]


@staged
async def test_F3_090_a_profile_is_listed_as_it_was_built_hook_by_hook(stage: Stage) -> None:
    """With everything that was left to defaults."""
    assert stage.controller.scheduler is not None
    built = stage.controller.scheduler.frameworks.default.profile
    (told,) = (await stage.json("/v1/profiles"))["items"]

    want = {
        hook: [
            (one.name, "scalar" if one.scalar else "vector", one.weight if hook == "score" else None) for one in bound
        ]
        for hook, bound in built.hooks.items()
        if bound
    }
    listed = {hook: [(one["name"], one["form"], one["weight"]) for one in all] for hook, all in told["plugins"].items()}
    assert listed == want
    assert list(listed) == list(want)
    assert (told["schedulerName"], told["ranking"], told["tieBreak"]) == (
        "DefaultScheduler",
        "lexicographic",
        "nameDescending",
    )


@staged
async def test_settings_tell_whose_word_they_are(stage: Stage) -> None:
    found = {one["name"]: one for one in (await stage.json("/v1/config"))["items"]}

    assert (found["queue.maxDelay"]["value"], found["queue.maxDelay"]["origin"]) == ("30s", "--set")
    assert found["queue.baseDelay"]["origin"] == "default"


@staged
async def test_text_is_given_to_who_accepts_text_first(stage: Stage) -> None:
    found = await stage.get("/v1/placements", Accept="text/plain, application/json;q=0.5")

    assert found.headers["content-type"].startswith("text/plain")
    assert [line.split()[0] for line in found.text.splitlines()] == ["PLACEMENT", "big", "shop/cache", "web"]


@staged
async def test_an_answer_that_has_not_changed_is_not_sent_again(stage: Stage) -> None:
    first = await stage.get("/v1/placements/-/web")
    second = await stage.get("/v1/placements/-/web", **{"If-None-Match": first.headers["etag"]})
    as_text = await stage.get("/v1/placements/-/web", Accept="text/plain", **{"If-None-Match": first.headers["etag"]})

    assert (second.status_code, second.content) == (304, b"")
    assert second.headers["etag"] == first.headers["etag"]
    assert as_text.status_code == 200


# --- clusters that the caller may not read ----------------------------------------------------------------------------


@staged
async def test_W_10_clusters_are_listed_by_name_only_to_who_may_read_them(stage: Stage) -> None:
    found = await stage.json("/v1/clusters", READER)

    assert [one["name"] for one in found["items"]] == list(SEEN)
    assert found["redacted"] == len(HIDDEN)


@staged
async def test_W_10_no_object_names_a_cluster_that_the_caller_may_not_read(stage: Stage) -> None:
    paths = ("/v1/placements/-/web", "/v1/bindings?placement=web", "/v1/clusters", "/v1/decisions?placement=web")
    for path in paths:
        for accept in ("application/json", "text/plain"):
            found = await stage.get(path, READER, Accept=accept)

            assert found.status_code == 200, found.text
            assert not [name for name in HIDDEN if name in found.text], path


@staged
async def test_W_10_what_is_left_out_is_counted(stage: Stage) -> None:
    whole, part = await stage.json("/v1/placements/-/big"), await stage.json("/v1/placements/-/big", AUTHOR)

    assert len(whole["targets"]) == len(part["targets"]) + part["redacted"]
    assert part["redacted"] > 0


@staged
async def test_W_10_a_hidden_cluster_and_one_that_does_not_exist_are_refused_alike(stage: Stage) -> None:
    hidden = await stage.get("/v1/clusters/dub-1", READER)
    nowhere = await stage.get("/v1/clusters/nowhere", READER)

    assert (hidden.status_code, nowhere.status_code) == (403, 403)
    assert hidden.text.replace("dub-1", "nowhere") == nowhere.text


@staged
async def test_others_take_turns_with_a_list_of_placements(stage: Stage) -> None:
    turns, seen = 0, list[int]()
    build = objects.build_placement_model

    def build_noted(*args: Any) -> Any:
        seen.append(turns)
        return build(*args)

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(objects, "build_placement_model", build_noted)
        others = asyncio.create_task(take_turns())
        await stage.json("/v1/placements")
        others.cancel()

    assert len(seen) == 3
    assert len(set(seen)) == 3


def test_the_affinity_of_a_policy_is_not_decoded_to_show_a_placement() -> None:
    shown = msgspec.json.decode(b'{"policy":{"placementType":"PickN","affinity":"skipped"}}', type=objects._Spec)

    assert shown.policy is not None
    assert shown.policy.placement_type == "PickN"


@staged
async def test_a_snapshot_of_thousands_of_clusters_is_made_beside_the_event_loop(stage: Stage) -> None:
    threads: dict[str, int] = {}
    describe = export.describe_cluster

    def describe_noted(cluster: MemberCluster) -> dict[str, Any]:
        threads[cluster.metadata.name] = threading.get_ident()
        return describe(cluster)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(export, "describe_cluster", describe_noted)
        found = await stage.json("/v1/snapshot")

    assert [one["metadata"]["name"] for one in found["clusters"]] == sorted(CLUSTERS)
    assert {(one["kind"], one["apiVersion"]) for one in found["clusters"]} == {
        ("MemberCluster", MEMBER_CLUSTERS.api_version)
    }
    assert sorted(threads) == sorted(CLUSTERS)
    assert threading.get_ident() not in threads.values()


@staged
async def test_a_snapshot_has_objects_as_they_were_read(stage: Stage) -> None:
    """To decode large ones would hold the event loop."""
    decoded: list[str] = []
    document = Observed.document

    def document_noted(observed: Observed[Any]) -> dict[str, Any]:
        decoded.append(observed.view.metadata.name)
        return document(observed)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(Observed, "document", document_noted)
        found = await stage.json("/v1/snapshot")

    assert {one["metadata"]["name"] for one in found["placements"]} == {"web", "big", "cache"}
    assert all("spec" in one for one in (*found["policySnapshots"], *found["bindings"]))
    assert decoded == []
