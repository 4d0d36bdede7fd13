"""What the page of a placement has to show, from the answers of REST, and what it shows."""

from __future__ import annotations

import base64
from typing import Any, Final

from tests.ui.browsing import DASH, MINUS, Json, Visit

CELLS: Final = """() => Object.fromEntries([...document.querySelectorAll('.cell[data-plugin]')].map((cell) => {
    cell.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));
    const tip = [...document.querySelector('.tip').children].map((line) => line.textContent);
    const {plugin, cluster, kind} = cell.dataset;
    return [`${plugin}|${cluster}`, [kind, cell.getAttribute('aria-label'), tip]];
}))"""
COUNTS: Final = """() => Object.fromEntries([...document.querySelectorAll('#funnel [data-count]')].map((part) =>
    [part.dataset.plugin || part.dataset.part, [Number(part.dataset.count), part.querySelector('b').textContent]]))"""
CHIPS: Final = "() => [...document.querySelectorAll('#decision .chip.use')].map((chip) => chip.textContent)"
DOMAINS: Final = """() => [...document.querySelectorAll('#domains details')].map((part) =>
    Object.fromEntries([...part.querySelectorAll('[data-domain]')].map((one) =>
        [one.dataset.domain, [Number(one.dataset.count), one.lastChild.textContent]])))"""
BARS: Final = """() => [...document.querySelectorAll('.grid [role=row][aria-label=score] [role=gridcell]')].map((bar) =>
    bar.getAttribute('aria-label')).sort()"""
TRIES: Final = 20
PAUSE: Final = 1000
"""Milliseconds before another try."""


def placement_path(key: str) -> str:
    namespace, _, name = key.rpartition("/")
    return f"{namespace or '-'}/{name}"


class Matrix:
    """The answer of GET /v1/matrix, read anew."""

    def __init__(self, body: Json) -> None:
        self.body = body
        self.clusters: list[str] = body["clusters"]
        self.plugins: list[str] = body["plugins"]
        self.bound = set(body["bound"])
        self._verdicts = base64.b64decode(body["verdicts"])

    def column(self, column: int) -> list[int]:
        return [self._verdicts[line * len(self.clusters) + column] for line in range(len(self.plugins))]

    def rejecting(self, column: int) -> list[int]:
        return [line for line, value in enumerate(self.column(column)) if value not in (0, 255)]

    def cells(self) -> dict[str, list[Any]]:
        """By plugin and cluster: the kind, the words for screen readers, and the lines of the tooltip."""
        return {
            f"{plugin}|{cluster}": self._cell(line, column)
            for column, cluster in enumerate(self.clusters)
            for line, plugin in enumerate(self.plugins)
        }

    def counts(self) -> dict[str, list[Any]]:
        counts = dict.fromkeys(("fits", *self.plugins), 0)
        for column in set(range(len(self.clusters))) - self.bound:
            rejecting = self.rejecting(column)
            counts[self.plugins[rejecting[0]] if rejecting else "fits"] += 1
        shown = {name: [number, f"{MINUS}{number}" if number else DASH] for name, number in counts.items()}
        whole = {"total": len(self.clusters), "use": len(self.bound), "fits": counts["fits"]}
        return shown | {name: [number, str(number)] for name, number in whole.items()}

    def domains(self, spread: list[Json]) -> list[dict[str, list[Any]]]:
        return [
            self._domain(part["topologyKey"], part["maxSkew"])
            for part in spread
            if part["topologyKey"] in self.body["labels"]
        ]

    def bars(self) -> list[str]:
        return sorted(
            f"{cluster}: score {'none' if score is None else score}"
            for cluster, score in zip(self.clusters, self.body["scores"], strict=True)
        )

    def _cell(self, line: int, column: int) -> list[Any]:
        value, rejecting, is_bound = self.column(column)[line], self.rejecting(column), column in self.bound
        words = {0: "passes", 255: "not run"}.get(value) or self.body["reasons"][value - 1]["text"]
        if value == 255:
            kind = "skip"
        elif value == 0:
            kind = "use" if is_bound else "pass"
        else:
            kind = "kept" if is_bound else "first" if line == rejecting[0] else "later"
        if is_bound:
            standing = "in use"
        else:
            standing = f"rejected by {self.plugins[rejecting[0]]}" if rejecting else "fits, not chosen"
        score = self.body["scores"][column]
        others = [self.plugins[other] for other in rejecting if other != line]
        labels = [
            f"{key}={values[column]}" for key, values in self.body["labels"].items() if values[column] is not None
        ]
        words = f"{self.clusters[column]}, {self.plugins[line]}: {words}"
        lines = [
            words,
            standing if score is None else f"{standing}, score {score}",
            f"also rejected by {', '.join(others)}" if others else "",
            "  ".join(labels),
        ]
        return [kind, f"{words}; {standing}", [text for text in lines if text]]

    def _domain(self, key: str, skew: int) -> dict[str, list[Any]]:
        counts: dict[str, int] = {}
        for column, value in enumerate(self.body["labels"][key]):
            if value is not None:
                counts[value] = counts.get(value, 0) + (column in self.bound)
        most = min(counts.values(), default=0) + skew
        return {
            value: [number, f"{number} of at most {most}{', full' if number >= most else ''}"]
            for value, number in counts.items()
        }


def read_placement(visit: Visit) -> Json:
    page = visit.page
    return {
        "cells": page.evaluate(CELLS),
        "scores": page.evaluate(BARS),
        "counts": page.evaluate(COUNTS),
        "domains": page.evaluate(DOMAINS),
        "headline": page.text_content("#headline"),
        "sentence": page.text_content("#sentence"),
        "state": page.get_attribute("#decision .state", "data-state"),
        "targets": page.evaluate(CHIPS),
        "fixes": page.evaluate("() => [...document.querySelectorAll('#fix-list b')].map((fix) => fix.textContent)"),
    }


def ask_placement(visit: Visit, key: str) -> Json:
    matrix = Matrix(visit.get(f"/v1/matrix?placement={key}"))
    why = visit.get(f"/v1/placements/{placement_path(key)}/why")
    placement = visit.get(f"/v1/placements/{placement_path(key)}")
    return {
        "cells": matrix.cells(),
        "scores": matrix.bars(),
        "counts": matrix.counts(),
        "domains": matrix.domains(placement["spread"]),
        "headline": f"{key} is on {_describe_sum(why['verdict'])}",
        "sentence": why["verdict"]["summary"],
        "state": why["verdict"]["state"],
        "targets": sorted(placement["targets"]),
        "fixes": [fix["text"] for fix in why["fixes"] or ()],
    }


def _describe_sum(verdict: Json) -> str:
    def count(number: int) -> str:
        return f"{number} cluster{'' if number == 1 else 's'}"

    wanted = verdict["wanted"]
    return count(verdict["inUse"]) if wanted is None else f"{verdict['inUse']} of {count(wanted)} wanted"


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


def check_simulated(visit: Visit, key: str, edits: list[Any]) -> None:
    """The page shows the answer of POST /v1/simulate to the same edits."""
    page = visit.page
    answer = visit.post("/v1/simulate", {"placement": {"ref": key}, "edits": edits, "explain": "all", "limit": 500})
    verdict, clusters = answer["answer"]["verdict"], answer["answer"]["attempt"]["clusters"]
    visit.wait_for("(words) => document.querySelector('#sentence')?.textContent === words", verdict["summary"])
    visit.wait_for(
        "(words) => document.querySelector('#headline')?.textContent === words",
        f"{key} would be on {_describe_sum(verdict)}",
    )
    chips = page.evaluate("() => [...document.querySelectorAll('#decision .chip')].map((one) => one.textContent)")
    gained, lost = answer["compare"]["gained"], answer["compare"]["lost"]
    used = {row["name"] for row in clusters if row["outcome"] in ("selected", "already-selected")}
    assert chips == [f"+ {name}" for name in gained] + [f"{MINUS} {name}" for name in lost] + sorted(used - set(gained))
    cells: dict[str, list[Any]] = page.evaluate(CELLS)
    expected = {f"{part['plugin']}|{row['name']}" for row in clusters for part in row["rejections"]}
    assert expected <= set(cells)
    assert {cells[name][0] for name in set(cells) - expected} <= {"skip"}
    for row in clusters:
        for part in row["rejections"]:
            kind, words, tip = cells[f"{part['plugin']}|{row['name']}"]
            is_rejected = kind in ("first", "later", "kept")
            assert is_rejected is (part["verdict"] == "reject"), (row["name"], part)
            assert (kind == "skip") is (part["verdict"] == "skipped")
            if is_rejected:
                assert tip[0] == f"{row['name']}, {part['plugin']}: {part['short'] or part['message']}"
                assert words.startswith(tip[0])
