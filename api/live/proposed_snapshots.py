"""Policy snapshots of proposed placements, as the placement controller would leave them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fleet.errors import DocumentError
from fleet.kube.cache.stepwise import decode_in_steps, run_steps
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.model.decoding import drop_nulls
from fleet.model.documents import describe_forbidden_change, describe_kind_problem, read_written_document
from fleet.model.views import Metadata, Observed, Placement, PolicySnapshot
from fleet.placement.snapshots.proposal import propose_snapshot

_SCOPES: Final = {scope.placement.kind: scope for scope in (CLUSTER_SCOPED, NAMESPACED)}


def parse_identity(document: Mapping[str, Any]) -> tuple[str, str]:
    """Namespace and name of a placement's document, before the rest is validated."""
    kind, metadata = document.get("kind"), document.get("metadata")
    if not isinstance(kind, str) or kind not in _SCOPES:
        message = describe_kind_problem(document) or f"should be a placement, of kind {' or '.join(_SCOPES)}"
        raise DocumentError(message, field="placement.kind", value=kind)
    metadata = metadata if isinstance(metadata, dict) else {}
    name, namespace = metadata.get("name"), metadata.get("namespace") or ""
    if not isinstance(name, str) or not name:
        raise DocumentError("metadata.name: is required", field="placement.metadata.name", value=name)
    namespaced = _SCOPES[kind].namespaced
    if not isinstance(namespace, str) or bool(namespace) is not namespaced:
        expected = "needs a namespace" if namespaced else "has no namespace; leave it out"
        raise DocumentError(
            f"metadata.namespace: a {kind} {expected}", field="placement.metadata.namespace", value=namespace
        )
    return namespace, name


def read_proposed_metadata(document: Mapping[str, Any], *, uid: str = "") -> Metadata:
    """Of a document that may not be valid."""
    namespace, name = parse_identity(document)
    labels, annotations = (_read_texts(document["metadata"].get(part)) for part in ("labels", "annotations"))
    return Metadata(name=name, namespace=namespace, uid=uid, labels=labels, annotations=annotations)


def _read_texts(mapping: object) -> dict[str, str]:
    pairs = mapping.items() if isinstance(mapping, dict) else ()
    return {key: text for key, text in pairs if isinstance(text, str)}


def build_proposed_snapshot(
    document: Mapping[str, Any],
    *,
    existing: Observed[Placement] | None = None,
    known: Iterable[Observed[PolicySnapshot]] = (),
) -> PolicySnapshot:
    """Raises DocumentError with everything that is wrong, in the words of `fleet simulate`. In a thread: it takes long
    where a policy is large.

    `existing` is the placement that the document changes, `known` are its snapshots."""
    try:
        placement = read_written_document(document)
    except DocumentError as error:
        raise DocumentError(error.message, field=f"placement.{error.field}", value=error.value) from error
    metadata = placement.metadata
    generation = metadata.generation or 1
    if existing is not None:
        problem = describe_forbidden_change(_decode(existing), placement)
        if problem:
            raise DocumentError(problem, field="placement.spec")
        generation = existing.view.metadata.generation + 1
    described = Metadata(name=metadata.name, namespace=metadata.namespace or "", generation=generation)
    policy = drop_nulls(document["spec"].get("policy"))
    return propose_snapshot(described, policy, (snapshot.view for snapshot in known))


def _decode(observed: Observed[Any]) -> dict[str, Any]:
    document: dict[str, Any] = run_steps(decode_in_steps(observed.raw, Any))
    return document


def build_first_snapshot(placement: Observed[Placement]) -> PolicySnapshot:
    """For a placement that has no snapshot yet."""
    return propose_snapshot(placement.view.metadata, msgspec.json.decode(placement.view.spec, type=_Spec).policy)


class _Spec(msgspec.Struct):
    policy: dict[str, Any] | None = None
