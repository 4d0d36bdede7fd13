"""Whole scenarios: a fleet, a policy snapshot, bindings, a published status and settings."""

from __future__ import annotations

from tests.oracle.documents import COUNT_ANNOTATION, GENERATION_ANNOTATION, PARENT_LABEL, Json, labels_of, name_of
from tests.oracle.reference import decide_scenario
from tests.vectors.generation import vocabulary as words
from tests.vectors.generation.bindings import BindingMaker, strangers
from tests.vectors.generation.clusters import random_clusters
from tests.vectors.generation.dice import Dice
from tests.vectors.generation.policies import random_policy, spoil

SIZES = {"none": 1.0, "few": 60.0, "some": 30.0, "many": 5.0, "hundreds": 0.5}
RANGES = {"none": (0, 0), "few": (1, 10), "some": (11, 30), "many": (31, 100), "hundreds": (150, 400)}


def random_scenario(seed: int) -> Json:
    """The same scenario for the same seed, on every machine."""
    dice = Dice(seed)
    namespace = dice.choice(words.NAMESPACES) if dice.chance(0.35) else ""
    clusters = random_clusters(dice, count=dice.randint(*RANGES[dice.weighed(SIZES)]), namespaces=bool(namespace))
    names = [name_of(cluster) for cluster in clusters]
    snapshot = random_snapshot(dice, random_policy(dice, names), namespace=namespace, fleet_size=len(clusters))
    maker = maker_for(dice, snapshot, namespace)
    bindings = maker.bindings(names) if dice.chance(0.7) else []
    scenario = {
        "now": words.NOW,
        "options": random_options(dice, snapshot["spec"].get("policy") or {}),
        "memberClusters": clusters,
        "policySnapshot": snapshot,
        "bindings": bindings + (strangers(dice, maker, names) if dice.chance(0.2) else []),
        "placementUid": maker.uid,
    }
    aim_number(dice, scenario)
    add_history(dice, scenario)
    return scenario


def random_snapshot(dice: Dice, policy: Json | None, *, namespace: str, fleet_size: int) -> Json:
    placement = dice.choice(words.PLACEMENTS)
    spec: Json = {"policyHash": "aGFzaA=="}
    annotations = {GENERATION_ANNOTATION: str(dice.randint(1, 9))}
    if policy is not None:
        if dice.chance(0.03):
            spoil(dice, policy)
        spec["policy"] = policy
        if policy.get("placementType") == "PickN":
            policy["numberOfClusters"] = dice.randint(0, 5)
            most = fleet_size + 2 if dice.chance(0.2) else min(fleet_size, 25)
            annotations[COUNT_ANNOTATION] = str(dice.randint(0, most))
    for key in (GENERATION_ANNOTATION, COUNT_ANNOTATION):
        if dice.chance(0.005):
            annotations[key] = dice.choice(("", "-1", "two", "1.0"))
        elif dice.chance(0.003):
            annotations.pop(key, None)
    metadata = {
        "name": f"{placement}-{dice.randint(0, 3)}",
        "generation": dice.randint(1, 4),
        "labels": {PARENT_LABEL: placement, "kubernetes-fleet.io/is-latest-snapshot": "true"},
        "annotations": annotations,
    }
    kind = "SchedulingPolicySnapshot" if namespace else "ClusterSchedulingPolicySnapshot"
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": kind,
        "metadata": {**metadata, "namespace": namespace} if namespace else metadata,
        "spec": spec,
    }


def maker_for(dice: Dice, snapshot: Json, namespace: str) -> BindingMaker:
    policy = snapshot["spec"].get("policy") or {}
    return BindingMaker(
        dice,
        placement=labels_of(snapshot)[PARENT_LABEL],
        namespace=namespace,
        uid=f"uid-{dice.randint(0, 999)}",
        snapshot=name_of(snapshot),
        scored=policy.get("placementType") != "PickFixed",
    )


def random_options(dice: Dice, policy: Json) -> Json:
    options: Json = {
        "heartbeatTimeoutSeconds": dice.weighed({300: 8, 60: 1, 600: 1}),
        "healthTimeoutSeconds": dice.weighed({300: 8, 60: 1, 600: 1}),
        "unselectedDecisions": dice.weighed({20: 6, 0: 1, 1: 1, 3: 2, 1000: 1}),
    }
    if dice.chance(0.4):
        options["retentionSeconds"] = dice.choice((0, 0, 900, 3600))
    if dice.chance(0.1):
        options["maxDecisions"] = dice.choice((1, 4, 20))
    if dice.chance(0.2):
        options["spreadMissingKey"] = "Exclude"
    if dice.chance(0.2):
        options["spreadUsableDomainsOnly"] = True
    if dice.chance(0.3):
        options["downscaleOrder"] = "SpreadAware"
    # with spreading it is open whether the population is that of the first step or of each
    if dice.chance(0.2) and not policy.get("topologySpreadConstraints"):
        options["sorterPopulation"] = "PassedClusters"
    return options


def aim_number(dice: Dice, scenario: Json) -> None:
    """Every other PickN that has bindings gets a number close to what is there: satisfied, or slightly too many."""
    annotations = scenario["policySnapshot"]["metadata"]["annotations"]
    current = name_of(scenario["policySnapshot"])
    specs = [each["spec"] for each in scenario["bindings"]]
    active = {
        each["targetCluster"]
        for each in specs
        if each["state"] in ("Scheduled", "Bound") and each["schedulingPolicySnapshotName"] == current
    }
    if annotations.get(COUNT_ANNOTATION, "").isdigit() and active and dice.chance(0.5):
        annotations[COUNT_ANNOTATION] = str(max(0, len(active) + dice.choice((-3, -2, -1, -1, 0, 0, 0, 1))))


# -- what was published before ---------------------------------------------------------------------------------------


def add_history(dice: Dice, scenario: Json) -> None:
    """Nothing, the outcome of this very cycle (then nothing is to be written), a near miss, or leftovers."""
    match dice.weighed({"nothing": 5, "outcome": 2, "near miss": 1, "settled": 1, "leftovers": 1}):
        case "outcome":
            publish_outcome(scenario)
        case "near miss":
            publish_outcome(scenario)
            disturb(dice, scenario["policySnapshot"])
        case "settled":
            settle(scenario)
        case "leftovers":
            publish_leftovers(dice, scenario)
    reword_stop(scenario["policySnapshot"])


def publish_outcome(scenario: Json) -> None:
    result = decide_scenario(scenario)
    if result.condition is not None:
        scenario["policySnapshot"]["status"] = {
            "observedCRPGeneration": result.observed_generation,
            "conditions": [result.condition],
            "targetClusters": result.decisions,
        }


def reword_stop(snapshot: Json) -> None:
    """Engines word the cause of a stop differently, so none of them may find its own words published already."""
    for condition in (snapshot.get("status") or {}).get("conditions") or []:
        if condition["message"].startswith("scheduling stopped: "):
            condition["message"] = "scheduling stopped: an earlier cause"


def settle(scenario: Json) -> None:
    """As if the cycle had run already: its bindings and its status are there."""
    foreign = [each for each in scenario["bindings"] if not belongs(each, scenario["policySnapshot"])]
    result = decide_scenario(scenario)
    publish_outcome(scenario)
    scenario["bindings"] = result.documents + foreign


def belongs(binding: Json, snapshot: Json) -> bool:
    same_namespace = binding["metadata"].get("namespace", "") == snapshot["metadata"].get("namespace", "")
    return same_namespace and labels_of(binding)[PARENT_LABEL] == labels_of(snapshot)[PARENT_LABEL]


def disturb(dice: Dice, snapshot: Json) -> None:
    status = snapshot.get("status")
    if status is None:
        return
    match dice.choice(("generation", "condition", "observed", "order", "score", "entry", "other condition")):
        case "generation":
            status["observedCRPGeneration"] += 1
        case "condition":
            status["conditions"][0][dice.choice(("status", "reason", "message"))] = "Unknown"
        case "observed":
            status["conditions"][0]["observedGeneration"] += dice.choice((-1, 1))
        case "order":
            dice.shuffle(status["targetClusters"])
        case "score" if status["targetClusters"]:
            dice.choice(status["targetClusters"]).pop("clusterScore", None)
        case "entry" if status["targetClusters"]:
            status["targetClusters"].pop()
        case "other condition":
            status["conditions"].insert(0, {"type": "Odd", "status": "True", "reason": "Odd", "message": ""})


def publish_leftovers(dice: Dice, scenario: Json) -> None:
    """Entries on clusters that are here or not, as an earlier cycle may have left them."""
    names = [name_of(cluster) for cluster in scenario["memberClusters"]] + ["gone"]
    entries: list[Json] = []
    for name in dice.some(names, most=8):
        entry: Json = {"clusterName": name, "selected": dice.chance(0.2), "reason": f"left over from {name}"}
        if dice.chance(0.5):
            entry["clusterScore"] = {"affinityScore": dice.randint(-3, 3), "priorityScore": dice.randint(-3, 3)}
        entries.append(entry)
    condition = {"type": "Scheduled", "status": "False", "reason": "SchedulingPolicyUnfulfilled", "message": "before"}
    scenario["policySnapshot"]["status"] = {
        "observedCRPGeneration": dice.randint(0, 3),
        "conditions": [{**condition, "observedGeneration": 1, "lastTransitionTime": words.NOW}],
        "targetClusters": entries,
    }
