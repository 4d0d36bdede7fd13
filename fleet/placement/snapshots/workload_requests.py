"""Requests of the selected workloads on a cluster, as Kubernetes counts them for their pods.

Deployments, StatefulSets, ReplicaSets, ReplicationControllers, Jobs, CronJobs (one run), DaemonSets (on each node) and
Pods, also inside envelopes. A container without a request for a resource requests its limit. What cannot be read counts
as nothing, and is remarked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

import msgspec

from fleet.errors import DocumentError, InputError
from fleet.framework.policy.resource_requests import (
    MOST_RESOURCES,
    Needs,
    OverriddenNeeds,
    find_request_problems,
    format_needs,
    read_usable,
)
from fleet.framework.policy.workload_limits import LIMITED, LIMITED_RESOURCES, UNSIZED, merge_sizes, name_size
from fleet.model.decoding import decode
from fleet.model.keys import PLACEMENT_GROUP, WORKLOAD_LIMITS, WORKLOAD_REMARKS, WORKLOAD_REQUESTS
from fleet.model.quantity import parse_quantity
from fleet.model.views import Metadata, QuantityText, View
from fleet.placement.selection.resolution import SelectedObject
from fleet.placement.selection.resource_filter import ENVELOPES
from fleet.placement.snapshots.workload_overrides import AppliedRule
from fleet.snapshot.capacity import MILLI

_MOST_REMARKS: Final = 5
_MOST_RULES: Final = 6
"""That change one workload: its requests are summed up for each set of them."""
_LONGEST_REMARK: Final = 300
_REPLICATED: Final = frozenset(
    {("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "ReplicaSet"), ("", "ReplicationController")}
)
_JOB: Final = ("batch", "Job")
_CRON_JOB: Final = ("batch", "CronJob")
_DAEMON_SET: Final = ("apps", "DaemonSet")
_POD: Final = ("", "Pod")
_WORKLOADS: Final = _REPLICATED | {_JOB, _CRON_JOB, _DAEMON_SET, _POD}
_RESTARTS_ALWAYS: Final = "Always"

RulesOf = Callable[[SelectedObject], Iterable[AppliedRule]]
_Quantities = dict[str, QuantityText]
_Amounts = Counter[str]
"""Exact, by resource; of Fractions."""
_Measure = Callable[["_PodSpec", list[str]], _Amounts]
_Read = Callable[[str, "_Resources", list[str]], _Amounts]


class _Resources(View, frozen=True):
    requests: _Quantities | None = None
    limits: _Quantities | None = None


class _Container(View, frozen=True):
    name: str = ""
    resources: _Resources = _Resources()
    restart_policy: str = ""


class _PodSpec(View, frozen=True):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    overhead: _Quantities | None = None
    resources: _Resources = _Resources()


class _Template(View, frozen=True):
    spec: _PodSpec = _PodSpec()


class _JobSpec(View, frozen=True):
    template: _Template = _Template()
    parallelism: int = 1
    completions: int | None = None


class _JobTemplate(View, frozen=True):
    spec: _JobSpec = _JobSpec()


class _WorkloadSpec(View, frozen=True):
    replicas: int = 1
    template: _Template = _Template()


class _Pod(View, frozen=True):
    spec: _PodSpec = _PodSpec()


class _Workload(View, frozen=True):
    spec: _WorkloadSpec = _WorkloadSpec()


class _Job(View, frozen=True):
    spec: _JobSpec = _JobSpec()


class _CronJobSpec(View, frozen=True):
    job_template: _JobTemplate = _JobTemplate()


class _CronJob(View, frozen=True):
    spec: _CronJobSpec = _CronJobSpec()


class _Embedded(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()


class _Envelope(View, frozen=True):
    data: dict[str, msgspec.Raw] | None = None


@dataclass(slots=True)
class _Sum:
    measure: _Measure
    fixed: _Amounts = field(default_factory=Counter)
    per_node: _Amounts = field(default_factory=Counter)

    def add(self, name: tuple[str, str], title: str, content: bytes, remarks: list[str]) -> None:
        own: list[str] = []
        try:
            pods, copies = _read_pods(name, content)
            amounts = self.measure(pods, own)
        except DocumentError as error:
            remarks.append(f"{error}; it counts as nothing")
            return
        remarks += [f"{title}: {remark}; it counts as nothing" for remark in own]
        total = self.per_node if name == _DAEMON_SET else self.fixed
        for resource, amount in amounts.items():
            total[resource] += amount * copies

    def round_up(self, remarks: list[str]) -> Needs:
        return Needs(_round_up(self.fixed, remarks), _round_up(self.per_node, remarks))


class _Overridden(NamedTuple):
    rules: tuple[AppliedRule, ...]
    sums: list[_Sum]
    """One for each set of rules that are for a cluster."""


@dataclass(slots=True)
class _Workloads:
    rules_of: RulesOf
    measure: _Measure
    plain: _Sum = field(init=False)
    overridden: dict[tuple[tuple[str, int], ...], _Overridden] = field(default_factory=dict)
    """By override and position of the rules that change them."""
    remarks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plain = _Sum(self.measure)

    def add(self, selected: SelectedObject) -> None:
        name = selected.group, selected.kind
        if name in _WORKLOADS:
            self._add_workload(name, f"{selected.kind} {selected.namespace}/{selected.name}", selected)
        elif selected.group == PLACEMENT_GROUP and selected.kind in ENVELOPES:
            for entry, content in (decode(selected.content, _Envelope).view.data or {}).items():
                embedded = decode(bytes(content), _Embedded).view
                inner = embedded.api_version.rpartition("/")[0], embedded.kind
                if inner in _WORKLOADS:
                    title = f"{selected.kind} {selected.name}, {entry}: {embedded.kind} {embedded.metadata.name}"
                    self.plain.add(inner, title, bytes(content), self.remarks)

    def _add_workload(self, name: tuple[str, str], title: str, selected: SelectedObject) -> None:
        rules = tuple(self.rules_of(selected))
        if len(rules) > _MOST_RULES:
            self.remarks.append(f"{title}: {len(rules)} rules of overrides change it, and {_MOST_RULES} count")
            rules = rules[:_MOST_RULES]
        if not rules:
            self.plain.add(name, title, selected.content, self.remarks)
            return
        key = tuple((rule.override, rule.position) for rule in rules)
        known = self.overridden.setdefault(
            key, _Overridden(rules, [_Sum(self.measure) for _ in range(1 << len(rules))])
        )
        for position, total in enumerate(known.sums):
            content: bytes | None = selected.content
            for bit, rule in enumerate(rules):
                if content is not None and position >> bit & 1:
                    content = self._override(title, rule, content)
            if content is not None:
                total.add(name, title, content, self.remarks)

    def _override(self, title: str, rule: AppliedRule, content: bytes) -> bytes | None:
        try:
            return rule.apply(content)
        except InputError as error:
            self.remarks.append(f"{title}: {error}; it counts as it is")
            return content

    def sum_up(self) -> Needs:
        overridden = (
            OverriddenNeeds(
                tuple(rule.selectors for rule in each.rules),
                tuple(format_needs(total.round_up(self.remarks)) for total in each.sums),
            )
            for each in self.overridden.values()
        )
        return self.plain.round_up(self.remarks)._replace(overridden=tuple(overridden))


def describe_workloads(
    objects: Iterable[SelectedObject], rules_of: RulesOf, *, with_limits: bool = False
) -> dict[str, str]:
    """The annotations that tell it on a policy snapshot. `rules_of` lists the rules of overrides that change an
    object."""
    measures: dict[str, _Measure] = {WORKLOAD_REQUESTS: _sum_requests}
    if with_limits:
        measures[WORKLOAD_LIMITS] = _sum_limits
    texts, remarks, selected = {}, [], tuple(objects)
    for key, measure in measures.items():
        workloads = _Workloads(rules_of, measure)
        for each in selected:
            workloads.add(each)
        texts[key] = format_needs(workloads.sum_up())
        remarks += workloads.remarks
    texts[WORKLOAD_REMARKS] = "\n".join(_shorten(list(dict.fromkeys(remarks))))
    return {key: text for key, text in texts.items() if text}


def _read_pods(name: tuple[str, str], content: bytes) -> tuple[_PodSpec, int]:
    """A pod, and how many of it run at a time: on a cluster, or on a node."""
    if name == _POD:
        return decode(content, _Pod).view.spec, 1
    if name in (_JOB, _CRON_JOB):
        is_job = name == _JOB
        job = decode(content, _Job).view.spec if is_job else decode(content, _CronJob).view.spec.job_template.spec
        parallel = job.parallelism if job.completions is None else min(job.parallelism, job.completions)
        return job.template.spec, max(parallel, 0)
    workload = decode(content, _Workload).view.spec
    return workload.template.spec, 1 if name == _DAEMON_SET else max(workload.replicas, 0)


def _sum_requests(pod: _PodSpec, remarks: list[str]) -> _Amounts:
    return _sum_pod(pod, _read_requests, remarks)


def _sum_limits(pod: _PodSpec, remarks: list[str]) -> _Amounts:
    """Limits, and what the use of cpu is expected from: the containers that run all the time, or the pod as a whole."""
    peak = _sum_pod(pod, _read_limits, remarks)
    amounts: _Amounts = Counter({resource: peak[resource] for resource in LIMITED_RESOURCES})
    sidecars = (container for container in pod.init_containers if container.restart_policy == _RESTARTS_ALWAYS)
    sized = [container.resources for container in (*sidecars, *pod.containers)]
    if "cpu" in (pod.resources.limits or {}) or "cpu" in (pod.resources.requests or {}):
        sized = [pod.resources]
    for resources in sized:
        limit, request = (_read_cpu(quantities) for quantities in (resources.limits, resources.requests))
        if limit is not None:
            amounts[LIMITED] += limit
        elif request is not None:
            amounts[name_size(request)] += 1
        else:
            amounts[UNSIZED] += 1
    amounts[LIMITED] += _read_cpu(pod.overhead) or 0
    return amounts


def _read_cpu(quantities: _Quantities | None) -> int | None:
    """In thousandths; None where there is none that can be read."""
    return read_usable({"cpu": quantities["cpu"]}).get("cpu") if quantities and "cpu" in quantities else None


def _sum_pod(pod: _PodSpec, read: _Read, remarks: list[str]) -> _Amounts:
    """Init containers run one after the other, before the containers; sidecars, from when it is their turn, to the
    end. What is requested for the pod as a whole takes the place of all that."""
    running: _Amounts = Counter()
    peak: _Amounts = Counter()
    for container in pod.init_containers:
        own = read(f"init container {container.name}", container.resources, remarks)
        if container.restart_policy == _RESTARTS_ALWAYS:
            running.update(own)
            own = Counter()
        _raise(peak, running, own)
    for container in pod.containers:
        running.update(read(f"container {container.name}", container.resources, remarks))
    _raise(peak, running, Counter())
    for resource, amount in read("the pod", pod.resources, remarks).items():
        peak[resource] = amount
    peak.update(_read_quantities("overhead", pod.overhead or {}, remarks))
    return peak


def _raise(peak: _Amounts, running: _Amounts, own: _Amounts) -> None:
    for resource in {*running, *own}:
        peak[resource] = max(peak[resource], running[resource] + own[resource])


def _read_requests(owner: str, resources: _Resources, remarks: list[str]) -> _Amounts:
    return _read_quantities(owner, (resources.limits or {}) | (resources.requests or {}), remarks)


def _read_limits(owner: str, resources: _Resources, remarks: list[str]) -> _Amounts:
    return _read_quantities(owner, (resources.requests or {}) | (resources.limits or {}), remarks)


def _read_quantities(owner: str, quantities: Mapping[str, QuantityText], remarks: list[str]) -> _Amounts:
    amounts: _Amounts = Counter()
    for resource, quantity in quantities.items():
        problem = next(find_request_problems({resource: quantity}), None)
        if problem is None:
            amounts[resource] = parse_quantity(quantity)  # type: ignore[assignment]  # Counters add Fractions, too
        else:
            remarks.append(f"{owner}: {problem[1]}")
    return amounts


def _round_up(amounts: Mapping[str, Fraction | int], remarks: list[str]) -> dict[str, int]:
    """In whole units, by name; cpu and memory first."""
    amounts = merge_sizes(amounts)
    ordered = sorted(amounts, key=lambda name: (name not in ("cpu", "memory"), name))
    if len(ordered) > MOST_RESOURCES:
        remarks.append(f"{len(ordered)} resources are requested, and {MOST_RESOURCES} count")
    scaled = {name: math.ceil(amounts[name] * (1000 if name in MILLI else 1)) for name in ordered[:MOST_RESOURCES]}
    return {name: amount for name, amount in scaled.items() if amount}


def _shorten(remarks: list[str]) -> Iterator[str]:
    for remark in remarks[:_MOST_REMARKS]:
        yield " ".join(remark.split())[:_LONGEST_REMARK]
    if len(remarks) > _MOST_REMARKS:
        yield f"and {len(remarks) - _MOST_REMARKS} more"
