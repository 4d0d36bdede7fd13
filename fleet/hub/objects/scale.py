"""The scale subresource of workload kinds: replicas in one form for all of them."""

from __future__ import annotations

from typing import Any, Final

from fleet.hub.kinds.builtin import SCALE
from fleet.hub.kinds.kind import Document
from fleet.hub.storage.entries import StoredEntry
from fleet.hub.wire.statuses import bad_request, invalid, invalid_value

_SHARED_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def build_scale(document: Document) -> Document:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {key: document["metadata"][key] for key in _SHARED_METADATA},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {"replicas": status.get("replicas", 0)} | ({"selector": selector} if selector else {}),
    }


def apply_scale(entry: StoredEntry, scale: Any) -> Document:
    """The object with the replicas of a Scale, at the resourceVersion of the Scale."""
    spec, meta = scale.get("spec") or {}, scale.get("metadata") or {}
    if not isinstance(spec, dict) or not isinstance(meta, dict) or scale.get("kind", SCALE.kind) != SCALE.kind:
        raise bad_request("the body is not an autoscaling/v1 Scale")
    replicas = spec.get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request(
            "json: cannot unmarshal the replicas into Go struct field ScaleSpec.spec.replicas of type int32"
        )
    if replicas < 0:
        text = "must be greater than or equal to 0"
        raise invalid(SCALE, entry.name, [invalid_value("spec.replicas", replicas, text)])
    document = entry.document()
    document["spec"] = {**(document.get("spec") or {}), "replicas": replicas}
    if revision := meta.get("resourceVersion"):
        document["metadata"]["resourceVersion"] = str(revision)
    return document
