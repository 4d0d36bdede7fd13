"""Takes from an object what belongs to the hub: a member could not accept it, or it would change without a reason.

Works on documents that were read for this purpose and may be changed in place.
"""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

_OF_THE_HUB: Final = (
    "resourceVersion",
    "generation",
    "uid",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "ownerReferences",
)
_ANNOTATIONS_OF_THE_HUB: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
)
_LABELS_OF_JOBS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_HEADLESS: Final = "None"


def sanitize(document: Json, *, api_version: str, kind: str) -> Json:
    """The object as members get it. Items of lists do not say what they are, so that is told here."""
    document["apiVersion"], document["kind"] = api_version, kind
    document.pop("status", None)
    _sanitize_metadata(_part(document, "metadata"))
    if api_version == "v1" and kind == "Service":
        _sanitize_service(_part(document, "spec"))
    elif api_version == "batch/v1" and kind == "Job":
        _sanitize_job(_part(document, "spec"))
    return document


def _sanitize_metadata(metadata: Json) -> None:
    for field in _OF_THE_HUB:
        metadata.pop(field, None)
    annotations = _part(metadata, "annotations")
    for key in _ANNOTATIONS_OF_THE_HUB:
        annotations.pop(key, None)
    if not annotations:
        metadata.pop("annotations", None)


def _sanitize_service(spec: Json) -> None:
    """Addresses and ports that the hub gave out; a headless service asked for having none."""
    if spec.get("clusterIP") != _HEADLESS:
        spec.pop("clusterIP", None)
        if spec.get("clusterIPs") != [_HEADLESS]:
            spec.pop("clusterIPs", None)
    spec.pop("healthCheckNodePort", None)
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)


def _sanitize_job(spec: Json) -> None:
    """The hub chose a selector by uid; the member has to choose its own."""
    if spec.get("manualSelector") is True:
        return
    template = _part(_part(spec, "template"), "metadata")
    template.pop("creationTimestamp", None)
    for labels in (_part(_part(spec, "selector"), "matchLabels"), _part(template, "labels")):
        for key in _LABELS_OF_JOBS:
            labels.pop(key, None)


def _part(whole: Json, name: str) -> Json:
    """The object inside, or one that nobody will see."""
    part = whole.get(name)
    return part if isinstance(part, dict) else {}
