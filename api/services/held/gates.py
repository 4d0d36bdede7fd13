"""Gates of placements, cleared by those who may change their options."""

from __future__ import annotations

from api.auth.access import options_access
from api.auth.permissions import Permissions
from api.http.problems import not_there, refusal
from api.live.backend import Backend
from api.waiting_models import ClearedGate
from fleet.errors import Conflict, Invalid
from fleet.model.keys import GATES
from fleet.model.placement_key import PlacementKey


async def clear_gate(backend: Backend, permissions: Permissions, placement: str, gate: str) -> ClearedGate:
    key = PlacementKey.parse(placement)
    placed = backend.live.get_placement(placement)
    await permissions.require(options_access("update", key.namespace, key.name))
    gates = () if placed.options is None else placed.options.view.spec.gates
    names = [each.name for each in gates]
    if gate not in names:
        annotation = placed.placement.view.metadata.annotation(GATES)
        if annotation and gate in (name.strip() for name in annotation.split(",")):
            raise refusal(
                409,
                f"gate {gate} stands in the annotation {GATES} of placement {placement}",
                object=placement,
                field="gate",
                value=gate,
                next=f"remove it there: `kubectl annotate … {GATES}-`",
            )
        left = f"it has {', '.join(names)}" if names else "it has none"
        next = "GET /v1/placements/{ns}/{name}/why tells what the placement waits for"
        raise not_there(f"placement {placement} has no gate {gate}; {left}", next, object=f"placement {placement}")
    position = names.index(gate)
    operations = [
        {"op": "test", "path": f"/spec/gates/{position}/name", "value": gate},
        {"op": "remove", "path": f"/spec/gates/{position}"},
    ]
    try:
        changed = await backend.live.patch_options(key, operations)
    except (Conflict, Invalid) as error:
        raise refusal(
            409, f"the options of {placement} were changed meanwhile", object=placement, next="try again"
        ) from error
    return ClearedGate(remaining=tuple(each.name for each in changed.view.spec.gates))
