"""A snapshot that may leave the house: the decisions in it are the same, but nobody's names are.

Names of clusters, placements and namespaces, UIDs, and the values of labels and taints become pseudonyms. Where names
decide between equals, their order counts, so pseudonyms stand in the order of what they stand for. Of every object only
that is kept which decisions read; keys of labels and taints, names and values of properties, and times stay as they
are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from fleet.model.keys import NUMBER_OF_CLUSTERS, PARENT_PLACEMENT, PLACEMENT_GENERATION, PREFIX, PREVIOUS_BINDING_STATE
from fleet.model.labels import is_label_value, is_subdomain
from fleet.model.views import (
    Binding,
    ClusterDecision,
    ClusterSelectorTerm,
    Condition,
    LabelSelector,
    MemberCluster,
    Metadata,
    PlacementPolicy,
    PolicySnapshot,
)

Json = Mapping[str, Any]
T = TypeVar("T")

NOT_EXPORTED: Final = "not-exported"
_ANNOTATIONS: Final = frozenset({NUMBER_OF_CLUSTERS, PLACEMENT_GENERATION, PREVIOUS_BINDING_STATE})
_COUNTED: Final = re.compile(r"-\d+(-snapshot)?")
_SELECTED: Final = {"group": "", "version": "v1", "kind": "Namespace", "name": NOT_EXPORTED}
_SELECTED_WITHIN: Final = {**_SELECTED, "kind": "ConfigMap"}
_LEAST_DIGITS: Final = 4


def anonymised(document: Json) -> dict[str, Any]:
    """An exported snapshot with pseudonyms in place of names."""
    found = _Snapshot.read(document)
    names = found.names()
    return {
        **{key: document[key] for key in ("apiVersion", "kind", "at", "configHash", "settings")},
        "anonymized": True,
        "clusters": [_typed(one, names.cluster(view)) for one, view in found.clusters],
        "placements": [_typed(one, names.placement(metadata, policy)) for one, metadata, policy in found.placements],
        "policySnapshots": [_typed(one, names.snapshot(view)) for one, view in found.snapshots],
        "bindings": [_typed(one, names.binding(view)) for one, view in found.bindings],
        "pending": [names.key(one) for one in document["pending"]],
    }


def _typed(original: Json, content: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(content)
    return {"apiVersion": original["apiVersion"], "kind": original["kind"], **plain}


# --- what is in it ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Its objects, each beside the document it was read from."""

    clusters: list[tuple[Json, MemberCluster]]
    placements: list[tuple[Json, Metadata, PlacementPolicy | None]]
    snapshots: list[tuple[Json, PolicySnapshot]]
    bindings: list[tuple[Json, Binding]]

    @classmethod
    def read(cls, document: Json) -> _Snapshot:
        return cls(
            clusters=[(one, msgspec.convert(one, MemberCluster)) for one in document["clusters"]],
            placements=[(one, *_placement_of(one)) for one in document["placements"]],
            snapshots=[(one, msgspec.convert(one, PolicySnapshot)) for one in document["policySnapshots"]],
            bindings=[(one, msgspec.convert(one, Binding)) for one in document["bindings"]],
        )

    def names(self) -> _Names:
        objects = [metadata for _, metadata, _ in self.placements]
        owned = [*(one.metadata for _, one in self.snapshots), *(one.metadata for _, one in self.bindings)]
        return _Names(
            clusters=_pseudonyms("cluster", self._clusters(), like=is_subdomain),
            placements=_pseudonyms("placement", (one.name for one in objects), map(_parent, owned)),
            namespaces=_pseudonyms("namespace", self._namespaces(), (one.namespace for one in (*objects, *owned))),
            values=_pseudonyms("value", self._values(), like=is_label_value),
            bindings=_pseudonyms("binding", (one.metadata.name for _, one in self.bindings)),
            others=_pseudonyms("name", self._odd_names()),
            uids=_pseudonyms("uid", (one.uid for one in (*objects, *owned)), self._cluster_uids()),
        )

    def _policies(self) -> Iterator[PlacementPolicy]:
        for policy in (*(policy for _, _, policy in self.placements), *(one.spec.policy for _, one in self.snapshots)):
            if policy is not None:
                yield policy

    def _clusters(self) -> Iterator[str]:
        yield from (one.metadata.name for _, one in self.clusters)
        for policy in self._policies():
            yield from policy.cluster_names
        for _, snapshot in self.snapshots:
            yield from (one.cluster_name for one in snapshot.status.target_clusters)
        for _, binding in self.bindings:
            yield from (binding.spec.target_cluster, binding.spec.cluster_decision.cluster_name)

    def _cluster_uids(self) -> Iterator[str]:
        yield from (one.metadata.uid for _, one in self.clusters)

    def _namespaces(self) -> Iterator[str]:
        for _, one in self.clusters:
            yield from one.status.namespaces or ()

    def _values(self) -> Iterator[str]:
        for _, one in self.clusters:
            yield from (one.metadata.labels or {}).values()
            yield from (taint.value for taint in one.spec.taints)
        for policy in self._policies():
            yield from (toleration.value for toleration in policy.tolerations)
            for selector in _selectors(policy):
                yield from (selector.match_labels or {}).values()
                yield from (value for one in selector.match_expressions for value in one.values)

    def _odd_names(self) -> Iterator[str]:
        for _, snapshot in self.snapshots:
            yield from _odd(snapshot.metadata.name, _parent(snapshot.metadata))
        for _, binding in self.bindings:
            for name in (binding.spec.scheduling_policy_snapshot_name, binding.spec.resource_snapshot_name):
                yield from _odd(name, _parent(binding.metadata))


def _placement_of(document: Json) -> tuple[Metadata, PlacementPolicy | None]:
    policy = (document.get("spec") or {}).get("policy")
    found = None if policy is None else msgspec.convert(policy, PlacementPolicy)
    return msgspec.convert(document["metadata"], Metadata), found


def _parent(metadata: Metadata) -> str:
    return metadata.label(PARENT_PLACEMENT) or ""


def _odd(name: str, parent: str) -> Iterator[str]:
    """A name that does not say whose it is."""
    if not (parent and name.startswith(parent) and _COUNTED.fullmatch(name[len(parent) :])):
        yield name


def _terms(policy: PlacementPolicy) -> Iterator[ClusterSelectorTerm]:
    affinity = policy.affinity.cluster_affinity if policy.affinity else None
    if affinity is not None:
        yield from affinity.required.cluster_selector_terms if affinity.required else ()
        yield from (one.preference for one in affinity.preferred)


def _selectors(policy: PlacementPolicy) -> Iterator[LabelSelector]:
    yield from (term.label_selector for term in _terms(policy) if term.label_selector is not None)


def _pseudonyms(word: str, *originals: Iterable[str], like: Callable[[str], bool] = bool) -> dict[str, str]:
    """In the order of the originals; what is no name of its kind stays none, and nothing stays nothing."""
    ordered = sorted({one for each in originals for one in each if one})
    digits = max(len(str(len(ordered))), _LEAST_DIGITS)
    found = {one: f"{word}-{number:0{digits}d}" for number, one in enumerate(ordered, start=1)}
    return {"": ""} | {one: name if like(one) else f"{name} (not valid)" for one, name in found.items()}


# --- the same under other names ---------------------------------------------------------------------------------------


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

    def key(self, key: str) -> str:
        namespace, slash, name = key.rpartition("/")
        return f"{self.namespaces[namespace]}{slash}{self.placements[name]}"

    def cluster(self, one: MemberCluster) -> MemberCluster:
        labels = {key: self.values[value] for key, value in (one.metadata.labels or {}).items()}
        metadata = self._metadata(one.metadata, self.clusters[one.metadata.name])
        taints = tuple(_with(taint, value=self.values[taint.value]) for taint in one.spec.taints)
        agents = tuple(_with(agent, conditions=_conditions(agent.conditions)) for agent in one.status.agent_status)
        namespaces = one.status.namespaces
        if namespaces is not None:
            namespaces = dict.fromkeys((self.namespaces[name] for name in sorted(namespaces)), "")
        status = _with(
            one.status, agent_status=agents, conditions=_conditions(one.status.conditions), namespaces=namespaces
        )
        return MemberCluster(_with(metadata, labels=labels), _with(one.spec, taints=taints), status)

    def placement(self, metadata: Metadata, policy: PlacementPolicy | None) -> dict[str, Any]:
        spec: dict[str, Any] = {"resourceSelectors": [_SELECTED_WITHIN if metadata.namespace else _SELECTED]}
        if policy is not None:
            spec["policy"] = self._policy(policy)
        return {"metadata": self._metadata(metadata, self.placements[metadata.name]), "spec": spec}

    def snapshot(self, one: PolicySnapshot) -> PolicySnapshot:
        metadata = self._metadata(one.metadata, self._counted(one.metadata.name, _parent(one.metadata)))
        policy = None if one.spec.policy is None else self._policy(one.spec.policy)
        status = _with(
            one.status,
            conditions=_conditions(one.status.conditions),
            target_clusters=tuple(map(self._decision, one.status.target_clusters)),
        )
        return PolicySnapshot(metadata, _with(one.spec, policy=policy), status)

    def binding(self, one: Binding) -> Binding:
        parent = _parent(one.metadata)
        spec = _with(
            one.spec,
            target_cluster=self.clusters[one.spec.target_cluster],
            scheduling_policy_snapshot_name=self._counted(one.spec.scheduling_policy_snapshot_name, parent),
            resource_snapshot_name=self._counted(one.spec.resource_snapshot_name, parent),
            cluster_decision=self._decision(one.spec.cluster_decision),
        )
        return Binding(self._metadata(one.metadata, self.bindings[one.metadata.name]), spec)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _metadata(self, one: Metadata, name: str) -> Metadata:
        """With what ties the objects together, and nothing that their owners wrote beside that."""
        labels = {key: value for key, value in (one.labels or {}).items() if key.startswith(PREFIX)}
        if PARENT_PLACEMENT in labels:
            labels[PARENT_PLACEMENT] = self.placements[labels[PARENT_PLACEMENT]]
        annotations = {key: value for key, value in (one.annotations or {}).items() if key in _ANNOTATIONS}
        return Metadata(
            name=name,
            namespace=self.namespaces[one.namespace],
            uid=self.uids[one.uid],
            generation=one.generation,
            labels=labels or None,
            annotations=annotations or None,
            finalizers=tuple(finalizer for finalizer in one.finalizers if finalizer.startswith(PREFIX)),
            creation_timestamp=one.creation_timestamp,
            deletion_timestamp=one.deletion_timestamp,
        )

    def _counted(self, name: str, parent: str) -> str:
        if not name or next(_odd(name, parent), ""):
            return self.others[name]
        return self.placements[parent] + name[len(parent) :]

    def _decision(self, one: ClusterDecision) -> ClusterDecision:
        return _with(one, cluster_name=self.clusters[one.cluster_name], reason="")

    def _policy(self, policy: PlacementPolicy) -> PlacementPolicy:
        tolerations = tuple(_with(one, value=self.values[one.value]) for one in policy.tolerations)
        names = tuple(self.clusters[name] for name in policy.cluster_names)
        affinity = policy.affinity
        cluster_affinity = None if affinity is None else affinity.cluster_affinity
        if affinity is not None and cluster_affinity is not None:
            required = cluster_affinity.required
            if required is not None:
                required = _with(
                    required, cluster_selector_terms=tuple(map(self._term, required.cluster_selector_terms))
                )
            preferred = tuple(_with(one, preference=self._term(one.preference)) for one in cluster_affinity.preferred)
            affinity = _with(affinity, cluster_affinity=_with(cluster_affinity, required=required, preferred=preferred))
        return _with(policy, tolerations=tolerations, cluster_names=names, affinity=affinity)

    def _term(self, term: ClusterSelectorTerm) -> ClusterSelectorTerm:
        return term if term.label_selector is None else _with(term, label_selector=self._selector(term.label_selector))

    def _selector(self, selector: LabelSelector) -> LabelSelector:
        labels = selector.match_labels
        if labels is not None:
            labels = {key: self.values[value] for key, value in labels.items()}
        expressions = tuple(
            _with(one, values=tuple(self.values[value] for value in one.values)) for one in selector.match_expressions
        )
        return _with(selector, match_labels=labels, match_expressions=expressions)


def _conditions(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Messages are free text."""
    return tuple(_with(one, message=NOT_EXPORTED if one.message else "") for one in conditions)


def _with(one: T, **changes: Any) -> T:
    return msgspec.structs.replace(one, **changes)  # type: ignore[type-var]
