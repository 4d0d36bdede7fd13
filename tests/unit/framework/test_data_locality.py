"""DataLocality beside a twin that looks at one cluster in exact fractions, and what a placement says as text again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from fleet.framework.request import compile_request, write_annotations
from fleet.framework.scalar import ScalarPlugin
from fleet.framework.status import Code, Status
from fleet.framework.testing.conformance import SpecimenOptions, check
from fleet.framework.testing.specimens import SeededRandom, specimens
from fleet.model.keys import LOCALITY, MIN_TARGETS, REQUESTS
from fleet.model.quantity import quantity_or_none
from plugins.affinity.data_locality import DataLocality
from tests.builders import a_policy

SIZES: Final = ("10", "3", "7", "1Ki")
PRESENT: Final = {
    f"locality.fleet.dev/{name}": ("0", "1", "2500m", "7", "900", "1Ki", "-3", "odd") for name in ("models", "base")
}


class OneClusterLocality(ScalarPlugin):
    ROW_LOCAL = True
    READS = ("properties",)

    def name(self) -> str:
        return "DataLocality"

    def pre_score(self, ctx: Any, state: Any, req: Any, frame: Any, feasible: Any, verdicts: Any) -> Status | None:
        return None if req.locality else Status.new(Code.SKIP)

    def score_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> int:
        properties = cluster.cluster.status.properties or {}
        there = Fraction(0)
        for name, size in placement.locality.items():
            reported = properties.get(f"locality.fleet.dev/{name}")
            present = None if reported is None else quantity_or_none(reported.value)
            there += min(max(present or Fraction(0), Fraction(0)), Fraction(size))
        return int(there * 100 / sum(placement.locality.values()) + Fraction(1, 2))


def test_X_17_data_locality_equals_a_twin_that_looks_at_one_cluster() -> None:
    cases = []
    for case in specimens(96, labels={}, properties=PRESENT):
        random = SeededRandom(case.seed)
        locality = {name: random.below(12) + 1 for name in ("models", "base", "absent") if random.chance(60)}
        cases.append(replace(case, request=replace(case.request, locality=locality)))
    check(DataLocality, reference=lambda raw, handle: OneClusterLocality(), options=SpecimenOptions(specimens=cases))


def test_a_recorded_request_is_the_same_again() -> None:
    said = {REQUESTS: "cpu=1500m,memory=4Gi", LOCALITY: "models=40Gi,base=1", MIN_TARGETS: "2"}
    snapshot = a_policy().pick_n(3).snapshot()
    request = compile_request(snapshot, placement_annotations=said)

    assert (request.problems, request.min_targets, request.locality) == ((), 2, {"models": 40 << 30, "base": 1})
    assert compile_request(snapshot, placement_annotations=write_annotations(request)) == request
    assert write_annotations(compile_request(snapshot, placement_annotations={})) == {}
