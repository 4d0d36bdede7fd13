"""Placements that wait for approval: shown, and approved or denied by those who may."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.api.stage import ADMIN, OPERATOR, OVERSEER, Running, in_a_thread
from tests.api.test_waiting import FIXED, Desk, a_desk
from tests.e2e.hub import soon
from tests.ui.browsing import BrowserThread, Explorer, Visit
from tests.ui.conftest import served
from tests.ui.test_accessibility import AXE, VIOLATIONS

pytestmark = pytest.mark.timeout(900)  # a browser on a busy machine takes its time


@pytest.fixture
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, Running]]:
    with in_a_thread(a_desk(tmp_path_factory.mktemp("desk"))) as (desk, loop):
        yield desk, Running(desk.stage, loop)


def test_approval_is_asked_for_on_the_pages_and_given_by_who_may(
    browser: BrowserThread, desk: tuple[Desk, Running]
) -> None:
    def shown(visit: Visit) -> None:
        page = visit.open("/ui/")
        line = page.locator('#waiting [data-key="gold"][data-cluster="ams-1"]')
        assert "asks olga, anna" in line.inner_text()
        assert "You are not among those who may answer." in line.inner_text()
        assert line.get_by_role("button").count() == 0

    def approved(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/gold")
        line = page.locator('#waiting [data-cluster="ams-1"]')
        assert "owners" in line.inner_text()
        assert "0 of 1 approved; asks olga, anna" in line.inner_text()
        page.evaluate(gzip.decompress(AXE.read_bytes()).decode("utf-8"))
        assert page.evaluate(VIOLATIONS) == []
        line.get_by_role("button", name="deny").click()
        assert "say why" in line.get_by_role("alert").inner_text()
        line.get_by_label("Reason").fill("tested")
        line.get_by_role("button", name="approve").press("Enter")
        visit.wait_for("() => document.querySelector('#waiting').textContent === ''")
        page.wait_for_selector("#decision .chip.use")
        assert page.text_content("#decision .chip.use") == "ams-1"
        visit.check_calm()

    found, running = desk
    with served(running) as url:
        explorer = Explorer(browser, url)
        explorer.visit(OVERSEER, shown)
        explorer.visit(OPERATOR, approved)
    running.call(found.stage.world.soon_on("gold", "ams-1"))


def test_a_denial_is_told_on_the_page_with_who_and_why(browser: BrowserThread, desk: tuple[Desk, Running]) -> None:
    def denied(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/gold")
        headline = "nothing is bound yet, waits for owners on ams-1; the choice: 1/"
        assert (page.text_content("#sentence") or "").startswith(headline)
        line = page.locator('#waiting [data-cluster="ams-1"]')
        line.get_by_label("Reason").fill("not before the release")
        line.get_by_role("button", name="deny").click()
        page.wait_for_selector("#denials li")
        said = page.text_content("#denials li") or ""
        assert said.startswith("ams-1 denied by olga (owners) at ")
        assert said.endswith(": not before the release")
        visit.check_calm()

    _, running = desk
    with served(running) as url:
        Explorer(browser, url).visit(OPERATOR, denied)


def test_a_gate_is_shown_and_cleared_on_the_page_by_who_may(browser: BrowserThread, desk: tuple[Desk, Running]) -> None:
    def shown(visit: Visit) -> None:
        gate = visit.open("/ui/placements/-/held").locator("#gate")
        assert gate.inner_text() == "held by PlacementGates: review: ask the owners"
        assert gate.get_by_role("button").count() == 0

    def cleared(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/held")
        page.get_by_role("button", name="clear gate review").press("Enter")
        page.wait_for_selector("#decision .chip.use")
        page.wait_for_selector("#gate", state="detached")
        visit.check_calm()

    found, running = desk
    world = found.stage.world
    gates = [{"name": "review", "message": "ask the owners"}]
    running.call(world.create(CLUSTER_SCOPED.options, {"metadata": {"name": "held"}, "spec": {"gates": gates}}))
    running.call(world.place("held", FIXED))
    running.call(soon(lambda: is_gated(found)))
    with served(running) as url:
        explorer = Explorer(browser, url)
        explorer.visit(OPERATOR, shown)
        explorer.visit(ADMIN, cleared)


async def is_gated(desk: Desk) -> bool:
    answer = await desk.get("/v1/placements/-/held/why", ADMIN)
    return answer.status_code == 200 and bool(answer.json()["gate"])
