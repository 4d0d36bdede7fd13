"""Grammar and order of release tags, through `fleet release parse` and `compare`."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.release.tags import (
    OURS,
    SequenceExhausted,
    Tag,
    TagError,
    TagKind,
    build_order_key,
    choose_next_branchfix,
    choose_next_snapshot,
    compare_tags,
    format_branchfix,
    format_snapshot,
    parse_tag,
)
from tests.unit.release.command import fleet

NOTHING: dict[str, Any] = {"major": None, "minor": None, "base_micro": None, "seq": None, "date": None}


def snapshot(date: str, seq: int) -> dict[str, Any]:
    return NOTHING | {"kind": "snapshot", "major": 0, "minor": 0, "date": date, "seq": seq}


def numbered(kind: str, base: str, seq: int | None = None) -> dict[str, Any]:
    major, minor, micro = map(int, base.split("."))
    return NOTHING | {"kind": kind, "major": major, "minor": minor, "base_micro": micro, "seq": seq}


VALID = {
    "v0.0.2021110101": snapshot("2021-11-01", 1),
    "v0.0.2021101503": snapshot("2021-10-15", 3),
    "v0.0.2024022901": snapshot("2024-02-29", 1),
    "v0.0.2148010199": snapshot("2148-01-01", 99),
    "v0.0.0": NOTHING | {"kind": "local", "major": 0, "minor": 0},
    "v0.20.1001": numbered("branchfix", "0.20.10", 1),
    "v0.20.1101": numbered("branchfix", "0.20.11", 1),
    "v0.20.901": numbered("branchfix", "0.20.9", 1),
    "v1.2.301": numbered("branchfix", "1.2.3", 1),
    "v0.18.801": numbered("branchfix", "0.18.8", 1),
    "v0.20.10": numbered("release", "0.20.10"),
    "v0.20.0": numbered("release", "0.20.0"),
    "v0.21.1": numbered("release", "0.21.1"),
    "v1.0.0": numbered("release", "1.0.0"),
    "v0.20.100": numbered("ondemand", "0.20.1", 0),
    "v0.18.800": numbered("ondemand", "0.18.8", 0),
    "v20201009-v0.18.800-46-g939c1c0": NOTHING | {"kind": "staging", "date": "2020-10-09"},
    "v20201009-v0.18.8": NOTHING | {"kind": "staging", "date": "2020-10-09"},
    "v0.34.4-rc": numbered("prerelease", "0.34.4"),
    "v0.30.4-devel": numbered("prerelease", "0.30.4"),
    "v0.34.4-devel-sg": numbered("prerelease", "0.34.4"),
}
INVALID = {
    "v0.0.2021022901": ("20210229 is no date of the calendar", "20210229"),
    "v0.0.2021023001": ("20210230 is no date of the calendar", "20210230"),
    "v0.0.2021110100": ("the sequence starts at 01", "00"),
    "v0.0.20211101": ("ten digits, not 8", "20211101"),
    "v0.0.20211101100": ("ten digits, not 11", "20211101100"),
    "v0.0.101": ("v0.0 is reserved for snapshots", "101"),
    "v0.0.7": ("v0.0 is reserved for snapshots", "7"),
    "v0.0.0-rc": ("v0.0 is reserved for snapshots", "-rc"),
    "v0.20.10001": ("the third part has 5 digits", "10001"),
    "v0.21.001": ("leading zero", "001"),
    "v0.21.01": ("leading zero", "01"),
    "v0.021.1": ("leading zero", "021"),
    "v00.21.1": ("leading zero", "00"),
    "v20211301-v0.18.8": ("20211301 is no date of the calendar", "20211301"),
    "0.20.1001": ("it starts with a lower-case v", "0"),
    "V0.20.1001": ("it starts with a lower-case v", "V"),
    "v0.20.1001-1": ("nothing may follow the digits", "-1"),
    "v0.20.1001-rc": ("nothing may follow the digits", "-rc"),
    "v0.20": ("a dot and further digits should follow the minor part", ""),
    "v0.20.": ("the third part is missing", ""),
    "v": ("the major part is missing", ""),
    "v0.20.1001 ": ("nothing may follow the digits", " "),
    "v0.20.1001\n": ("nothing may follow the digits", "\n"),
    "v0.20.٣": ("the third part is missing", "٣"),
    "": ("it is empty", ""),
    "latest": ("it starts with a lower-case v", "l"),
    "v1.2." + "3" * 200: ("at most 128 characters", ""),
}


@pytest.mark.parametrize("text", VALID)
def test_G_01_a_valid_tag_is_shown_in_its_parts(text: str) -> None:
    ran = fleet("release", "parse", text)

    assert (ran.code, ran.json) == (0, VALID[text] | {"text": text})


@pytest.mark.parametrize("text", INVALID)
def test_G_01_the_wrong_part_of_a_tag_is_named_and_marked(text: str) -> None:
    message, marked = INVALID[text]
    ran = fleet("release", "parse", "--", text)

    assert (ran.code, ran.out) == (2, "")
    reason, shown, marks, *_ = ran.err.splitlines()
    assert message in reason
    part = shown[marks.index("^") : len(marks)]
    assert part == marked.replace("\n", "?")


@pytest.mark.parametrize(
    "left,right,order",
    [
        ("v0.20.1001", "v0.20.11", -1),
        ("v0.20.11", "v0.20.1001", 1),
        ("v0.0.2099123199", "v0.18.8", -1),
        ("v0.18.8", "v0.18.8", 0),
        ("v0.0.2021110102", "v0.0.2021110201", -1),
    ],
)
def test_G_01_tags_compare_by_what_they_are_built_on(left: str, right: str, order: int) -> None:
    ran = fleet("release", "compare", left, right)

    assert (ran.code, ran.out.splitlines()[0]) == (0, str(order))
    assert [line.split()[0] for line in ran.out.splitlines()[1:]] == [left, right]


@pytest.mark.parametrize("unordered", ["v0.0.0", "v20201009-v0.18.8", "v0.34.4-rc"])
def test_G_01_tags_without_an_order_do_not_compare(unordered: str) -> None:
    ran = fleet("release", "compare", unordered, "v0.20.10")

    assert (ran.code, ran.out) == (2, "")
    assert f"{unordered} has no order" in ran.err


def test_comparing_shows_the_keys_as_json() -> None:
    ran = fleet("release", "compare", "v0.18.8", "v0.18.800", "-o", "json")

    assert ran.json == {
        "order": -1,
        "keys": [{"tag": "v0.18.8", "key": [1, 0, 18, 8, 0, 0]}, {"tag": "v0.18.800", "key": [1, 0, 18, 8, 0, 1]}],
    }


def test_G_01_the_next_tag_follows_the_highest() -> None:
    base = parse_tag("v0.20.10")

    assert choose_next_branchfix(base, map(parse_tag, ("v0.20.1009", "v0.20.1002", "v0.20.1133"))).text == "v0.20.1010"
    assert choose_next_branchfix(parse_tag("v0.18.800"), [parse_tag("v0.18.800")]).text == "v0.18.801"


def test_G_01_no_tag_follows_the_ninety_ninth() -> None:
    with pytest.raises(SequenceExhausted, match=r"sequence exhausted for 0\.20\.10"):
        choose_next_branchfix(parse_tag("v0.20.10"), [parse_tag("v0.20.1099")])
    with pytest.raises(SequenceExhausted, match="sequence exhausted for 2021-11-01"):
        choose_next_snapshot(dt.date(2021, 11, 1), [parse_tag("v0.0.2021110199")])


def test_snapshots_of_other_days_do_not_count() -> None:
    used = [parse_tag("v0.0.2021110107"), parse_tag("v0.0.2021110304")]

    assert choose_next_snapshot(dt.date(2021, 11, 2), used).text == "v0.0.2021110201"


# --- properties -------------------------------------------------------------------------------------------------------

NUMBERS = st.integers(0, 30)
MICROS = st.integers(1, 99)
RELEASES = st.builds("v{}.{}.{}".format, NUMBERS, st.integers(1, 30), st.integers(0, 99))
ONDEMANDS = st.builds("v{}.{}.{}00".format, NUMBERS, st.integers(1, 30), MICROS)
FIXES = st.builds("v{}.{}.{}{:02d}".format, NUMBERS, st.integers(1, 30), MICROS, MICROS)
SNAPSHOTS = st.builds(lambda date, seq: f"v0.0.{date:%Y%m%d}{seq:02d}", st.dates(dt.date(1000, 1, 1)), MICROS)
ORDERED = st.one_of(RELEASES, ONDEMANDS, FIXES, SNAPSHOTS)
UNORDERED = st.sampled_from(["v0.0.0", "v20201009-v0.18.800-46-g939c1c0", "v0.34.4-devel-sg"])


def written(tag: Tag) -> str:
    if tag.kind is TagKind.SNAPSHOT:
        assert tag.date is not None
        return format_snapshot(tag.date, tag.seq or 0).text
    if tag.kind is TagKind.BRANCHFIX:
        return format_branchfix(tag, tag.seq or 0).text
    if tag.kind in (TagKind.RELEASE, TagKind.ONDEMAND):
        return f"v{tag.base}" + ("" if tag.seq is None else f"{tag.seq:02d}")
    return tag.text


@given(st.one_of(ORDERED, UNORDERED))
def test_G_02_a_tag_is_written_as_it_was_read(text: str) -> None:
    tag = parse_tag(text)

    assert written(tag) == text
    assert parse_tag(written(tag)) == tag


@given(st.one_of(st.text(), st.from_regex(r"v[0-9]{1,9}[.-]?[0-9]{0,5}[.-]?[0-9]{0,12}(-[a-z0-9]*)?")))
@settings(max_examples=300)
def test_G_02_random_text_is_a_tag_or_refused(text: str) -> None:
    try:
        outcome = parse_tag(text).text
    except TagError as error:
        outcome = str(error)
    assert outcome == text or outcome.splitlines()[-1].strip().startswith("^")


@pytest.mark.parametrize("text", ["v" + "9" * 126, "v9." * 42, "v0.0." + "1" * 5000, "\x00", "v\ud800"])
def test_G_02_hostile_text_is_refused_by_the_command(text: str) -> None:
    assert fleet("release", "parse", text).code == 2


def random_tag(random: Random) -> Tag:
    """Few distinct numbers, so that tags are often equal in all parts but the last."""
    major, minor, micro, seq = random.choice((0, 1)), random.randint(1, 3), random.randint(0, 99), random.randint(1, 99)
    if random.randrange(4) == 0:
        return format_snapshot(dt.date(2021, random.randint(1, 12), random.randint(1, 28)), seq)
    forms = (f"{micro}",) if micro == 0 else (f"{micro}", f"{micro}00", f"{micro}{seq:02d}")
    return parse_tag(f"v{major}.{minor}.{random.choice(forms)}")


def test_G_03_the_order_is_total_and_transitive() -> None:
    random = Random(3)
    tags = [random_tag(random) for _ in range(5000)]

    for left, right, third in zip(tags, tags[1:], tags[2:], strict=False):
        orders = compare_tags(left, right), compare_tags(right, third), compare_tags(left, third)
        assert orders[0] == -compare_tags(right, left)
        assert (orders[0] == 0) == (left == right)
        if orders[0] == orders[1] or 0 in orders[:2]:
            assert orders[2] == (orders[0] or orders[1])
    ranked = sorted(tags, key=build_order_key)
    assert all(compare_tags(*pair) <= 0 for pair in itertools.pairwise(ranked))
    assert ranked == sorted(ranked, key=functools.cmp_to_key(compare_tags))
    kinds = [tag.kind is TagKind.SNAPSHOT for tag in ranked]
    assert kinds == sorted(kinds, reverse=True)


@pytest.mark.parametrize(
    "chain",
    [
        ["v0.20.10", "v0.20.1001", "v0.20.1099", "v0.20.11", "v0.20.1101"],
        ["v0.18.8", "v0.18.800", "v0.18.801"],
        ["v0.0.2021101503", "v0.0.2021110101", "v0.0.2148010101", "v0.1.0"],
    ],
)
def test_G_03_the_chains_are_sorted(chain: list[str]) -> None:
    for left, right in itertools.combinations(chain, 2):
        assert fleet("release", "compare", left, right, "-o", "json").json["order"] == -1
    assert [tag.text for tag in sorted(map(parse_tag, reversed(chain)), key=build_order_key)] == chain


@given(FIXES | SNAPSHOTS)
def test_what_this_tool_makes_is_one_of_two_kinds(text: str) -> None:
    assert parse_tag(text).kind in OURS
