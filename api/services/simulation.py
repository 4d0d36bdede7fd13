"""What if: one question with changes, about a placement as it is, as it was, or as it might be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from api.auth.access import Sight, on_cluster, on_placement
from api.http.problems import refused, unprocessable
from api.http.request_context import Asked
from api.live.evaluation import Evaluated, computed
from api.models import SimulateAnswer, SimulateRequest
from api.services.proposed import first_snapshot, identified, proposed_snapshot
from fleet.errors import InputError, InvalidKey
from fleet.explain.answer.answer import AnswerContext
from fleet.explain.answer.simulate import simulate
from fleet.explain.fixes.fixes import find_fixes
from fleet.explain.whatif.edits import Edit, list_clusters, parse_edits, scope_of
from fleet.explain.whatif.impact import Impact, compute_impact, redact_impact
from fleet.explain.whatif.scenario import Scenario
from fleet.kube.resource import join_key
from fleet.kube.scopes import parse_key

CURRENT: Final = "current"
_MOST_EDITS: Final = 1000
_MOST_KEYS: Final = 200
"""Of labels and properties that a policy asks for: each is looked up on every cluster, while everybody else waits."""
_IMPACT_SECONDS: Final = 5.0


def checked(document: dict[str, Any]) -> None:
    """What would be refused in words of its own: edits by their operation, scenarios because there are none yet."""
    if "steps" in document:
        raise unprocessable(
            "steps",
            None,
            "scenarios in steps cannot be simulated yet",
            "ask one question: leave out steps and send edits",
        )
    edits = document.get("edits", [])
    if isinstance(edits, list) and len(edits) > _MOST_EDITS:
        raise unprocessable("edits", len(edits), f"there are more than {_MOST_EDITS} edits", "send fewer")
    parse_edits(edits)
    _check_keys("placement", _policy_in(document.get("placement")))
    _check_keys("edits", [one for one in edits if one["op"] == "patch"])


def _policy_in(placement: Any) -> Any:
    spec = placement.get("spec") if isinstance(placement, dict) else None
    return spec.get("policy") if isinstance(spec, dict) else None


def _check_keys(field: str, policy: Any) -> None:
    count = _keys_in(policy)
    if count > _MOST_KEYS:
        raise unprocessable(
            field,
            count,
            f"a policy that asks for more than {_MOST_KEYS} labels and properties is not simulated here",
            "ask for fewer, or use fleet simulate with files",
        )


def _keys_in(value: Any, field: str = "") -> int:
    if field == "matchLabels" and isinstance(value, dict):
        return len(value)
    if field == "matchExpressions" and isinstance(value, list):
        return len(value)
    if isinstance(value, dict):
        return sum(_keys_in(inner, name) for name, inner in value.items())
    if isinstance(value, list):
        return sum(map(_keys_in, value))
    return int(field in ("topologyKey", "metricName", "name"))


async def simulated(asked: Asked, request: SimulateRequest) -> SimulateAnswer:
    namespace, name = _asked_about(request)
    await asked.require(on_placement("create", namespace))
    if "ref" in request.placement:
        await asked.require(on_placement("get", namespace, name))
    if request.impact:
        await asked.require_operator()
    key = join_key(namespace, name)
    asked.require_synced()
    async with asked.serving.evaluations.one():
        evaluated = await _begun(asked, request, key)
        named = tuple(_named(request, evaluated))
        await require_named(asked, named)
        sight = await asked.sight((*evaluated.cluster_names, *named))
        found = await computed(evaluated, asked.serving.evaluations, lambda: _found(request, evaluated, sight))
        if request.impact:
            found = msgspec.structs.replace(found, impact=await _impact(asked, request.edits, sight))
    return found


def _asked_about(request: SimulateRequest) -> tuple[str, str]:
    if "ref" not in request.placement:
        return identified(request.placement)
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


# --- where it begins --------------------------------------------------------------------------------------------------


async def _begun(asked: Asked, request: SimulateRequest, key: str) -> Evaluated:
    if request.from_ != CURRENT:
        return await _recorded(asked, request, key)
    if "ref" in request.placement:
        subject = asked.subject(key)
        snapshot = subject.snapshot.view if subject.snapshot else first_snapshot(subject.placement)
        async with asked.serving.evaluations.turn():
            scenario = asked.live.world_of(subject, snapshot)
            return Evaluated(scenario, scenario.decide())
    async with asked.serving.evaluations.turn():
        scenario = Scenario.build(
            clusters=asked.live.frame(),
            snapshot=proposed_snapshot(request.placement),
            bindings=(),
            profile=asked.live.framework.profile,
            now=asked.live.now(),
        )
        return Evaluated(scenario, scenario.decide())


async def _recorded(asked: Asked, request: SimulateRequest, key: str) -> Evaluated:
    attempt_id = request.from_
    if attempt_id == "snapshot":
        raise unprocessable(
            "from",
            attempt_id,
            "uploaded snapshots are simulated offline",
            "use fleet simulate with the snapshot's file",
        )
    if "ref" not in request.placement:
        raise unprocessable("from", attempt_id, "an attempt belongs to a placement that exists", 'send {"ref": NAME}')
    attempt = await asked.remembered(lambda history: history.attempt(attempt_id))
    if attempt is None or attempt.key != key:
        raise unprocessable(
            "from",
            attempt_id,
            f"attempt {attempt_id} of placement {key} is not on record",
            "use the id of an attempt of this placement, or current",
        )
    found = await asked.serving.recollections.of(attempt, asked.history(), asked.serving.evaluations)
    if found is None:
        raise refused(
            410,
            f"what attempt {attempt_id} was decided on is not kept ({attempt.inputs})",
            object=f"attempt {attempt_id}",
            field="from",
            next="use an attempt whose `inputs` are kept, or current",
        )
    return found


# --- what may be named ------------------------------------------------------------------------------------------------


async def require_named(asked: Asked, names: Iterable[str]) -> None:
    """The right to read all these clusters, whether they exist or not, and also where they are to be new ones: any
    difference in the answers would tell which there are."""
    if await asked.sees_all_clusters():
        return
    for name in names:
        await asked.require(on_cluster(name))


def named_by(edits: Iterable[Edit]) -> Iterator[str]:
    for edit in edits:
        yield from list_clusters(edit)


def _named(request: SimulateRequest, evaluated: Evaluated) -> Iterator[str]:
    """A placement that the hub does not have yet lists clusters on behalf of the caller."""
    yield from named_by(request.edits)
    if request.cluster:
        yield request.cluster
    policy = evaluated.world.snapshot.spec.policy
    if "ref" not in request.placement and policy is not None:
        yield from filter(None, policy.cluster_names)


# --- what comes out ---------------------------------------------------------------------------------------------------


def _found(request: SimulateRequest, evaluated: Evaluated, sight: Sight) -> SimulateAnswer:
    options: dict[str, Any] = {
        "everything": request.explain == "all",
        "limit": request.limit,
        "cluster": request.cluster,
        "context": AnswerContext(evaluated_on="recorded" if evaluated.attempt else "current"),
    }
    found = simulate(
        evaluated.world,
        request.edits,
        with_comparison=request.compare,
        redact=sight.hidden,
        fix=None if request.fixes == "none" else partial(find_fixes, mode=request.fixes),
        **options,
    )
    return SimulateAnswer(
        from_=request.from_, answer=found.answer, compare=found.compare, would_run=found.would_run, impact=None
    )


async def _impact(asked: Asked, edits: Sequence[Edit], sight: Sight) -> Impact:
    """Which placements would move. Operators may ask; what they may not read is not named all the same."""
    for position, edit in enumerate(edits):
        if scope_of(edit) == "placement":
            raise InputError("impact takes edits of clusters only", field=f"edits[{position}].op", value=edit.op)
    clock = asked.live.clock
    async with asked.serving.evaluations.turn():
        deadline = clock.elapsed() + _IMPACT_SECONDS
        worlds = asked.live.worlds(asked.live.placement_keys())
        found = compute_impact(
            asked.live.frame(),
            (one.question for one in worlds),
            edits,
            now=asked.live.now(),
            hidden=sight.hidden,
            expired=lambda: clock.elapsed() > deadline,
        )
    seen = await asked.placements_seen(one.key for one in found.moved)
    return redact_impact(found, hides_cluster=sight.hides, hides_placement=lambda key: key not in seen)
