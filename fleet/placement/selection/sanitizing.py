"""Removes hub-specific fields from an object: a member would reject them, or they would change without a reason.

Works on documents that were read for this purpose and may be changed in place.
"""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

_HUB_FIELDS: Final = (
    "resourceVersion",
    "generation",
    "uid",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "ownerReferences",
)
_HUB_ANNOTATIONS: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
)
_LABELS_OF_JOBS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_HEADLESS: Final = "None"


def sanitize(document: Json, *, api_version: str, kind: str) -> Json:
    """The object as members receive it. Items of lists have no apiVersion and kind, so both are set here."""
    document["apiVersion"], document["kind"] = api_version, kind
    document.pop("status", None)
    _sanitize_metadata(_get_object(document, "metadata"))
    if api_version == "v1" and kind == "Service":
        _sanitize_service(_get_object(document, "spec"))
    elif api_version == "batch/v1" and kind == "Job":
        _sanitize_job(_get_object(document, "spec"))
    return document


def _sanitize_metadata(metadata: Json) -> None:
    for field in _HUB_FIELDS:
        metadata.pop(field, None)
    annotations = _get_object(metadata, "annotations")
    for key in _HUB_ANNOTATIONS:
        annotations.pop(key, None)
    if not annotations:
        metadata.pop("annotations", None)


def _sanitize_service(spec: Json) -> None:
    """Removes addresses and ports that the hub assigned; `None` of a headless service was requested and stays."""
    if spec.get("clusterIP") != _HEADLESS:
        spec.pop("clusterIP", None)
        if spec.get("clusterIPs") != [_HEADLESS]:
            spec.pop("clusterIPs", None)
    spec.pop("healthCheckNodePort", None)
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)


def _sanitize_job(spec: Json) -> None:
    """Removes the selector by uid that the hub generated; the member generates its own."""
    if spec.get("manualSelector") is True:
        return
    template = _get_object(_get_object(spec, "template"), "metadata")
    template.pop("creationTimestamp", None)
    for labels in (_get_object(_get_object(spec, "selector"), "matchLabels"), _get_object(template, "labels")):
        for key in _LABELS_OF_JOBS:
            labels.pop(key, None)


def _get_object(whole: Json, name: str) -> Json:
    """The nested object, or a new one that is not part of the document."""
    part = whole.get(name)
    return part if isinstance(part, dict) else {}
