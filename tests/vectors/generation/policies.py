"""Random placement policies, and the mistakes people make in them."""

from __future__ import annotations

from tests.oracle.documents import RESOURCE_PREFIX, Json
from tests.vectors.generation import vocabulary as words
from tests.vectors.generation.dice import Dice
from tests.vectors.generation.quantities import UNREADABLE, any_value, spelled

BAD_PROPERTY_NAMES = tuple(RESOURCE_PREFIX + rest for rest in ("", "cpu", "total", "total-", "used-cpu", "-cpu"))


def random_policy(dice: Dice, names: list[str]) -> Json | None:
    kind = dice.weighed({"none": 2, "PickAll": 6, "PickFixed": 4, "PickN": 16})
    if kind == "none":
        return None
    policy: Json = {"placementType": kind}
    if kind == "PickAll" and dice.chance(0.2):
        del policy["placementType"]
    if kind == "PickFixed":
        policy["clusterNames"] = random_names(dice, names)
        return policy
    if dice.chance(0.65):
        policy["affinity"] = random_affinity(dice, scored=kind == "PickN")
    if kind == "PickN" and dice.chance(0.5):
        policy["topologySpreadConstraints"] = random_constraints(dice)
    if dice.chance(0.4):
        policy["tolerations"] = [random_toleration(dice) for _ in range(dice.randint(0, 3))]
    return policy


def random_names(dice: Dice, names: list[str]) -> list[str]:
    listed = dice.some(names, most=12) + dice.some(["absent", "gone.away"], most=1)
    dice.shuffle(listed)
    return listed + listed[:1] if dice.chance(0.1) else listed


# -- affinity --------------------------------------------------------------------------------------------------------


def random_affinity(dice: Dice, *, scored: bool) -> Json:
    if dice.chance(0.03):
        return dice.choice(({}, {"clusterAffinity": {}}))
    affinity: Json = {}
    if dice.chance(0.65):
        terms = [random_term(dice, required=True) for _ in range(dice.randint(0, 4))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"clusterSelectorTerms": terms}
    if scored and dice.chance(0.7):
        preferred = [random_preferred(dice) for _ in range(dice.randint(0, 4))]
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"clusterAffinity": affinity}


def random_preferred(dice: Dice) -> Json:
    weight = dice.choice((100, 100, 50, 33, 7, 1, 0, -1, -50, -100))
    return {"weight": weight, "preference": random_term(dice, required=False)}


def random_term(dice: Dice, *, required: bool) -> Json:
    """Property selectors count in required terms only, sorters in preferred ones only; both may stand anywhere."""
    term: Json = {}
    if dice.chance(0.6):
        term["labelSelector"] = random_label_selector(dice)
    if dice.chance(0.5 if required else 0.1):
        term["propertySelector"] = random_property_selector(dice)
    if dice.chance(0.1 if required else 0.6):
        term["propertySorter"] = {
            "name": random_property(dice),
            "sortOrder": dice.choice(("Ascending", "Descending")),
        }
    return term


def random_label_selector(dice: Dice) -> Json:
    selector: Json = {}
    if dice.chance(0.5):
        selector["matchLabels"] = {key: dice.choice(words.LABELS[key]) for key in dice.some([*words.LABELS], most=1)}
    if dice.chance(0.6):
        selector["matchExpressions"] = [random_requirement(dice) for _ in range(dice.randint(0, 2))]
    return selector


def random_requirement(dice: Dice) -> Json:
    key = words.ABSENT_LABEL if dice.chance(0.08) else dice.choice([*words.LABELS])
    operator = dice.choice(("In", "In", "NotIn", "NotIn", "Exists", "DoesNotExist"))
    requirement: Json = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        requirement["values"] = dice.some(words.LABELS.get(key, ("any", "other")), least=1, most=3)
    return requirement


def random_property_selector(dice: Dice) -> Json:
    return {"matchExpressions": [random_comparison(dice) for _ in range(dice.choice((0, 1, 1, 1, 2)))]}


def random_comparison(dice: Dice) -> Json:
    operator = dice.choice(("Eq", "Ne", "Ge", "Ge", "Gt", "Le", "Le", "Lt"))
    expected = spelled(dice, dice.randint(0, 8) * 1000) if dice.chance(0.8) else any_value(dice, unreadable=0)
    return {"name": random_property(dice), "operator": operator, "values": [str(expected)]}


def random_property(dice: Dice) -> str:
    if dice.chance(0.05):
        return words.UNREADABLE_PROPERTY
    if dice.chance(0.4):
        return f"{RESOURCE_PREFIX}{dice.choice([*words.USAGES])}-{dice.choice(words.RESOURCES)}"
    return dice.choice(words.PROPERTIES)


# -- spreading and taints --------------------------------------------------------------------------------------------


def random_constraints(dice: Dice) -> list[Json]:
    constraints = []
    for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        key = words.ABSENT_LABEL if dice.chance(0.03) else dice.choice([*words.LABELS])
        constraint: Json = {"topologyKey": key}
        if dice.chance(0.9):
            constraint["maxSkew"] = dice.choice((1, 1, 1, 2, 2, 3))
        if dice.chance(0.9):
            constraint["whenUnsatisfiable"] = dice.choice(("DoNotSchedule", "ScheduleAnyway"))
        constraints.append(constraint)
    return constraints


def random_toleration(dice: Dice) -> Json:
    toleration: Json = {}
    if dice.chance(0.9):
        toleration["operator"] = dice.choice(("Equal", "Equal", "Exists", "Exists", "Odd"))
    if dice.chance(0.8):
        toleration["key"] = dice.choice(words.TAINT_KEYS)
    if toleration.get("operator", "Equal") != "Exists" and dice.chance(0.8):
        toleration["value"] = dice.choice(words.TAINT_VALUES)
    if dice.chance(0.5):
        toleration["effect"] = dice.choice(("NoSchedule", "NoSchedule", "", "NoExecute"))
    return toleration


# -- mistakes --------------------------------------------------------------------------------------------------------


def spoil(dice: Dice, policy: Json) -> None:
    """Put one mistake somewhere into a policy. Where the placement type ignores the place, it does no harm."""
    term: Json = {}
    mistake = dice.choice(("type", "label", "operator", "values", "quantity", "name", "sorter", "preferred label"))
    name, operator = dice.choice(words.PROPERTIES), dice.choice(("Ge", "Ne"))
    comparison: Json = {"name": name, "operator": operator, "values": ["1"]}
    match mistake:
        case "type":
            policy["placementType"] = "PickSome"
        case "label" | "preferred label":
            term = {"labelSelector": {"matchExpressions": [{"key": "env", "operator": "Like", "values": ["p"]}]}}
        case "sorter":
            term = {"propertySorter": {"name": dice.choice(BAD_PROPERTY_NAMES), "sortOrder": "Ascending"}}
        case "operator":
            term = {"propertySelector": {"matchExpressions": [{**comparison, "operator": dice.choice(("", "In"))}]}}
        case "values":
            values: list[str] = dice.choice(([], ["1", "2"]))
            term = {"propertySelector": {"matchExpressions": [{**comparison, "values": values}]}}
        case "quantity":
            values = [dice.choice(UNREADABLE)]
            term = {"propertySelector": {"matchExpressions": [{**comparison, "values": values}]}}
        case "name":
            comparison["name"] = dice.choice(BAD_PROPERTY_NAMES)
            term = {"propertySelector": {"matchExpressions": [comparison]}}
    if mistake != "type":
        insert(dice, policy, term, required=mistake not in ("sorter", "preferred label"))


def insert(dice: Dice, policy: Json, term: Json, *, required: bool) -> None:
    affinity = policy.setdefault("affinity", {}).setdefault("clusterAffinity", {})
    if dice.chance(0.2):
        required = not required
    if required:
        holder = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
        holder.setdefault("clusterSelectorTerms", []).append(term)
    else:
        holder = affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
        holder.append({"weight": 5, "preference": term})
