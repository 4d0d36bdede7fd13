"""Mistakes in a policy: the names it reads that no cluster has, parts that exclude each other or have no effect.

Finding them costs a few column lookups per name, so that every attempt can afford it. What they are called in the
answer, and which names are near, is worked out in `remarks`, and only for mistakes that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fleet.explain.remarks.fleet_names import FleetNames
from fleet.explain.remarks.remark import RemarkKind
from fleet.framework.policy.reads import LabelRead, NamespaceRead, PolicyRead, PropertyRead, TaintRead
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import COUNT_FIELD, NAMES_FIELD, PlacementRequest
from fleet.snapshot.frame import Frame


@dataclass(frozen=True, slots=True)
class Mistake:
    kind: RemarkKind
    field: str
    subject: str = ""
    value: str = ""
    note: str = ""
    """What follows from it, or the whole sentence where there is no subject."""


def find_mistakes(
    request: PlacementRequest, frame: Frame, profile: CompiledProfile, *, rows: int | None = None
) -> tuple[Mistake, ...]:
    """Each once, in the order of the policy. `rows` are the clusters that the caller may read: all without.

    An empty fleet has no names at all, so nothing is compared with it."""
    visible = frame.valid if rows is None else frame.valid & rows
    names = FleetNames(frame, visible)
    mistakes: dict[tuple[str, str, str], Mistake] = {}
    if names.clusters:
        for mistake in _find_unknown_names(request, profile, names):
            mistakes.setdefault((mistake.kind, mistake.subject, mistake.value), mistake)
    conflicts = _find_conflicts(request, frame, profile, sees_all=visible == frame.valid)
    unused = (Mistake("without-effect", part.field, note=part.message) for part in request.unused)
    return tuple(dict.fromkeys((*mistakes.values(), *conflicts, *unused)))


def _find_unknown_names(request: PlacementRequest, profile: CompiledProfile, names: FleetNames) -> Iterator[Mistake]:
    for position, cluster in enumerate(request.cluster_names):
        if not names.has_cluster(cluster):
            yield Mistake("unknown-cluster", f"{NAMES_FIELD}[{position}]", cluster)
    for _, plugin in profile.find_plugins("list_reads"):
        for read in _list_safely(plugin, "list_reads", request):
            yield from _check_read(read, names)


def _check_read(read: PolicyRead, names: FleetNames) -> Iterator[Mistake]:
    match read:
        case LabelRead() if not names.has_label(read.key):
            yield Mistake("unknown-label", read.field, read.key, note=read.without)
        case LabelRead():
            for value in read.values:
                if not names.has_label_value(read.key, value):
                    yield Mistake("unknown-label-value", read.field, read.key, value)
        case PropertyRead() if not names.has_property(read.ref):
            yield Mistake("unknown-property", read.field, read.ref.name)
        case TaintRead() if read.key not in names.taints:
            yield Mistake("unknown-taint", read.field, read.key)
        case TaintRead() if read.value is not None and read.value not in names.taints[read.key]:
            yield Mistake("unknown-taint-value", read.field, read.key, read.value)
        case NamespaceRead() if names.lacks_namespace(read.namespace):
            yield Mistake("unknown-namespace", read.field, read.namespace)


def _find_conflicts(
    request: PlacementRequest, frame: Frame, profile: CompiledProfile, *, sees_all: bool
) -> Iterator[Mistake]:
    if sees_all and 0 < frame.count < (request.wanted or 0):
        note = f"{request.wanted} clusters are wanted, and the fleet has {frame.count}"
        yield Mistake("too-many-clusters", COUNT_FIELD, note=note)
    for _, plugin in profile.find_plugins("find_conflicts"):
        for conflict in _list_safely(plugin, "find_conflicts", request, frame):
            if sees_all or not conflict.about_fleet:
                yield Mistake("contradiction", conflict.field, note=conflict.message)


def _list_safely(plugin: Any, method: str, *args: Any) -> list[Any]:
    """A plugin that fails here costs its own remarks only."""
    try:
        return list(getattr(plugin, method)(*args))
    except Exception:
        return []
