"""Nearest words and the order in which problems are told."""

from __future__ import annotations

import pytest

from fleet.cli.input.problems import Findings, SourceLocation
from fleet.similarity import CLOSE, nearest


@pytest.mark.parametrize(
    "word, want",
    [
        ("clusterAfinity", "clusterAffinity"),
        ("cluster_affinity", "clusterAffinity"),
        ("CLUSTER-AFFINITY", "clusterAffinity"),
        ("placment", "placement"),
        ("colour", None),
        ("", None),
    ],
)
def test_the_nearest_word_is_the_one_that_was_meant(word: str, want: str | None) -> None:
    assert nearest(word, ["clusterAffinity", "placement"], cutoff=CLOSE) == want


@pytest.mark.parametrize(
    "place, want",
    [
        (SourceLocation("x.yaml"), "x.yaml"),
        (SourceLocation("x.yaml", 3, 1), "x.yaml:3"),
        (SourceLocation("x.yaml", 3, 2), "x.yaml:3 (document 2)"),
    ],
)
def test_a_place_names_the_document_where_there_are_several(place: SourceLocation, want: str) -> None:
    assert str(place) == want


def test_problems_are_told_file_by_file_and_from_top_to_bottom() -> None:
    findings = Findings()
    findings.report(SourceLocation("b", 9), "third")
    findings.report(SourceLocation("a", 1), "fourth")
    findings.report(SourceLocation("b", 2), "second")
    findings.add("first")

    assert [one.message for one in findings.in_order()] == ["first", "second", "third", "fourth"]
