"""Placements that wait for approval: shown, and approved or denied by those who may."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from tests.api.stage import OPERATOR, OVERSEER, Running, in_a_thread
from tests.api.test_waiting import Desk, a_desk
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
