"""What an extender is sent over HTTP, and every answer that is no opinion."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fleet.external.extender_client import ExtenderClient
from fleet.external.http_client import LARGEST_ANSWER
from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import HookContext, QueryPending
from fleet.framework.policy.resource_requests import OverriddenNeeds
from fleet.framework.profiles.extender import Extender, ExtenderRef
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.types import ExternalQuery, ExternalResult
from fleet.settings.document.extenders import ExtenderDocument
from plugins.default_profile import compile_default
from tests.builders import a_frame, clusters
from tests.doubles import inputs
from tests.extender import RunningExtender, an_extender

POD = {"metadata": {"name": "web"}}
UNASKED = inputs(a_frame(*clusters("ams-1")), profile=compile_default())
BOUND = {"name": "web", "namespace": "shop", "uid": "u-1", "cluster": "ams-1"}
CLUSTERS = {"ams-1": "ams-1", "dub-1": "dub-1"}


def ask(extender: RunningExtender, verb: str = "filter", **payload: Any) -> ExternalResult:
    document = ExtenderDocument(
        name="budget", url=extender.url, filter_verb="filter", prioritize_verb="prioritize", bind_verb="bind"
    )
    query = ExternalQuery(
        "k", {"extender": "budget", "verb": verb, "placement": POD, "clusters": CLUSTERS, **BOUND, **payload}
    )
    client = ExtenderClient([document])
    assert client.can_answer(query)
    return asyncio.run(client.answer(UNASKED, query)).query_results["k"]


def test_clusters_are_sent_as_nodes_or_as_names() -> None:
    nodes = [{"metadata": {"name": "ams-1", "labels": {"region": "ams"}}}, {"metadata": {"name": "dub-1"}}]
    with an_extender() as extender:
        ask(extender)
        ask(extender, documents=nodes)
        assert extender.asked == [
            ("/filter", {"Pod": POD, "NodeNames": ["ams-1", "dub-1"]}),
            ("/filter", {"Pod": POD, "Nodes": {"items": nodes}}),
        ]


@pytest.mark.parametrize(
    "given, answer",
    [({"Error": ""}, {}), ({}, {}), ({"error": "full"}, {"refusal": "full"})],
)
def test_a_binding_is_asked_for_as_kube_scheduler_does(given: dict[str, Any], answer: dict[str, Any]) -> None:
    with an_extender() as extender:
        extender.answer = lambda path, asked: given
        assert ask(extender, "bind") == ExternalResult(answer)
        body = {"PodName": "web", "PodNamespace": "shop", "PodUID": "u-1", "Node": "ams-1"}
        assert extender.asked == [("/bind", body)]


@pytest.mark.parametrize(
    "given, judgements",
    [
        ({"NodeNames": ["ams-1"]}, ([0, ""], [1, "rejected without a reason"])),
        ({"nodenames": ["dub-1"], "failedNodes": {"ams-1": "dear"}}, ([1, "dear"], [0, ""])),
        ({"Nodes": {"items": [{"metadata": {"name": "ams-1"}}]}}, ([0, ""], [1, "rejected without a reason"])),
        ({"FailedAndUnresolvableNodes": {"ams-1": "x", "dub-1": "y"}}, ([2, "x"], [2, "y"])),
        ({"NodeNames": None}, ([1, "rejected without a reason"], [1, "rejected without a reason"])),
    ],
)
def test_filters_answer_as_those_of_kube_scheduler(given: dict[str, Any], judgements: tuple[Any, Any]) -> None:
    with an_extender() as extender:
        extender.answer = lambda path, asked: given
        assert ask(extender) == ExternalResult(dict(zip(CLUSTERS, judgements, strict=True)))


@pytest.mark.parametrize(
    "verb, given, complaint",
    [
        ("filter", b"[", "answered no JSON"),
        ("filter", [], "answered something that is not an object"),
        ("filter", {}, "answered without NodeNames and Nodes"),
        ("bind", [], "answered something that is not an object"),
        ("filter", {"Error": "no money"}, "reports an error: no money"),
        ("filter", {"NodeNames": ["osl-1"]}, "answered about osl-1, which it was not asked about"),
        ("filter", b" " * (LARGEST_ANSWER + 1), "answered more than 16 MiB"),
        ("prioritize", {}, "answered priorities that are no list"),
        ("prioritize", [{"Host": "ams-1", "Score": 11}], "gave ams-1 the score 11, which is not in 0 … 10"),
        ("prioritize", [{"Host": "osl-1", "Score": 1}], "answered about osl-1, which it was not asked about"),
        ("filter", b"[" * 100_000, "answered no JSON"),
        ("filter", {"Nodes": {"items": [{"metadata": {"name": name}} for name in ("x", 1)]}}, "answered about 1,"),
    ],
)
def test_what_is_no_opinion_is_an_error(verb: str, given: Any, complaint: str) -> None:
    with an_extender() as extender:
        extender.answer = lambda path, asked: given
        result = ask(extender, verb)
        assert (result.value, result.error[: len(complaint)]) == ({}, complaint)


def test_so_is_another_status_and_a_server_that_is_gone() -> None:
    with an_extender() as extender:
        extender.status = 500
        assert ask(extender).error == "answered 500 Internal Server Error"
        extender.stop()
        assert ask(extender).error.startswith("could not be asked: Cannot connect to host 127.0.0.1")


def test_an_address_that_is_no_name_is_an_error() -> None:
    document = ExtenderDocument(name="budget", url=f"http://{'x' * 70}.example", filter_verb="filter")
    query = ExternalQuery("k", {"extender": "budget", "verb": "filter", "placement": POD, "clusters": CLUSTERS})
    answered = asyncio.run(ExtenderClient([document]).answer(UNASKED, query))
    assert answered.query_results["k"].error.startswith("could not be asked: ")


def test_messages_are_short_whatever_was_answered() -> None:
    with an_extender() as extender:
        extender.answer = lambda path, asked: [{"Host": "y" * 10_000, "Score": "x" * 10_000}]
        assert ask(extender, "prioritize").error.startswith("gave yyy")
        assert len(ask(extender, "prioritize").error) < 1200


def test_answers_about_further_clusters_are_added() -> None:
    with an_extender() as extender:
        document = ExtenderDocument(name="budget", url=extender.url, filter_verb="filter")
        client, more = ExtenderClient([document]), {"osl-1": "osl-1"}
        payload = {"extender": "budget", "verb": "filter", "placement": POD}

        async def main() -> ExternalResult:
            first = await client.answer(UNASKED, ExternalQuery("k", {**payload, "clusters": CLUSTERS}))
            return (await client.answer(first, ExternalQuery("k", {**payload, "clusters": more}))).query_results["k"]

        assert set(asyncio.run(main()).value) == {"ams-1", "dub-1", "osl-1"}


@pytest.mark.parametrize(
    "needs",
    [
        {"node_requests": {"example.com/gpu": 2}},
        {"overridden_requests": (OverriddenNeeds(rules=((),), needs=("", "example.com/gpu=2")),)},
    ],
)
def test_an_extender_manages_what_is_needed_on_each_node_and_on_some_clusters_only(needs: dict[str, Any]) -> None:
    extender = Extender(ExtenderRef(name="cards", filters=True, managed_resources=("example.com/gpu",)))
    ctx = HookContext(now=0, bindings=PlacementBindings())
    frame = a_frame(*clusters("ams-1"))
    plain, own = PlacementRequest(placement="web"), PlacementRequest(placement="web", **needs)
    assert extender.filter(ctx, CycleState(), plain, frame, frame.valid).ok == frame.valid
    with pytest.raises(QueryPending) as asked:
        extender.filter(ctx, CycleState(), own, frame, frame.valid)
    spec = asked.value.query.payload["placement"]["spec"]
    assert spec.get("requestsPerNode") == ({"example.com/gpu": "2"} if "node_requests" in needs else None)
