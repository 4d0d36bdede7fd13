"""What room costs: decisions that look at it, beside those of the default profile that do not, and a full ledger.

Something is booked before each decision, as the one before it would do.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from fleet.clock import SystemClock
from fleet.framework.handle import OfflineHandle
from fleet.framework.policy.quotas import Quotas, QuotaShare
from fleet.framework.profiles.profile import METHODS, CompiledProfile, PluginRef
from fleet.informers.cache import Caches, FleetTable, book_room
from fleet.kube.informer import InformerConfig
from fleet.model.keys import BOUND, PARENT_PLACEMENT, REQUESTS
from fleet.model.views import Binding, BindingSpec, Metadata, Observed, Placement
from fleet.scheduler.ledgers.room_ledger import RoomLedger
from fleet.snapshot import Table
from plugins import in_tree_registry
from plugins.default_profile import DEFAULT_PLUGINS, compile_default, default_profile
from tests.bench.decisions import FORMS, laps_of, later, questions
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import clusters, name_of
from tests.bench.measuring import Run
from tests.bench.stopwatch import Sample, measure

_FLEET: Final = 10_000
_PICKS: Final = 10
_REQUESTS: Final = {"cpu": 2_000, "memory": 4 << 30}
_QUOTAS: Final = (
    QuotaShare("team", "cpu", used=5_000, max=200_000, min=100_000, pool_used=20_000, pool_min=200_000),
    QuotaShare("all", "clusters", used=5, max=50_000),
)
_HOOKS: Final = ("preFilter", "filter", "postBatch")
_OFFLINE: Final = OfflineHandle()
_PLACEMENTS: Final = 500
_PER_PLACEMENT: Final = 100
_BOOKINGS: Final = _PLACEMENTS * _PER_PLACEMENT


def room(run: Run) -> Iterator[Figure]:
    table = Table(clusters(_FLEET))
    roomy = _compile_with("ResourceFit")
    with_quotas = _compile_with("ResourceFit", "QuotaFit")
    for form in ("plain", "spread"):
        case = f"{_FLEET:,} clusters, {_PICKS} picks, {form}"
        before = _time(run, table, form, compile_default(), {})
        after = _time(run, table, form, roomy, _REQUESTS)
        yield run.figure(case, "default profile", Kind.MILLISECONDS, before)
        yield run.figure(case, "with ResourceFit", Kind.MILLISECONDS, after)
        kept = 100 * before.median / after.median
        yield run.number(case, "speed kept", Kind.PERCENT, kept, target=50)
        if form == "plain":  # quotas are not row-local, which rules out all picks of a spread in one pass
            after = _time(run, table, form, with_quotas, _REQUESTS, quotas=_QUOTAS)
            yield run.figure(case, "with ResourceFit and quotas", Kind.MILLISECONDS, after)
            kept = 100 * before.median / after.median
            yield run.number(case, "speed kept with quotas", Kind.PERCENT, kept, target=50)
    yield run.number(f"{_BOOKINGS:,} bookings", "size", Kind.MEGABYTES, _weigh_ledger() / 1e6, target=100)


def _compile_with(*names: str) -> CompiledProfile:
    """In front: behind the spread constraints ResourceFit would keep these from making all picks in one pass."""
    registry = in_tree_registry()
    plugins = {}
    for hook, refs in DEFAULT_PLUGINS.items():
        added = (name for name in names if hook in _HOOKS and hasattr(registry[name](None, _OFFLINE), METHODS[hook]))
        plugins[hook] = (*map(PluginRef, added), *refs)
    return compile_default(default_profile(plugins=plugins))


def _time(
    run: Run,
    table: Table,
    form: str,
    profile: CompiledProfile,
    requests: Mapping[str, int],
    *,
    quotas: Quotas = (),
) -> Sample:
    asked = [
        replace(inp, request=replace(inp.request, requests=requests, quotas=quotas))
        for inp in questions(table.freeze(), FORMS[form], picks=_PICKS, profile=profile)
    ]

    def step(number: int) -> tuple[int, int, int]:
        if requests:
            book_room(table, name_of(number % _FLEET), {"cpu": 1})
        return laps_of(replace(later(asked[number % len(asked)], number), frame=table.freeze()))

    decided, _, _ = measure(step, run.effort)
    return decided


# --- the ledger -------------------------------------------------------------------------------------------------------


class _NoApi:
    """Nothing is read or written: the stores are filled by hand."""

    call: Any = None
    stream: Any = None


def _weigh_ledger() -> float:
    """Bytes that the ledger and its columns add to the caches, with a binding that no report includes for each
    booking."""
    access = InformerConfig(reads=_NoApi(), writes=_NoApi(), clock=SystemClock(), jitter=lambda: 0.0)
    caches = Caches(access, namespaced_placements=False)
    _fill(caches)
    table = FleetTable(caches.clusters)
    table.frame()
    gc.collect()
    tracemalloc.start()
    try:
        ledger = RoomLedger(caches, lambda metadata: metadata.annotation(REQUESTS), book=table.book)
        table.frame()
        gc.collect()
        weight, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    booked = sum(ledger.find_booked(name_of(number)).get("cpu", 0) for number in range(_FLEET))
    assert booked == _BOOKINGS * _REQUESTS["cpu"]
    return float(weight)


def _fill(caches: Caches) -> None:
    kinds, version = caches.kinds[0], 0
    for cluster in clusters(_FLEET):
        version += 1
        caches.clusters.apply_event(_number(cluster, version))
    for placement in range(_PLACEMENTS):
        name, version = f"p{placement}", version + 1
        metadata = Metadata(name=name, uid=name, annotations={REQUESTS: "cpu=2,memory=4Gi"})
        kinds.placements.store.apply_event(_observe(_number(Placement(metadata), version)))
        for number in range(_PER_PLACEMENT):
            version += 1
            target = name_of((placement * _PER_PLACEMENT + number) % _FLEET)
            labels = {PARENT_PLACEMENT: name}
            binding = Binding(Metadata(name=f"{name}-{target}", labels=labels), BindingSpec(BOUND, target))
            kinds.bindings.store.apply_event(_observe(_number(binding, version)))


def _number(view: Any, version: int) -> Any:
    metadata = msgspec.structs.replace(view.metadata, resource_version=str(version))
    return msgspec.structs.replace(view, metadata=metadata)


def _observe(view: Any) -> Observed[Any]:
    return Observed(view, msgspec.json.encode(view))
