"""Absurd values on one cluster harm neither the others nor the table."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Outcome
from fleet.framework.request import PlacementRequest
from fleet.model.timestamps import parse_timestamp
from fleet.model.views import MemberCluster
from fleet.snapshot import Table
from fleet.snapshot.columns.signals import SignalsColumn
from plugins.default_profile import compile_default

NOW = "2026-01-01T00:00:00Z"
ABSURD = ["0001-01-01T00:00:00Z", "1500-01-01T00:00:00Z", "2300-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]


def a_member(
    name: str, *, heartbeat: str = NOW, healthy: str = "True", since: str = NOW, **labels: str
) -> MemberCluster:
    conditions = [
        {"type": "Joined", "status": "True"},
        {"type": "Healthy", "status": healthy, "lastTransitionTime": since},
    ]
    agent: dict[str, Any] = {"type": "MemberAgent", "lastReceivedHeartbeat": heartbeat, "conditions": conditions}
    document = {"metadata": {"name": name, "labels": labels}, "status": {"agentStatus": [agent]}}
    return msgspec.convert(document, MemberCluster)


@pytest.mark.parametrize("moment", ABSURD)
def test_an_absurd_time_on_one_cluster_leaves_the_others_alone(moment: str) -> None:
    clusters = [a_member("good"), a_member("odd", heartbeat=moment), a_member("ill", healthy="False", since=moment)]
    request = PlacementRequest(placement="web", generation=1)
    inputs = DecisionInput(
        frame=Table(clusters).freeze(),
        request=request,
        bindings=(),
        profile=compile_default(),
        now=parse_timestamp(NOW),
    )

    decision = decide(inputs)

    recent = {"odd", "ill"} if moment > NOW else set()
    assert decision.outcome is Outcome.SELECTED
    assert {target.cluster for target in decision.targets} == {"good"} | recent


def test_the_reason_names_the_time_as_it_was_reported() -> None:
    clusters = [a_member("odd", heartbeat="0001-01-01T00:00:00Z")]
    request = PlacementRequest(placement="web", generation=1)
    inputs = DecisionInput(
        frame=Table(clusters).freeze(),
        request=request,
        bindings=(),
        profile=compile_default(),
        now=parse_timestamp(NOW),
    )

    published = decide(inputs).published

    assert published is not None
    assert published.decisions[0].reason.endswith("(last received at 0001-01-01T00:00:00Z)")


@pytest.mark.parametrize("newcomer", [False, True], ids=["known cluster", "newcomer"])
def test_a_put_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch, *, newcomer: bool) -> None:
    table = Table([a_member("c1", region="eu")])
    before = table.freeze()
    assert before.labels("region").eq("eu") == 1
    assert len(before.signals.flags) == 1

    def fail(*_: object) -> None:
        raise OverflowError

    with monkeypatch.context() as broken:
        broken.setattr(SignalsColumn, "put", fail)
        with pytest.raises(OverflowError):
            table.put(a_member("c2" if newcomer else "c1", heartbeat="2026-01-01T00:00:01Z", region="us"))

    after = table.freeze()
    assert len(table) == 1
    assert after.content_hash() == before.content_hash()
    assert after.labels("region").value(0) == "eu"
    table.put(a_member("c2", region="us"))
    assert table.freeze().labels("region").isin(["us"]) == 1 << (table.freeze().row_of("c2") or 0)
