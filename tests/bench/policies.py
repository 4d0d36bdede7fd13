"""The policies that are measured, as the policy snapshots a scheduler would read.

Each is parameterised by `tier`, a label value it prefers. Repetitions take the tiers in turn, so that nothing can be
quick by remembering the previous answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import PlacementRequest, compile_request
from fleet.model.views import PolicySnapshot
from fleet.snapshot import Frame
from tests.bench.fleets import CORE_COST, HOST, NODE_COUNT, NOW

Json = dict[str, Any]

TIERS: Final = range(5)
RECORDED_PICKS: Final = (10, 100)

_ALLOCATABLE_MEMORY: Final = "resources.kubernetes-fleet.io/allocatable-memory"
_AVAILABLE_CPU: Final = "resources.kubernetes-fleet.io/available-cpu"


# --- the recorded policies ------------------------------------------------------------------------------------------


def plain_policy(picks: int, tier: int, *, weight: int = 20) -> Json:
    """Half of the fleet qualifies; one label and one property decide among them."""
    preferred = [_preferring_label(weight, tier=str(tier)), _preferring_value(50, NODE_COUNT, "Ascending")]
    return _pick_n(picks, required=[_labelled(env="prod")], preferred=preferred)


def spread_policy(picks: int, tier: int) -> Json:
    constraints = [_spread("region", 1, "DoNotSchedule"), _spread("zone", 2, "ScheduleAnyway")]
    return {**plain_policy(picks, tier), "topologySpreadConstraints": constraints}


def recorded_policies() -> list[Json]:
    """The twenty whose picks are known."""
    forms = (("spread", spread_policy), ("plain", plain_policy))
    return [
        {
            "id": f"{form}-n{picks}-tier{tier}",
            "spread": form == "spread",
            "n": picks,
            "tier": tier,
            "policySnapshot": policy_snapshot(f"{form}-n{picks}-tier{tier}", policy(picks, tier)),
        }
        for form, policy in forms
        for picks in RECORDED_PICKS
        for tier in TIERS
    ]


# --- harder ones ----------------------------------------------------------------------------------------------------


def hard_policy(picks: int, tier: int, *, keys: tuple[str, str] = ("region", "zone")) -> Json:
    """Three alternatives of what is required, five preferences, two constraints that must hold."""
    required = [
        {**_labelled(env="prod"), **_with_values((NODE_COUNT, "Ge", "20"))},
        {**_label_in("tier", str(tier), str((tier + 1) % 5)), **_with_values((CORE_COST, "Lt", "0.5"))},
        {**_label_not_in("region", "r7"), **_with_values((_ALLOCATABLE_MEMORY, "Gt", "64Gi"))},
    ]
    preferred = [
        _preferring_label(20, tier=str(tier)),
        _preferring_label(-10, env="canary"),
        _preferring_value(50, NODE_COUNT, "Ascending"),
        _preferring_value(30, CORE_COST, "Descending"),
        _preferring_value(40, _AVAILABLE_CPU, "Descending", env="prod"),
    ]
    constraints = [_spread(key, skew, "DoNotSchedule") for skew, key in enumerate(keys, start=1)]
    return {**_pick_n(picks, required=required, preferred=preferred), "topologySpreadConstraints": constraints}


def cells_policy(picks: int, tier: int) -> Json:
    """Constraints over keys that divide the fleet into 120 parts instead of 24."""
    return hard_policy(picks, tier, keys=("zone", "tier"))


def hosts_policy(picks: int, tier: int) -> Json:
    """A constraint over a key that every cluster has another value of."""
    return hard_policy(picks, tier, keys=("region", HOST))


def everywhere_policy(picks: int, tier: int) -> Json:
    """PickAll: half of the fleet, whatever `picks` says."""
    del picks, tier
    return {"placementType": "PickAll", "affinity": _affinity([_labelled(env="prod")], [])}


# --- parts ----------------------------------------------------------------------------------------------------------


def _pick_n(picks: int, *, required: Sequence[Json], preferred: Sequence[Json]) -> Json:
    return {"placementType": "PickN", "numberOfClusters": picks, "affinity": _affinity(required, preferred)}


def _affinity(required: Sequence[Json], preferred: Sequence[Json]) -> Json:
    terms: Json = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": required}}
    if preferred:
        terms["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"clusterAffinity": terms}


def _labelled(**labels: str) -> Json:
    return {"labelSelector": {"matchLabels": labels}}


def _label_in(key: str, *values: str) -> Json:
    return {"labelSelector": {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}}


def _label_not_in(key: str, *values: str) -> Json:
    return {"labelSelector": {"matchExpressions": [{"key": key, "operator": "NotIn", "values": values}]}}


def _with_values(*comparisons: tuple[str, str, str]) -> Json:
    expressions = [{"name": name, "operator": operator, "values": [value]} for name, operator, value in comparisons]
    return {"propertySelector": {"matchExpressions": expressions}}


def _preferring_label(weight: int, **labels: str) -> Json:
    return {"weight": weight, "preference": _labelled(**labels)}


def _preferring_value(weight: int, name: str, order: str, **labels: str) -> Json:
    sorter = {"propertySorter": {"name": name, "sortOrder": order}}
    return {"weight": weight, "preference": {**(_labelled(**labels) if labels else {}), **sorter}}


def _spread(key: str, skew: int, when: str) -> Json:
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when}


# --- as inputs ------------------------------------------------------------------------------------------------------


def policy_snapshot(name: str, policy: Json) -> Json:
    labels = {"parent-CRP": name, "is-latest-snapshot": "true", "policy-index": "0"}
    annotations = {"CRP-generation": "1", "number-of-clusters": str(policy.get("numberOfClusters", 0))}
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterSchedulingPolicySnapshot",
        "metadata": {
            "name": f"{name}-0",
            "generation": 1,
            "labels": {f"kubernetes-fleet.io/{key}": value for key, value in labels.items()},
            "annotations": {f"kubernetes-fleet.io/{key}": value for key, value in annotations.items()},
        },
        "spec": {"policyHash": "aA==", "policy": policy},
    }


def request_of(snapshot: Json) -> PlacementRequest:
    uid = f"{snapshot['metadata']['name']}-uid"
    return compile_request(msgspec.convert(snapshot, PolicySnapshot), placement_uid=uid)


def question(frame: Frame, snapshot: Json, profile: CompiledProfile) -> DecisionInput:
    """A placement's first decision: no bindings yet."""
    return DecisionInput(frame=frame, request=request_of(snapshot), bindings=(), profile=profile, now=NOW)
