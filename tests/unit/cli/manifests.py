"""Manifests as people write them, and a folder to put them in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleet.cli.input.documents import ParsedDocument, parse_documents
from fleet.cli.input.files import SourceText
from fleet.cli.input.objects import InputObject, read_objects
from fleet.cli.input.problems import Findings
from fleet.cli.input.simulation_inputs import SimulationInputs, read_inputs
from tests.fast_yaml import safe_dump_all

Manifest = dict[str, Any]

NOW = "2026-03-10T09:00:00Z"
LONG_AGO = "2026-01-01T00:00:00Z"
PARENT = "kubernetes-fleet.io/parent-CRP"
LATEST = "kubernetes-fleet.io/is-latest-snapshot"


def member(name: str, *, heard: str = NOW, taints: list[Manifest] | None = None, **labels: str) -> Manifest:
    conditions = [
        {"type": kind, "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": LONG_AGO}
        for kind in ("Joined", "Healthy")
    ]
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {"identity": {"kind": "User", "name": f"agent-{name}"}, "taints": taints or []},
        "status": {
            "agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": heard, "conditions": conditions}],
        },
    }


def sized(name: str, *, has: Mapping[str, str], free: Mapping[str, str] | None = None, **properties: str) -> Manifest:
    """A cluster with so much of each resource; in keys, `_` is for `-`."""
    cluster = member(name)
    cluster["status"]["resourceUsage"] = {
        "capacity": dict(has),
        "allocatable": dict(has),
        "available": dict(has if free is None else free),
        "observationTime": NOW,
    }
    cluster["status"]["properties"] = {
        f"scaling.fleet.dev/{key.replace('_', '-')}": {"value": value, "observationTime": NOW}
        for key, value in properties.items()
    }
    return cluster


def placement(name: str, *, namespace: str = "", generation: int | None = None, **policy: Any) -> Manifest:
    metadata: Manifest = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if generation is not None:
        metadata["generation"] = generation
    spec: Manifest = {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": name}]}
    if policy:
        spec["policy"] = policy
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourcePlacement" if namespace else "ClusterResourcePlacement",
        "metadata": metadata,
        "spec": spec,
    }


def wanting(name: str, requests: str, number: int = 1, **policy: Any) -> Manifest:
    """A placement whose copies request so much."""
    made = placement(name, placementType="PickN", numberOfClusters=number, **policy)
    made["metadata"]["annotations"] = {"scheduling.fleet.dev/requests": requests}
    return made


def snapshot(name: str, of: str, *, latest: str | None = "true", number: int | None = None, **policy: Any) -> Manifest:
    annotations = {"kubernetes-fleet.io/CRP-generation": "3"}
    if number is not None:
        annotations["kubernetes-fleet.io/number-of-clusters"] = str(number)
    labels = {PARENT: of} | ({} if latest is None else {LATEST: latest})
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterSchedulingPolicySnapshot",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"policyHash": "aGFzaA==", **({"policy": policy} if policy else {})},
    }


def binding(cluster: str, *, of: str, snapshot: str, state: str = "Bound", name: str = "") -> Manifest:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourceBinding",
        "metadata": {"name": name or f"{of}-{cluster}-b", "labels": {PARENT: of}},
        "spec": {
            "state": state,
            "targetCluster": cluster,
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": snapshot,
            "clusterDecision": {"clusterName": cluster, "selected": True, "reason": "picked"},
        },
    }


def companion(kind: str, key: str, **spec: Any) -> Manifest:
    """Of a kind without the `Cluster` in front of its name, for a placement or a namespace of this key."""
    namespace, _, name = key.rpartition("/")
    return {
        "apiVersion": "scheduling.fleet.dev/v1alpha1",
        "kind": kind if namespace else f"Cluster{kind}",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": spec,
    }


def options(placement: str, **spec: Any) -> Manifest:
    return companion("PlacementOptions", placement, **spec)


def written(folder: Path, *manifests: Manifest, name: str = "all.yaml") -> Path:
    path = folder / name
    path.write_text(safe_dump_all(manifests, sort_keys=False), encoding="utf-8")
    return path


def documents(text: str, *, file: str = "x.yaml") -> tuple[list[ParsedDocument], list[str]]:
    """The documents of a text and what is wrong with it."""
    findings = Findings()
    return list(parse_documents(SourceText(file, text), findings)), [str(one) for one in findings.in_order()]


def objects(text: str) -> tuple[list[InputObject], list[str]]:
    findings = Findings()
    return read_objects(parse_documents(SourceText("x.yaml", text), findings), findings), [
        str(one) for one in findings.in_order()
    ]


def complaints_about(*manifests: Manifest) -> list[str]:
    return objects(safe_dump_all(manifests, sort_keys=False))[1]


def inputs(folder: Path, *manifests: Manifest) -> tuple[SimulationInputs, Findings]:
    findings = Findings()
    return read_inputs([str(written(folder, *manifests))], findings), findings
