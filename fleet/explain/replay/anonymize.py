"""Anonymized snapshots: the same decisions, with pseudonyms in place of names.

Names of clusters, placements and namespaces, UIDs, and the values of labels and taints become pseudonyms. Names break
ties, so pseudonyms sort like the names they replace. Of every object only the fields that decisions read are kept; keys
of labels and taints, names and values of properties, and times stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from fleet.framework.policy.resource_requests import OVERRIDDEN
from fleet.model.keys import (
    LOCALITY,
    MIN_TARGETS,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PLACEMENT_GENERATION,
    PREFIX,
    PREVIOUS_BINDING_STATE,
    REQUESTS,
    WORKLOAD_LIMITS,
    WORKLOAD_REQUESTS,
)
from fleet.model.labels import is_label_value, is_subdomain
from fleet.model.views import (
    Binding,
    ClusterDecision,
    ClusterSelectorTerm,
    Condition,
    LabelSelector,
    MemberCluster,
    Metadata,
    PlacementOptions,
    PlacementPolicy,
    PolicySnapshot,
)

Json = Mapping[str, Any]
T = TypeVar("T")

NOT_EXPORTED: Final = "not-exported"
_ANNOTATIONS: Final = frozenset(
    {
        NUMBER_OF_CLUSTERS,
        PLACEMENT_GENERATION,
        PREVIOUS_BINDING_STATE,
        REQUESTS,
        WORKLOAD_LIMITS,
        WORKLOAD_REQUESTS,
        LOCALITY,
        MIN_TARGETS,
    }
)
_COUNTED: Final = re.compile(r"-\d+(-snapshot)?")
_SELECTED: Final = {"group": "", "version": "v1", "kind": "Namespace", "name": NOT_EXPORTED}
_SELECTED_WITHIN: Final = {**_SELECTED, "kind": "ConfigMap"}
_LEAST_DIGITS: Final = 4


def anonymize(document: Json) -> dict[str, Any]:
    """An exported snapshot with pseudonyms in place of names."""
    snapshot = _Snapshot.read(document)
    names = snapshot.build_names()
    return {
        **{key: document[key] for key in ("apiVersion", "kind", "at", "configHash", "settings")},
        "anonymized": True,
        "clusters": [_add_type(original, names.rename_cluster(view)) for original, view in snapshot.clusters],
        "placements": [
            _add_type(original, names.rename_placement(metadata, policy))
            for original, metadata, policy in snapshot.placements
        ],
        "options": [_add_type(original, names.rename_options(view)) for original, view in snapshot.options],
        "policySnapshots": [_add_type(original, names.rename_snapshot(view)) for original, view in snapshot.snapshots],
        "bindings": [_add_type(original, names.rename_binding(view)) for original, view in snapshot.bindings],
        "pending": [names.rename_key(key) for key in document["pending"]],
    }


def _add_type(original: Json, content: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(content)
    return {"apiVersion": original["apiVersion"], "kind": original["kind"], **plain}


# --- contents ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Its objects, each with the document it was read from."""

    clusters: list[tuple[Json, MemberCluster]]
    placements: list[tuple[Json, Metadata, PlacementPolicy | None]]
    options: list[tuple[Json, PlacementOptions]]
    snapshots: list[tuple[Json, PolicySnapshot]]
    bindings: list[tuple[Json, Binding]]

    @classmethod
    def read(cls, document: Json) -> _Snapshot:
        return cls(
            clusters=[(cluster, msgspec.convert(cluster, MemberCluster)) for cluster in document["clusters"]],
            placements=[(placement, *_read_placement(placement)) for placement in document["placements"]],
            options=[
                (options, msgspec.convert(options, PlacementOptions, strict=False))
                for options in document.get("options", ())
            ],
            snapshots=[
                (snapshot, msgspec.convert(snapshot, PolicySnapshot)) for snapshot in document["policySnapshots"]
            ],
            bindings=[(binding, msgspec.convert(binding, Binding)) for binding in document["bindings"]],
        )

    def build_names(self) -> _Names:
        objects = [metadata for _, metadata, _ in self.placements]
        objects += [options.metadata for _, options in self.options]
        owned = [
            *(snapshot.metadata for _, snapshot in self.snapshots),
            *(binding.metadata for _, binding in self.bindings),
        ]
        return _Names(
            clusters=_build_pseudonyms("cluster", self._list_clusters(), like=is_subdomain),
            placements=_build_pseudonyms(
                "placement", (metadata.name for metadata in objects), map(_find_parent, owned)
            ),
            namespaces=_build_pseudonyms(
                "namespace", self._list_namespaces(), (metadata.namespace for metadata in (*objects, *owned))
            ),
            values=_build_pseudonyms("value", self._list_values(), like=is_label_value),
            bindings=_build_pseudonyms("binding", (binding.metadata.name for _, binding in self.bindings)),
            others=_build_pseudonyms("name", self._list_odd_names()),
            uids=_build_pseudonyms("uid", (metadata.uid for metadata in (*objects, *owned)), self._list_cluster_uids()),
        )

    def _list_policies(self) -> Iterator[PlacementPolicy]:
        for policy in (
            *(policy for _, _, policy in self.placements),
            *(snapshot.spec.policy for _, snapshot in self.snapshots),
        ):
            if policy is not None:
                yield policy

    def _list_clusters(self) -> Iterator[str]:
        yield from (cluster.metadata.name for _, cluster in self.clusters)
        for policy in self._list_policies():
            yield from policy.cluster_names
        for _, snapshot in self.snapshots:
            yield from (target.cluster_name for target in snapshot.status.target_clusters)
        for _, options in self.options:
            yield from (hint.cluster for hint in options.spec.placement_hints)
        for _, binding in self.bindings:
            yield from (binding.spec.target_cluster, binding.spec.cluster_decision.cluster_name)

    def _list_cluster_uids(self) -> Iterator[str]:
        yield from (cluster.metadata.uid for _, cluster in self.clusters)

    def _list_namespaces(self) -> Iterator[str]:
        for _, cluster in self.clusters:
            yield from cluster.status.namespaces or ()

    def _list_values(self) -> Iterator[str]:
        for _, cluster in self.clusters:
            yield from (cluster.metadata.labels or {}).values()
            yield from (taint.value for taint in cluster.spec.taints)
        for policy in self._list_policies():
            yield from (toleration.value for toleration in policy.tolerations)
            for selector in _list_selectors(policy):
                yield from (selector.match_labels or {}).values()
                yield from (value for expression in selector.match_expressions for value in expression.values)

    def _list_odd_names(self) -> Iterator[str]:
        for _, snapshot in self.snapshots:
            yield from _find_odd_names(snapshot.metadata.name, _find_parent(snapshot.metadata))
        for _, binding in self.bindings:
            for name in (binding.spec.scheduling_policy_snapshot_name, binding.spec.resource_snapshot_name):
                yield from _find_odd_names(name, _find_parent(binding.metadata))


def _read_placement(document: Json) -> tuple[Metadata, PlacementPolicy | None]:
    policy = (document.get("spec") or {}).get("policy")
    parsed = None if policy is None else msgspec.convert(policy, PlacementPolicy)
    return msgspec.convert(document["metadata"], Metadata), parsed


def _find_parent(metadata: Metadata) -> str:
    return metadata.label(PARENT_PLACEMENT) or ""


def _find_odd_names(name: str, parent: str) -> Iterator[str]:
    """The name, unless it is derived from its parent."""
    if not (parent and name.startswith(parent) and _COUNTED.fullmatch(name[len(parent) :])):
        yield name


def _list_terms(policy: PlacementPolicy) -> Iterator[ClusterSelectorTerm]:
    affinity = policy.affinity.cluster_affinity if policy.affinity else None
    if affinity is not None:
        yield from affinity.required.cluster_selector_terms if affinity.required else ()
        yield from (preference.preference for preference in affinity.preferred)


def _list_selectors(policy: PlacementPolicy) -> Iterator[LabelSelector]:
    yield from (term.label_selector for term in _list_terms(policy) if term.label_selector is not None)


def _build_pseudonyms(word: str, *originals: Iterable[str], like: Callable[[str], bool] = bool) -> dict[str, str]:
    """In the order of the originals; invalid names stay invalid, and an empty name stays empty."""
    ordered = sorted({original for each in originals for original in each if original})
    digits = max(len(str(len(ordered))), _LEAST_DIGITS)
    pseudonyms = {original: f"{word}-{number:0{digits}d}" for number, original in enumerate(ordered, start=1)}
    return {"": ""} | {
        original: name if like(original) else f"{name} (not valid)" for original, name in pseudonyms.items()
    }


# --- pseudonyms ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    clusters: Mapping[str, str]
    placements: Mapping[str, str]
    namespaces: Mapping[str, str]
    values: Mapping[str, str]
    """Of labels and taints."""
    bindings: Mapping[str, str]
    others: Mapping[str, str]
    """Of snapshots whose names do not follow from their placement's."""
    uids: Mapping[str, str]

    def rename_key(self, key: str) -> str:
        namespace, slash, name = key.rpartition("/")
        return f"{self.namespaces[namespace]}{slash}{self.placements[name]}"

    def rename_cluster(self, cluster: MemberCluster) -> MemberCluster:
        labels = {key: self.values[value] for key, value in (cluster.metadata.labels or {}).items()}
        metadata = self._rename_metadata(cluster.metadata, self.clusters[cluster.metadata.name])
        taints = tuple(_replace(taint, value=self.values[taint.value]) for taint in cluster.spec.taints)
        agents = tuple(
            _replace(agent, conditions=_strip_messages(agent.conditions)) for agent in cluster.status.agent_status
        )
        namespaces = cluster.status.namespaces
        if namespaces is not None:
            namespaces = dict.fromkeys((self.namespaces[name] for name in sorted(namespaces)), "")
        status = _replace(
            cluster.status,
            agent_status=agents,
            conditions=_strip_messages(cluster.status.conditions),
            namespaces=namespaces,
        )
        return MemberCluster(_replace(metadata, labels=labels), _replace(cluster.spec, taints=taints), status)

    def rename_placement(self, metadata: Metadata, policy: PlacementPolicy | None) -> dict[str, Any]:
        spec: dict[str, Any] = {"resourceSelectors": [_SELECTED_WITHIN if metadata.namespace else _SELECTED]}
        if policy is not None:
            spec["policy"] = self._rename_policy(policy)
        return {"metadata": self._rename_metadata(metadata, self.placements[metadata.name]), "spec": spec}

    def rename_options(self, options: PlacementOptions) -> dict[str, Any]:
        """As of annotations, what contains names is left out."""
        said = options.spec
        hints = [
            {"cluster": self.clusters[hint.cluster], "owner": f"owner-{number}", "expiresAt": hint.expires_at}
            for number, hint in enumerate(said.placement_hints)
        ]
        spec = {
            "priority": said.priority,
            "requests": said.requests,
            "locality": said.locality,
            "minTargets": said.min_targets,
            "placementHints": hints or None,
        }
        metadata = self._rename_metadata(options.metadata, self.placements[options.metadata.name])
        return {"metadata": metadata, "spec": {key: value for key, value in spec.items() if value is not None}}

    def rename_snapshot(self, snapshot: PolicySnapshot) -> PolicySnapshot:
        metadata = self._rename_metadata(
            snapshot.metadata, self._rename_owned(snapshot.metadata.name, _find_parent(snapshot.metadata))
        )
        policy = None if snapshot.spec.policy is None else self._rename_policy(snapshot.spec.policy)
        status = _replace(
            snapshot.status,
            conditions=_strip_messages(snapshot.status.conditions),
            target_clusters=tuple(map(self._rename_decision, snapshot.status.target_clusters)),
        )
        return PolicySnapshot(metadata, _replace(snapshot.spec, policy=policy), status)

    def rename_binding(self, binding: Binding) -> Binding:
        parent = _find_parent(binding.metadata)
        spec = _replace(
            binding.spec,
            target_cluster=self.clusters[binding.spec.target_cluster],
            scheduling_policy_snapshot_name=self._rename_owned(binding.spec.scheduling_policy_snapshot_name, parent),
            resource_snapshot_name=self._rename_owned(binding.spec.resource_snapshot_name, parent),
            cluster_decision=self._rename_decision(binding.spec.cluster_decision),
        )
        return Binding(self._rename_metadata(binding.metadata, self.bindings[binding.metadata.name]), spec)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _rename_metadata(self, metadata: Metadata, name: str) -> Metadata:
        """With the references between objects, and without anything else that their owners wrote."""
        labels = {key: value for key, value in (metadata.labels or {}).items() if key.startswith(PREFIX)}
        if PARENT_PLACEMENT in labels:
            labels[PARENT_PLACEMENT] = self.placements[labels[PARENT_PLACEMENT]]
        kept = {key: value for key, value in (metadata.annotations or {}).items() if key in _ANNOTATIONS}
        annotations = {key: value.partition(OVERRIDDEN)[0] for key, value in kept.items()}
        return Metadata(
            name=name,
            namespace=self.namespaces[metadata.namespace],
            uid=self.uids[metadata.uid],
            generation=metadata.generation,
            labels=labels or None,
            annotations=annotations or None,
            finalizers=tuple(finalizer for finalizer in metadata.finalizers if finalizer.startswith(PREFIX)),
            creation_timestamp=metadata.creation_timestamp,
            deletion_timestamp=metadata.deletion_timestamp,
        )

    def _rename_owned(self, name: str, parent: str) -> str:
        if not name or next(_find_odd_names(name, parent), ""):
            return self.others[name]
        return self.placements[parent] + name[len(parent) :]

    def _rename_decision(self, decision: ClusterDecision) -> ClusterDecision:
        return _replace(decision, cluster_name=self.clusters[decision.cluster_name], reason="")

    def _rename_policy(self, policy: PlacementPolicy) -> PlacementPolicy:
        tolerations = tuple(
            _replace(toleration, value=self.values[toleration.value]) for toleration in policy.tolerations
        )
        names = tuple(self.clusters[name] for name in policy.cluster_names)
        affinity = policy.affinity
        cluster_affinity = None if affinity is None else affinity.cluster_affinity
        if affinity is not None and cluster_affinity is not None:
            required = cluster_affinity.required
            if required is not None:
                required = _replace(
                    required, cluster_selector_terms=tuple(map(self._rename_term, required.cluster_selector_terms))
                )
            preferred = tuple(
                _replace(preference, preference=self._rename_term(preference.preference))
                for preference in cluster_affinity.preferred
            )
            affinity = _replace(
                affinity, cluster_affinity=_replace(cluster_affinity, required=required, preferred=preferred)
            )
        return _replace(policy, tolerations=tolerations, cluster_names=names, affinity=affinity)

    def _rename_term(self, term: ClusterSelectorTerm) -> ClusterSelectorTerm:
        return (
            term
            if term.label_selector is None
            else _replace(term, label_selector=self._rename_selector(term.label_selector))
        )

    def _rename_selector(self, selector: LabelSelector) -> LabelSelector:
        labels = selector.match_labels
        if labels is not None:
            labels = {key: self.values[value] for key, value in labels.items()}
        expressions = tuple(
            _replace(expression, values=tuple(self.values[value] for value in expression.values))
            for expression in selector.match_expressions
        )
        return _replace(selector, match_labels=labels, match_expressions=expressions)


def _strip_messages(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Messages are free text."""
    return tuple(_replace(condition, message=NOT_EXPORTED if condition.message else "") for condition in conditions)


def _replace(struct: T, **changes: Any) -> T:
    return msgspec.structs.replace(struct, **changes)  # type: ignore[type-var]
