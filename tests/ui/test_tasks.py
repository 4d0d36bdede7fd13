"""What people come for, done with the keyboard alone as somebody new would, and a picture of each answer.

With FLEET_PICTURES=docs/explorer the pictures of the documentation are made anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.api.stage import ADMIN, Running
from tests.ui.browsing import MINUS, READY, Explorer, Visit
from tests.ui.expected import Matrix, check_simulated
from tests.ui.test_safety import press_until

pytestmark = pytest.mark.timeout(900)  # a browser on a busy machine takes its time

REGIONS: Final = ("eu-north", "eu-west", "us-east")
POLICY: Final = {
    "placementType": "PickN",
    "numberOfClusters": 4,
    "affinity": {
        "clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"env": "prod"}}}]
            }
        }
    },
    "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "region", "whenUnsatisfiable": "DoNotSchedule"}],
}
MAINTENANCE: Final = {"key": "maintenance", "value": "now", "effect": "NoSchedule"}
LARGEST: Final = 250_000
"""Bytes of a picture."""
FOCUSED: Final = "document.activeElement"


@pytest.fixture(scope="module")
def fleet(running: Running) -> None:
    """`web` is on four of nine clusters, and was on three; `shop` wants one more than it can have."""

    async def build() -> None:
        world = running.stage.world
        for number in range(1, 10):
            labels = {"region": REGIONS[number % 3], "env": "staging" if number in (2, 7) else "prod"}
            await world.join(f"cluster-{number}", labels=labels)
        await world.taint("cluster-7", MAINTENANCE)
        await world.taint("cluster-9", MAINTENANCE)
        for name, number in (("shop-front", 6), ("web-front", 3)):
            await world.place(name, {**POLICY, "numberOfClusters": number})
        await world.soon_scheduled("web-front")
        await world.edit_policy("web-front", numberOfClusters=4)
        await world.soon_scheduled("web-front")
        await world.place("shop-back", {**POLICY, "numberOfClusters": 7})
        await world.soon_scheduled("shop-back", status="False")
        await running.stage.wait_until_recorded()

    running.call(build())


@pytest.fixture
def keep_picture(tmp_path: Path) -> Callable[[Visit, str, str], None]:
    """Of the element of a selector; without one, of what is in sight."""
    folder = Path(os.environ.get("FLEET_PICTURES") or tmp_path)

    def keep(visit: Visit, name: str, selector: str) -> None:
        path = folder / f"{name}.png"
        visit.page.evaluate("() => { document.querySelector('.bar').style.position = 'static'; }")
        if selector:
            visit.page.locator(selector).first.screenshot(path=path)
        else:
            visit.page.screenshot(path=path, clip={"x": 0, "y": 0, "width": 1150, "height": 560})
        assert path.stat().st_size < LARGEST

    return keep


def press_to(visit: Visit, selector: str) -> None:
    """By Tab alone."""
    press_until(visit, "Tab", f"{FOCUSED}.matches({selector!r})")


@pytest.mark.usefixtures("fleet")
class TestTasks:
    def test_why_is_it_not_on_this_cluster(
        self, explorer: Explorer, keep_picture: Callable[[Visit, str, str], None]
    ) -> None:
        def look(visit: Visit) -> None:
            page = visit.open("/ui/")
            press_to(visit, ".strip-cell")
            press_until(visit, "ArrowDown", f"{FOCUSED}.dataset.placement === 'web-front'")
            press_until(visit, "ArrowRight", f"{FOCUSED}.dataset.cluster === 'cluster-7'")
            page.keyboard.press("Enter")
            page.wait_for_selector("#card pre")
            page.wait_for_selector(READY)
            said = page.context.request.get(
                f"{explorer.url}/v1/clusters/cluster-7/why-not?placement=web-front", headers={"Accept": "text/plain"}
            ).text()
            assert page.text_content("#card pre") == said
            assert "env In [prod] (is staging)" in said
            page.evaluate("() => document.querySelector('#grid').scrollIntoView()")
            keep_picture(visit, "why-not", "")
            visit.check_calm()

        explorer.visit(ADMIN, look, width=1150)

    def test_which_rule_excludes_most(
        self, explorer: Explorer, keep_picture: Callable[[Visit, str, str], None]
    ) -> None:
        def look(visit: Visit) -> None:
            page = visit.open("/ui/placements/-/web-front")
            matrix = Matrix(visit.get("/v1/matrix?placement=web-front"))
            counts = {name: matrix.counts()[name][0] for name in matrix.plugins}
            most = max(counts.values())
            names = [name for name in matrix.plugins if counts[name] == most]
            words = (
                f"{' and '.join(names)} exclude{'' if len(names) > 1 else 's'} most: {most} of {len(matrix.clusters)}"
            )
            assert page.text_content("#most") == f"{words} clusters"
            press_to(visit, f'[data-plugin="{names[0]}"][data-count]')
            page.keyboard.press("Enter")
            bright = page.evaluate(
                "() => [...document.querySelectorAll('.grid .name:not(.is-dim)')].map((one) => one.dataset.cluster)"
            )
            first = matrix.plugins.index(names[0])
            assert sorted(bright) == sorted(
                name
                for column, name in enumerate(matrix.clusters)
                if column not in matrix.bound and matrix.rejecting(column)[:1] == [first]
            )
            keep_picture(visit, "which-rule", "#funnel")
            visit.check_calm()

        explorer.visit(ADMIN, look, width=1150)

    def test_the_smallest_change_that_gives_one_more_cluster(
        self, explorer: Explorer, keep_picture: Callable[[Visit, str, str], None]
    ) -> None:
        def look(visit: Visit) -> None:
            page = visit.open("/ui/placements/-/shop-back")
            fix = visit.get("/v1/placements/-/shop-back/why")["fixes"][0]
            assert page.text_content("#fix-list b") == fix["text"]
            press_to(visit, "#fix-list li:first-child button")
            page.keyboard.press("Enter")
            check_simulated(visit, "shop-back", fix["edits"])
            assert page.locator("#decision .chip.gained").count() >= 1
            keep_picture(visit, "smallest-change", "#decision")
            visit.open("/ui/placements/-/web-front")
            press_to(visit, "#one-more")
            page.keyboard.press("Enter")
            check_simulated(visit, "web-front", [{"op": "setCount", "value": 5}])
            page.evaluate("() => window.scrollTo(0, 0)")
            keep_picture(visit, "what-if", "")
            visit.check_calm()

        explorer.visit(ADMIN, look, width=1150)

    def test_what_a_change_moved(self, explorer: Explorer, keep_picture: Callable[[Visit, str, str], None]) -> None:
        """The two attempts around the last move are chosen already."""

        def look(visit: Visit) -> None:
            page = visit.open("/ui/placements/-/web-front")
            page.wait_for_selector("#diff-show")
            press_to(visit, "#diff-show")
            page.keyboard.press("Enter")
            page.wait_for_selector("#diff .card")
            numbers = [page.input_value(f"#diff-{end}") for end in ("from", "to")]
            diff = visit.get(f"/v1/placements/-/web-front/history?diff={'..'.join(numbers)}")["comparison"]
            assert diff["gained"]
            shown = page.evaluate("() => [...document.querySelectorAll('#diff .chip')].map((one) => one.textContent)")
            gained, lost = (
                [f"{sign} {name}" for name in diff[end]] for sign, end in (("+", "gained"), (MINUS, "lost"))
            )
            assert shown == [*gained, *lost]
            keep_picture(visit, "what-moved", "#history")
            visit.check_calm()

        explorer.visit(ADMIN, look, width=1150)

    def test_which_placements_would_move_without_this_cluster(
        self, explorer: Explorer, keep_picture: Callable[[Visit, str, str], None]
    ) -> None:
        def look(visit: Visit) -> None:
            on = visit.get("/v1/placements/-/web-front")["targets"][0]
            page = visit.open(f"/ui/clusters/{on}")
            press_to(visit, "#drain-leaves")
            page.keyboard.press("Enter")
            page.wait_for_selector("#impact-table")
            edits = [{"op": "removeCluster", "cluster": on}]
            body = {"placement": {"ref": "web-front"}, "edits": edits, "impact": True, "limit": 1}
            moved = [one["key"] for one in visit.post("/v1/simulate", body)["impact"]["moved"]]
            shown = page.evaluate(
                "() => [...document.querySelectorAll('#impact-table [data-key]')].map((one) => one.dataset.key)"
            )
            assert shown == moved
            assert "web-front" in moved
            keep_picture(visit, "without-a-cluster", "main .columns")
            visit.check_calm()

        explorer.visit(ADMIN, look, width=1150)
