"""Large policies, in growing sizes: what their questions cost everybody else.

One caller asks everything about a placement whose policy is as large as a size says, while `/livez` is looked at and
another caller asks about a small placement. That caller alone, just before, is what it is compared with: both phases
meet the same machine. Hub, controller and API are a process each, and so are the two callers.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import msgspec

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.bench.asking import answering_alone
from tests.bench.controller.documents import PLAIN, placement
from tests.bench.controller.hubs import EMBEDDED, REAL, Hub, serving
from tests.bench.controller.placing import join, quantile
from tests.bench.controller.traffic import Traffic, read_seen
from tests.bench.controller.workers import scheduler
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import name_of
from tests.bench.measuring import Run
from tests.bench.others import Asking, Beside, Others, others
from tests.bench.policies import plain_policy

Json = dict[str, Any]

LIVEZ_WITHIN: Final = 200.0
P99_KEPT: Final = 50.0
"""Per cent: it at most doubles."""
DEADLINE: Final = 30.0
_GRACE: Final = 5.0
"""For an answer that was cut at the deadline to arrive."""
_LOOK_AGAIN: Final = 0.2
_SECONDS_TO_DECIDE: Final = 300.0
_SECONDS_TO_WARM_UP: Final = 1.0
_SECONDS_ALONE: Final = 10.0
_SECONDS_EACH: Final = 3.0
"""In which a policy is stored, and asked about, again and again: a quantile of few answers says little."""
_NANOSECONDS: Final = 1e9
_BYTES: Final = 1_400_000
"""Of the largest policy: etcd takes 1.5 MiB."""
_NAME: Final = "name-of-the-placement"
_KEY: Final = "example.com/unheard-of-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    target: str = EMBEDDED
    clusters: int
    parts: tuple[int | None, ...]
    """Of each policy; None for as many as the hub stores."""


FULL: Final = (
    Size(target=EMBEDDED, clusters=20, parts=(10, 100, 1_000, None)),
    Size(target=EMBEDDED, clusters=5_000, parts=(1_000, None)),
    Size(target=REAL, clusters=20, parts=(1_000, 10_000, None)),
)
QUICK: Final = (Size(target=EMBEDDED, clusters=20, parts=(10, 1_000)),)


# --- policies ---------------------------------------------------------------------------------------------------------


def _require(term: Json) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [term]}}


def _build_expressions(count: int) -> Json:
    return _require(
        {"labelSelector": {"matchExpressions": [{"key": f"{_KEY}{n}", "operator": "Exists"} for n in range(count)]}}
    )


def _build_labels(count: int) -> Json:
    return _require({"labelSelector": {"matchLabels": {f"{_KEY}{n}": "x" for n in range(count)}}})


def _build_properties(count: int) -> Json:
    expressions = [{"name": f"{_KEY}{n}", "operator": "Gt", "values": ["1"]} for n in range(count)]
    return _require({"propertySelector": {"matchExpressions": expressions}})


def _build_values(count: int) -> Json:
    values = [f"v-{number}" for number in range(count)]
    return _require({"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": values}]}})


def _build_preferences(count: int) -> Json:
    preferred = [
        {"weight": 1, "preference": {"labelSelector": {"matchLabels": {f"{_KEY}{n}": "x"}}}} for n in range(count)
    ]
    return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}


SHAPES: Final[dict[str, Callable[[int], Json]]] = {
    "expressions": _build_expressions,
    "labels": _build_labels,
    "properties": _build_properties,
    "values": _build_values,
    "preferences": _build_preferences,
}
"""The lists of a policy that have no bound of their own."""
_MOST_TOLERATIONS: Final = 100


def build_policy(shape: str, parts: int | None, *, most_bytes: int) -> Json:
    affinity = SHAPES[shape](_count_parts(shape, most_bytes) if parts is None else parts)
    tolerations = [{"key": f"{_KEY}{n}", "operator": "Exists"} for n in range(min(parts or _MOST_TOLERATIONS, 100))]
    return {
        "placementType": "PickN",
        "numberOfClusters": 3,
        "affinity": {"clusterAffinity": affinity},
        "tolerations": tolerations,
    }


def _count_parts(shape: str, most_bytes: int) -> int:
    few, many = (len(json.dumps(SHAPES[shape](count), separators=(",", ":"))) for count in (10_000, 20_000))
    return int(most_bytes / ((many - few) / 10_000))


# --- what is measured -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Site:
    """Processes that serve one hub."""

    hub: Hub
    api: str
    traffic: Traffic
    others: Others


@dataclass(slots=True)
class Found:
    alone: Beside = field(default_factory=Beside)
    stored: Beside = field(default_factory=Beside)
    """While the hub stores or deletes a large policy, and the controller decides it."""
    asked: Beside = field(default_factory=Beside)
    questions: list[float] = field(default_factory=list)
    refused: int = 0
    """Questions that were answered 422, 429 or 503."""
    wrong: list[str] = field(default_factory=list)
    """Questions that had no declared answer in time."""


_OTHER_CALLER: Final[Json] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "other-caller"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
}
_SMALL: Final = tuple(f"small-{number}" for number in range(5))
_DECLARED: Final = frozenset((200, 413, 422, 429, 503))


def list_questions(name: str, document: Json) -> list[tuple[str, bytes | None]]:
    """Paths, and bodies to post."""
    labelled = {"op": "labelCluster", "cluster": name_of(0), "key": f"{_KEY}1", "value": "yes"}
    removed = {"op": "removeCluster", "cluster": name_of(1)}
    why, why_not = f"/v1/placements/-/{name}/why", f"/v1/clusters/{name_of(0)}/why-not?placement={name}"
    return [
        (why, None),
        (f"{why}?fixes=deep", None),
        (f"{why}?explain=all&limit=500", None),
        (why_not, None),
        (f"{why_not}&fixes=deep", None),
        ("/v1/simulate", _encode({"placement": {"ref": name}, "edits": [labelled]})),
        ("/v1/simulate", _encode({"placement": document})),
        ("/v1/simulate", _encode({"placement": {"ref": _SMALL[0]}, "edits": [removed]})),
        (f"/v1/matrix?placement={name}", None),
        (f"/v1/clusters/{name_of(0)}/placements", None),
        ("/v1/status", None),
        ("/v1/placements", None),
        (f"/v1/placements/-/{name}", None),
    ]


async def measure(site: Site, parts: int | None, *, most_bytes: int) -> Found:
    found = Found()
    async with aiohttp.ClientSession() as session:
        async with site.others.asking(Beside()):
            await asyncio.sleep(_SECONDS_TO_WARM_UP)
        async with site.others.asking(found.alone):
            await asyncio.sleep(_SECONDS_ALONE)
        for shape in SHAPES:
            policy = build_policy(shape, parts, most_bytes=most_bytes)
            encoded = _encode(build_placement(_NAME, policy))
            async with site.others.asking(found.stored):
                name = await _store_again_and_again(site.traffic, f"large-{shape}-{parts or 'most'}", encoded)
            questions = list_questions(name, build_placement(name, policy))
            async with site.others.asking(found.asked):
                ends = time.monotonic() + _SECONDS_EACH
                while time.monotonic() < ends:
                    for path, body in questions:
                        await _ask(site, session, path, body, found)
            async with site.others.asking(found.stored):
                await site.traffic.send("DELETE", CLUSTER_SCOPED.placement.item(name))
    return found


async def _ask(site: Site, session: aiohttp.ClientSession, path: str, body: bytes | None, found: Found) -> None:
    headers = {"Authorization": f"Bearer {site.hub.token}", "Content-Type": "application/json"}
    begun = time.perf_counter()
    method = "GET" if body is None else "POST"
    async with session.request(method, f"{site.api}{path}", data=body, headers=headers) as answer:
        content = await answer.read()
    seconds = time.perf_counter() - begun
    found.questions.append(seconds)
    found.refused += answer.status != 200
    if answer.status not in _DECLARED or seconds > DEADLINE + _GRACE:
        found.wrong.append(f"{method} {path}: {answer.status} after {seconds:.1f} s: {content[:300]!r}")


async def _store_again_and_again(traffic: Traffic, prefix: str, encoded: bytes) -> str:
    """All but the last are deleted; the name of that one."""
    ends, number = time.monotonic() + _SECONDS_EACH, 0
    while True:
        name = f"{prefix}-{number}"
        await _place(traffic, name, encoded.replace(_NAME.encode(), name.encode(), 1))
        if time.monotonic() >= ends:
            return name
        await traffic.send("DELETE", CLUSTER_SCOPED.placement.item(name))
        number += 1


async def _place(traffic: Traffic, name: str, document: bytes) -> None:
    """Returns when it is decided."""
    await traffic.send("POST", CLUSTER_SCOPED.placement.collection(), document)
    async with asyncio.timeout(_SECONDS_TO_DECIDE):
        while not read_seen(await traffic.send("GET", CLUSTER_SCOPED.placement.item(name))).is_decided:
            await asyncio.sleep(_LOOK_AGAIN)


def build_placement(name: str, policy: Json) -> Json:
    kind = CLUSTER_SCOPED.placement
    document = placement(f"{name}-0", run="hostile", form=PLAIN)
    spec = {**document["spec"], "policy": policy}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


def _encode(document: Json) -> bytes:
    return msgspec.json.encode(document)


# --- arrangements -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def two_processes(size: Size) -> AsyncIterator[Site]:
    with serving(size.target) as hub:
        async with Traffic.to(hub) as traffic:
            await join(traffic, size.clusters)
            with scheduler(hub, controllers="placement,scheduler") as worker, answering_alone(hub) as server:
                await worker.ready()
                await _settle(traffic)
                api = f"http://127.0.0.1:{server.port}"
                probes = (f"{api}/livez", f"http://{worker.health}/livez")
                questions = [f"{api}/v1/placements/-/{name}/why" for name in _SMALL]
                with others(Asking(probes, questions, hub.other_token)) as callers:
                    yield Site(hub, api, traffic, callers)


async def _settle(traffic: Traffic) -> None:
    await traffic.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", _OTHER_CALLER)
    for name in _SMALL:
        await _place(traffic, name, _encode(build_placement(name, plain_policy(3, 0))))


# --- figures ----------------------------------------------------------------------------------------------------------


def hostile(run: Run) -> Iterator[Figure]:
    for size in QUICK if run.quick else FULL:
        for parts, found in asyncio.run(measure_all(size)).items():
            of = f"{parts:,} parts" if parts else f"{_BYTES:,} bytes"
            yield from _figures(run, f"{size.target} hub, {size.clusters:,} clusters, {of}", found)


async def measure_all(size: Size) -> dict[int | None, Found]:
    async with two_processes(size) as site:
        return {parts: await measure(site, parts, most_bytes=_BYTES) for parts in size.parts}


def _figures(run: Run, case: str, found: Found) -> Iterator[Figure]:
    alone = found.alone
    p99_alone = quantile(alone.answers, 0.99)
    times: list[tuple[str, float, float | None]] = [
        ("/livez p99, alone", quantile(alone.probes, 0.99), None),
        ("others p99, alone", p99_alone, None),
        ("slowest question", max(found.questions), (DEADLINE + _GRACE) * 1_000),
    ]
    for when, beside in (("stored", found.stored), ("asked", found.asked)):
        times += [
            (f"/livez p99, {when}", quantile(beside.probes, 0.99), None),
            (f"/livez worst, {when}", max(beside.probes), LIVEZ_WITHIN),
            (f"others p99, {when}", quantile(beside.answers, 0.99), None),
            (f"others worst, {when}", max(beside.answers), None),
        ]
        kept = 100 * p99_alone / quantile(beside.answers, 0.99)
        yield run.number(case, f"others p99 kept, {when}", Kind.PERCENT, kept, target=P99_KEPT, informal=True)
    for part, seconds, target in times:
        yield run.number(case, part, Kind.MILLISECONDS, seconds * _NANOSECONDS, target=target, informal=True)
    yield run.number(case, "refused or cut", Kind.COUNT, found.refused, informal=True)
    yield run.number(case, "without a declared answer", Kind.COUNT, len(found.wrong), target=0)
