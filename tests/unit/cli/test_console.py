"""Tables that fit and lose nothing."""

from __future__ import annotations

import io

import pytest

from fleet.cli.output.console import NARROWEST, PLAIN_WIDTH, page_of, print_text
from fleet.text_table import ColumnLayout, Page, apply_style, finish, render_table

HEADINGS = ("NAME", "COUNT", "BECAUSE", "OTHERS")
ROW = ("TopologySpreadConstraints", "12", "region=eu-west has 2; fewest in us-east; max skew 1", "a1 b2 c3 d4")


def shown(*rows: tuple[str, ...], headings: tuple[str, ...] = HEADINGS) -> list[str]:
    stream = io.StringIO()
    width = page_of(stream).width
    print_text(render_table(headings, rows, numbers=("COUNT",), width=width, indent="  "), stream)
    return stream.getvalue().splitlines()


def test_what_fits_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")

    assert shown(ROW) == [
        "  NAME                       COUNT  BECAUSE                                              OTHERS",
        "  TopologySpreadConstraints     12  region=eu-west has 2; fewest in us-east; max skew 1  a1 b2 c3 d4",
    ]


@pytest.mark.parametrize("columns", [72, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_no_letter_is_lost(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    long = ("@" * 63, "7", "%" * 200, "#" * 90)

    lines = shown(ROW, long)

    assert max(map(len, lines)) <= columns
    assert [sum(line.count(letter) for line in lines) for letter in "@%#"] == [63, 200, 90]


def test_names_of_plugins_stay_whole_at_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert shown(ROW)[1].startswith("  TopologySpreadConstraints     12  ")


def test_a_terminal_can_be_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")

    assert max(map(len, shown(ROW))) <= NARROWEST


def test_what_is_no_terminal_is_wide_and_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)

    lines = shown(("a", "1", "y" * 200, ""))

    assert max(map(len, lines)) == PLAIN_WIDTH
    assert "\x1b" not in "".join(lines)


def test_no_line_ends_in_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert all(line == line.rstrip() for line in shown(ROW))


def test_texts_that_look_like_markup_stay_texts() -> None:
    assert shown(("[red]x[/red]",), headings=("NAME",))[1] == "  [red]x[/red]"


def test_a_terminal_gets_colors_and_no_escape_sequence_of_others() -> None:
    text = render_table(("NAME",), [[apply_style("reject", "red")], ["\x1b[31mx\x07"]])

    assert finish(text, Page(color=True)) == "\x1b[1mNAME\x1b[0m\n\x1b[31mreject\x1b[0m\n[31mx"
    assert finish(text, Page()) == "NAME\nreject\n[31mx"


def test_rows_that_come_later_are_aligned_with_those_before_and_may_widen_their_columns() -> None:
    columns = ColumnLayout(right=[1])

    parts = [columns.render(rows) for rows in ([("NAME", "N"), ("web", "1")], [("a", "2")], [("storefront", "3")])]
    parts.append(columns.render([("b", "4")]))

    assert "\n".join(parts).splitlines() == ["NAME  N", "web   1", "a     2", "storefront  3", "b           4"]


def test_a_column_does_not_outgrow_the_page_with_its_rows() -> None:
    columns = ColumnLayout(width=20)
    columns.render([("web", "x")])

    late = columns.render([("web", "one word after the other")])

    assert max(map(len, late.splitlines())) <= 20
    assert "".join(late.split()) == "webonewordaftertheother"
