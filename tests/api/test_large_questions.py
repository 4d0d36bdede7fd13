"""Large policies: the event loop of controller and API never evaluates one, and others are answered meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from api.live import evaluation, proposed_snapshots
from api.live.answer_cache import EncodedAnswer, encode_answer
from api.live.evaluation import DecisionEvaluator, EvaluatedDecision
from api.live.live import LivePlacement
from api.routers import request_context, simulate
from api.services import why as service
from fleet.explain.fixes.fixes import Fixes, find_fixes
from fleet.framework.policy.terms import LabelTest
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.views import PolicySnapshot
from fleet.placement.snapshots.proposal import propose_snapshot
from fleet.snapshot.frame import Frame
from fleet.worker_thread import Precedence
from tests.api.stage import Stage, alone, staged
from tests.control_plane.waiting import SECONDS_TO_HAPPEN
from tests.pieces import note_pieces

KEY = "example.com/unheard-of-"
SIZE = 600
"""Parts of a policy that the controller, too, decides in a thread."""
LARGE_BODY = 400_000
"""Bytes, about."""


def a_large_policy(size: int) -> dict[str, Any]:
    expressions = [{"key": f"{KEY}{number}", "operator": "Exists"} for number in range(size)]
    terms = [{"labelSelector": {"matchExpressions": expressions}}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}
    return {"placementType": "PickN", "numberOfClusters": 2, "affinity": {"clusterAffinity": required}}


@contextmanager
def observed_threads() -> Iterator[set[int]]:
    """The threads that read a label of the large policy."""
    threads: set[int] = set()
    read = LabelTest.rows

    def observe(test: LabelTest, frame: Frame) -> int:
        if test.key.startswith(KEY):
            threads.add(threading.get_ident())
        return read(test, frame)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(LabelTest, "rows", observe)
        yield threads


@alone
async def test_a_large_policy_is_decided_and_explained_apart_from_the_event_loop(stage: Stage) -> None:
    with observed_threads() as deciding:
        await stage.world.place("huge", a_large_policy(SIZE))
        await stage.world.soon_scheduled("huge", status="False")
    passed = Counter[str]()
    with observed_threads() as explaining, pytest.MonkeyPatch.context() as patching:
        patching.setattr("api.services.matrix.check", lambda: passed.update(["checkpoint"]))
        why = await stage.get("/v1/placements/-/huge/why?fixes=deep")
        text = await stage.get("/v1/placements/-/huge/why?explain=all", accept="text/plain")
        why_not = await stage.get("/v1/clusters/ams-1/why-not?placement=huge&fixes=deep")
        edits = [{"op": "labelCluster", "cluster": "ams-1", "key": f"{KEY}1", "value": "yes"}]
        simulated = await stage.post("/v1/simulate", {"placement": {"ref": "huge"}, "edits": edits})
        row = await stage.get("/v1/clusters/ams-1/placements")
        matrix = await stage.get("/v1/matrix?placement=huge")
        status = await stage.get("/v1/status")

    answers = (why, text, why_not, simulated, row, matrix, status)
    assert [answer.status_code for answer in answers] == [200] * len(answers), [answer.text[:300] for answer in answers]
    assert len(deciding) == 1
    assert explaining
    assert threading.get_ident() not in deciding | explaining
    assert why.json()["fixesTruncated"] is True
    assert matrix.json()["labels"] == {}
    assert passed["checkpoint"] == 2 * SIZE  # as labels that it reads, and to choose those that are shown


@alone
async def test_what_requests_do_on_the_event_loop_has_precedence_over_evaluations_in_threads(stage: Stage) -> None:
    precedence = stage.app.state.shared.backend.evaluator.precedence
    evaluate, claimed, pausing = DecisionEvaluator._evaluate, dict[str, bool](), set[str]()

    def evaluate_noted(evaluator: DecisionEvaluator, placement: LivePlacement, *args: Any) -> EvaluatedDecision:
        if placement.key == "huge":
            precedence.wait(SECONDS_TO_HAPPEN)  # until its request waits for this thread
        claimed[placement.key] = precedence.is_claimed
        return evaluate(evaluator, placement, *args)

    await stage.world.place("huge", a_large_policy(SIZE))
    await stage.world.soon_scheduled("huge", status="False")
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(DecisionEvaluator, "_evaluate", evaluate_noted)
        for name in ("web", "huge"):
            assert (await stage.post("/v1/simulate", {"placement": {"ref": name}})).status_code == 200
    assert claimed == {"web": True, "huge": False}

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(Precedence, "is_claimed", True)
        patching.setattr(Precedence, "wait", lambda *_: pausing.add(threading.current_thread().name))
        for name in ("web", "huge"):
            edits = [{"op": "setCount", "value": 1}]
            simulated = await stage.post("/v1/simulate", {"placement": {"ref": name}, "edits": edits})
            assert simulated.status_code == 200, simulated.text

    assert pausing == {"evaluations_0", "large-evaluations_0"}


@alone
async def test_a_policy_that_was_never_decided_is_explained_apart_from_the_event_loop(stage: Stage) -> None:
    """Without a policy snapshot only the length of the placement tells how large it is."""
    backend = stage.app.state.shared.backend
    await stage.world.place("huge", a_large_policy(SIZE))
    await stage.world.soon_scheduled("huge", status="False")
    placement = backend.live.get_placement("huge")
    early = type(placement)("huge", placement.placement, None, ())

    assert placement.is_larger(SIZE - 1)
    assert not placement.is_larger(10 * SIZE)
    assert early.is_larger(SIZE // 2)
    with observed_threads() as explaining:
        async with backend.evaluator.admit("someone"):
            evaluated = await backend.evaluator.evaluate_live(early)

    assert evaluated.is_large
    assert explaining
    assert threading.get_ident() not in explaining


@alone
async def test_a_large_proposal_is_read_in_pieces_and_apart_from_the_event_loop(stage: Stage) -> None:
    document = a_large_proposal("huge")
    await stage.world.place("huge", document["spec"]["policy"])
    await stage.world.soon_scheduled("huge", status="False")
    proposed = list[tuple[int, int]]()

    def propose(*args: Any) -> PolicySnapshot:
        proposed.append((threading.get_ident(), gc.get_threshold()[0]))
        return propose_snapshot(*args)

    freed = list[object]()
    with pytest.MonkeyPatch.context() as patching:
        decoded = note_pieces(patching)
        patching.setattr(proposed_snapshots, "propose_snapshot", propose)
        for module in (evaluation, simulate):
            patching.setattr(module, "free_later", lambda *roots: freed.extend(roots))
        simulated = await stage.post("/v1/simulate", {"placement": document})
        proposal = [*freed]
        asked = await stage.post("/v1/simulate", {"placement": {"ref": "huge"}})

    assert simulated.status_code == 200, simulated.text
    assert sum(decoded) > 3 * LARGE_BODY, "the body, the placement and its snapshot"
    assert max(decoded) < LARGE_BODY / 2
    ((thread, new_objects),) = proposed
    assert thread != threading.get_ident()
    assert [type(root) for root in proposal] == [PolicySnapshot, tuple, tuple, dict]
    assert asked.status_code == 200, asked.text
    assert freed == proposal, "the hub's own stay"
    assert new_objects >= 500_000, "to visit a large policy takes as long as to decode it"


def a_large_proposal(name: str) -> dict[str, Any]:
    values = [f"value-{number}" for number in range(LARGE_BODY // len('"value-10000",'))]
    terms = [{"labelSelector": {"matchExpressions": [{"key": KEY, "operator": "In", "values": values}]}}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}
    policy = {"placementType": "PickN", "numberOfClusters": 2, "affinity": {"clusterAffinity": required}}
    scope = CLUSTER_SCOPED.placement
    return {
        "apiVersion": scope.api_version,
        "kind": scope.kind,
        "metadata": {"name": name},
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace"}], "policy": policy},
    }


@staged
async def test_a_small_policy_is_not_worth_a_thread(stage: Stage) -> None:
    backend = stage.app.state.shared.backend
    placement = backend.live.get_placement("web")
    async with backend.evaluator.admit("someone"):
        evaluated = await backend.evaluator.evaluate_live(placement)

    assert not evaluated.is_large


@staged
async def test_what_is_simulated_is_encoded_apart_from_the_event_loop(stage: Stage) -> None:
    threads: list[int] = []

    def encode_noted(*args: Any, **more: Any) -> EncodedAnswer:
        threads.append(threading.get_ident())
        return encode_answer(*args, **more)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(request_context, "encode_answer", encode_noted)
        answer = await stage.post("/v1/simulate", {"placement": {"ref": "web"}})

    assert answer.status_code == 200
    assert len(threads) == 1
    assert threading.get_ident() not in threads


@staged
async def test_fixes_are_searched_apart_from_the_event_loop_for_small_policies_too(stage: Stage) -> None:
    """Of the present state, be it explained by the record or by itself."""
    threads: list[int] = []

    def find_noted(*args: Any, **more: Any) -> Fixes:
        threads.append(threading.get_ident())
        return find_fixes(*args, **more)

    async def does_not_describe(*_: Any) -> bool:
        return False

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(service, "find_fixes", find_noted)
        assert (await stage.get("/v1/placements/-/big/why?limit=4")).status_code == 200
        patching.setattr(service, "_describes_present", does_not_describe)
        assert (await stage.get("/v1/placements/-/big/why?limit=3")).status_code == 200

    assert len(threads) == 2
    assert threading.get_ident() not in threads


@alone
async def test_small_questions_do_not_wait_for_large_ones(stage: Stage) -> None:
    may_read, reading = threading.Event(), threading.Event()
    read = LabelTest.rows

    def read_when_told(test: LabelTest, frame: Frame) -> int:
        if test.key.startswith(KEY):
            reading.set()
            may_read.wait()
        return read(test, frame)

    await stage.world.place("huge", a_large_policy(SIZE))
    await stage.world.soon_scheduled("huge", status="False")
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(LabelTest, "rows", read_when_told)
        large = asyncio.create_task(stage.get("/v1/placements/-/huge/why?fixes=deep"))
        try:
            assert await asyncio.to_thread(reading.wait, SECONDS_TO_HAPPEN)
            proposed = {**await stage.world.placement("web"), "status": {}}
            async with asyncio.timeout(SECONDS_TO_HAPPEN):
                small = [
                    await stage.get("/v1/placements/-/web/why"),
                    await stage.get("/v1/clusters/ams-1/why-not?placement=web"),
                    await stage.post("/v1/simulate", {"placement": {"ref": "web"}}),
                    await stage.post("/v1/simulate", {"placement": proposed}),
                    await stage.get("/v1/matrix?placement=web"),
                ]
            assert not large.done()
        finally:
            may_read.set()

        assert [answer.status_code for answer in small] == [200] * len(small), [each.text[:300] for each in small]
        assert (await large).status_code == 200
