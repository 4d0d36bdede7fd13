"""F3-116: which profiles share rankings, what is asked anew, and how long a ranking is kept."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from fleet.errors import StateExpired
from fleet.framework.cycle.cycle import decide
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.cycle.rankings import Rankings
from fleet.framework.profiles.profile import CompiledProfile, PluginRef
from fleet.framework.request import PlacementRequest
from fleet.framework.state import StateKey
from fleet.framework.status import Code, Status
from fleet.framework.types import ExternalQuery, ExternalResult, Reason, ReasonTable, Verdict
from fleet.snapshot import Frame, Table
from fleet.snapshot.columns.bitset import from_rows
from fleet.snapshot.sidedata import PlacedBinding
from plugins.default_profile import DEFAULT_PLUGINS, compile_default, default_profile
from tests.builders import a_binding, a_cluster, a_policy, a_table, clusters
from tests.doubles import Answering, chosen, inputs, profile_of
from tests.unit.framework.test_build_options import CountingProbe

NAMES: Final = ("a", "b", "c", "d")
READING_ROOM: Final = {**DEFAULT_PLUGINS, "score": (*DEFAULT_PLUGINS["score"], PluginRef("ResourceFit"))}


class Favouring:
    """Scores one cluster, which the placement names by a label."""

    READS = ("labels",)

    def __init__(self, name: str = "Favouring", sign: Callable[[PlacementRequest], Any] | None = None) -> None:
        self._name, self._sign = name, sign or (lambda request: request.labels.get("near"))
        self.calls = 0

    def name(self) -> str:
        return self._name

    def sign(self, req: PlacementRequest) -> Hashable:
        signed: Hashable = self._sign(req)
        return signed

    def score(self, ctx: Any, state: Any, req: PlacementRequest, frame: Frame, rows: Any) -> Any:
        self.calls += 1
        near = req.labels.get("near", "")
        return np.array([frame.name(row) == near for row in rows.tolist()], dtype=np.int64)


def ask(profile: CompiledProfile, frame: Frame, rankings: Rankings, **given: Any) -> Decision:
    labels = given.pop("labels", {})
    request = replace(a_policy().pick_n(given.pop("wanted", 2)).request(), labels=labels, **given)
    return decide(inputs(frame, request, profile=profile, rankings=rankings))


@pytest.fixture
def table() -> Table:
    return a_table(*clusters(*NAMES))


def test_F3_116_equal_requests_are_ranked_once(table: Table) -> None:
    plugin, rankings = Favouring(), Rankings()
    profile = profile_of(plugin)
    wanted: list[Mapping[str, Any]] = [{"near": "b"}, {"near": "c"}, {"near": "b", "app": "web"}, {"near": "c"}]

    decisions = [ask(profile, table.freeze(), rankings, labels=labels) for labels in wanted]

    assert plugin.calls == 2
    assert [chosen(decision) for decision in decisions] == [["b", "d"], ["c", "d"], ["b", "d"], ["c", "d"]]


def test_F3_116_what_notes_anything_is_not_shared(table: Table) -> None:
    plugin, rankings = Favouring(), Rankings()
    score = plugin.score

    def note_and_score(ctx: Any, *args: Any) -> Any:
        ctx.note("calls", plugin.calls)
        return score(ctx, *args)

    plugin.score = note_and_score  # type: ignore[assignment, method-assign]
    profile = profile_of(plugin)
    decisions = [ask(profile, table.freeze(), rankings) for _ in range(2)]
    assert [decision.notes for decision in decisions] == [{"Favouring": {"calls": calls}} for calls in (0, 1)]


def test_F3_116_equal_requests_wait_alike(table: Table) -> None:
    plugin, rankings = Favouring(), Rankings()
    profile = profile_of(plugin)

    decisions = [ask(profile, table.freeze(), rankings, wanted=9) for _ in range(2)]

    assert plugin.calls == 1
    assert decisions[0].digest == decisions[1].digest
    assert not decisions[1].fulfilled


@pytest.mark.parametrize(
    "profile, signs",
    [
        (compile_default(), True),
        (compile_default(default_profile(tie_break="hashed")), False),
        (compile_default(default_profile(plugins=READING_ROOM)), False),
        (profile_of(Favouring()), True),
        (profile_of(Favouring(), Answering("Silent", score=lambda *_: None)), False),
        (profile_of(), False),
        (profile_of(Favouring(), Answering("Maker", post_filter=lambda *_: (None, None))), False),
        (profile_of(Favouring(), Answering("Booker", reserve=lambda *_: None, unreserve=lambda *_: None)), False),
    ],
    ids=["default", "hashed ties", "reads room", "signs", "does not", "takes clusters in turn", "makes room", "acts"],
)
def test_F3_116_profiles_whose_rankings_are_shared(profile: CompiledProfile, *, signs: bool) -> None:
    assert (profile.signers is not None) is signs


@pytest.mark.parametrize(
    "reads, signs",
    [(("*",), False), (("signals",), False), (("room",), False), (("feeds",), False), (("labels:env", "taints"), True)],
    ids=str,
)
def test_F3_116_plugins_sign_that_read_clusters_and_no_more(reads: tuple[str, ...], *, signs: bool) -> None:
    plugin = Favouring()
    plugin.READS = reads  # type: ignore[assignment]
    assert (profile_of(plugin).signers is not None) is signs


# --- filters that do not sign -----------------------------------------------------------------------------------------


class Clocked(Answering):
    """A filter that reads the time."""

    READS = ("signals",)
    ROW_LOCAL = True
    REASONS = ReasonTable(Reason("Late", Code.UNSCHEDULABLE, "late"), Reason("Gone", Code.UNSCHEDULABLE, "gone"))


def refuse(frame: Frame, *names: str, reason: int = 1, retained: int = 0) -> Verdict:
    rows = from_rows(row for name in names if (row := frame.row_of(name)) is not None)
    return Verdict(ok=~rows, reason=reason, retained=retained)


@pytest.mark.parametrize(
    "first, second, shared",
    [
        ({}, {}, True),
        ({"names": ["a"]}, {"names": ["a"]}, True),
        ({}, {"names": ["d"]}, False),
        ({"names": ["d"]}, {}, False),
        ({"names": ["a"]}, {"names": ["a"], "reason": 2}, False),
        ({}, {"retained": 1}, False),
    ],
    ids=["passes all", "refuses the same", "refuses more", "refuses less", "for another reason", "retains one"],
)
def test_F3_116_filters_that_do_not_sign_are_asked_again(
    table: Table, first: Mapping[str, Any], second: Mapping[str, Any], *, shared: bool
) -> None:
    answers = iter((first, *[second] * (1 if shared else 2)))

    def judge(ctx: Any, state: Any, req: Any, frame: Frame, alive: int) -> Verdict:
        answer = dict(next(answers))
        return refuse(frame, *answer.pop("names", ()), **answer)

    clocked, plugin, rankings = Clocked("Clocked", filter=judge), Favouring(), Rankings()
    profile = profile_of(clocked, plugin)

    before, after = (ask(profile, table.freeze(), rankings) for _ in range(2))

    assert plugin.calls == (1 if shared else 2)
    assert next(answers, None) is None
    assert "d" not in {*second.get("names", ())} & {*chosen(after)}
    assert (before.digest == after.digest) is (first.get("names") == second.get("names"))


def say_statuses(ctx: Any, state: Any, req: Any, frame: Frame, alive: int) -> Verdict:
    return refuse(frame, "a")._replace(statuses=(Status.new(Code.UNSCHEDULABLE, req.placement),))


def say_details(ctx: Any, state: Any, req: Any, frame: Frame, alive: int) -> Verdict:
    return refuse(frame, "a")._replace(explain=lambda row: {"placement": req.placement})


def note(ctx: Any, state: Any, req: Any, frame: Frame, alive: int) -> Verdict:
    ctx.note("placement", req.placement)
    return refuse(frame, "a")


def warn(ctx: Any, state: Any, req: Any, frame: Frame, alive: int) -> Verdict:
    ctx.warn("Odd", req.placement, 1)
    return refuse(frame, "a")


def read_state(ctx: Any, state: Any, req: Any, frame: Frame, alive: int) -> Verdict:
    return refuse(frame, "a") if state.read(StateKey("any"), default=None) is None else refuse(frame)


@pytest.mark.parametrize(
    "judge, says_more",
    [
        *itertools.product((say_statuses, say_details, note, warn), ((1, 2), (2,), (1,))),
        *itertools.product((read_state,), ((1, 2), (2,))),
    ],
)
def test_F3_116_filters_that_do_not_sign_and_say_more_than_rows_are_not_shared(
    table: Table, judge: Any, says_more: tuple[int, ...]
) -> None:
    calls = 0

    def judge_in_turn(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return judge(*args) if min(calls, 2) in says_more else refuse(args[3], "a")

    plugin, rankings = Favouring(), Rankings()
    profile = profile_of(Clocked("Clocked", filter=judge_in_turn), plugin)
    _, second = (ask(profile, table.freeze(), rankings, placement=name) for name in ("one", "two"))
    assert plugin.calls == 2
    assert second.digest == ask(profile, table.freeze(), Rankings(), placement="two").digest


def test_F3_116_a_filter_that_is_asked_about_further_rows_later_is_not_shared(table: Table) -> None:
    """By a filter before it that reads picks."""
    late: list[str] = []
    first = Answering(
        "First",
        traits={"READS": ("picks",), "REASONS": Clocked.REASONS},
        sign=lambda req: (),
        post_batch=lambda *args: (1, None),
        filter=lambda ctx, state, req, frame, alive: refuse(frame, *() if ctx.picked else NAMES[:3]),
    )
    clocked = Clocked("Clocked", filter=lambda *args: refuse(args[3], *late))
    profile, rankings = profile_of(first, clocked, Favouring()), Rankings()

    assert chosen(ask(profile, table.freeze(), rankings)) == ["d", "c"]
    late.append("c")
    assert chosen(ask(profile, table.freeze(), rankings)) == ["d", "b"]


def test_F3_116_a_filter_may_answer_with_one_array_again_and_again(table: Table) -> None:
    ok = np.ones(len(NAMES), dtype=np.bool_)
    clocked = Clocked("Clocked", filter=lambda *args: Verdict(ok=ok))
    profile, rankings = profile_of(clocked, Favouring()), Rankings()

    assert chosen(ask(profile, table.freeze(), rankings)) == ["d", "c"]
    ok[3] = False
    assert chosen(ask(profile, table.freeze(), rankings)) == ["c", "b"]


def test_F3_116_so_may_it_with_one_array_of_reasons(table: Table) -> None:
    reason = np.ones(len(NAMES), dtype=np.uint16)
    clocked = Clocked("Clocked", filter=lambda *args: refuse(args[3], "a")._replace(reason=reason))
    plugin, rankings = Favouring(), Rankings()
    profile = profile_of(clocked, plugin)

    ask(profile, table.freeze(), rankings)
    reason[0] = 2
    ask(profile, table.freeze(), rankings)
    assert plugin.calls == 2


def test_F3_116_a_filter_that_says_more_in_a_later_round_is_not_shared(table: Table) -> None:
    one_by_one: dict[str, Any] = {"sign": lambda req: (), "post_batch": lambda *args: (1, None)}
    clocked = Clocked("Clocked", filter=lambda ctx, *args: (warn if ctx.picked else refuse_a)(ctx, *args))
    picking = Answering("Picking", traits={"READS": ("labels",)}, **one_by_one)
    profile, rankings = profile_of(clocked, picking, Favouring()), Rankings()

    for name in ("one", "two"):
        decision = ask(profile, table.freeze(), rankings, placement=name)
        assert [warning.subject for warning in decision.warnings] == [name]


def refuse_a(ctx: Any, state: Any, req: Any, frame: Frame, alive: int) -> Verdict:
    return refuse(frame, "a")


@pytest.mark.parametrize("says", [note, warn])
def test_F3_116_a_filter_that_is_asked_again_in_vain_leaves_no_trace(table: Table, says: Any) -> None:
    def judge(ctx: Any, state: Any, *args: Any) -> Verdict:
        try:
            state.read(StateKey("any"), default=None)
        except StateExpired:
            says(ctx, state, *args)
        return refuse(args[1], "a")

    profile, rankings = profile_of(Clocked("Clocked", filter=judge), Favouring()), Rankings()
    for _ in range(2):
        decision = ask(profile, table.freeze(), rankings)
        assert (decision.notes, decision.warnings) == ({}, ())


def test_F3_116_what_was_asked_of_extenders_is_not_shared(table: Table) -> None:
    plugin, rankings = Favouring(), Rankings()
    plain = inputs(table.freeze(), a_policy().pick_n(2), profile=profile_of(plugin), rankings=rankings)
    for value in (1, 2):
        decide(replace(plain, query_results={"key": ExternalResult(value)}))
    assert plugin.calls == 2


def test_F3_116_a_filter_that_asks_is_not_shared(table: Table) -> None:
    asked: list[int] = []

    def judge(ctx: Any, state: Any, req: Any, frame: Frame, alive: int) -> Verdict:
        asked.append(alive)
        return ctx.query(ExternalQuery("key", {})) if len(asked) > 1 else refuse(frame)

    profile, rankings = profile_of(Clocked("Clocked", filter=judge), Favouring()), Rankings()
    ask(profile, table.freeze(), rankings)
    assert ask(profile, table.freeze(), rankings).outcome is Outcome.NEEDS_ANSWER
    assert len(asked) == 3


def test_F3_116_a_filter_that_reads_picks_must_sign(table: Table) -> None:
    picks = Clocked("Picks", traits={"READS": ("picks",)}, filter=lambda *args: refuse(args[3]))
    assert profile_of(picks, Favouring()).signers is None


# --- what a ranking depends on ----------------------------------------------------------------------------------------


def test_F3_116_bindings_of_others_and_heartbeats_change_no_ranking() -> None:
    names = [f"c{number}" for number in range(200)]
    table, plugin, rankings = a_table(*clusters(*names)), Favouring(), Rankings()
    profile = profile_of(plugin)
    for name in names:
        table.put(a_cluster(name).heard(5).build())
        table.place(name, PlacedBinding("other"))
        ask(profile, table.freeze(), rankings)
    assert plugin.calls == 1

    for name in names:  # so many are not compared
        table.put(a_cluster(name).heard(4).build())
    ask(profile, table.freeze(), rankings)
    assert plugin.calls == 2


def test_F3_116_a_cluster_in_the_row_of_another_is_another_one(table: Table) -> None:
    rankings, profile = Rankings(), profile_of(Favouring())
    assert chosen(ask(profile, table.freeze(), rankings)) == ["d", "c"]
    table.remove("d")
    table.put(a_cluster("a0").build())
    assert table.freeze().row_of("a0") == 3
    assert chosen(ask(profile, table.freeze(), rankings)) == ["c", "b"]


def test_F3_116_bursts_that_pick_many_share_a_ranking() -> None:
    names = [f"c{number:03}" for number in range(200)]
    table, plugin, rankings = a_table(*clusters(*names)), Favouring(), Rankings()
    profile = profile_of(plugin)
    for number in range(3):
        for cluster in chosen(ask(profile, table.freeze(), rankings, wanted=100)):
            table.place(cluster, PlacedBinding(f"other-{number}"))
    assert plugin.calls == 1


def test_F3_116_a_changed_cluster_changes_rankings(table: Table) -> None:
    plugin, rankings = Favouring(), Rankings()
    profile = profile_of(plugin)
    ask(profile, table.freeze(), rankings)
    table.put(a_cluster("a").labelled(env="prod").build())
    ask(profile, table.freeze(), rankings)
    assert plugin.calls == 2


@pytest.mark.parametrize(
    "given",
    [{"bindings": [a_binding("a").of_placement("db").build()]}, {"nominated": ("a",)}],
    ids=["bindings that are there", "clusters that were nominated"],
)
def test_F3_116_what_one_placement_has_alone_is_not_shared(table: Table, given: Mapping[str, Any]) -> None:
    plugin, rankings = Favouring(), Rankings()
    plain = inputs(table.freeze(), a_policy().pick_n(2), profile=profile_of(plugin), rankings=rankings)
    for inp in (plain, replace(plain, **given), replace(plain, **given)):
        before = plugin.calls
        decide(inp)
        assert plugin.calls > before


def test_F3_116_what_is_measured_runs(table: Table) -> None:
    plugin, rankings, probe = Favouring(), Rankings(), CountingProbe()
    plain = inputs(table.freeze(), a_policy().pick_n(2), profile=profile_of(plugin), rankings=rankings)
    decide(plain)
    decide(plain, probe)
    assert ("score", "Favouring") in probe.measured


def test_F3_116_few_rankings_are_kept_and_none_of_an_old_fleet(table: Table) -> None:
    plugin, rankings = Favouring(), Rankings()
    profile = profile_of(plugin)
    for number in range(20):
        ask(profile, table.freeze(), rankings, labels={"near": str(number)})
    for number in range(20):
        ask(profile, table.freeze(), rankings, labels={"near": str(number)})
    assert plugin.calls == 40

    first = weakref.ref(ask(profile, table.freeze(), rankings, labels={"near": "a"}).rounds[0].order)
    for number in range(2000):  # more than are compared
        table.place("a", PlacedBinding(f"other-{number}"))
    ask(profile, table.freeze(), rankings)
    gc.collect()
    assert first() is None


# --- mistakes of plugins ----------------------------------------------------------------------------------------------


def raise_error(request: PlacementRequest) -> Any:
    raise KeyError(request.placement)


class Incomparable:
    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        raise ValueError("neither equal nor unequal")


@pytest.mark.parametrize(
    "sign",
    [raise_error, lambda request: {}, lambda request: Incomparable()],
    ids=["raises", "has no hash", "cannot be compared"],
)
def test_F3_116_where_a_plugin_cannot_sign_all_hooks_run(table: Table, sign: Any) -> None:
    plugin, rankings = Favouring(sign=sign), Rankings()
    profile = profile_of(plugin)
    decisions = [ask(profile, table.freeze(), rankings) for _ in range(2)]
    assert plugin.calls == 2
    assert all(decision.fulfilled for decision in decisions)


def test_F3_116_rankings_of_one_profile_are_not_those_of_another(table: Table) -> None:
    first, second, rankings = Favouring(), Favouring(), Rankings()
    for plugin in (first, second):
        ask(profile_of(plugin), table.freeze(), rankings)
    assert (first.calls, second.calls) == (1, 1)
