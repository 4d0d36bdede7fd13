"""Feeds from every kind of source, and what is no feed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.external.feed_sources import UnusableFeed, read_answer, read_clusters, read_config_map
from fleet.settings.document.feeds import JSON, METRICS, QUERY, HttpSource

METRICS_PAGE = b"""\
# TYPE cluster_cost gauge
cluster_cost{cluster="ams-1",currency="EUR"} 3.5
cluster_cost{cluster="dub-1"} 2
cluster_cost{region="x"} 9
cluster_other{cluster="ams-1"} 7
# TYPE cluster_load gauge
cluster_load{cluster="ams-1"} 0.25
cluster_load{cluster="dub-1"} NaN
"""
VECTOR = {
    "status": "success",
    "data": {
        "resultType": "vector",
        "result": [
            {"metric": {"cluster": "ams-1"}, "value": [1700000000, "0.5"]},
            {"metric": {"job": "x"}, "value": [1700000000, "1"]},
        ],
    },
}


def answer(document: Any, **source: Any) -> dict[str, dict[str, float]]:
    return read_answer(HttpSource(url="http://here", **source), "load", json.dumps(document).encode())


def test_numbers_alone_are_the_column_value() -> None:
    assert read_clusters({"ams-1": 3, "dub-1": {"price": 2.5, "quota": 10}}) == {
        "value": {"ams-1": 3.0},
        "price": {"dub-1": 2.5},
        "quota": {"dub-1": 10.0},
    }


def test_a_config_map_has_a_cluster_for_each_key_or_one_key_with_all() -> None:
    assert read_config_map({"ams-1": "3", "dub-1": "price: 2"}, "") == {"value": {"ams-1": 3.0}, "price": {"dub-1": 2}}
    assert read_config_map({"all": "ams-1: 3\n", "notes": "none"}, "all") == {"value": {"ams-1": 3.0}}


def test_json_is_read_by_paths() -> None:
    listed = {"data": [{"id": "ams-1", "cost": {"hourly": 3}}, {"id": "dub-1", "cost": {}}]}
    assert answer(listed, items="data", cluster="id", columns={"price": "cost.hourly"}) == {"price": {"ams-1": 3.0}}
    assert answer([{"cluster": "ams-1", "price": 3, "name": "x"}]) == {"price": {"ams-1": 3.0}}
    assert answer({"ams-1": 3}) == {"value": {"ams-1": 3.0}}


def test_metrics_are_read_by_name_and_label() -> None:
    source = HttpSource(url="http://here", format=METRICS, columns={"price": "cluster_cost", "load": "cluster_load"})
    assert read_answer(source, "", METRICS_PAGE) == {"price": {"ams-1": 3.5, "dub-1": 2.0}, "load": {"ams-1": 0.25}}


def test_the_vector_of_a_query_is_read_by_label() -> None:
    assert answer(VECTOR, format=QUERY, columns={"load": "x"}) == {"load": {"ams-1": 0.5}}


@pytest.mark.parametrize(
    "document, source, complaint",
    [
        ("text", {}, "answered no list and no mapping"),
        ({"data": {}}, {"items": "rows"}, "answered no list and no mapping at rows"),
        ({"ams-1": "dear"}, {}, "value of ams-1 is 'dear', not a number"),
        ({"ams-1": True}, {}, "value of ams-1 is True, not a number"),
        ({"ams-1": 10**400}, {}, "value of ams-1 is 1000.*, not a number"),
        ({"status": "error", "error": "parse error"}, {"format": QUERY}, "reports an error: parse error"),
        ({"status": "success", "data": {"result": [{"metric": {"cluster": "a"}}]}}, {"format": QUERY}, "no vector"),
    ],
)
def test_what_is_no_feed_is_refused(document: Any, source: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UnusableFeed, match=complaint):
        answer(document, **source)


def test_neither_is_what_cannot_be_read() -> None:
    for form, body in ((JSON, b"{"), (METRICS, b"cost{cluster= 3")):
        with pytest.raises(UnusableFeed):
            read_answer(HttpSource(url="http://here", format=form, columns={"price": "cost"}), "", body)
    with pytest.raises(UnusableFeed, match="answered no JSON"):
        read_answer(HttpSource(url="http://here"), "", b"[" * 100_000)
    for text in ("2001-13-45", "1" * 5000, "[" * 5000):
        with pytest.raises(UnusableFeed, match="ams-1 is not YAML"):
            read_config_map({"ams-1": text}, "")
    with pytest.raises(UnusableFeed) as refused:
        read_config_map({"ams-1": "x: " + "y" * 10_000}, "")
    assert len(str(refused.value)) < 200
    with pytest.raises(UnusableFeed, match="has no key all"):
        read_config_map({}, "all")
