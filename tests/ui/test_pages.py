"""What the pages show is what REST answers, for the same caller at the same time."""

from __future__ import annotations

import base64
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.api.stage import ADMIN, CLUSTERS, Running
from tests.e2e.hub import soon
from tests.policies import REMARKED, path_of
from tests.ui.browsing import MINUS, Explorer, Json, Visit

pytestmark = pytest.mark.timeout(900)  # a browser on a busy machine takes its time

KINDS: Final = """() => Object.fromEntries([...document.querySelectorAll('.cell[data-plugin]')].map((cell) =>
    [cell.dataset.plugin + '|' + cell.dataset.cluster, [cell.dataset.kind, cell.getAttribute('aria-label')]]))"""
COUNTS: Final = """() => Object.fromEntries([...document.querySelectorAll('#funnel [data-count]')].map((part) =>
    [part.dataset.plugin || part.dataset.part, Number(part.dataset.count)]))"""
CHIPS: Final = "() => [...document.querySelectorAll('#decision .chip.use')].map((chip) => chip.textContent)"
TRIES: Final = 20
PAUSE: Final = 1000
"""Milliseconds before another try."""
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


def placement_path(key: str) -> str:
    namespace, _, name = key.rpartition("/")
    return f"{namespace or '-'}/{name}"


def expected_cells(matrix: Json) -> dict[str, list[str]]:
    """Cells as the page should have them, from the answer."""
    clusters, plugins = matrix["clusters"], matrix["plugins"]
    verdicts, bound = base64.b64decode(matrix["verdicts"]), set(matrix["bound"])
    cells: dict[str, list[str]] = {}
    for column, cluster in enumerate(clusters):
        values = [verdicts[line * len(clusters) + column] for line in range(len(plugins))]
        first = next((line for line, value in enumerate(values) if value not in (0, 255)), None)
        for line, (plugin, value) in enumerate(zip(plugins, values, strict=True)):
            words = {0: "passes", 255: "not run"}.get(value) or matrix["reasons"][value - 1]["text"]
            if value == 255:
                kind = "skip"
            elif value == 0:
                kind = "use" if column in bound else "pass"
            else:
                kind = "kept" if column in bound else "first" if line == first else "later"
            standing = (
                "in use"
                if column in bound
                else "fits, not chosen"
                if first is None
                else f"rejected by {plugins[first]}"
            )
            cells[f"{plugin}|{cluster}"] = [kind, f"{cluster}, {plugin}: {words}; {standing}"]
    return cells


def expected_counts(matrix: Json) -> dict[str, int]:
    clusters, plugins = matrix["clusters"], matrix["plugins"]
    verdicts, bound = base64.b64decode(matrix["verdicts"]), set(matrix["bound"])
    counts = {"total": len(clusters), "use": len(bound), "fits": 0, **dict.fromkeys(plugins, 0)}
    for column in set(range(len(clusters))) - bound:
        rejecting = (
            name for line, name in enumerate(plugins) if verdicts[line * len(clusters) + column] not in (0, 255)
        )
        counts[next(rejecting, "fits")] += 1
    return counts


def check_placement(visit: Visit, key: str) -> None:
    """The queue may have moved between the page's questions and ours: then both are asked again."""
    shown: Json = {}
    expected: Json = {}
    for _ in range(TRIES):
        visit.open(f"/ui/placements/{placement_path(key)}")
        shown, expected = read_placement(visit), ask_placement(visit, key)
        if shown == expected:
            break
        visit.page.wait_for_timeout(PAUSE)
    assert shown == expected
    visit.check_calm()


def read_placement(visit: Visit) -> Json:
    page = visit.page
    return {
        "cells": page.evaluate(KINDS),
        "counts": page.evaluate(COUNTS),
        "sentence": page.text_content("#sentence"),
        "state": page.get_attribute("#decision .state", "data-state"),
        "targets": page.evaluate(CHIPS),
        "fixes": page.evaluate("() => [...document.querySelectorAll('#fix-list b')].map((fix) => fix.textContent)"),
    }


def ask_placement(visit: Visit, key: str) -> Json:
    matrix = visit.get(f"/v1/matrix?placement={key}")
    why = visit.get(f"/v1/placements/{placement_path(key)}/why")
    return {
        "cells": expected_cells(matrix),
        "counts": expected_counts(matrix),
        "sentence": why["verdict"]["summary"],
        "state": why["verdict"]["state"],
        "targets": sorted(visit.get(f"/v1/placements/{placement_path(key)}")["targets"]),
        "fixes": [fix["text"] for fix in why["fixes"] or ()],
    }


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
            ("clusters", status["clusters"]["total"]),
            ("tainted", status["clusters"]["tainted"]),
        ):
            assert page.text_content(f'[data-show="{show}"] b') == str(number)
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


def check_simulated(visit: Visit, key: str, edits: list[Any]) -> None:
    """The page shows the answer of POST /v1/simulate to the same edits."""
    page = visit.page
    answer = visit.post("/v1/simulate", {"placement": {"ref": key}, "edits": edits, "explain": "all", "limit": 500})
    page.wait_for_function(
        "(words) => document.querySelector('#sentence')?.textContent === words",
        arg=answer["answer"]["verdict"]["summary"],
    )
    chips = page.evaluate("() => [...document.querySelectorAll('#decision .chip')].map((one) => one.textContent)")
    gained, lost = answer["compare"]["gained"], answer["compare"]["lost"]
    used = [
        row["name"]
        for row in answer["answer"]["attempt"]["clusters"]
        if row["outcome"].endswith("selected") and row["outcome"] != "fit-not-selected"
    ]
    assert chips == [f"+ {name}" for name in gained] + [f"{MINUS} {name}" for name in lost] + sorted(
        set(used) - set(gained)
    )
    cells: dict[str, list[str]] = page.evaluate(KINDS)
    for row in answer["answer"]["attempt"]["clusters"]:
        for part in row["rejections"]:
            kind, words = cells[f"{part['plugin']}|{row['name']}"]
            is_rejected = kind in ("first", "later", "kept")
            assert is_rejected is (part["verdict"] == "reject"), (row["name"], part)
            assert (kind == "skip") is (part["verdict"] == "skipped")
            if is_rejected:
                assert (part["short"] or part["message"]) in words


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
