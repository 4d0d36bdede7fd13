"""Ten thousand clusters: a canvas with the same cells, the same words and the same keys, and a small document."""

from __future__ import annotations

import gzip
from typing import Final

import pytest

from tests.api.stage import ADMIN
from tests.ui.bench import MANY, PLUGINS, many_clusters, route_many
from tests.ui.browsing import Explorer, Visit
from tests.ui.expected import Matrix
from tests.ui.test_accessibility import AXE, VIOLATIONS

pytestmark = pytest.mark.timeout(900)  # a browser on a busy machine takes its time

FILLS: Final = {"use": "--use", "kept": "--kept", "pass": "--pass", "first": "--reject", "later": "--reject-later"}
COLOURS: Final = """(names) => Object.fromEntries(Object.entries(names).map(([kind, name]) => {
    const value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    return [kind, [1, 3, 5].map((at) => parseInt(value.slice(at, at + 2), 16))];
}))"""
IN_SIGHT: Final = """() => {
    const canvas = document.querySelector('#grid canvas');
    const {left, top, width, height} = canvas.getBoundingClientRect();
    const paint = canvas.getContext('2d');
    const ratio = window.devicePixelRatio;
    const read = (x, y) => {
        canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: left + x, clientY: top + y, bubbles: true}));
        const tip = document.querySelector('.tip');
        return tip && !tip.hidden ? tip.querySelector('b').textContent : '';
    };
    const found = {};
    const lines = [];
    for (let x = 0; x < 40 && !lines.length; x += 1)
        for (let y = 0, last = ''; y < height; y += 1) {
            const title = read(x, y);
            if (title && title !== last) lines.push(y);
            last = title;
        }
    for (const y of lines)
        for (let x = 1, last = read(0, y); x < width - 12; x += 1) {
            const title = read(x, y);
            const at = [(x + 1) * ratio, (y + 1) * ratio, 1, 1];
            if (title && title !== last) found[title] = [...paint.getImageData(...at).data].slice(0, 3);
            last = title;
        }
    return found;
}"""
DRAWN: Final = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"


def test_every_cell_in_sight_is_that_of_the_answer_wherever_it_is_scrolled_to(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        matrix = Matrix(many_clusters(visit.get("/v1/matrix?placement=web")))
        cells = {tip[0]: kind for kind, _, tip in matrix.cells().values()}
        route_many(visit.page)
        page = visit.open("/ui/placements/-/web")
        colours = page.evaluate(COLOURS, FILLS)
        seen: set[str] = set()
        for part in (0, 0.5, 1):
            page.evaluate(
                "(part) => { const one = document.querySelector('.grid-scroll');"
                "one.scrollLeft = part * (one.scrollWidth - one.clientWidth); }",
                part,
            )
            page.evaluate(DRAWN)
            found = page.evaluate(IN_SIGHT)
            assert len(found) > 100
            assert {words: colours[cells[words]] for words in found} == found
            seen |= found.keys()
        assert len(seen) > 900
        assert page.evaluate("() => document.querySelectorAll('#grid *').length") < 300
        # Chromium warns of reading from a canvas, which only this test does.
        assert [words for words in visit.complaints if "getImageData" not in words] == []

    explorer.visit(ADMIN, look)


def test_the_canvas_has_the_keys_and_the_words_of_the_grid(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        matrix = Matrix(many_clusters(visit.get("/v1/matrix?placement=web")))
        labels = {label for _, label, _ in matrix.cells().values()}
        route_many(visit.page)
        page = visit.open("/ui/placements/-/web")
        page.focus("#grid canvas")
        said: list[str | None] = []
        for key in ("ArrowRight", "ArrowDown", "PageDown", "End", "Home", "Control+End"):
            page.keyboard.press(key)
            said.append(page.text_content("#grid-active"))
        assert set(said) <= labels
        assert len(set(said)) == len(said)
        assert f", {PLUGINS[-1]}: " in str(said[-1])
        counts = {name: number for name, (number, _) in matrix.counts().items()}
        assert counts["total"] == MANY
        shown = page.evaluate(
            "() => [...document.querySelectorAll('#funnel [data-count]')].map((one) => Number(one.dataset.count))"
        )
        assert sum(shown) == 2 * MANY
        page.evaluate(gzip.decompress(AXE.read_bytes()).decode("utf-8"))
        assert page.evaluate(VIOLATIONS) == []
        visit.check_calm()

    explorer.visit(ADMIN, look)


def test_nothing_moves_for_those_who_ask_for_that(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/web")
        for asks, moves in (("reduce", False), ("no-preference", True)):
            page.emulate_media(reduced_motion="reduce" if asks == "reduce" else "no-preference")
            name = page.evaluate(
                "() => { const cell = document.querySelector('.cell'); cell.classList.add('changed');"
                "return getComputedStyle(cell).animationName; }"
            )
            assert (name != "none") is moves

    explorer.visit(ADMIN, look)
