"""What is on the terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from fleet.demo.headlines import Headline
from fleet.demo.status_rows import ClusterStatusRow, PlacementStatusRow, State
from fleet.demo.view import LiveScreen, Screen, age_text

CLUSTERS = [ClusterStatusRow(f"c{number:03}", "eu-west", 3.0, State.CONNECTED, "") for number in range(200)]
STOREFRONT = PlacementStatusRow("storefront", "PickN", "6", ("iad-1", "dub-1"), "not enough clusters", False)
NEWS = [
    Headline(datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC), "storefront", f"number {second}") for second in range(60)
]


def shown(*, width: int = 140, height: int = 40, **given: Any) -> list[str]:
    console = Console(width=width, height=height, force_terminal=True, color_system=None, legacy_windows=False)
    picture = Screen(title="fleet up", **given)
    with console.capture() as captured:
        console.print(LiveScreen(lambda: picture), height=height)
    return captured.get().splitlines()


def text(**given: Any) -> str:
    return "\n".join(shown(**given))


@pytest.mark.parametrize("width", [80, 140])
def test_the_picture_fills_the_terminal_and_no_more(width: int) -> None:
    lines = shown(width=width, clusters=CLUSTERS, placements=[STOREFRONT] * 50, headlines=NEWS, commands=["a", "b"])

    assert len(lines) == 40
    assert {len(line.rstrip()) <= width for line in lines} == {True}


def test_clusters_that_do_not_fit_are_counted() -> None:
    said = text(clusters=CLUSTERS)

    assert "200 clusters" in said
    rows = said.count("eu-west")
    assert rows > 5
    assert f"and {200 - rows} more" in said


def test_clusters_that_fit_are_all_there() -> None:
    said = text(clusters=CLUSTERS[:4])

    assert said.count("eu-west") == 4
    assert "more" not in said


def test_a_cluster_shows_its_age_state_and_taints() -> None:
    said = text(clusters=[ClusterStatusRow("iad-1", "us-east", 185.0, State.SILENT, "gpu")])

    assert "iad-1 us-east 3m ago not connected (gpu)" in " ".join(said.split())


def test_a_placement_shows_what_it_wants_and_what_it_has() -> None:
    said = text(placements=[STOREFRONT])

    for part in ("storefront", "PickN", "6", "not enough clusters", "2: iad-1, dub-1"):
        assert part in said


def test_a_terminal_of_80_by_24_has_all_placements_and_the_reason_of_a_decision() -> None:
    placements = [STOREFRONT._replace(key=f"p{number}") for number in range(5)]
    reason = "3 of 6 clusters: 4 no affinity term matched, 1 untolerated taint {gpu: a100} [MemberCluster/Delete ams-1]"
    news = [*NEWS, Headline(datetime(2026, 1, 1, 13, 0, tzinfo=UTC), "storefront", reason)]
    lines = shown(width=80, height=24, clusters=CLUSTERS, placements=placements, headlines=news, commands=["a"] * 4)

    assert len(lines) == 24
    assert {len(line.rstrip()) <= 80 for line in lines} == {True}
    said = " ".join(" ".join(line.strip("│ ") for line in lines).split())
    assert "fleet up" in lines[0]
    assert all(f"p{number} PickN" in said for number in range(5))
    assert reason in said
    assert sum("eu-west" in line for line in lines) >= 2


def test_the_latest_decisions_are_shown() -> None:
    said = text(headlines=NEWS)

    assert "12:00:59  storefront: number 59" in said
    assert "number 0\n" not in said


def test_commands_to_try_are_shown() -> None:
    assert "export KUBECONFIG=/x" in text(commands=["export KUBECONFIG=/x"])


@pytest.mark.parametrize(
    "seconds, want",
    [(None, "never"), (0, "0s ago"), (59, "59s ago"), (60, "1m ago"), (3599, "59m ago"), (3660, "1h01m ago")],
)
def test_ages_are_short(seconds: float | None, want: str) -> None:
    assert age_text(seconds) == want


def test_texts_of_others_are_not_taken_for_markup() -> None:
    row = ClusterStatusRow("[red]x[/red]", "eu", 0.0, State.CONNECTED, "")

    assert "[red]x[/red]" in text(clusters=[row])
