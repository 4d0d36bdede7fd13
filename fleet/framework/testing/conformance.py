"""Conformance checks for plugins, in-tree or not: the rules that every decision relies on.

    from fleet.framework.testing.conformance import check

    def test_my_plugin_conforms() -> None:
        check(MyPlugin)

The plugin is run alone, through the same runner and the same `decide` as in production, on generated fleets. Each time
the fleet or the circumstances change in a way that must not matter, and every difference is a finding. What the plugin
decides is checked only against a per-cluster reference, if its author passes one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from inspect import iscoroutine
from typing import Any, Final

import msgspec

from fleet.errors import PluginError
from fleet.framework.arguments import PluginFactory, RawArgs
from fleet.framework.context import NO_QUERY_RESULTS
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.handle import Handle, NoWatches, OfflineHandle
from fleet.framework.operations import Target
from fleet.framework.policy.placement_terms import NO_TERMS
from fleet.framework.policy.resource_requests import NO_NEEDS
from fleet.framework.profiles.profile import can_sign
from fleet.framework.request import UnusedPart
from fleet.framework.state import CycleState
from fleet.framework.testing.observation import Observation, PluginHarness, find_tampered_columns, observe
from fleet.framework.testing.specimens import SeededRandom, Specimen, specimens
from fleet.framework.types import ExternalResult, PluginTraits
from fleet.model.timestamps import format_timestamp
from fleet.model.views import Gate, MemberCluster
from fleet.snapshot import Frame, Table
from fleet.snapshot.sidedata import PlacedBinding

READ_ONLY: Final = "F3-124"
SHAPE: Final = "F3-125"
MASK: Final = "F3-126"
SIGNATURE: Final = "F3-116"
ORDER: Final = "F3-127"
ROW_LOCAL: Final = "F3-128"
REFERENCE: Final = "F3-129"
REASONS: Final = "F3-133"
LEDGER: Final = "F3-136"


OTHER_VALUES: Final[Mapping[str, Any]] = {
    "placement": "another",
    "namespace": "another",
    "uid": "another",
    "snapshot": "another-0",
    "snapshot_uid": "another",
    "snapshot_generation": 7,
    "generation": 7,
    "wanted": 1,
    "cluster_names": ("another",),
    "required": (),
    "preferred": (),
    "constraints": (),
    "tolerations": (),
    "unused": (UnusedPart("another", "has no effect"),),
    "priority": 7,
    "never_preempts": True,
    "min_targets": 1,
    "requests": {"cpu": 7},
    "node_requests": {"cpu": 7},
    "overridden_requests": (),
    "limits": NO_NEEDS,
    "requested_by": "placement",
    "locality": {"another": 7},
    "affinity": NO_TERMS,
    "labels": {"another": "yes"},
    "quotas": (),
    "gates": (Gate(name="another"),),
    "held_by_group": "another",
    "scheduler_name": "another",
    "policy": None,
}
"""Of a request, for what may not be signed."""
_HOUR: Final = 3600 * 10**9


@dataclass(frozen=True, slots=True, order=True)
class ConformanceFinding:
    """A rule that was broken, named by its acceptance row, and the first case in which it was."""

    row: str
    text: str

    def __str__(self) -> str:
        return f"{self.row}: {self.text}"


class ConformanceError(AssertionError):
    def __init__(self, plugin: str, findings: Sequence[ConformanceFinding]) -> None:
        super().__init__("\n".join([f"{plugin} does not conform:", *(f"  {finding}" for finding in findings)]))
        self.plugin = plugin
        self.findings = tuple(findings)

    @property
    def rows(self) -> set[str]:
        return {finding.row for finding in self.findings}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecimenOptions:
    """What the generated fleets contain in addition: labels, properties and side data that the plugin reads."""

    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values to draw from, by label key."""
    properties: Mapping[str, Sequence[str]] = field(default_factory=dict)
    prepare: Callable[[Table], None] | None = None
    """Adds feeds, ledgers or bindings to a fleet. May depend only on the clusters by name."""
    query_results: Mapping[str, ExternalResult] = field(default_factory=lambda: NO_QUERY_RESULTS)
    """Results of the external queries the plugin makes."""
    cases: int = 96
    """How many fleets are generated."""
    specimens: Iterable[Specimen] = ()
    """Fleets to use instead."""


ORDINARY: Final = SpecimenOptions()


def check(
    plugin_factory: PluginFactory,
    *,
    args: RawArgs | None = None,
    handle: Handle | None = None,
    reference: PluginFactory | None = None,
    options: SpecimenOptions = ORDINARY,
) -> None:
    """Raise a ConformanceError that lists every rule the plugin breaks. `reference` is a per-cluster twin."""
    examiner = _Examiner(
        plugin_factory,
        args=args,
        handle=handle or OfflineHandle(watches=NoWatches()),
        reference=reference,
        options=options,
    )
    findings: dict[str, ConformanceFinding] = {}
    generated = specimens(options.cases, labels=options.labels, properties=options.properties)
    for case in options.specimens or generated:
        for finding in examiner.examine(case):
            findings.setdefault(finding.row, finding)
    if findings:
        raise ConformanceError(examiner.harness.name, sorted(findings.values()))


class _Examiner:
    def __init__(
        self,
        factory: PluginFactory,
        *,
        args: RawArgs | None,
        handle: Handle,
        reference: PluginFactory | None,
        options: SpecimenOptions,
    ) -> None:
        self._factory, self._args, self._handle, self._options = factory, args, handle, options
        self._random = SeededRandom(0)
        self.harness = self._new_harness()
        self._reference = None if reference is None else PluginHarness(reference, None, handle)

    def _new_harness(self) -> PluginHarness:
        return PluginHarness(self._factory, self._args, self._handle)

    def examine(self, case: Specimen) -> Iterator[ConformanceFinding]:
        self._random = SeededRandom(case.seed)
        frame = self._frame(case, case.clusters)
        before = frame.content_hash()
        try:
            observed = self._observe(self.harness, frame, case)
            yield from self._check_reasons(observed)
            yield from self._check_independence(frame, case, observed)
            yield from self._check_row_order(case, observed)
            yield from self._check_memory(frame, case, observed)
            yield from self._check_signature(frame, case)
            yield from self._check_reference(frame, case, observed)
            yield from self._check_decision(frame, case)
        except PluginError as error:
            yield _failure(error)
        yield from self._check_untouched(frame, case, before)

    def _frame(self, case: Specimen, clusters: Sequence[MemberCluster]) -> Frame:
        table = Table(clusters)
        for binding in case.bindings:
            if binding.spec.target_cluster in table:
                table.place(binding.spec.target_cluster, PlacedBinding(case.request.key))
        if self._options.prepare is not None:
            self._options.prepare(table)
        return table.freeze()

    def _observe(self, harness: PluginHarness, frame: Frame, case: Specimen) -> Observation:
        return observe(harness, frame, case, query_results=self._options.query_results)

    # --- one rule each ----------------------------------------------------------------------------------------------

    def _check_untouched(self, frame: Frame, case: Specimen, before: str) -> Iterator[ConformanceFinding]:
        if frame.content_hash() != before:
            yield ConformanceFinding(READ_ONLY, "a cluster, a feed or a ledger of the frame was changed")
        for column in find_tampered_columns(frame, self._frame(case, case.clusters)):
            yield ConformanceFinding(READ_ONLY, f"column {column} of the frame was changed or made writable")

    def _check_reasons(self, observed: Observation) -> Iterator[ConformanceFinding]:
        for cluster, verdict in observed.verdicts.items():
            if verdict.broken:
                yield ConformanceFinding(REASONS, f"the reason for {cluster} cannot be rendered: {verdict.broken}")
            elif verdict.code and not verdict.text:
                yield ConformanceFinding(REASONS, f"{cluster} is rejected with {verdict.code} and without a reason")

    def _check_independence(self, frame: Frame, case: Specimen, observed: Observation) -> Iterator[ConformanceFinding]:
        """With some rows dead, and, for row-local plugins, with some clusters gone."""
        names = list(observed.verdicts)
        some = {name for name in names if self._random.chance(50)}
        dead = [row for name in names if name not in some and (row := frame.row_of(name)) is not None]
        with_dead = self._observe(self.harness, frame.exclude(dead), case)
        circumstances = f"with {len(dead)} other rows rejected before"
        yield from _differences(
            MASK, "filter", observed.verdicts, with_dead.verdicts, among=some, circumstances=circumstances
        )
        if getattr(self.harness.plugin, "ROW_LOCAL", PluginTraits.ROW_LOCAL):
            yield from _differences(
                ROW_LOCAL, "score", observed.raw, with_dead.raw, among=some, circumstances=circumstances
            )
            few = self._frame(case, [cluster for cluster in case.clusters if cluster.metadata.name in some])
            alone = self._observe(self.harness, few, case)
            circumstances = f"in a fleet without {len(dead)} others"
            yield from _differences(
                ROW_LOCAL, "filter", observed.verdicts, alone.verdicts, among=some, circumstances=circumstances
            )

    def _check_row_order(self, case: Specimen, observed: Observation) -> Iterator[ConformanceFinding]:
        shuffle = self._observe(self.harness, self._frame(case, self._random.shuffle(case.clusters)), case)
        yield from _changes(ORDER, observed, shuffle, circumstances="with the rows in another order")

    def _check_memory(self, frame: Frame, case: Specimen, observed: Observation) -> Iterator[ConformanceFinding]:
        """State kept outside the frame shows in a second run, or in a run of a new instance."""
        self._reserve(frame, case, observed)
        again = self._observe(self.harness, frame, case)
        yield from _changes(LEDGER, observed, again, circumstances="in a second run on the same frame")
        fresh = self._observe(self._new_harness(), frame, case)
        yield from _changes(LEDGER, observed, fresh, circumstances="in a run of a new instance")

    def _check_signature(self, frame: Frame, case: Specimen) -> Iterator[ConformanceFinding]:
        """Requests that differ in what is not signed, and an hour later with heartbeats of then."""
        sign = getattr(self.harness.plugin, "sign", None)
        if sign is None:
            return
        if not can_sign(self.harness.plugin):
            yield ConformanceFinding(
                SIGNATURE, "sign has no effect: READS must name columns of clusters, and no signals"
            )
            return
        first = replace(case, bindings=())
        try:
            signed = sign(first.request)
            hash(signed)
            unsigned = [
                name for name, value in OTHER_VALUES.items() if sign(replace(first.request, **{name: value})) == signed
            ]
        except Exception as error:
            yield ConformanceFinding(SIGNATURE, f"sign: {type(error).__name__}: {error}")
            return
        observed = self._observe(self.harness, frame, first)
        if [*self._compare_requests(frame, first, observed, unsigned)]:
            for name in unsigned:
                yield from self._compare_requests(frame, first, observed, [name])
        later = self._frame(case, [_hear(cluster, case.now + _HOUR) for cluster in case.clusters])
        again = self._observe(self.harness, later, replace(first, now=first.now + _HOUR))
        yield from _changes(SIGNATURE, observed, again, circumstances="an hour later, with heartbeats of then")

    def _compare_requests(
        self, frame: Frame, first: Specimen, observed: Observation, names: Sequence[str]
    ) -> Iterator[ConformanceFinding]:
        changes = {name: OTHER_VALUES[name] for name in names}
        other = replace(first, request=replace(first.request, **changes))
        circumstances = f"for a request that is signed alike, with another {', '.join(names)}"
        again = self._observe(self.harness, frame, other)
        yield from _changes(SIGNATURE, observed, again, circumstances=circumstances)

    def _reserve(self, frame: Frame, case: Specimen, observed: Observation) -> None:
        reserve = getattr(self.harness.plugin, "reserve", None)
        if reserve is None:
            return
        ctx, state = self.harness.new_context(frame, case, self._options.query_results), CycleState()
        for cluster in list(observed.verdicts)[:3]:
            target = Target(cluster, frame.row_of(cluster) or 0, None, None)
            try:
                answer = reserve(ctx, state, case.request, target)
                if iscoroutine(answer):
                    _run_until_it_waits(answer)
            except Exception:  # there is no hub here: what counts is the state that the plugin keeps
                continue

    def _check_reference(self, frame: Frame, case: Specimen, observed: Observation) -> Iterator[ConformanceFinding]:
        if self._reference is None:
            return
        expected = self._observe(self._reference, frame, case)
        circumstances = "by the reference"
        codes, wanted = _codes(observed), _codes(expected)
        yield from _differences(REFERENCE, "filter", codes, wanted, among=set(codes), circumstances=circumstances)
        among = set(observed.raw) & set(expected.raw)
        yield from _differences(
            REFERENCE, "score", observed.raw, expected.raw, among=among, circumstances=circumstances
        )

    def _check_decision(self, frame: Frame, case: Specimen) -> Iterator[ConformanceFinding]:
        harness = self._new_harness()
        explained = _record_explaining(harness.original)
        decision = decide(
            DecisionInput(
                frame=frame,
                request=case.request,
                bindings=case.bindings,
                profile=harness.lexicographic,
                now=case.now,
                query_results=self._options.query_results,
            )
        )
        if decision.error is not None and decision.error.plugin:
            yield ConformanceFinding(SHAPE, ", ".join(decision.error.reasons))
        if explained:
            yield ConformanceFinding(
                REASONS, f"{explained[0]} is called while deciding: explanations are rendered on request only"
            )


def _hear(cluster: MemberCluster, moment: int) -> MemberCluster:
    heard = format_timestamp(moment)
    agents = tuple(
        msgspec.structs.replace(agent, last_received_heartbeat=heard) for agent in cluster.status.agent_status
    )
    return msgspec.structs.replace(cluster, status=msgspec.structs.replace(cluster.status, agent_status=agents))


def _record_explaining(plugin: Any) -> list[str]:
    """The names of explaining methods that are called from now on."""
    called: list[str] = []
    for name in ("explain_row", "build_row_explainer"):
        with suppress(AttributeError):  # a plugin with slots cannot be wrapped
            setattr(plugin, name, _record_call(called, name, getattr(plugin, name)))
    return called


def _record_call(called: list[str], name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def record(*args: Any, **named: Any) -> Any:
        called.append(name)
        return method(*args, **named)

    return record


# --- reporting --------------------------------------------------------------------------------------------------------


def _run_until_it_waits(answer: Coroutine[Any, Any, object]) -> None:
    """What it waits for is not here."""
    with suppress(StopIteration):
        answer.send(None)
    answer.close()


def _failure(error: PluginError) -> ConformanceFinding:
    text = f"{error.hook}: {error}"
    if "read-only" in text:
        return ConformanceFinding(READ_ONLY, f"{text}; columns belong to the frame, copy before you write")
    return ConformanceFinding(REASONS if "undeclared reason" in text else SHAPE, text)


def _codes(observed: Observation) -> dict[str, str]:
    return {cluster: verdict.code for cluster, verdict in observed.verdicts.items()}


def _changes(
    row: str, observed: Observation, other: Observation, *, circumstances: str
) -> Iterator[ConformanceFinding]:
    for hook, mine in observed.parts().items():
        theirs = other.parts()[hook]
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            yield from _differences(row, hook, mine, theirs, among=set(mine) | set(theirs), circumstances=circumstances)
        elif mine != theirs:
            yield ConformanceFinding(row, f"{hook}: {_describe(mine)} became {_describe(theirs)} {circumstances}")


def _differences(
    row: str, hook: str, mine: Mapping[str, Any], theirs: Mapping[str, Any], *, among: set[str], circumstances: str
) -> Iterator[ConformanceFinding]:
    for cluster in sorted(name for name in among if mine.get(name) != theirs.get(name)):
        answer, other = _describe(mine.get(cluster)), _describe(theirs.get(cluster))
        yield ConformanceFinding(row, f"{hook}: {cluster} is {answer}, and {other} {circumstances}")


def _describe(answer: Any) -> str:
    return "not judged" if answer is None else f"{answer}"
