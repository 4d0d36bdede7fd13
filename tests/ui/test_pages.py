"""What the pages show is what REST answers, for the same caller at the same time."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.api.stage import ADMIN, CLUSTERS, Running
from tests.e2e.hub import soon
from tests.policies import REMARKED, path_of
from tests.ui.browsing import Explorer, Visit
from tests.ui.expected import check_placement, check_simulated

pytestmark = pytest.mark.timeout(900)  # a browser on a busy machine takes its time

MORE_CLUSTERS: Final = {
    "iad-1": {"region": "us-east", "env": "prod", "tier": "gold"},
    "iad-2": {"region": "us-east", "env": "staging", "tier": "silver"},
    "nrt-1": {"region": "ap-east", "env": "prod", "tier": "gold"},
}


@pytest.fixture(scope="module")
def policies(running: Running) -> list[str]:
    """The public ones that a hub accepts, decided on the stage's fleet with more clusters."""
    names: list[str] = []

    async def place() -> None:
        world = running.stage.world
        for name, labels in MORE_CLUSTERS.items():
            await world.join(name, labels=labels)
        await world.taint("nrt-1", {"key": "maintenance", "value": "now", "effect": "NoSchedule"})
        for file in REMARKED:
            for document in yaml.safe_load_all(Path(path_of(file)).read_text("utf-8")):
                if document["kind"] != "ClusterResourcePlacement":
                    continue
                name = f"public-{file}"
                await world.place(name, document["spec"].get("policy"))
                await soon(partial(world.scheduled, name))
                names.append(name)
        await running.stage.wait_until_recorded()

    running.call(place())
    return names


def test_the_placements_of_the_stage_are_shown_as_rest_has_them(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        for key in ("web", "big", "shop/cache"):
            check_placement(visit, key)

    explorer.visit(ADMIN, look)


def test_the_public_policies_are_shown_as_rest_has_them(explorer: Explorer, policies: list[str]) -> None:
    def look(visit: Visit) -> None:
        for name in policies:
            check_placement(visit, name)

    assert len(policies) == len(REMARKED)
    explorer.visit(ADMIN, look)


def test_the_tooltip_has_the_words_of_the_cell(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/web")
        for cluster in ("osl-1", "ams-1"):
            cell = page.locator(f'.cell[data-cluster="{cluster}"][data-plugin="TaintToleration"]')
            cell.focus()
            words = (cell.get_attribute("aria-label") or "").partition(";")[0]
            page.wait_for_function("(words) => document.querySelector('.tip b')?.textContent === words", arg=words)
            assert page.is_visible(".tip")
        visit.check_calm()

    explorer.visit(ADMIN, look)


def test_the_fleet_page_has_every_placement_on_its_clusters(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.open("/ui/")
        fleet = visit.get("/v1/matrix")
        names = [cluster["name"] for cluster in fleet["clusters"]]
        there = {
            f"{placement['key']}|{names[index]}" for placement in fleet["placements"] for index in placement["bound"]
        }
        shown: list[list[str]] = page.evaluate(
            """() => [...document.querySelectorAll('.strip-cell')].map((cell) =>
                [cell.dataset.placement + '|' + cell.dataset.cluster, cell.dataset.kind])"""
        )
        assert {cell for cell, kind in shown if kind == "use"} == there
        assert len(shown) == len(names) * len(fleet["placements"])
        keys = page.evaluate(
            "() => [...document.querySelectorAll('.strip-names a span')].map((one) => one.textContent)"
        )
        assert [key.removeprefix("✗ ") for key in keys] == [placement["key"] for placement in fleet["placements"]]
        status = visit.get("/v1/status")
        for show, number in (
            ("", status["placements"]["total"]),
            ("short", status["placements"]["short"]),
            ("undecided", status["placements"]["undecided"]),
            ("clusters", status["clusters"]["total"]),
            ("ineligible", status["clusters"]["total"] - status["clusters"]["eligible"]),
            ("tainted", status["clusters"]["tainted"]),
            ("moves", len(status["moves"]) + status["moreMoves"]),
        ):
            assert page.text_content(f'[data-show="{show}"] b') == str(number)
        state = {cluster["name"]: cluster["state"] for cluster in fleet["clusters"]}
        tips = page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll('.strip-cell')].map((cell) => {
                cell.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));
                return [cell.dataset.placement + '|' + cell.dataset.cluster,
                        document.querySelector('.tip b').textContent];
            }))"""
        )
        assert len(tips) == len(shown)
        for cell, words in tips.items():
            key, _, name = cell.partition("|")
            place = "there" if cell in there else "not there"
            assert words == f"{key} on {name}: {place}" + (f"; cluster {state[name]}" if state[name] else "")
        visit.check_calm()

    explorer.visit(ADMIN, look)


def test_a_count_leads_to_what_it_counts(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.open("/ui/")
        page.wait_for_selector(".strip-cell")
        page.click('[data-show="short"]')
        short = [one["key"] for one in visit.get("/v1/matrix")["placements"] if one["fulfilled"] is False]
        keys = page.evaluate(
            "() => [...document.querySelectorAll('.strip-names a span')].map((one) => one.textContent)"
        )
        assert keys == [f"✗ {key}" for key in short]
        assert short
        assert "show=short" in page.url

    explorer.visit(ADMIN, look)


def test_the_cluster_page_has_what_is_there_and_what_is_refused(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.open("/ui/clusters/osl-1")
        items = visit.get("/v1/clusters/osl-1/placements")["items"]
        for state in ("there", "rejected"):
            shown = page.evaluate(
                """(state) => [...document.querySelectorAll(`table[data-state="${state}"] tr`)].map((row) =>
                    [row.dataset.key, row.children[1].textContent, row.children[2].textContent])""",
                state,
            )
            assert shown == [[one["key"], one["plugin"], one["why"]] for one in items if one["state"] == state]
        taints = page.evaluate("() => [...document.querySelectorAll('#taints li')].map((one) => one.textContent)")
        assert taints == ["dedicated=batch:NoSchedule"]
        visit.check_calm()

    explorer.visit(ADMIN, look)


def test_a_drain_shows_the_impact_that_simulate_has(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.open("/ui/clusters/ams-1")
        page.click("#drain-leaves")
        page.wait_for_selector("#impact-text")
        edit = {"op": "removeCluster", "cluster": "ams-1"}
        body = {"placement": {"ref": "web"}, "edits": [edit], "impact": True, "limit": 1}
        impact = visit.post("/v1/simulate", body)["impact"]
        shown = page.evaluate(
            "() => [...document.querySelectorAll('#impact-table [data-key]')].map((row) => row.dataset.key)"
        )
        assert shown == [moved["key"] for moved in impact["moved"]]
        assert shown
        visit.check_calm()

    explorer.visit(ADMIN, look)


def test_a_slider_asks_what_if(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/web")
        page.focus("#whatif-count")
        page.keyboard.press("ArrowRight")
        check_simulated(visit, "web", [{"op": "setCount", "value": 3}])
        page.keyboard.press("ArrowLeft")
        page.wait_for_function("() => !location.search.includes('edits')")
        visit.check_calm()

    explorer.visit(ADMIN, look)


def test_several_changes_at_once_are_carried_by_the_url(explorer: Explorer) -> None:
    edits = [
        {"op": "setCount", "value": 4},
        {"op": "removeCluster", "cluster": "ams-1"},
        {"op": "tolerate", "key": "dedicated", "value": "batch", "effect": "NoSchedule"},
    ]

    def change(visit: Visit) -> str:
        page = visit.open("/ui/placements/-/web?cluster=ams-1")
        page.focus("#whatif-count")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => location.search.includes('setCount')")
        page.focus("#whatif-count")
        page.keyboard.press("ArrowRight")
        check_simulated(visit, "web", edits[:1])
        page.check("#whatif-leaves")
        check_simulated(visit, "web", edits[:2])
        page.get_by_role("switch", name="dedicated=batch:NoSchedule").check()
        check_simulated(visit, "web", edits)
        return page.url

    def follow(visit: Visit) -> None:
        visit.open(link.removeprefix(explorer.url))
        check_simulated(visit, "web", edits)
        visit.page.click("#reset")
        visit.page.wait_for_function("() => !location.search.includes('edits')")
        visit.check_calm()

    link = explorer.visit(ADMIN, change)
    explorer.visit(ADMIN, follow)


def test_a_fix_can_be_tried(explorer: Explorer, running: Running) -> None:
    world = running.stage.world

    async def place() -> None:
        await world.place("every", {"placementType": "PickN", "numberOfClusters": len(CLUSTERS) + len(MORE_CLUSTERS)})
        await world.soon_scheduled("every", status="False")
        await running.stage.wait_until_recorded()

    def look(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/every")
        fix = visit.get("/v1/placements/-/every/why")["fixes"][0]
        page.click("#fix-list li:first-child button")
        check_simulated(visit, "every", fix["edits"])

    running.call(place())
    explorer.visit(ADMIN, look)


def test_an_edit_that_cannot_be_is_refused_in_words(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.open('/ui/placements/-/web?edits=[{"op":"setCuont"}]')
        page.wait_for_selector("#decision .note.is-bad")
        assert "did you mean setCount?" in (page.text_content("#decision .note.is-bad") or "")

    explorer.visit(ADMIN, look)
