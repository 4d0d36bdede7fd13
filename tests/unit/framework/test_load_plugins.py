"""Plugins that read the load of clusters, by the conformance kit, and beside a twin that looks at one cluster."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fleet.framework.arguments import PluginFactory, RawArgs
from fleet.framework.beta import compute_probability
from fleet.framework.scalar import ClusterView, ScalarPlugin
from fleet.framework.scores import round_half_away, round_to_grid
from fleet.framework.testing.conformance import SpecimenOptions, check
from fleet.framework.testing.specimens import NOW
from fleet.framework.types import PluginTraits
from fleet.model.quantity import quantity_to_float
from fleet.snapshot.sidedata import PLACED_LIMITS, RECENT_PLACEMENTS
from fleet.snapshot.table import Table
from plugins.feeds.load_variation import LoadVariationRiskBalancing
from plugins.feeds.low_risk_overcommitment import LowRiskOverCommitment
from plugins.feeds.peaks import Peaks
from plugins.feeds.target_load_packing import TargetLoadPacking
from tests.builders import a_cluster, a_policy
from tests.doubles import decided, profile_of

SECOND = 1_000_000_000
MAX_AGE = 90


def prepare(table: Table) -> None:
    """Loads of some clusters, a few of them old, and recent placements on every third."""
    names = {name: number for number in range(40) if (name := f"cluster-{number}") in table}
    loads = {name: (number * 37) % 113 / 1.1 for name, number in names.items() if number % 5}
    ages = {name: (MAX_AGE + 30 if number % 7 == 0 else 12) for name, number in names.items()}
    times = {name: NOW - age * SECOND for name, age in ages.items()}
    columns = {
        "cpu": loads,
        "cpuDeviation": {name: number * 3.3 for name, number in names.items() if number % 4},
        "memory": {name: number * 2.7 for name, number in names.items() if number % 3},
        "memoryDeviation": {name: number * 1.9 for name, number in names.items() if number % 2},
    }
    table.feed("load", columns, sampled_at=times, max_age=MAX_AGE * SECOND)
    recent = {name: float(number % 4) for name, number in names.items() if number % 3 == 0}
    table.feed(RECENT_PLACEMENTS, {"load": recent, "load/unsized": recent}, sampled_at={})
    table.feed(PLACED_LIMITS, {"cpu": {name: number * 900.0 for name, number in names.items()}}, sampled_at={})


def fresh(ctx: Any, cluster: Any, column: str) -> float | None:
    number = cluster.feed("load", column)
    is_usable = number == number and ctx.now - cluster.sampled_at("load") <= MAX_AGE * SECOND
    return number if is_usable else None


def millicores(cluster: Any) -> float | None:
    usage = cluster.cluster.status.resource_usage
    text = ((usage.capacity if usage else None) or {}).get("cpu")
    capacity = math.nan if text is None else quantity_to_float(text)
    return float(round(capacity * 1000)) if capacity == capacity else None


def recent_placements(cluster: Any) -> float:
    number: float = cluster.feed(RECENT_PLACEMENTS, "load")
    return number if number == number else 0.0


def to_grid(value: float) -> float:
    return round_half_away(value * 2**30) / 2**30


class OneClusterPacking(ScalarPlugin):
    ROW_LOCAL = True
    READS = ("feeds", "usage")

    def __init__(self, target: float, default: float) -> None:
        self._target, self._default = target, default

    def name(self) -> str:
        return "TargetLoadPacking"

    def score_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> int:
        utilization, t, capacity = fresh(ctx, cluster, "cpu"), self._target, millicores(cluster)
        if utilization is None or capacity is None:
            return 0
        missing = recent_placements(cluster) * self._default
        x = 0.0 if capacity == 0 else 100 * (utilization * capacity / 100 + self._default + missing) / capacity
        if x > 100:
            return 0
        return round_half_away(t * (100 - x) / (100 - t) if x > t else (100 - t) * x / t + t)


class OneClusterVariation(ScalarPlugin):
    ROW_LOCAL = True
    READS = ("feeds",)

    def __init__(self, margin: float, sensitivity: float) -> None:
        self._margin, self._sensitivity = margin, sensitivity

    def name(self) -> str:
        return "LoadVariationRiskBalancing"

    def score_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> int:
        scores = []
        for resource in ("cpu", "memory"):
            mean, deviation = fresh(ctx, cluster, resource), fresh(ctx, cluster, f"{resource}Deviation")
            if mean is not None:
                sigma = to_grid(self._margin * ((deviation or 0.0) / 100) ** (1 / self._sensitivity))
                scores.append(to_grid((1 - (min(mean / 100, 1.0) + min(sigma, 1.0)) / 2) * 100))
        return round_half_away(min(scores, default=0.0))


class OneByOnePeaks(PluginTraits):
    """Compares clusters, so it is no plugin of one cluster."""

    def name(self) -> str:
        return "Peaks"

    def score(self, ctx: Any, state: Any, req: Any, frame: Any, rows: Any) -> Any:
        jumps = [self._jump(ctx, ClusterView(frame, row)) for row in rows.tolist()]
        known = [jump for jump in jumps if jump is not None]
        low, high = min(known, default=0.0), max(known, default=0.0)
        shares = [None if jump is None else (high - jump) / (high - low) if high > low else 1.0 for jump in jumps]
        scores = [0 if share is None else round_half_away(to_grid(share * 100)) for share in shares]
        return np.array(scores, dtype=np.int64)

    def _jump(self, ctx: Any, cluster: ClusterView) -> float | None:
        load, capacity = fresh(ctx, cluster, "cpu"), millicores(cluster)
        if load is None or not capacity or capacity < 0:
            return None
        before = min(load / 100 + recent_placements(cluster) * 700 / capacity, 10.0)
        after = before + min(700 / capacity, 10.0)
        return to_grid(2 * (math.exp(3 * after) - math.exp(3 * before)))


class OneClusterOvercommitment(ScalarPlugin):
    ROW_LOCAL = True
    READS = ("feeds", "usage", "room", "limits")

    def name(self) -> str:
        return "LowRiskOverCommitment"

    def score_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> int:
        risks = []
        for resource in ("cpu", "memory"):
            risk = self._assess(ctx, resource, placement.requests.get(resource, 0), cluster)
            risks += [] if risk is None else [risk]
        if not risks or not (placement.requests.get("cpu") or placement.requests.get("memory")):
            return 0
        return round_half_away(to_grid((1 - max(risks)) * 100))

    def _assess(self, ctx: Any, resource: str, own: int, cluster: Any) -> float | None:
        mean, deviation = fresh(ctx, cluster, resource), fresh(ctx, cluster, f"{resource}Deviation") or 0.0
        usage = cluster.cluster.status.resource_usage
        text = ((usage.capacity if usage else None) or {}).get(resource)
        capacity = millicores(cluster) if resource == "cpu" else quantity_to_float(text or "0")
        if mean is None or capacity is None or not capacity > 0:
            return None
        lent = cluster.feed(PLACED_LIMITS, resource)
        room = cluster._frame.capacity(resource)
        request = float(room.used[cluster.row] + room.assumed[cluster.row]) + own
        limit = request + (lent if lent == lent else 0.0)
        by_limits = 0.0
        if limit > capacity:
            by_limits = min((limit - capacity) / (limit - request), 1.0) if limit > request else 1.0
        allocated, mean, width = min(request / capacity, 1.0), min(mean / 100, 1.0), deviation / 100 * math.sqrt(5)
        sharpness = mean * (1 - mean) / width**2 - 1 if width else math.inf
        if allocated >= 1:
            by_load = 0.0
        elif sharpness > 1e6:
            by_load = float(mean > allocated)
        elif sharpness <= 0:
            by_load = mean
        else:
            arrays = (np.array([number]) for number in (mean * sharpness, (1 - mean) * sharpness, allocated))
            by_load = 1 - float(compute_probability(*arrays)[0])
        return 0.5 * by_limits + 0.5 * to_grid(by_load)


def variation_twin(margin: float, sensitivity: float) -> PluginFactory:
    return lambda raw, handle: OneClusterVariation(margin, sensitivity)


def packing_twin(target: float, default: float) -> PluginFactory:
    return lambda raw, handle: OneClusterPacking(target, default)


def test_F3_129_target_load_packing_equals_a_twin_that_looks_at_one_cluster() -> None:
    for target in (40, 63.5, 100):
        check(
            TargetLoadPacking,
            args=RawArgs({"feed": "load", "targetUtilization": target, "defaultRequests": {"cpu": "700m"}}),
            reference=packing_twin(target, 700.0),
            options=SpecimenOptions(prepare=prepare),
        )


def test_F3_129_load_variation_equals_a_twin_that_looks_at_one_cluster() -> None:
    for margin, sensitivity in ((1.0, 1.0), (2.0, 0.5), (0.7, 2.0)):
        check(
            LoadVariationRiskBalancing,
            args=RawArgs({"feed": "load", "safeVarianceMargin": margin, "safeVarianceSensitivity": sensitivity}),
            reference=variation_twin(margin, sensitivity),
            options=SpecimenOptions(prepare=prepare),
        )


def test_F3_129_peaks_equals_a_twin_that_looks_at_one_cluster_after_the_other() -> None:
    check(
        Peaks,
        args=RawArgs({"feed": "load", "powerModel": {"k1": 2, "k2": 3}, "defaultRequests": {"cpu": "700m"}}),
        reference=lambda raw, handle: OneByOnePeaks(),
        options=SpecimenOptions(prepare=prepare),
    )


@pytest.mark.parametrize("plugin", [TargetLoadPacking, Peaks])
def test_requests_that_are_known_count_with_their_multiplier(plugin: Any) -> None:
    table = Table([a_cluster("a").having(capacity={"cpu": "10"}).build()])
    table.feed("load", {"cpu": {"a": 20.0}}, sampled_at={"a": NOW})
    request = replace(a_policy().pick_n(1).request(), requests={"cpu": 1001})
    remark = plugin(RawArgs({"feed": "load", "defaultRequestsMultiplier": "2.5"})).explain_score
    assert "45.0%" in remark(request, table.freeze(), 0, NOW)
    assert "30.0%" in remark(replace(request, requests={}), table.freeze(), 0, NOW)


def test_requests_add_to_the_load_that_varies() -> None:
    table = Table([a_cluster("a").having(capacity={"cpu": "10", "memory": "4Gi"}).build()])
    table.feed("load", {"cpu": {"a": 20.0}, "memory": {"a": 20.0}}, sampled_at={"a": NOW})
    request = replace(a_policy().pick_n(1).request(), requests={"cpu": 1000, "memory": 2 * 2**30})
    profile = profile_of(LoadVariationRiskBalancing(RawArgs({"feed": "load"})), ranking="weighted")
    scores = decided(table.freeze(), request, profile=profile, now=NOW).rounds[0].scores
    assert scores.totals().tolist() == [65]


def test_exponentials_are_rounded_to_a_grid_before_anything_else() -> None:
    values = np.array([0.1, -0.1, 2.5 / 2**30, -2.5 / 2**30, 47.5 - 1e-12, 1e200, np.nan])
    rounded = round_to_grid(values) * 2**30
    assert rounded[:5].tolist() == [107374182, -107374182, 3, -3, 47.5 * 2**30]
    assert rounded[5] == 1e200 * 2**30
    assert np.isnan(rounded[6])


def test_F3_129_overcommitment_equals_a_twin_that_looks_at_one_cluster() -> None:
    check(
        LowRiskOverCommitment,
        args=RawArgs({"feed": "load"}),
        reference=lambda raw, handle: OneClusterOvercommitment(),
        options=SpecimenOptions(prepare=prepare),
    )


@pytest.mark.parametrize("alpha", [1, 2, 5, 40, 300])
@pytest.mark.parametrize("beta", [1, 3, 17, 250])
def test_T_10_the_distribution_function_equals_exact_sums(alpha: int, beta: int) -> None:
    """For whole numbers it is a sum of binomial probabilities."""
    points = [Fraction(number, 64) for number in (0, 1, 7, 20, 32, 33, 50, 63, 64)]
    trials = alpha + beta - 1
    exact = [
        sum(math.comb(trials, k) * x**k * (1 - x) ** (trials - k) for k in range(alpha, trials + 1)) for x in points
    ]
    size = len(points)
    computed = compute_probability(
        np.full(size, float(alpha)), np.full(size, float(beta)), np.array(points, dtype=float)
    )
    assert max(abs(Fraction(value) - right) for value, right in zip(computed.tolist(), exact, strict=True)) < 1e-9


@pytest.mark.parametrize("x", [0.001, 0.1, 0.5, 0.77, 0.999])
def test_T_10_the_distribution_function_equals_closed_forms(x: float) -> None:
    cases = {(0.5, 0.5): 2 / math.pi * math.asin(math.sqrt(x)), (2.25, 1.0): x**2.25, (1.0, 0.3): 1 - (1 - x) ** 0.3}
    for (alpha, beta), right in cases.items():
        arrays = (np.array([number]) for number in (alpha, beta, x))
        assert abs(compute_probability(*arrays)[0] - right) < 1e-9
    wide = (np.array([number]) for number in (4.74, 11.06, 0.5))
    assert round(1 - float(compute_probability(*wide)[0]), 4) == 0.0486
