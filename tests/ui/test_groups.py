"""Placement groups: listed, and shown on pages of their own and of their members."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.api.stage import ADMIN, AUTHOR, Running, Stage, a_stage, in_a_thread
from tests.api.test_groups import GROUPS, fill_group, is_refused, soon_why
from tests.api.test_room import report_all
from tests.ui.browsing import BrowserThread, Explorer, Visit
from tests.ui.conftest import served
from tests.ui.test_accessibility import AXE, VIOLATIONS

pytestmark = pytest.mark.timeout(900)  # a browser on a busy machine takes its time


@pytest.fixture
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Running]]:
    folder = tmp_path_factory.mktemp("grouped")
    file = folder / "fleet.yaml"
    file.write_text(GROUPS, encoding="utf-8")
    with in_a_thread(a_stage(folder, file=file)) as (stage, loop):
        yield stage, Running(stage, loop)


def test_W_04_a_group_is_listed_and_its_page_shows_who_fails_where_and_then_who_is_bound(
    browser: BrowserThread, grouped: tuple[Stage, Running]
) -> None:
    def listed(visit: Visit) -> None:
        row = visit.open("/ui/").locator('#groups [data-group="shards"]')
        assert "Waiting" in row.inner_text()
        assert row.get_by_role("link", name="shards").get_attribute("href") == "/ui/groups/-/shards"
        visit.check_calm()

    def shown(visit: Visit) -> None:
        page = visit.open("/ui/groups/-/shards")
        assert "2 are needed: no place for big-shard" in page.inner_text("#message")
        assert "Unschedulable" in page.inner_text('#member-list [data-member="big-shard"]')
        assert "not looked at" in page.inner_text('#member-list [data-member="small-shard"]')
        trial = page.inner_text('#trial-list [data-member="big-shard"][data-domain="ams"]')
        assert "ResourceFit" in trial
        assert "ams-1, ams-2: needs cpu 100" in trial
        page.evaluate(gzip.decompress(AXE.read_bytes()).decode("utf-8"))
        assert page.evaluate(VIOLATIONS) == []
        visit.check_calm()

    def told_of(visit: Visit) -> None:
        line = visit.open("/ui/placements/-/small-shard").locator("#group-of")
        assert "shards: Waiting, 0 of 2 members bound, 2 needed" in line.inner_text()
        assert line.get_by_role("link", name="shards").get_attribute("href") == "/ui/groups/-/shards"

    def hidden(visit: Visit) -> None:
        page = visit.open("/ui/groups/-/shards")
        page.wait_for_selector("#trial-list")
        assert "dub" not in page.inner_text("#main")
        assert "osl" not in page.inner_text("#main")

    def bound(visit: Visit) -> None:
        page = visit.open("/ui/groups/-/shards")
        page.wait_for_selector('#facts [data-state="Scheduled"]')
        row = page.locator('#member-list [data-member="small-shard"]')
        row.locator('[data-state="Bound"]').wait_for()
        assert row.locator('a[href^="/ui/clusters/ams-"]').count() == 1

    stage, running = grouped
    running.call(refuse(stage))
    with served(running) as url:
        explorer = Explorer(browser, url)
        for steps in (listed, shown, told_of):
            explorer.visit(ADMIN, steps)
        explorer.visit(AUTHOR, hidden)
        running.call(need_one(stage))
        explorer.visit(ADMIN, bound)


async def refuse(stage: Stage) -> None:
    await report_all(stage)
    await fill_group(stage)
    await soon_why(stage, is_refused)


async def need_one(stage: Stage) -> None:
    """The smallest domain that fits the most has room for the small one."""
    await stage.world.patch(CLUSTER_SCOPED.group, "shards", {"spec": {"minCount": 1}})
    await soon_why(stage, lambda why: why["group"]["state"] == "Scheduled")
