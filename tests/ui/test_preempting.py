"""Room that is made for a placement: shown on its page while it waits for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.api.stage import ADMIN, Running, Stage, a_stage, in_a_thread
from tests.api.test_group_preemption import is_making_room, place_members
from tests.api.test_groups import make_group, soon_why
from tests.api.test_preempting import EVICTING, place
from tests.api.test_room import report_all
from tests.e2e.hub import soon
from tests.ui.browsing import BrowserThread, Explorer, Visit
from tests.ui.conftest import served

pytestmark = pytest.mark.timeout(900)  # a browser on a busy machine takes its time


@pytest.fixture
def evicting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Running]]:
    folder = tmp_path_factory.mktemp("evicting")
    file = folder / "fleet.yaml"
    file.write_text(EVICTING, encoding="utf-8")
    with in_a_thread(a_stage(folder, file=file)) as (stage, loop):
        yield stage, Running(stage, loop)


def test_W_04_a_placement_that_waits_for_room_shows_where_it_is_made_and_who_leaves(
    browser: BrowserThread, evicting: tuple[Stage, Running]
) -> None:
    def shown(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/vip")
        line = page.locator('#preempting [data-cluster="ams-1"]')
        assert "low" in line.inner_text()
        assert line.get_by_role("link", name="low").get_attribute("href") == "/ui/placements/-/low"
        assert "waits for room that is being made" in page.inner_text("#preempting")
        visit.check_calm()

    def counted(visit: Visit) -> None:
        """Available, booked ahead of the next report, allocatable and of the capacity."""
        page = visit.open("/ui/clusters/ams-1")
        page.get_by_role("row", name="cpu 3 3 4 4", exact=True).wait_for()
        visit.check_calm()

    def placed(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/vip")
        page.wait_for_selector("#decision .chip.use")
        page.wait_for_selector("#preempting", state="detached")

    stage, running = evicting
    running.call(_make_room(stage))
    with served(running) as url:
        explorer = Explorer(browser, url)
        for steps in (shown, counted):
            explorer.visit(ADMIN, steps)
        running.call(_leave(stage))
        explorer.visit(ADMIN, placed)


def test_X_22_members_of_a_group_show_where_room_is_made_and_kept_for_them(
    browser: BrowserThread, evicting: tuple[Stage, Running]
) -> None:
    def shown(visit: Visit) -> None:
        page = visit.open("/ui/groups/-/shards")
        assert "room is made on ams-1: low to leave" in page.inner_text('#member-list [data-member="p1"]')
        assert "room is kept on ams-2" in page.inner_text('#member-list [data-member="p2"]')
        visit.check_calm()

    stage, running = evicting
    running.call(_make_room_for_group(stage))
    with served(running) as url:
        Explorer(browser, url).visit(ADMIN, shown)


async def _make_room_for_group(stage: Stage) -> None:
    await _fill(stage)
    await make_group(stage)
    await place_members(stage, "2500m", "1500m")
    await soon_why(stage, is_making_room)


async def _fill(stage: Stage) -> None:
    await report_all(stage)
    await place(stage, "low", cpu="3", priority=0)
    await stage.world.soon_on("low", "ams-1")


async def _make_room(stage: Stage) -> None:
    await _fill(stage)
    await place(stage, "vip", cpu="2500m", priority=10)
    await soon(lambda: _is_preempting(stage))


async def _is_preempting(stage: Stage) -> bool:
    return bool((await stage.json("/v1/placements/-/vip/why"))["preempting"])


async def _leave(stage: Stage) -> None:
    """No member agent takes the victim's work away here."""
    (binding,) = await stage.world.bindings("low")
    await stage.world.delete(CLUSTER_SCOPED.binding, binding["metadata"]["name"])
    await stage.world.soon_on("vip", "ams-1")
