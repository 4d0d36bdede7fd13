"""Mistakes of meaning in a policy, as the API gives them: the same as JSON and as text, in `why` and in simulations."""

from __future__ import annotations

from typing import Any, Final

from tests.api.stage import AUTHOR, HIDDEN, Json, Stage, alone, staged

MESSAGES: Final = [
    "no cluster has label Region, so spreading over it has no effect; did you mean region, which is on 5 of 5?",
    "no cluster has taint dedicatd; did you mean dedicated, which is on 1 of 5?",
    "40 clusters are wanted, and the fleet has 5",
]


def a_policy() -> Json:
    return {
        "placementType": "PickN",
        "numberOfClusters": 40,
        "topologySpreadConstraints": [{"topologyKey": "Region"}],
        "tolerations": [{"key": "dedicatd", "operator": "Exists"}],
    }


def a_placement(name: str) -> Json:
    selectors = [{"group": "", "version": "v1", "kind": "Namespace", "name": name}]
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": selectors, "policy": a_policy()},
    }


def messages_of(answer: Json) -> list[str]:
    return sorted(remark["message"] for remark in answer["remarks"])


def fold(text: str) -> str:
    return " ".join(text.split())


@staged
async def test_a_simulation_of_a_proposed_placement_has_the_remarks_as_json_and_as_text(stage: Stage) -> None:
    body: dict[str, Any] = {"placement": a_placement("idea")}
    document = (await stage.post("/v1/simulate", body)).json()
    text = (await stage.post("/v1/simulate", body, Accept="text/plain")).text

    assert messages_of(document["answer"]) == sorted(MESSAGES)
    assert all(message in fold(text) for message in MESSAGES)


@staged
async def test_a_caller_who_may_not_read_all_clusters_gets_no_name_or_count_of_others(stage: Stage) -> None:
    for accept in ("application/json", "text/plain"):
        answer = await stage.post("/v1/simulate", {"placement": a_placement("idea")}, AUTHOR, Accept=accept)

        assert answer.status_code == 200, answer.text
        assert "no cluster that you may read has label Region" in fold(answer.text)
        assert not [name for name in HIDDEN if name in answer.text]
        assert "of 5?" not in answer.text
        assert "the fleet has" not in answer.text


@alone
async def test_why_has_the_remarks_as_json_and_as_text(stage: Stage) -> None:
    await stage.world.place("astray", a_policy())
    await stage.world.soon_scheduled("astray", status="False")

    document = await stage.json("/v1/placements/-/astray/why")
    text = (await stage.get("/v1/placements/-/astray/why", Accept="text/plain")).text
    other = (await stage.get("/v1/clusters/ams-1/why-not?placement=astray", Accept="text/plain")).text

    assert messages_of(document) == sorted(MESSAGES)
    assert all(message in fold(shown) for message in MESSAGES for shown in (text, other))
