"""Does a plugin keep the rules that every decision rests on? For authors of plugins, in-tree or not.

    from fleet.framework.testing.conformance import check

    def test_my_plugin_conforms() -> None:
        check(MyPlugin)

The plugin is run alone, through the same runner and the same `decide` as in production, on made-up fleets. Each time
the fleet or the circumstances change in a way that must not matter, and every difference is a finding. What the plugin
is *for* is not judged here, unless its author hands in a per-cluster reference to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.errors import PluginError
from fleet.framework.arguments import PluginFactory, RawArgs
from fleet.framework.context import NO_ANSWERS
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.handle import Handle, OfflineHandle
from fleet.framework.operations import Target
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.testing.observation import Bench, Seen, observe, tampered
from fleet.framework.testing.specimens import Dice, Specimen, specimens
from fleet.framework.types import Answer, PluginTraits
from fleet.model.views import MemberCluster
from fleet.snapshot import Frame, Table
from fleet.snapshot.sidedata import PlacedBinding

READ_ONLY: Final = "F3-124"
SHAPE: Final = "F3-125"
MASK: Final = "F3-126"
ORDER: Final = "F3-127"
ROW_LOCAL: Final = "F3-128"
REFERENCE: Final = "F3-129"
REASONS: Final = "F3-133"
LEDGER: Final = "F3-136"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A rule that was broken, named by its acceptance row, and the first case in which it was."""

    row: str
    text: str

    def __str__(self) -> str:
        return f"{self.row}: {self.text}"


class ConformanceError(AssertionError):
    def __init__(self, plugin: str, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join([f"{plugin} does not conform:", *(f"  {one}" for one in findings)]))
        self.plugin = plugin
        self.findings = tuple(findings)

    @property
    def rows(self) -> set[str]:
        return {one.row for one in self.findings}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the made-up fleets hold beside the usual, so that the plugin finds what it looks for."""

    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values to draw from, by label key."""
    properties: Mapping[str, Sequence[str]] = field(default_factory=dict)
    prepare: Callable[[Table], None] | None = None
    """Adds feeds, ledgers or bindings to a fleet. May depend on nothing but the clusters by name."""
    answers: Mapping[str, Answer] = field(default_factory=lambda: NO_ANSWERS)
    """Replies to the questions the plugin asks."""
    cases: int = 96
    """How many fleets are made up."""
    specimens: Iterable[Specimen] = ()
    """Fleets to use instead."""


ORDINARY: Final = World()


def check(
    plugin_factory: PluginFactory,
    *,
    args: RawArgs | None = None,
    handle: Handle | None = None,
    reference: PluginFactory | None = None,
    world: World = ORDINARY,
) -> None:
    """Raise a ConformanceError that lists every rule the plugin breaks. `reference` is a per-cluster twin."""
    examiner = _Examiner(plugin_factory, args=args, handle=handle or OfflineHandle(), reference=reference, world=world)
    found: dict[str, Finding] = {}
    made_up = specimens(world.cases, labels=world.labels, properties=world.properties)
    for case in world.specimens or made_up:
        for finding in examiner.examine(case):
            found.setdefault(finding.row, finding)
    if found:
        raise ConformanceError(examiner.bench.name, sorted(found.values()))


class _Examiner:
    def __init__(
        self,
        factory: PluginFactory,
        *,
        args: RawArgs | None,
        handle: Handle,
        reference: PluginFactory | None,
        world: World,
    ) -> None:
        self._factory, self._args, self._handle, self._world = factory, args, handle, world
        self._dice = Dice(0)
        self.bench = self._new_bench()
        self._reference = None if reference is None else Bench(reference, None, handle)

    def _new_bench(self) -> Bench:
        return Bench(self._factory, self._args, self._handle)

    def examine(self, case: Specimen) -> Iterator[Finding]:
        self._dice = Dice(case.seed)
        frame = self._frame(case, case.clusters)
        before = frame.content_hash()
        try:
            seen = self._observe(self.bench, frame, case)
            yield from self._reasons(seen)
            yield from self._alone(frame, case, seen)
            yield from self._permuted(case, seen)
            yield from self._repeated(frame, case, seen)
            yield from self._compared(frame, case, seen)
            yield from self._decided(frame, case)
        except PluginError as error:
            yield _failure(error)
        yield from self._untouched(frame, case, before)

    def _frame(self, case: Specimen, clusters: Sequence[MemberCluster]) -> Frame:
        table = Table(clusters)
        for binding in case.bindings:
            if binding.spec.target_cluster in table:
                table.place(binding.spec.target_cluster, PlacedBinding(case.request.key))
        if self._world.prepare is not None:
            self._world.prepare(table)
        return table.freeze()

    def _observe(self, bench: Bench, frame: Frame, case: Specimen) -> Seen:
        return observe(bench, frame, case, answers=self._world.answers)

    # --- one rule each ------------------------------------------------------------------------------------------

    def _untouched(self, frame: Frame, case: Specimen, before: str) -> Iterator[Finding]:
        if frame.content_hash() != before:
            yield Finding(READ_ONLY, "a cluster, a feed or a ledger of the frame was changed")
        for column in tampered(frame, self._frame(case, case.clusters)):
            yield Finding(READ_ONLY, f"column {column} of the frame was changed or made writable")

    def _reasons(self, seen: Seen) -> Iterator[Finding]:
        for cluster, verdict in seen.verdicts.items():
            if verdict.broken:
                yield Finding(REASONS, f"the reason for {cluster} cannot be told: {verdict.broken}")
            elif verdict.code and not verdict.text:
                yield Finding(REASONS, f"{cluster} is rejected with {verdict.code} and without a reason")

    def _alone(self, frame: Frame, case: Specimen, seen: Seen) -> Iterator[Finding]:
        """With some rows dead, and, for row-local plugins, with some clusters gone."""
        names = list(seen.verdicts)
        some = {name for name in names if self._dice.chance(50)}
        dead = [row for name in names if name not in some and (row := frame.row_of(name)) is not None]
        with_dead = self._observe(self.bench, frame.exclude(dead), case)
        told = f"with {len(dead)} other rows rejected before"
        yield from _differences(MASK, "filter", seen.verdicts, with_dead.verdicts, among=some, told=told)
        if getattr(self.bench.plugin, "ROW_LOCAL", PluginTraits.ROW_LOCAL):
            yield from _differences(ROW_LOCAL, "score", seen.raw, with_dead.raw, among=some, told=told)
            few = self._frame(case, [one for one in case.clusters if one.metadata.name in some])
            alone = self._observe(self.bench, few, case)
            told = f"in a fleet without {len(dead)} others"
            yield from _differences(ROW_LOCAL, "filter", seen.verdicts, alone.verdicts, among=some, told=told)

    def _permuted(self, case: Specimen, seen: Seen) -> Iterator[Finding]:
        shuffled = self._observe(self.bench, self._frame(case, self._dice.shuffled(case.clusters)), case)
        yield from _changes(ORDER, seen, shuffled, told="with the rows in another order")

    def _repeated(self, frame: Frame, case: Specimen, seen: Seen) -> Iterator[Finding]:
        """What a plugin remembers beside the frame shows when it is asked again, or when a new one is asked."""
        self._reserve(frame, case, seen)
        again = self._observe(self.bench, frame, case)
        yield from _changes(LEDGER, seen, again, told="when asked again on the same frame")
        fresh = self._observe(self._new_bench(), frame, case)
        yield from _changes(LEDGER, seen, fresh, told="when a new plugin is asked")

    def _reserve(self, frame: Frame, case: Specimen, seen: Seen) -> None:
        reserve = getattr(self.bench.plugin, "reserve", None)
        if reserve is None:
            return
        ctx, state = self.bench.attempt(frame, case, self._world.answers), CycleState()
        for cluster in list(seen.verdicts)[:3]:
            target = Target(cluster, frame.row_of(cluster) or 0, None, None)
            try:
                reserve(ctx, state, case.request, target)
            except Exception:  # there is no hub here: what counts is what the plugin remembers of it
                continue

    def _compared(self, frame: Frame, case: Specimen, seen: Seen) -> Iterator[Finding]:
        if self._reference is None:
            return
        expected = self._observe(self._reference, frame, case)
        told = "by the reference"
        codes, wanted = _codes(seen), _codes(expected)
        yield from _differences(REFERENCE, "filter", codes, wanted, among=set(codes), told=told)
        among = set(seen.raw) & set(expected.raw)
        yield from _differences(REFERENCE, "score", seen.raw, expected.raw, among=among, told=told)

    def _decided(self, frame: Frame, case: Specimen) -> Iterator[Finding]:
        bench = self._new_bench()
        explained = _counted(bench.made)
        decision = decide(
            DecisionInput(
                frame=frame,
                request=case.request,
                bindings=case.bindings,
                profile=bench.lexicographic,
                now=case.now,
                answers=self._world.answers,
            )
        )
        if decision.error is not None and decision.error.plugin:
            yield Finding(SHAPE, ", ".join(decision.error.reasons))
        if explained:
            yield Finding(REASONS, "explain_row is called while deciding: explanations are for whoever asks")


def _counted(plugin: Any) -> list[int]:
    """The rows that `explain_row` is called with from now on."""
    rows: list[int] = []
    explain = getattr(plugin, "explain_row", None)
    if explain is not None:

        def counting(req: PlacementRequest, frame: Frame, row: int, reason: int) -> Any:
            rows.append(row)
            return explain(req, frame, row, reason)

        with suppress(AttributeError):  # a plugin with slots cannot be watched
            plugin.explain_row = counting
    return rows


# --- telling --------------------------------------------------------------------------------------------------------


def _failure(error: PluginError) -> Finding:
    text = f"{error.hook}: {error}"
    if "read-only" in text:
        return Finding(READ_ONLY, f"{text}; columns belong to the frame, copy before you write")
    return Finding(REASONS if "undeclared reason" in text else SHAPE, text)


def _codes(seen: Seen) -> dict[str, str]:
    return {cluster: verdict.code for cluster, verdict in seen.verdicts.items()}


def _changes(row: str, seen: Seen, other: Seen, *, told: str) -> Iterator[Finding]:
    for hook, mine in seen.parts().items():
        theirs = other.parts()[hook]
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            yield from _differences(row, hook, mine, theirs, among=set(mine) | set(theirs), told=told)
        elif mine != theirs:
            yield Finding(row, f"{hook}: {_shown(mine)} became {_shown(theirs)} {told}")


def _differences(
    row: str, hook: str, mine: Mapping[str, Any], theirs: Mapping[str, Any], *, among: set[str], told: str
) -> Iterator[Finding]:
    for cluster in sorted(among):
        one, other = mine.get(cluster), theirs.get(cluster)
        if one != other:
            yield Finding(row, f"{hook}: {cluster} is {_shown(one)}, and {_shown(other)} {told}")


def _shown(answer: Any) -> str:
    return "not judged" if answer is None else f"{answer}"
