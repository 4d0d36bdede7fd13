"""Edits of a hub as people commit them: files of placements and clusters, and deletions, drawn from a generator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from fleet.cli.client.hub_objects import list_deciding_documents
from fleet.cli.commands.apply import ApplyOptions, KindResolver, apply_document
from fleet.cli.commands.simulation.diff import DiffQuestion, build_report
from fleet.cli.input.diff_inputs import PlannedDeletions, read_diff_inputs
from fleet.cli.input.documents import ParsedDocument, parse_documents
from fleet.cli.input.files import SourceText
from fleet.cli.input.objects import Layer, read_objects
from fleet.cli.input.problems import Findings, SourceLocation
from fleet.cli.input.simulation import Moment
from fleet.cli.output.diff_report import DiffReport
from fleet.kube.api import Api, Request
from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, NAMESPACED, PlacementScope
from fleet.scheduler.profiles.frameworks import build_compiled_profiles
from fleet.settings import Settings
from tests.e2e.world import World
from tests.fast_yaml import safe_dump_all

Json = dict[str, Any]

REGIONS: Final = ("eu", "us", "asia")
ENVIRONMENTS: Final = ("prod", "test")
NAMES: Final = ("web", "cart", "mail", "shop/api", "shop/jobs")
CLUSTERS: Final = tuple(f"c{number}" for number in range(10))


@dataclass
class Edit:
    """What one commit changes."""

    documents: list[Json] = field(default_factory=list)
    deleted: list[tuple[str, str]] = field(default_factory=list)
    """Kind and key."""

    def split(self) -> Iterator[Edit]:
        """Into parts whose order makes no difference: a scheduler does not wait for the last object of an edit, and
        decides with the clusters and the policy that are there. One cluster each, and all placements together."""
        placements = [each for each in self.documents if each["kind"] != MEMBER_CLUSTERS.kind]
        deleted = [each for each in self.deleted if each[0] != MEMBER_CLUSTERS.kind]
        for document in self.documents:
            if document["kind"] == MEMBER_CLUSTERS.kind:
                yield Edit([document])
        if placements or deleted:
            yield Edit(placements, deleted)
        for each in self.deleted:
            if each[0] == MEMBER_CLUSTERS.kind:
                yield Edit(deleted=[each])

    @property
    def text(self) -> str:
        return safe_dump_all(self.documents, sort_keys=False)

    def __str__(self) -> str:
        return f"{self.text}deleted: {self.deleted}"


@dataclass
class RecordingApi:
    """Passes requests on, and remembers them."""

    api: Api
    requests: list[Request] = field(default_factory=list)

    async def call(self, request: Request) -> bytes:
        self.requests.append(request)
        return await self.api.call(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError(f"{request.path} is watched")


async def compare(api: Api, edit: Edit, settings: Settings, now: int) -> DiffReport:
    """`fleet diff` of the edit."""
    findings = Findings()
    documents = [ParsedDocument(SourceLocation("the hub"), document) async for document in list_deciding_documents(api)]
    base = read_objects(documents, findings, layer=Layer(is_checked=False))
    layer = parse_documents(SourceText("edit.yaml", edit.text), findings)
    inputs = read_diff_inputs(base, [layer], PlannedDeletions(named=edit.deleted), findings)
    assert findings.problems == [], f"{edit}\n{findings.problems}"
    asked = DiffQuestion(inputs, "the hub", settings, build_compiled_profiles(settings), Moment(now, "wall clock"))
    return build_report(asked, findings)


async def apply_edit(api: Api, edit: Edit) -> None:
    """`fleet apply` of the edit, and its deletions."""
    findings, kinds = Findings(), KindResolver(api)
    for document in parse_documents(SourceText("edit.yaml", edit.text), findings):
        await apply_document(api, kinds, document, ApplyOptions(files=(), force=True))
    user = World(api)
    for kind, key in edit.deleted:
        resources = (MEMBER_CLUSTERS, CLUSTER_SCOPED.placement, NAMESPACED.placement)
        await user.delete(next(resource for resource in resources if resource.kind == kind), key)


@dataclass
class Author:
    """Draws edits that fit what is there."""

    rng: Random
    hints_end: str
    """Of all hints to placements."""
    policies: dict[str, Json] = field(default_factory=dict)
    """Of the placements there are."""
    least: dict[str, int] = field(default_factory=dict)
    """By placement, `minTargets` of its options."""
    clusters: set[str] = field(default_factory=lambda: set(CLUSTERS))

    known: frozenset[str] = frozenset()
    """The placements that were there before the edit."""

    def draw(self) -> Edit:
        edit, self.known = Edit(), frozenset(self.policies)
        kinds = (
            self._edit_cluster,
            self._edit_policy,
            self._edit_count,
            self._edit_options,
            self._add,
            self._delete,
        )
        for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
            self.rng.choices(kinds, weights=(3, 3, 2, 2, 2, 1))[0](edit)
        return edit

    def draw_all(self) -> Edit:
        """A new placement under every name."""
        edit = Edit()
        for _ in NAMES:
            self._add(edit)
        return edit

    # --- kinds of edits -----------------------------------------------------------------------------------------------

    def _edit_cluster(self, edit: Edit) -> None:
        name = self.rng.choice(sorted(self.clusters))
        labels = {"region": self.rng.choice(REGIONS), "env": self.rng.choice(ENVIRONMENTS)}
        for key in list(labels):
            if self.rng.random() < 0.2:
                del labels[key]
        taints = [{"key": "drained", "effect": "NoSchedule"}] if self.rng.random() < 0.3 else []
        _replace(edit, _cluster(name, labels, taints))

    def _edit_policy(self, edit: Edit) -> None:
        if self.policies:
            key = self.rng.choice(sorted(self.policies))
            self._write(edit, key, self._draw_policy(self.policies[key]["placementType"]))

    def _edit_count(self, edit: Edit) -> None:
        counted = sorted(key for key, policy in self.policies.items() if policy["placementType"] == "PickN")
        if counted:
            key = self.rng.choice(counted)
            self._write(edit, key, {**self.policies[key], "numberOfClusters": self.rng.randrange(0, 9)})

    def _edit_options(self, edit: Edit) -> None:
        if not self.policies:
            return
        key, spec = self.rng.choice(sorted(self.policies)), Json()
        count = self.policies[key].get("numberOfClusters", 0)
        if count and self.rng.random() < 0.7:
            spec["minTargets"] = self.rng.randint(1, count)
        if self.rng.random() < 0.5:
            spec["placementHints"] = [
                {"cluster": name, "owner": "planner", "expiresAt": self.hints_end}
                for name in self.rng.sample(CLUSTERS, 2)
            ]
        self.least[key] = spec.get("minTargets", 0)
        _replace(edit, _options(key, spec))

    def _add(self, edit: Edit) -> None:
        deleted = {key for _, key in edit.deleted}
        free = [key for key in NAMES if key not in self.policies and key not in deleted]
        if free:
            kind = self.rng.choice(("PickAll", "PickN", "PickN", "PickN", "PickFixed"))
            self._write(edit, self.rng.choice(free), self._draw_policy(kind))

    def _delete(self, edit: Edit) -> None:
        if self.rng.random() < 0.3 and len(self.clusters) > 5:
            self._delete_cluster(edit)
        elif self.policies:
            key = self.rng.choice(sorted(self.policies))
            kind = _scope(key).placement.kind
            edit.documents = [each for each in edit.documents if _key(each) != (kind, key)]
            del self.policies[key]
            if key in self.known:
                edit.deleted.append((kind, key))

    def _delete_cluster(self, edit: Edit) -> None:
        name = self.rng.choice(sorted(self.clusters))
        edit.documents = [each for each in edit.documents if _key(each) != ("MemberCluster", name)]
        self.clusters.discard(name)
        edit.deleted.append(("MemberCluster", name))

    # --- policies -----------------------------------------------------------------------------------------------------

    def _write(self, edit: Edit, key: str, policy: Json) -> None:
        if "numberOfClusters" in policy:  # less than minTargets would be refused
            policy = {**policy, "numberOfClusters": max(policy["numberOfClusters"], self.least.get(key, 0))}
        self.policies[key] = policy
        _replace(edit, _placement(key, policy))

    def _draw_policy(self, kind: str) -> Json:
        if kind == "PickFixed":
            return {"placementType": kind, "clusterNames": sorted(self.rng.sample((*CLUSTERS, "nowhere"), 3))}
        policy: Json = {"placementType": kind}
        affinity: Json = {}
        if self.rng.random() < 0.5:
            terms = [{"labelSelector": {"matchLabels": self._draw_labels()}} for _ in range(self.rng.choice((1, 1, 2)))]
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"clusterSelectorTerms": terms}
        if self.rng.random() < 0.3:
            policy["tolerations"] = [{"key": "drained", "operator": "Exists"}]
        if kind == "PickN":
            policy["numberOfClusters"] = self.rng.randrange(1, 8)
            if self.rng.random() < 0.4:
                preference = {"labelSelector": {"matchLabels": self._draw_labels()}}
                affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {"weight": self.rng.choice((10, 50)), "preference": preference}
                ]
            if self.rng.random() < 0.4:
                policy["topologySpreadConstraints"] = [
                    {
                        "topologyKey": self.rng.choice(("region", "env")),
                        "maxSkew": self.rng.choice((1, 2)),
                        "whenUnsatisfiable": self.rng.choice(("DoNotSchedule", "ScheduleAnyway")),
                    }
                ]
        return policy | ({"affinity": {"clusterAffinity": affinity}} if affinity else {})

    def _draw_labels(self) -> Json:
        return self.rng.choice([*({"region": region} for region in REGIONS), *({"env": name} for name in ENVIRONMENTS)])


def _scope(key: str) -> PlacementScope:
    return NAMESPACED if "/" in key else CLUSTER_SCOPED


def _key(document: Json) -> tuple[str, str]:
    metadata = document["metadata"]
    return document["kind"], "/".join(metadata[part] for part in ("namespace", "name") if part in metadata)


def _replace(edit: Edit, document: Json) -> None:
    """One document of an object."""
    edit.documents = [*(each for each in edit.documents if _key(each) != _key(document)), document]


def _cluster(name: str, labels: Json, taints: list[Json]) -> Json:
    return {
        "apiVersion": MEMBER_CLUSTERS.api_version,
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {"identity": {"kind": "User", "name": f"agent-{name}"}, "taints": taints},
    }


def _options(key: str, spec: Json) -> Json:
    return {**_head(_scope(key).options, key), "spec": spec}


def _head(resource: Resource, key: str) -> Json:
    namespace, _, name = key.rpartition("/")
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _placement(key: str, policy: Json) -> Json:
    kind = "ConfigMap" if "/" in key else "Namespace"
    return {
        **_head(_scope(key).placement, key),
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": kind, "name": "nothing-by-this-name"}],
            "policy": policy,
        },
    }
