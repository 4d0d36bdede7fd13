"""What other placements cost: a decision that looks at all of them, after each of which another one came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from fleet.framework.policy.placement_terms import build_group, parse_terms
from fleet.framework.profiles.profile import CompiledProfile, PluginRef
from fleet.snapshot import Table
from fleet.snapshot.sidedata import ResidentGroup, Residents
from plugins.default_profile import DEFAULT_PLUGINS, compile_default, default_profile
from tests.bench.decisions import FORMS, laps_of, later, questions
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import clusters, name_of
from tests.bench.measuring import Run
from tests.bench.stopwatch import measure

_FLEET: Final = 5_000
_RESIDENTS: Final = 5_000
_PICKS: Final = 3
_AWAY: Final = '{"required": [{"placements": {"matchLabels": {"app": "busy"}}, "topologyKey": "zone", "anti": true}]}'
_NEAR: Final = (
    '{"preferred": [{"placements": {"matchLabels": {"app": "web"}}, "topologyKey": "region", "weight": 10}, '
    '{"placements": {"matchLabels": {"app": "web"}}, "anti": true, "weight": 5}]}'
)
_HOOKS: Final = ("preFilter", "filter", "preScore", "score")
_SECOND: Final = 1e9


def affinity(run: Run) -> Iterator[Figure]:
    plugins = {
        hook: (*refs, PluginRef("PlacementAffinity")) if hook in _HOOKS else refs
        for hook, refs in DEFAULT_PLUGINS.items()
    }
    profile = compile_default(default_profile(plugins=plugins))
    for kinds in (1, 50, _RESIDENTS):
        for name, terms in (("away", _AWAY), ("near or away if possible", _NEAR)):
            rate, is_usual = _rate(run, profile, kinds, terms), kinds < _RESIDENTS
            target = 90 if is_usual else None
            case = f"{kinds:,} kinds of placements, {name}"
            yield run.number(case, "decisions", Kind.PER_SECOND, rate, target=target, informal=not is_usual)


def _rate(run: Run, profile: CompiledProfile, kinds: int, terms: str) -> float:
    table = Table(clusters(_FLEET))
    table.settle(_build_residents(kinds))
    asked = [
        replace(inp, request=replace(inp.request, affinity=parse_terms(terms), labels={"app": "web"}))
        for inp in questions(table.freeze(), FORMS["plain"], picks=_PICKS, profile=profile)
    ]

    def step(number: int) -> tuple[int, int, int]:
        table.settle(dict(table.freeze().residents))
        return laps_of(replace(later(asked[number % len(asked)], number), frame=table.freeze()))

    decided, _, _ = measure(step, run.effort)
    return _SECOND / decided.median


def _build_residents(kinds: int) -> Residents:
    """One placement on each cluster, of so many different labels."""
    residents: dict[ResidentGroup, dict[str, frozenset[str]]] = {}
    for number in range(_RESIDENTS):
        app = "busy" if number % 48 == 5 else "web"
        group = build_group("", {"app": app, "kind": str(number % kinds)}, "")
        residents.setdefault(group, {})[name_of(number % _FLEET)] = frozenset({f"resident-{number}"})
    return residents
