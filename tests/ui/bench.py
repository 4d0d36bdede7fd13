"""`python -m tests.ui.bench` measures how fast the explorer is in Chromium, for docs/benchmarks.md.

A fleet of 300 clusters is asked through the API; 10,000 clusters are drawn from a made-up answer, because there the
browser is the question.
"""

from __future__ import annotations

import base64
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, Route

from tests.api.stage import ADMIN, Running, a_running_stage
from tests.ui.browsing import BrowserThread, Explorer, Json, Visit
from tests.ui.conftest import served

CLUSTERS: Final = 300
MANY: Final = 10_000
PLUGINS: Final = (
    "ClusterAffinity",
    "ClusterEligibility",
    "NamespaceAffinity",
    "TaintToleration",
    "SamePlacementAntiAffinity",
    "TopologySpreadConstraints",
    "ResourceFit",
)
MAINTENANCE: Final = {"key": "maintenance", "value": "now", "effect": "NoSchedule"}
POLICY: Final = {
    "placementType": "PickN",
    "numberOfClusters": 20,
    "topologySpreadConstraints": [{"maxSkew": 3, "topologyKey": "region", "whenUnsatisfiable": "DoNotSchedule"}],
}
REPETITIONS: Final = 10

FIRST_GRID: Final = """
    new MutationObserver((_, observer) => {
        if (!document.querySelector('#grid .cell')) return;
        observer.disconnect();
        requestAnimationFrame(() => requestAnimationFrame(() => (window.firstGrid = performance.now())));
    }).observe(document, {childList: true, subtree: true});
"""
HOVER: Final = """() => [...document.querySelectorAll('.cell')].filter((_, at) => at % 7 === 0).map((cell) => {
    const start = performance.now();
    cell.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));
    document.querySelector('.tip').getBoundingClientRect();
    return performance.now() - start;
})"""
SLIDE: Final = """(value) => new Promise((done) => {
    const slider = document.querySelector('#whatif-count');
    const start = performance.now();
    new MutationObserver((_, observer) => {
        if (!document.querySelector('#headline').textContent.includes(` of ${value} clusters`)) return;
        observer.disconnect();
        requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
    }).observe(document.querySelector('#decision'), {childList: true, subtree: true});
    slider.value = value;
    slider.dispatchEvent(new Event('input', {bubbles: true}));
})"""
TAINTED: Final = """() => {
    const cell = '.cell[data-cluster="cluster-001"][data-plugin="TaintToleration"]';
    const kind = () => document.querySelector(cell)?.dataset.kind;
    const before = kind();
    window.tainted = false;
    const look = () => (kind() === before ? requestAnimationFrame(look) : (window.tainted = true));
    look();
}"""
SCROLL: Final = """() => new Promise((done) => {
    const scroll = document.querySelector('.grid-scroll');
    const frames = [];
    let last = performance.now();
    const end = last + 3000;
    const step = (now) => {
        frames.push(now - last);
        last = now;
        scroll.scrollLeft += 400;
        if (now < end) requestAnimationFrame(step);
        else done(frames.slice(1));
    };
    requestAnimationFrame(step);
})"""


def many_clusters(matrix: Json) -> Json:
    """The same answer, about many clusters: a third is refused by each of two rules."""
    reasons = [{"plugin": plugin, "text": f"refused by {plugin}"} for plugin in PLUGINS]
    rows = [
        bytes(line + 1 if column % 3 == line % 4 and line in (0, 5) else 0 for column in range(MANY))
        for line in range(len(PLUGINS))
    ]
    rejected = [any(row[column] for row in rows) for column in range(MANY)]
    return {
        **matrix,
        "plugins": list(PLUGINS),
        "clusters": [f"cluster-{column:05}" for column in range(MANY)],
        "verdicts": base64.b64encode(b"".join(rows)).decode(),
        "reasons": reasons,
        "scores": [None if rejected[column] else column % 100 for column in range(MANY)],
        "outcomes": "".join("r" if is_rejected else "f" for is_rejected in rejected),
        "bound": [column for column in range(0, MANY, 500) if not rejected[column]],
        "labels": {"region": [f"region-{column % 8}" for column in range(MANY)]},
    }


def route_many(page: Page) -> None:
    """The page gets many clusters for the placement that it asks about."""

    def answer(route: Route) -> None:
        fetched = route.fetch()
        route.fulfill(response=fetched, body=json.dumps(many_clusters(fetched.json())))

    page.route("**/v1/matrix?placement=*", answer)


async def fill(running: Running) -> None:
    world = running.stage.world
    for number in range(CLUSTERS - 5):
        taints = [{"key": "maintenance", "effect": "NoSchedule"}] if number % 10 == 0 else []
        labels = {"region": f"region-{number % 8}", "env": "prod" if number % 2 else "test"}
        await world.join(f"cluster-{number:03}", labels=labels, taints=taints)
    await world.place("measured", POLICY)
    await world.soon_scheduled("measured")
    await running.stage.wait_until_recorded()


def measure_first_grid(visit: Visit) -> list[float]:
    visit.page.add_init_script(FIRST_GRID)
    found = []
    for _ in range(REPETITIONS):
        visit.open("/ui/placements/-/measured")
        visit.wait_for("() => window.firstGrid !== undefined")
        found.append(float(visit.page.evaluate("() => window.firstGrid")))
    return found


def measure_hover(visit: Visit) -> list[float]:
    return list(visit.open("/ui/placements/-/measured").evaluate(HOVER))


def measure_slider(visit: Visit) -> list[float]:
    page = visit.open("/ui/placements/-/measured")
    visit.wait_for("() => document.querySelector('#whatif-count') !== null")
    return [float(page.evaluate(SLIDE, str(30 + number))) for number in range(REPETITIONS)]


def measure_scrolling(visit: Visit) -> tuple[list[float], list[float]]:
    """Milliseconds to the first canvas, and of each frame while it is scrolled."""
    visit.page.add_init_script(FIRST_GRID.replace("#grid .cell", "#grid canvas"))
    route_many(visit.page)
    page = visit.open("/ui/placements/-/measured")
    visit.wait_for("() => window.firstGrid !== undefined")
    return [float(page.evaluate("() => window.firstGrid"))], list(page.evaluate(SCROLL))


def measure_taint(visit: Visit, running: Running) -> list[float]:
    """From the request that sets or removes a taint to the page that shows it."""
    visit.page.add_init_script(FIRST_GRID)
    page = visit.open("/ui/placements/-/measured")
    visit.wait_for("() => window.firstGrid !== undefined")
    found = []
    for number in range(REPETITIONS):
        taints = () if number % 2 else (MAINTENANCE,)
        page.evaluate(TAINTED)
        started = time.perf_counter()
        running.call(running.stage.world.taint("cluster-001", *taints))
        visit.wait_for("() => window.tainted")
        found.append((time.perf_counter() - started) * 1000)
    return found


def report(figures: dict[str, tuple[list[float], float]]) -> int:
    """The median of each against its limit, in milliseconds."""
    for name, (values, limit) in figures.items():
        middle, worst = statistics.median(values), max(values)
        verdict = "" if middle <= limit else "  MISSED"
        sys.stdout.write(f"{name:<52} median {middle:8.1f} ms  worst {worst:8.1f} ms  limit {limit:6.0f} ms{verdict}\n")
    return int(any(statistics.median(values) > limit for values, limit in figures.values()))


def main() -> int:
    browser = BrowserThread()
    with tempfile.TemporaryDirectory() as folder, a_running_stage(Path(folder)) as running:
        running.call(fill(running))
        browser.start()
        try:
            with served(running) as url:
                explorer = Explorer(browser, url)
                first = explorer.visit(ADMIN, measure_first_grid)
                hover = explorer.visit(ADMIN, measure_hover)
                slider = explorer.visit(ADMIN, measure_slider)
                taint = explorer.visit(ADMIN, lambda visit: measure_taint(visit, running))
                drawn, frames = explorer.visit(ADMIN, measure_scrolling)
        finally:
            browser.stop()
    return report(
        {
            f"first grid, {CLUSTERS} clusters": (first, 1000),
            f"hover, {CLUSTERS} clusters": (hover, 16),
            f"slider to redraw, {CLUSTERS} clusters": (slider, 150),
            "a taint set on the hub to the page": (taint, 2000),
            f"first grid, {MANY:,} clusters x {len(PLUGINS)} rules": (drawn, 5000),
            f"a frame while scrolling {MANY:,} clusters": (frames, 33.4),
        }
    )


if __name__ == "__main__":
    sys.exit(main())
