"""Plan of a reconcile: from a SecondaryScheduler and the observed objects to writes, deletions and status. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import fleet
from fleet.errors import InputError
from fleet.kube.resource import Resource
from fleet.model.decoding import drop_nulls
from fleet.model.kinds.secondary import HighlyAvailableTopology, ImagePolicy
from fleet.operator.configuration import KEY, MISSING, ConfigReview
from fleet.operator.operands import (
    APPLIED,
    CONFIG_HASH,
    DEPLOYMENTS,
    MANAGED,
    NAME,
    Json,
    build_operands,
    get_operand_name,
    get_topology,
)
from fleet.operator.ownership import has_fields_of_others
from fleet.operator.partitions import find_partition_problem
from fleet.operator.prerequisites import HubFacts, list_unmet
from fleet.operator.tls_policy import read_tls_policy
from fleet.release.oci.references import DIGEST, parse_reference
from fleet.release.tags import parse_tag

RESOURCE_NAME: Final = "cluster"
"""The only name that a SecondaryScheduler may have."""
AS_EXPECTED: Final = "AsExpected"
PROGRESS_DEADLINE: Final = 600.0
"""Seconds."""
_ALLOWED_KINDS: Final = ImagePolicy().allowed_kinds
_MOST_REPLICAS: Final = HighlyAvailableTopology().max_replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedOperands:
    objects: Mapping[Resource, Json]
    """The operands that exist."""
    copied: ConfigReview
    """Of the copy in use."""
    holder: str
    """Of the scheduler's lease."""
    image_digest: str = ""
    """Of the image that all pods run."""
    nodes: int = 0
    """Nodes on which its pods may run, where that decides on their number."""
    others: Sequence[Json] = ()
    """Resources of other namespaces."""
    hub: HubFacts
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    status: Json
    writes: dict[Resource, Json] = field(default_factory=dict)
    deletions: tuple[Resource, ...] = ()
    reverted: tuple[Resource, ...] = ()
    """Of `writes`, the objects that were changed by hand."""
    warnings: tuple[tuple[str, str], ...] = ()
    """Reasons and messages of events."""


@dataclass(frozen=True, slots=True)
class _Finding:
    reason: str
    message: str


def complete_spec(spec: Json | None) -> Json:
    """With the defaults of fields that another definition of the kind lacks, or does not require; there, fields that
    mean nothing here may be null or empty."""
    given = {name: value for name, value in drop_nulls(spec or {}).items() if value != ""}
    return {"managementState": "Managed", "schedulerConfig": "", "schedulerImage": "", **given}


def build_plan(owner: Json, config: ConfigReview, seen: ObservedOperands) -> Plan:
    """`owner` is the resource as the hub has it, with the defaults of its fields."""
    spec = owner["spec"]
    state, owned = spec["managementState"], {key: item for key, item in seen.objects.items() if _owns(owner, item)}
    if owner["metadata"]["name"] != RESOURCE_NAME:
        wrong = _Finding("UnexpectedName", f"metadata.name: name it {RESOURCE_NAME!r}; other names are ignored")
        return Plan(status=_build_status(owner, config, seen, {}, {}, wrong))
    if state == "Removed":
        return Plan(
            status=_build_status(owner, config, seen, {}, {}, None),
            deletions=tuple(resource for resource in reversed(MANAGED) if resource in owned),
        )
    image_problem = check_image(spec["schedulerImage"], spec.get("imagePolicy", {}).get("allowedKinds", _ALLOWED_KINDS))
    unmet = list_unmet(spec["schedulerImage"], seen.hub)
    refused = _Finding("ImageRefused", image_problem) if image_problem else _refuse_unmet(unmet, state)
    partition = find_partition_problem(owner, seen.others)
    finding = _find_problem(spec, config, refused, seen.objects.keys() - owned.keys())
    if partition and (finding is None or finding.reason != "NameTaken"):
        finding = _Finding(*partition)
    desired = _build_desired(owner, config, seen, owned, uses_image=refused is None)
    if finding is not None and (partition or finding.reason == "NameTaken"):
        desired = {}
    writes = {key: item for key, item in desired.items() if key not in owned or _differs(item, owned[key])}
    reverted = tuple(
        key for key, item in writes.items() if key in owned and _get_applied(item) == _get_applied(owned[key])
    )
    status = _build_status(owner, config, seen, owned, writes, finding)
    if state == "Unmanaged":
        return Plan(status=status)
    warnings = [*_list_warnings(spec, seen.nodes), *_list_forced(unmet, state)] if DEPLOYMENTS in writes else []
    return Plan(status=status, writes=writes, reverted=reverted, warnings=tuple(warnings))


def count_replicas(spec: Json, nodes: int) -> int:
    topology = get_topology(spec)
    return 1 if topology is None else max(1, min(nodes, topology.get("maxReplicas", _MOST_REPLICAS)))


def _list_warnings(spec: Json, nodes: int) -> Iterator[tuple[str, str]]:
    if not nodes and get_topology(spec) is not None:
        yield "NoMatchingNode", "spec.topology.highlyAvailableTopology: no node matches; one pod is created"
    for problem in read_tls_policy(spec).problems:
        yield "ObservedConfigIgnored", problem


def _list_forced(unmet: Sequence[tuple[str, str]], state: str) -> list[tuple[str, str]]:
    return [("ForcedReconcile", f"{reason}: {message}") for reason, message in unmet if state == "Force"]


def _refuse_unmet(unmet: Sequence[tuple[str, str]], state: str) -> _Finding | None:
    if not unmet or state == "Force":
        return None
    return _Finding(unmet[0][0], f"{'; '.join(message for _, message in unmet)}; managementState Force goes on anyway")


def check_image(image: str, allowed: Sequence[str]) -> str | None:
    """The reason to refuse an image."""
    if not image:
        return "spec.schedulerImage: is required: name the image of the scheduler"
    try:
        version = parse_reference(image).version
        if DIGEST.fullmatch(version):
            return f"spec.schedulerImage: {image} has no release tag; name the image by its tag"
        kind = parse_tag(version).kind.value
    except InputError as error:
        return f"spec.schedulerImage: {error}"
    if kind in allowed:
        return None
    return (
        f"spec.schedulerImage: {image} is a {kind} image; spec.imagePolicy.allowedKinds has only "
        f"{', '.join(allowed) or 'nothing'}"
    )


def _differs(desired: Json, observed: Json) -> bool:
    return has_fields_of_others(observed) or not is_contained(desired, observed)


def is_contained(desired: Any, observed: Any) -> bool:
    """Whether the observed value has everything desired. It may have fields that the API server or others set."""
    if isinstance(desired, dict):
        return isinstance(observed, dict) and all(is_contained(desired[key], observed.get(key)) for key in desired)
    if isinstance(desired, list):
        return (
            isinstance(observed, list) and len(desired) == len(observed) and all(map(is_contained, desired, observed))
        )
    return bool(desired == observed)


def _owns(owner: Json, document: Json) -> bool:
    references = document["metadata"].get("ownerReferences") or ()
    return any(reference.get("uid") == owner["metadata"]["uid"] for reference in references)


def _get_applied(document: Json) -> str | None:
    digest: str | None = (document["metadata"].get("annotations") or {}).get(APPLIED)
    return digest


def _find_problem(
    spec: Json, config: ConfigReview, refused: _Finding | None, foreign: set[Resource]
) -> _Finding | None:
    if foreign:
        names = ", ".join(f"{item.kind} {get_operand_name(item)}" for item in MANAGED if item in foreign)
        return _Finding("NameTaken", f"{names} exists and belongs to no secondary scheduler: delete or rename it")
    if not config.is_valid:
        return _Finding("InvalidConfiguration", config.message)
    if refused is None and not config.elects and get_topology(spec) is not None:
        text = "the document turns leader election off, so every pod would decide: one pod is created"
        return _Finding("NoLeaderElection", f"spec.topology.mode: {text}")
    return refused


def _build_desired(
    owner: Json, config: ConfigReview, seen: ObservedOperands, owned: Mapping[Resource, Json], *, uses_image: bool
) -> dict[Resource, Json]:
    """With the last good document and image where the new ones cannot be used; nothing if there are none."""
    used = config if config.is_valid else seen.copied
    image = owner["spec"]["schedulerImage"] if uses_image else _get_image(owned)
    replicas = count_replicas(owner["spec"], seen.nodes) if used.elects else 1
    if not (used.is_valid and image):
        return {}
    return build_operands(owner, used, image, replicas)


def _get_image(objects: Mapping[Resource, Json]) -> str:
    containers = _get_pod(objects).get("spec", {}).get("containers") or [{}]
    return str(containers[0].get("image", ""))


def _get_pod(objects: Mapping[Resource, Json]) -> Json:
    template: Json = objects.get(DEPLOYMENTS, {}).get("spec", {}).get("template", {})
    return template


# --- status -----------------------------------------------------------------------------------------------------------


def _build_status(
    owner: Json,
    config: ConfigReview,
    seen: ObservedOperands,
    owned: Mapping[Resource, Json],
    writes: Mapping[Resource, Json],
    finding: _Finding | None,
) -> Json:
    is_unmanaged = owner["spec"]["managementState"] == "Unmanaged"
    ready = int(owned.get(DEPLOYMENTS, {}).get("status", {}).get("readyReplicas", 0))
    rolling = None if is_unmanaged and DEPLOYMENTS not in owned else _find_rollout(owned, writes)
    if finding is None and rolling and _is_overdue(owner, seen.now):
        finding = _Finding("ProgressDeadline", f"not rolled out after 10 min: {rolling}")
    conditions = [
        ("ConfigValid", config.is_valid, config.reason, config.message or "the document is valid"),
        ("Available", *_judge_availability(owner, config if config.is_valid else seen.copied, ready, seen.holder)),
        ("Progressing", bool(rolling), "RollingOut" if rolling else AS_EXPECTED, rolling or "all is rolled out"),
        (
            "Degraded",
            finding is not None,
            finding.reason if finding else AS_EXPECTED,
            finding.message if finding else "the last reconcile found no problem",
        ),
        ("Upgradeable", *_judge_upgrade(owner["spec"])),
    ]
    if owner["spec"]["managementState"] == "Force":
        forced = list_unmet(owner["spec"]["schedulerImage"], seen.hub)
        text = "; ".join(message for _, message in forced) or "all checks hold"
        conditions.append(("ForcedReconcile", bool(forced), forced[0][0] if forced else AS_EXPECTED, text))
    image = _get_image(owned)
    return {
        "observedGeneration": owner["metadata"]["generation"],
        "conditions": [
            build_condition(owner, seen.now, type, str(holds), reason, message)
            for type, holds, reason, message in conditions
        ],
        "generations": [_describe_generation(resource, item) for resource, item in owned.items()],
        "version": fleet.__version__,
        "latestAvailableRevision": _find_available_revision(owner, owned, is_rolling=bool(rolling)),
        "readyReplicas": ready,
        "image": {"reference": image, **_describe_tag(image), "digest": seen.image_digest if image else ""},
        "configHash": (_get_pod(owned).get("metadata", {}).get("annotations") or {}).get(CONFIG_HASH, ""),
    }


def _judge_upgrade(spec: Json) -> tuple[bool, str, str]:
    if spec["managementState"] == "Unmanaged":
        return False, "Unmanaged", "spec.managementState is Unmanaged"
    if spec.get("unsupportedConfigOverrides"):
        return False, "UnsupportedConfigOverrides", "spec.unsupportedConfigOverrides: nothing of it is used; remove it"
    return True, AS_EXPECTED, "no blocker"


def _describe_generation(resource: Resource, document: Json) -> Json:
    metadata = document["metadata"]
    return {
        "group": resource.group,
        "resource": resource.plural,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "lastGeneration": metadata.get("generation", 0) if resource is DEPLOYMENTS else 0,
        "hash": _get_applied(document) or "",
    }


def _find_available_revision(owner: Json, owned: Mapping[Resource, Json], *, is_rolling: bool) -> int:
    deployment = owned.get(DEPLOYMENTS)
    if deployment is None:
        return 0
    before = owner.get("status", {}).get("latestAvailableRevision", 0)
    return int(before if is_rolling else deployment["metadata"].get("generation", 0))


def build_condition(owner: Json, now: datetime, type: str, status: str, reason: str, message: str) -> Json:
    before = find_condition(owner, type)
    since = before["lastTransitionTime"] if before.get("status") == status else f"{now:%Y-%m-%dT%H:%M:%SZ}"
    return {
        "type": type,
        "status": status,
        "observedGeneration": owner["metadata"]["generation"],
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }


def find_condition(owner: Json, type: str) -> Json:
    conditions = owner.get("status", {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == type), {})


def _judge_availability(owner: Json, config: ConfigReview, ready: int, holder: str) -> tuple[bool, str, str]:
    if owner["spec"]["managementState"] == "Removed":
        return False, "Removed", "spec.managementState is Removed"
    if not ready:
        return False, "NoReadyReplica", f"no pod of Deployment {NAME} is ready"
    if not config.elects:
        return True, AS_EXPECTED, "a pod is ready, and needs no lease"
    if not holder:
        return False, "NoLeader", f"no pod holds Lease {NAME}"
    return True, AS_EXPECTED, f"{holder} leads"


def _find_rollout(owned: Mapping[Resource, Json], writes: Mapping[Resource, Json]) -> str:
    """What is still to happen."""
    if writes:
        return f"{', '.join(resource.kind for resource in writes)} differs from what is wanted"
    deployment = owned.get(DEPLOYMENTS)
    if deployment is None:
        return ""
    status = deployment.get("status", {})
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return f"Deployment {NAME} was not yet observed by its controller"
    current, ready = status.get("updatedReplicas", 0), status.get("readyReplicas", 0)
    wanted = deployment["spec"].get("replicas", 1)
    if min(current, ready) < wanted:
        return f"{min(current, ready)} of {wanted} new pods are ready"
    old = status.get("replicas", current) - current
    return f"{old} old pods are still there" if old > 0 else ""


def _is_overdue(owner: Json, now: datetime) -> bool:
    before = find_condition(owner, "Progressing")
    if before.get("status") != "True":
        return False
    return (now - datetime.fromisoformat(before["lastTransitionTime"])).total_seconds() >= PROGRESS_DEADLINE


def _describe_tag(image: str) -> Json:
    try:
        tag = parse_tag(parse_reference(image).version)
    except InputError:
        return {"tag": "", "kind": ""}
    return {"tag": tag.text, "kind": tag.kind.value}


def find_document(config_map: Json | None, name: str) -> str | ConfigReview:
    """The document in a ConfigMap, or why there is none."""
    if not name:
        return ConfigReview(MISSING, "spec.schedulerConfig: is required: name the ConfigMap with the document")
    if config_map is None:
        return ConfigReview(MISSING, f"spec.schedulerConfig: there is no ConfigMap {name}")
    document = (config_map.get("data") or {}).get(KEY)
    if document is None:
        return ConfigReview(MISSING, f"spec.schedulerConfig: ConfigMap {name} has no key {KEY}")
    return str(document)
