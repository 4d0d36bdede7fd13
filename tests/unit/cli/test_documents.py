"""Text becomes documents that know their lines; what cannot be meant is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.manifests import documents


def content(text: str) -> Any:
    (found,), problems = documents(text)
    assert problems == []
    return found.content


def complaint(text: str, *, file: str = "x.yaml") -> str:
    found, (problem,) = documents(text, file=file)
    assert found == []
    return problem


# --- meaning ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, want",
    [
        ("2026-03-10T09:00:00Z", "2026-03-10T09:00:00Z"),
        ("2026-03-10", "2026-03-10"),
        ("12:30:45", "12:30:45"),
        ("3", 3),
        ("-17", -17),
        ("010", 8),
        ("0x1F", 31),
        ("08", "08"),
        ("0.5", 0.5),
        ("yes", True),
        ("null", None),
        ("500m", "500m"),
        ('"3"', "3"),
    ],
)
def test_a_plain_value_means_what_it_means_to_kubernetes(text: str, want: object) -> None:
    assert content(f"value: {text}") == {"value": want}


def test_keys_are_texts() -> None:
    assert content("1: a\ntrue: b") == {"1": "a", "true": "b"}


def test_an_alias_repeats_a_value_and_a_merge_key_spreads_it() -> None:
    text = "base: &base {a: 1, b: 2}\nlist: [*base, *base]\nmore: {<<: *base, b: 3}"

    assert content(text) == {"base": {"a": 1, "b": 2}, "list": [{"a": 1, "b": 2}] * 2, "more": {"a": 1, "b": 3}}


def test_empty_documents_are_left_out() -> None:
    found, problems = documents("---\n---\na: 1\n---\n# nothing\n---\n~\n")

    assert ([one.content for one in found], problems) == ([{"a": 1}], [])


def test_a_json_file_is_one_document() -> None:
    found, problems = documents('{"a": [1, true, null]}', file="x.json")

    assert ([one.content for one in found], problems) == ([{"a": [1, True, None]}], [])


def test_an_empty_json_file_is_no_document() -> None:
    assert documents("null", file="x.json") == ([], [])


# --- lines ------------------------------------------------------------------------------------------------------------


def test_a_document_knows_its_number_and_where_it_starts() -> None:
    found, _ = documents("# first\na: 1\n---\n\nb: 2\n")

    assert [(one.place.line, one.place.document) for one in found] == [(2, 1), (5, 2)]


@pytest.mark.parametrize(
    "steps, line",
    [
        ((), 4),
        (("metadata", "name"), 5),
        (("spec", "taints", 1, "key"), 9),
        (("spec", "taints", 7), 7),
        (("nowhere",), 4),
    ],
)
def test_a_field_knows_its_line_also_behind_other_documents(steps: tuple[str | int, ...], line: int) -> None:
    text = "x: 1\ny: 2\n---\nmetadata:\n  name: a\nspec:\n  taints:\n  - key: a\n  - key: b\n"
    found, _ = documents(text)

    assert found[1].line_of(steps) == line


def test_fields_of_json_have_lines_too() -> None:
    (found,), _ = documents('{\n "a": {\n  "b": 1}}', file="x.json")

    assert found.line_of(("a", "b")) == 3


def test_the_value_as_it_was_written_is_known() -> None:
    (found,), _ = documents("a: yes\nb: 0x1F")

    assert (found.source_text(("a",)), found.source_text(("b",)), found.source_text(())) == ("yes", "0x1F", None)


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, want",
    [
        ("a: [1\nb: 2\n", "x.yaml:2: is not YAML: did not find expected ',' or ']' at column 2"),
        ("a: 1\n\tb: 2", "x.yaml:2: is not YAML: found a tab character that violates indentation at column 1"),
        ("a: 1\na: 2", "x.yaml:2: duplicate key 'a' in one mapping"),
        ("a: &a [*a]", "x.yaml:1: an alias refers to the value it is part of"),
        ("a: *nobody", "x.yaml:1: is not YAML: found undefined alias at column 4"),
        ("a: !secret 3", "x.yaml:1: '3' cannot be read: could not determine a constructor for the tag '!secret'"),
        ("{[1]: 2}", "x.yaml:1: a key should be a string, not a list or a mapping"),
        ("a: \x01", "x.yaml:1: is not YAML: unacceptable character #x0001: control characters are not allowed"),
        ("[[[\n", "x.yaml:2: is not YAML: did not find expected node content at column 1"),
        ("{a: " * 900 + "1" + "}" * 900, "x.yaml:1: is nested too deeply"),
    ],
    ids=["syntax", "tab", "double key", "loop", "no anchor", "tag", "key", "control", "open", "deep"],
)
def test_what_cannot_be_read_is_told_with_its_line(text: str, want: str) -> None:
    assert complaint(text) == want


@pytest.mark.parametrize(
    "text, want",
    [
        ('{"a": 1,\n "b" 2}', "x.json:2: is not JSON: Expecting ':' delimiter at column 6"),
        ('{"a": 1, "a": 2}', "x.json: duplicate key 'a' in one object"),
        ("[" * 100_000, "x.json: is nested too deeply"),
    ],
    ids=["syntax", "double key", "deep"],
)
def test_what_cannot_be_read_as_json_is_told(text: str, want: str) -> None:
    assert complaint(text, file="x.json") == want


def test_a_broken_document_does_not_hide_the_others() -> None:
    found, problems = documents("a: [\n---\nb: 1\n---\nc: 1\nc: 2\n---\nd: 1\n")

    assert [one.content for one in found] == [{"b": 1}, {"d": 1}]
    assert [problem.partition(": ")[0] for problem in problems] == ["x.yaml:2", "x.yaml:6 (document 3)"]


def test_aliases_do_not_expand_without_end() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    assert complaint("\n".join(lines)).endswith("aliases expand this document too much")
