"""Simulation: edits applied to a present, recorded or proposed placement, and the decision that follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from api.auth.permissions import Permissions, Visibility
from api.http.problems import refusal, unprocessable
from api.live.backend import Backend
from api.live.evaluation import EvaluatedDecision
from api.live.proposed_snapshots import parse_identity, read_proposed_metadata
from api.models import SimulateAnswer, SimulateRequest
from api.services.held.proposals import ProposalHolds, find_proposal_holds
from fleet.checkpoint import check
from fleet.errors import InputError, InvalidKey
from fleet.explain.answer.attempt import UNKNOWN
from fleet.explain.answer.simulate import simulate
from fleet.explain.fixes.fixes import find_fixes
from fleet.explain.whatif.edits import Edit, list_clusters, parse_edits, scope_of
from fleet.explain.whatif.impact import Impact, compute_impact, redact_impact
from fleet.kube.scopes import parse_key

CURRENT: Final = "current"
_MOST_EDITS: Final = 1000
_MOST_KEYS: Final = 200
"""Labels and properties of a policy: each is read from every cluster while other requests wait."""
_IMPACT_SECONDS: Final = 5.0


def check_document(document: dict[str, Any]) -> None:
    """Refuses what needs a specific message: edits by their operation, and policies that are too large."""
    if is_scenario(document):
        return
    edits = document.get("edits", [])
    if isinstance(edits, list) and len(edits) > _MOST_EDITS:
        raise unprocessable("edits", len(edits), f"there are more than {_MOST_EDITS} edits", "send fewer")
    parse_edits(edits)
    _check_keys("placement", _get_policy(document.get("placement")))
    _check_keys("edits", [edit for edit in edits if edit["op"] == "patch"])


def is_scenario(document: dict[str, Any]) -> bool:
    return "steps" in document


def _get_policy(placement: Any) -> Any:
    spec = placement.get("spec") if isinstance(placement, dict) else None
    return spec.get("policy") if isinstance(spec, dict) else None


def _check_keys(field: str, policy: Any) -> None:
    count = _count_keys(policy)
    if count > _MOST_KEYS:
        raise unprocessable(
            field,
            count,
            f"a policy that asks for more than {_MOST_KEYS} labels and properties is not simulated here",
            "ask for fewer, or use fleet simulate with files",
        )


def _count_keys(value: Any, field: str = "") -> int:
    if field == "matchLabels" and isinstance(value, dict):
        return len(value)
    if field == "matchExpressions" and isinstance(value, list):
        return len(value)
    if isinstance(value, dict):
        check()
        return sum(_count_keys(inner, name) for name, inner in value.items())
    if isinstance(value, list):
        return sum(_count_keys(inner) for inner in value if isinstance(inner, dict | list))
    return int(field in ("topologyKey", "metricName", "name"))


async def simulate_placement(
    backend: Backend, permissions: Permissions, key: str, request: SimulateRequest
) -> SimulateAnswer:
    backend.live.require_synced()
    await permissions.require_clusters([*collect_edited_clusters(request.edits), *filter(None, [request.cluster])])
    reviewed = frozenset(backend.live.caches.clusters)
    visibility = await permissions.load_visibility(reviewed)
    async with backend.evaluator.admit(permissions.caller.name):
        evaluated = await _evaluate_origin(backend, key, request)
        names = _collect_names(request, evaluated)
        await permissions.require_clusters(names)
        visibility = await permissions.extend_visibility(visibility, reviewed, evaluated.cluster_names, names)
        evaluated = await backend.evaluator.answer_edited(evaluated, request.edits, visibility.redact)
        holds = await _find_proposal_holds(backend, key, request)
        async with evaluated.turn():
            answer = await evaluated.lane.thread.run(_simulate, request, evaluated, visibility, holds)
        if request.impact:
            impact = await _compute_impact(backend, permissions, request.edits, visibility)
            answer = msgspec.structs.replace(answer, impact=impact)
        if evaluated.lane.is_large and not refers_to_existing(request):
            evaluated.free_later()
    return answer


def parse_subject(request: SimulateRequest) -> tuple[str, str]:
    """Namespace and name of the placement that the request is about."""
    if "ref" not in request.placement:
        return parse_identity(request.placement)
    reference = request.placement["ref"]
    if not isinstance(reference, str) or len(request.placement) > 1:
        raise InputError(
            "should be a placement, as name or namespace/name, and nothing beside it", field="placement.ref"
        )
    try:
        namespace, name = parse_key(reference)
    except InvalidKey as error:
        raise InputError(str(error), field="placement.ref", value=reference) from error
    return namespace, name


def refers_to_existing(request: SimulateRequest) -> bool:
    return "ref" in request.placement


def is_about_existing(backend: Backend, key: str, request: SimulateRequest) -> bool:
    """Whether the answer tells where an existing placement runs."""
    return refers_to_existing(request) or backend.live.find_placement(key) is not None


# --- steps ------------------------------------------------------------------------------------------------------------


async def _evaluate_origin(backend: Backend, key: str, request: SimulateRequest) -> EvaluatedDecision:
    """The decision that the edits start from."""
    if request.from_ != CURRENT:
        return await _evaluate_attempt(backend, key, request)
    if refers_to_existing(request):
        return await backend.evaluator.evaluate_live(backend.live.get_placement(key))
    return await backend.evaluator.evaluate_proposed(request.placement, backend.live.find_placement(key))


async def _evaluate_attempt(backend: Backend, key: str, request: SimulateRequest) -> EvaluatedDecision:
    attempt_id = request.from_
    if attempt_id == "snapshot":
        raise unprocessable(
            "from",
            attempt_id,
            "uploaded snapshots are simulated offline",
            "use fleet simulate with the snapshot's file",
        )
    if not refers_to_existing(request):
        raise unprocessable("from", attempt_id, "an attempt belongs to a placement that exists", 'send {"ref": NAME}')
    attempt = await backend.history.call(backend.history.require().attempt, attempt_id)
    if attempt is None or attempt.key != key:
        raise unprocessable(
            "from",
            attempt_id,
            f"attempt {attempt_id} of placement {key} is not on record",
            "use the id of an attempt of this placement, or current",
        )
    evaluated = await backend.evaluator.evaluate_attempt(attempt)
    if evaluated is None:
        raise refusal(
            410,
            f"what attempt {attempt_id} was decided on is not kept ({attempt.inputs})",
            object=f"attempt {attempt_id}",
            field="from",
            next="use an attempt whose `inputs` are kept, or current",
        )
    return evaluated


async def _find_proposal_holds(backend: Backend, key: str, request: SimulateRequest) -> ProposalHolds:
    """None is needed of what is on record."""
    if request.from_ != CURRENT:
        return ProposalHolds()
    if refers_to_existing(request):
        return await find_proposal_holds(backend, backend.live.get_placement(key).placement.view.metadata)
    return await find_proposal_holds(backend, read_proposed_metadata(request.placement))


def _collect_names(request: SimulateRequest, evaluated: EvaluatedDecision) -> list[str]:
    """The clusters that the request names. A proposed placement lists clusters on behalf of the caller."""
    names = [*collect_edited_clusters(request.edits), *filter(None, [request.cluster])]
    policy = evaluated.scenario.snapshot.spec.policy
    if not refers_to_existing(request) and policy is not None:
        names.extend(filter(None, policy.cluster_names))
    return names


def collect_edited_clusters(edits: Iterable[Edit]) -> list[str]:
    return [name for edit in edits for name in list_clusters(edit)]


def _simulate(
    request: SimulateRequest, evaluated: EvaluatedDecision, visibility: Visibility, holds: ProposalHolds
) -> SimulateAnswer:
    simulated = simulate(
        evaluated.scenario,
        request.edits,
        with_comparison=request.compare,
        with_matrix=request.matrix,
        before=evaluated.before,
        redact=visibility.redact,
        fix=None if request.fixes == "none" else partial(find_fixes, mode=request.fixes),
        everything=request.explain == "all",
        limit=request.limit,
        cluster=request.cluster,
        describe=holds.build_context if evaluated.attempt is None else lambda _: UNKNOWN,
    )
    return SimulateAnswer(
        from_=request.from_,
        answer=simulated.answer,
        compare=simulated.compare,
        would_run=simulated.would_run,
        matrix=simulated.matrix,
        impact=None,
    )


async def _compute_impact(
    backend: Backend, permissions: Permissions, edits: Sequence[Edit], visibility: Visibility
) -> Impact:
    """Placements that would move. It is for operators, and contains only the names that they may read."""
    for position, edit in enumerate(edits):
        if scope_of(edit) == "placement":
            raise InputError("impact takes edits of clusters only", field=f"edits[{position}].op", value=edit.op)
    clock = backend.live.clock
    lane = backend.evaluator.lane(is_large=True)  # of all placements
    async with lane.turn():
        deadline = clock.monotonic() + _IMPACT_SECONDS
        placements = await backend.live.list_decided_placements()
        frame = backend.live.frame()
        try:
            computed = await lane.thread.run(
                compute_impact,
                frame,
                (backend.live.build_scenario(placement, frame).question for placement in placements),
                edits,
                now=backend.live.now(),
                hidden=visibility.redact,
                expired=lambda: clock.monotonic() > deadline,
            )
        finally:
            for placement in placements:
                backend.live.forget_if_deleted(placement)
    visible = await permissions.filter_placements(moved.key for moved in computed.moved)
    return redact_impact(computed, hides_cluster=visibility.hides, hides_placement=lambda key: key not in visible)
