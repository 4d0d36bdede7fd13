"""Sources that fail: the collector goes on with the others."""

from __future__ import annotations

import asyncio
from typing import cast

from fleet.external.feed_collector import FeedCollector
from fleet.kube.api import Api
from fleet.settings.document.feeds import FeedDocument, HttpSource
from fleet.snapshot.sidedata import FeedSample
from tests.fake_clock import FakeClock

NO_HUB = cast(Api, None)


def test_a_source_that_cannot_be_asked_stops_no_other() -> None:
    broken = HttpSource(url=f"http://{'x' * 70}.example")
    applied: dict[str, FeedSample] = {}

    async def main() -> None:
        feeds = (FeedDocument(name="broken", source=broken), FeedDocument(name="prices", source={"ams-1": 3}))
        collector = FeedCollector(feeds, hub=NO_HUB, clock=FakeClock(), apply=applied.__setitem__)
        running = asyncio.create_task(collector.run())
        await collector.wait_until_tried()
        assert not running.done()
        assert collector.states["broken"].error.startswith("could not be read: ")
        running.cancel()

    asyncio.run(main())
    assert applied["prices"].clusters == {"ams-1"}
    assert applied["broken"].clusters == frozenset()
    assert applied["broken"].error.startswith("could not be read: ")
