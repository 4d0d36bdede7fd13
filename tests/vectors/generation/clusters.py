"""Random member clusters: mostly healthy, now and then with each of the things that can be wrong with one."""

from __future__ import annotations

import datetime
import functools

from tests.oracle.documents import Json, moment, rfc3339
from tests.vectors.generation import vocabulary as words
from tests.vectors.generation.dice import Dice
from tests.vectors.generation.quantities import UNREADABLE, any_value

# Around the timeouts in use (300 s, rarely 60 s and 600 s) and around the retention windows (900 s, rarely 3600 s).
AGES = (299, 300, 301, 330, 599, 600, 601, 899, 900, 901, 3599, 3600, 3601, 86_400)


def random_clusters(dice: Dice, *, count: int, namespaces: bool) -> list[Json]:
    numbers = dice.sample(range(count * 2), count)
    troubled = dice.choice((0.0, 0.0, 0.05, 0.15, 0.4))
    return [random_cluster(dice, name_of_number(dice, n), troubled=troubled, namespaces=namespaces) for n in numbers]


def name_of_number(dice: Dice, number: int) -> str:
    style = dice.weighed({"plain": 12, "dotted": 1, "long": 0.3})
    if style == "dotted":
        return f"c{number}.east.prod"
    return f"c{number}-with-a-name-longer-than-any-prefix" if style == "long" else f"c{number}"


def random_cluster(dice: Dice, name: str, *, troubled: float, namespaces: bool) -> Json:
    metadata: Json = {"name": name}
    if dice.chance(0.97):
        metadata["labels"] = {key: dice.choice(values) for key, values in words.LABELS.items() if dice.chance(0.85)}
    if dice.chance(troubled / 4):
        metadata["deletionTimestamp"] = ago(dice.randint(0, 600))
        metadata["finalizers"] = ["kubernetes-fleet.io/membercluster-finalizer"]
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": metadata,
        "spec": {"taints": random_taints(dice)} if dice.chance(0.3) else {},
        "status": random_status(dice, troubled=troubled, namespaces=namespaces),
    }


def random_taints(dice: Dice) -> list[Json]:
    taints = []
    for key in dice.some(words.TAINT_KEYS, most=2):
        taint = {"key": key, "effect": "NoSchedule"}
        if (value := dice.choice(words.TAINT_VALUES)) or dice.chance(0.5):
            taint["value"] = value
        taints.append(taint)
    return taints


def random_status(dice: Dice, *, troubled: float, namespaces: bool) -> Json:
    status: Json = {"agentStatus": random_agents(dice, troubled)}
    if dice.chance(troubled / 4):
        del status["agentStatus"]
    if dice.chance(0.9):
        status["properties"] = random_properties(dice)
    if dice.chance(0.9):
        status["resourceUsage"] = {usage: random_usage(dice) for usage in words.USAGES.values() if dice.chance(0.9)}
    conditions = [{"type": kind, "status": "False", "lastTransitionTime": ago(9)} for kind in ("Joined", "Healthy")]
    status["conditions"] = conditions if dice.chance(0.1) else []
    if namespaces or dice.chance(0.05):
        add_namespaces(dice, status)
    return status


def random_properties(dice: Dice) -> Json:
    properties = {name: {"value": str(any_value(dice))} for name in words.PROPERTIES if dice.chance(0.85)}
    if dice.chance(0.2):
        properties[words.UNREADABLE_PROPERTY] = {"value": dice.choice(UNREADABLE), "observationTime": ago(60)}
    return properties


def random_usage(dice: Dice) -> Json:
    return {name: any_value(dice, unreadable=0.02) for name in words.RESOURCES if dice.chance(0.85)}


def add_namespaces(dice: Dice, status: Json) -> None:
    state = dice.weighed({"True": 8, "False": 1, "Unknown": 1, "": 1})
    if state:
        status["conditions"].append({"type": "NamespaceCollectionSucceeded", "status": state, "reason": "Collected"})
    match dice.weighed({"listed": 8, "absent": 1, "null": 1}):
        case "listed":
            status["namespaces"] = {name: "work" for name in (*words.NAMESPACES, "other") if dice.chance(0.8)}
        case "null":
            status["namespaces"] = None


# -- agents ----------------------------------------------------------------------------------------------------------


def random_agents(dice: Dice, troubled: float) -> list[Json]:
    agent = random_agent(dice, troubled)
    if dice.chance(troubled / 6):
        agent["type"] = "ServiceExportImportAgent"
    others = [{"type": "ServiceExportImportAgent", "conditions": [], "lastReceivedHeartbeat": ago(1)}]
    return dice.sample([agent, *others], 2) if dice.chance(0.1) else [agent]


def random_agent(dice: Dice, troubled: float) -> Json:
    agent: Json = {"type": "MemberAgent", "lastReceivedHeartbeat": ago(dice.randint(0, 55))}
    if dice.chance(troubled / 2):
        agent["lastReceivedHeartbeat"] = ago(dice.choice(AGES))
    if dice.chance(troubled / 8):
        del agent["lastReceivedHeartbeat"]
    joined = dice.choice(("False", "Unknown", "")) if dice.chance(troubled / 4) else "True"
    healthy = dice.choice(("False", "False", "Unknown", "")) if dice.chance(troubled) else "True"
    conditions = [{"type": "Joined", "status": joined, "lastTransitionTime": ago(7200)}, health(dice, healthy)]
    agent["conditions"] = dice.sample([each for each in conditions if each["status"]], k=bool(joined) + bool(healthy))
    return agent


def health(dice: Dice, status: str) -> Json:
    condition = {"type": "Healthy", "status": status, "lastTransitionTime": ago(dice.choice(AGES))}
    if dice.chance(0.05):
        del condition["lastTransitionTime"]
    return condition


@functools.cache
def ago(seconds: int) -> str:
    now = moment(words.NOW)
    assert now is not None
    return rfc3339(now - datetime.timedelta(seconds=seconds))
