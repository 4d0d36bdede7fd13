"""Bytes become lines, events and pages, or an error that says what they were."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import UnreadableAnswer
from fleet.kube.cache.watch import LineSplitter, extract_document, read_event, read_head, read_page, read_version

MESS = [b"", b"nul", b"[]", b"5", b'"x"', b"{}", b"\xff", b'{"a":', b"[" * 5000]


def cut(text: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(text)) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(ends)]


texts = st.lists(st.sampled_from([b"\n", b"\n", b"ab", b"c", b"\xff"]), max_size=30).map(b"".join)


@given(text=texts, places=st.lists(st.integers(0, 60)))
def test_lines_do_not_depend_on_how_the_stream_is_cut(text: bytes, places: list[int]) -> None:
    lines = LineSplitter()
    found = [line for piece in cut(text, places) for line in lines.feed(piece)]
    assert found == text.split(b"\n")[:-1]


@pytest.mark.parametrize("line", MESS)
def test_a_line_that_is_no_event_is_shown(line: bytes) -> None:
    with pytest.raises(UnreadableAnswer, match="a line of a watch is not an event"):
        read_event(line)


@pytest.mark.parametrize("body", MESS)
def test_an_answer_that_is_no_list_is_shown(body: bytes) -> None:
    with pytest.raises(UnreadableAnswer, match="the response is not a list"):
        read_page(body)


def test_a_list_of_nothing_may_be_null() -> None:
    assert read_page(b'{"metadata":{"resourceVersion":"5"},"items":null}').items is None


@pytest.mark.parametrize("document", [*MESS, b'{"metadata":{}}', b'{"metadata":{"name":5}}', b'{"metadata":[]}'])
def test_without_a_name_there_is_no_object(document: bytes) -> None:
    assert read_head(document) is None


def test_a_name_is_found_in_an_object_that_is_otherwise_a_mess() -> None:
    head = read_head(b'{"spec":5,"metadata":{"labels":7,"name":"c1","namespace":"n","uid":"u","resourceVersion":"9"}}')
    assert head is not None
    assert (head.key, head.metadata.uid, head.metadata.resource_version) == ("n/c1", "u", "9")


def test_a_bookmark_has_a_version_and_no_name() -> None:
    assert read_version(b'{"kind":"Pod","metadata":{"resourceVersion":"9","creationTimestamp":null}}') == "9"


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_a_line_as_servers_write_it_needs_no_parsing_to_find_its_object(kind: str) -> None:
    assert extract_document(b'{"type":"%s","object":{"a":{}}}' % kind.encode()) == b'{"a":{}}'


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"DELETED","object":{}}',
        b'{"type":"BOOKMARK","object":{}}',
        b'{"object":{},"type":"ADDED"}',
        b'{"type": "ADDED","object":{}}',
        b'{"type":"ADDED","object":{}} ',
    ],
)
def test_any_other_line_is_left_to_the_parser(line: bytes) -> None:
    assert extract_document(line) is None
