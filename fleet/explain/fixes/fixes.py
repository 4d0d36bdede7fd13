"""Fixes: changes that improve the outcome, verified by the decision function itself.

Suggestions come from the reasons of the clusters that one change would let in; each is applied to a copy of the
scenario and decided, and only those that improve the outcome are returned, made as small as they can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice, product
from typing import Final, Literal

import msgspec

from fleet.explain.facts.clusters import VerdictMatrix
from fleet.explain.facts.outcomes import SELECTED, ClusterOutcome, ClusterOutcomes, Effect, build_effect, rate_outcome
from fleet.explain.fixes.candidates import Candidate, Dial, Edits, Proposal, encode_key
from fleet.explain.fixes.evaluator import (
    DEEP,
    FAST,
    BetterOutcome,
    ClusterChosen,
    EvaluationBudget,
    Exhausted,
    FixEvaluator,
)
from fleet.explain.fixes.newcomers import propose_newcomers
from fleet.explain.fixes.suggestions import add_name, drop_names, suggest_changes, suggest_rank
from fleet.explain.whatif.edits import (
    AddCluster,
    Edit,
    Patch,
    Scope,
    SetCount,
    SetMinTargets,
    changes_facts,
    list_clusters,
)
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.decision import Decision
from fleet.framework.explaining import RejectedClusters
from fleet.model.keys import PICK_ALL, PICK_FIXED, PICK_N
from fleet.model.views import PlacementPolicy
from fleet.snapshot.columns.bitset import split_by_count

MOST_FIXES: Final = 8
MOST_WAYS: Final = 2
"""Of ending one plugin's rejections, where several plugins reject."""
MOST_MORE: Final = 100
"""Clusters beyond the desired number; clusters that rank further down are not reached by a larger count."""
Mode = Literal["none", "fast", "deep"]

_SCOPES: Final[tuple[Scope, ...]] = ("placement", "policy", "cluster")


class Turned(msgspec.Struct, frozen=True, rename="camel"):
    """The number that a fix changes. One unit less of the change does not have the effect."""

    field: str
    start: int
    value: int


class Fix(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    edits: tuple[Edit, ...]
    scope: Scope
    text: str
    effect: Effect
    verified: Literal[True] = True
    """It was carried out on a copy of the world and decided."""
    turned: Turned | None = None
    needs: str = ""
    """The role that may do it, where the caller lacks it."""
    settles: bool = False
    """It asks for less: what remains where nothing else helps, or is worth it."""
    changes_facts: bool = False
    """It says something else about a cluster, and is only right where that is true."""

    @property
    def adds_clusters(self) -> bool:
        return any(isinstance(edit, AddCluster) for edit in self.edits)

    @property
    def reveals_names(self) -> bool:
        """Whether it changes, and so reveals, the names of a fixed policy."""
        return any(isinstance(edit, Patch) and "clusterNames" in edit.patch for edit in self.edits)

    def list_clusters(self) -> set[str]:
        """Every cluster the edits name."""
        return {name for edit in self.edits for name in list_clusters(edit)}


class Fixes(msgspec.Struct, frozen=True, rename="camel"):
    fixes: tuple[Fix, ...] = ()
    truncated: bool = False
    """Whether there was more to try than the budget allowed, or something with too many changes."""
    evaluations: int = 0


def find_fixes(
    scenario: Scenario, decision: Decision, *, mode: Mode = "fast", budget: EvaluationBudget | None = None
) -> Fixes:
    """Fixes for a policy that is not fully served; none where it is, or cannot be evaluated."""
    if mode == "none" or not is_improvable(decision):
        return Fixes()
    evaluator = FixEvaluator(scenario, decision, BetterOutcome(), budget or (DEEP if mode == "deep" else FAST))
    search = _Search(scenario, decision)
    return _evaluate_fixes(evaluator, search.propose(), search.propose_pairs() if mode == "deep" else ())


def find_fixes_for_cluster(
    scenario: Scenario,
    decision: Decision,
    cluster: str,
    *,
    mode: Mode = "fast",
    budget: EvaluationBudget | None = None,
    earlier: tuple[Scenario, Decision] | None = None,
) -> Fixes:
    """Changes that bring one cluster in: let it qualify, or let it rank high enough.

    `earlier` is an earlier decision under the same policy. Once all desired clusters are bound the others are no longer
    ranked, and only the earlier decision holds the margin. It yields suggestions; they are verified in `scenario`."""
    row = decision.frame.row_of(cluster)
    if mode == "none" or row is None or rate_outcome(decision) == 0:
        return Fixes()
    search = _Search(scenario, decision)
    goal = ClusterChosen(cluster, qualifies=search.would_qualify(row))
    if goal.measure(decision)[0] == goal.best:
        return Fixes()
    evaluator = FixEvaluator(scenario, decision, goal, budget or (DEEP if mode == "deep" else FAST))
    return _evaluate_fixes(
        evaluator, _propose_for_cluster([*([_Search(*earlier)] if earlier else []), search], cluster)
    )


def _propose_for_cluster(searches: Iterable[_Search], cluster: str) -> Iterator[Proposal]:
    """A dial of an earlier search replaces the same dial of later ones: its guess is closer."""
    known: set[str] = set()
    for search in searches:
        proposals = tuple(search.propose_for_cluster(cluster))
        yield from (proposal for proposal in proposals if not isinstance(proposal, Dial) or proposal.field not in known)
        known.update(proposal.field for proposal in proposals if isinstance(proposal, Dial))


def is_improvable(decision: Decision) -> bool:
    """Whether the policy could be served better than this."""
    if decision.request.problems or rate_outcome(decision) == 0:
        return False
    is_nowhere = decision.request.placement_type == PICK_ALL and not ClusterOutcomes(decision).in_use
    return rate_outcome(decision) < SELECTED or is_nowhere


# --- trying ---------------------------------------------------------------------------------------------------------


class _Verified(msgspec.Struct, frozen=True):
    candidate: Candidate
    turned: Turned | None = None

    @property
    def key(self) -> bytes:
        return encode_key(self.candidate.edits)

    @property
    def changes_facts(self) -> bool:
        return any(map(changes_facts, self.candidate.edits))

    @property
    def adds_clusters(self) -> bool:
        return _adds_clusters(self.candidate)

    @property
    def makes_newcomers_needless(self) -> bool:
        """With the outcome of a newcomer, it asks for no less and does not depend on what is true of a cluster."""
        return not (self.candidate.settles or self.changes_facts or self.adds_clusters)


def _evaluate_fixes(evaluator: FixEvaluator, proposals: Iterable[Proposal], pairs: Iterable[Proposal] = ()) -> Fixes:
    """Pairs are a last resort: they are tried when no single fix fulfills the policy, other than another cluster."""
    verified: list[_Verified] = []
    truncated = False
    try:
        for proposal in proposals:
            if not (_adds_clusters(proposal) and _has_best(evaluator, verified)):
                verified += _evaluate(evaluator, proposal)
        rated = (evaluator.measure(fix.candidate.edits)[0] for fix in verified if not fix.adds_clusters)
        if all(outcome < evaluator.goal.best for outcome in rated):
            for proposal in pairs:
                verified += _evaluate(evaluator, proposal)
    except Exhausted:
        truncated = True
    return Fixes(_select_best(evaluator, verified), truncated or evaluator.has_skipped, evaluator.spent)


def _adds_clusters(proposal: Proposal) -> bool:
    return isinstance(proposal, Candidate) and any(isinstance(edit, AddCluster) for edit in proposal.edits)


def _has_best(evaluator: FixEvaluator, verified: Iterable[_Verified]) -> bool:
    """Whether newcomers would be dropped whatever they bring."""
    others = (fix.candidate.edits for fix in verified if fix.makes_newcomers_needless)
    return any(evaluator.measure(edits)[0] == evaluator.goal.best for edits in others)


def _evaluate(evaluator: FixEvaluator, proposal: Proposal) -> Iterator[_Verified]:
    if isinstance(proposal, Dial):
        turned = evaluator.turn(proposal)
        if turned is not None:
            candidate, value = turned
            yield _Verified(candidate, Turned(proposal.field, proposal.start, value))
        return
    smallest = evaluator.shrink(proposal)
    if smallest is not None:
        yield _Verified(smallest)


def _select_best(evaluator: FixEvaluator, verified: Sequence[_Verified]) -> tuple[Fix, ...]:
    """Those that raise the outcome, and those that bring it closer; else those that let more qualify. The best and
    smallest first, what asks for less last, and another cluster only where nothing else would do."""
    unique = {fix.key: fix for fix in reversed(verified)}
    outcomes = {key: evaluator.measure(fix.candidate.edits)[0] for key, fix in unique.items()}
    raising = {key for key, outcome in outcomes.items() if outcome > evaluator.before[0]}
    if raising:
        closer = {key for key, fix in unique.items() if evaluator.is_partial(fix.candidate.edits)}
        unique = {key: fix for key, fix in unique.items() if key in raising | closer}

    def order(fix: _Verified) -> tuple[bool, int, int, int, float, str]:
        candidate = fix.candidate
        outcome = outcomes[fix.key]
        scope, size = _SCOPES.index(candidate.scope), len(candidate.edits)
        return candidate.settles, -outcome, scope, size, candidate.size, candidate.text

    fixes = [_build_fix(evaluator, fix) for fix in _drop_newcomers(sorted(unique.values(), key=order), outcomes)]
    settling = [fix for fix in fixes if fix.settles][:MOST_FIXES]
    others = [fix for fix in fixes if not fix.settles]
    return (*others[: MOST_FIXES - len(settling)], *settling)


def _drop_newcomers(fixes: Sequence[_Verified], outcomes: Mapping[bytes, int]) -> Iterator[_Verified]:
    """Where something else does as well."""
    best = max((outcomes[fix.key] for fix in fixes if fix.makes_newcomers_needless), default=None)
    return (fix for fix in fixes if not fix.adds_clusters or best is None or outcomes[fix.key] > best)


def _build_fix(evaluator: FixEvaluator, verified: _Verified) -> Fix:
    candidate = verified.candidate
    decision = evaluator.decide(candidate.edits)
    assert decision is not None
    effect = build_effect(evaluator.before_name, evaluator.goal.name(decision), decision)
    return Fix(
        edits=candidate.edits,
        scope=candidate.scope,
        text=candidate.text,
        effect=effect,
        turned=verified.turned,
        settles=candidate.settles,
        changes_facts=verified.changes_facts,
    )


# --- what to try ----------------------------------------------------------------------------------------------------


class _Search:
    def __init__(self, scenario: Scenario, decision: Decision) -> None:
        self._scenario, self._decision = scenario, decision
        self._request, self._frame = decision.request, decision.frame
        self._outcomes = ClusterOutcomes(decision)
        self._matrix = VerdictMatrix(decision, scenario.question)

    def propose(self) -> Iterator[Proposal]:
        """The cheapest to try and the most promising first; what concerns single clusters last."""
        yield from self._propose_smaller()
        blocked = list(self._find_single_rejections())
        suggested = [
            suggestion for plugin, reason, rows in blocked for suggestion in self._suggest(plugin, reason, rows)
        ]
        about_policy = [
            suggestion for suggestion in suggested if isinstance(suggestion, Dial) or suggestion.scope != "cluster"
        ]
        yield from (suggestion for suggestion in about_policy if isinstance(suggestion, Candidate))
        yield from (suggestion for suggestion in about_policy if isinstance(suggestion, Dial))
        if self._request.placement_type != PICK_FIXED:
            yield from propose_newcomers(self._decision, self._scenario.question.profile, need=self._count_missing())
        yield from (suggestion for suggestion in suggested if suggestion not in about_policy)

    def _propose_smaller(self) -> Iterator[Proposal]:
        have, wanted = self._decision.active or 0, self._request.wanted
        if self._request.placement_type == PICK_FIXED and have:
            yield drop_names(self._request, [*self._decision.invalid, *self._decision.missing])
        least, fitting = self._request.min_targets, self._outcomes.count().fit
        if least is not None and have < have + fitting < least:
            yield Dial(
                plugin="",
                field="minTargets",
                start=least,
                limit=have + 1,
                guess=have + fitting,
                build_edits=_set_min_targets,
                settles=True,
            )
        if wanted is not None and 0 < have < wanted:
            yield replace(_build_count_dial(wanted, furthest=have, guess=have), settles=True)

    def _find_single_rejections(self) -> list[tuple[str, str, int]]:
        """Plugin, reason and rows that no other filter rejects; the largest groups first."""
        rows = self._find_rejected_by(1)
        rejections = [
            (plugin, reason, members)
            for plugin, refusing in self._matrix.rejected.items()
            for reason, members in self._matrix.split_by_reason(plugin, refusing & rows).items()
        ]
        return sorted(rejections, key=lambda rejection: (-rejection[2].bit_count(), rejection[0], rejection[1]))

    def propose_pairs(self) -> Iterator[Proposal]:
        """For clusters that two plugins reject: a change for each."""
        rows = self._find_rejected_by(2)
        rejected = {plugin: refusing & rows for plugin, refusing in self._matrix.rejected.items()}
        shared = {pair: rejected[pair[0]] & rejected[pair[1]] for pair in combinations(rejected, 2)}
        for plugin, other in sorted(shared, key=lambda pair: (-shared[pair].bit_count(), pair)):
            yield from self._combine([plugin, other], shared[plugin, other])

    def _combine(self, plugins: Sequence[str], rows: int) -> Iterator[Candidate]:
        """One change for each of the plugins, in all ways there are."""
        ways = [list(islice(self._suggest_candidates(plugin, rows), MOST_WAYS)) for plugin in plugins]
        for chosen in product(*ways):
            edits = tuple(edit for candidate in chosen for edit in candidate.edits)
            title = "; ".join(candidate.text for candidate in chosen)
            yield Candidate(edits, next(iter(plugins), ""), sum(candidate.size for candidate in chosen), title)

    def _suggest_candidates(self, plugin: str, rows: int) -> Iterator[Candidate]:
        """Of a dial, its first step: one unit less would be no change at all."""
        for reason, members in self._matrix.split_by_reason(plugin, rows).items():
            for suggestion in self._suggest(plugin, reason, members):
                if isinstance(suggestion, Candidate):
                    yield suggestion
                elif suggestion.start != suggestion.limit:
                    yield suggestion.build_candidate(suggestion.start + suggestion.step)

    def _find_rejected_by(self, count: int) -> int:
        """Rows that exactly this many filters reject."""
        divided = split_by_count(list(self._matrix.rejected.values()), self._candidates())
        return divided[count] if count < len(divided) else 0

    def _candidates(self) -> int:
        """Rows that could be let in."""
        rows = self._frame.valid & ~self._outcomes.in_use & ~self._frame.excluded
        if self._request.placement_type == PICK_FIXED:
            named = {self._frame.row_of(name) for name in self._request.cluster_names}
            rows &= sum(1 << row for row in named if row is not None)
        return rows

    def _count_missing(self) -> int:
        """At least 1."""
        return max((self._request.wanted or 0) - (self._decision.active or 0), 1)

    def _suggest(self, plugin: str, reason: str, rows: int) -> Iterator[Proposal]:
        rejected = RejectedClusters(
            request=self._request,
            frame=self._frame,
            reason=reason,
            rows=rows,
            need=self._count_missing(),
            in_use=self._decision.bindings.active_rows,
        )
        return suggest_changes(self._scenario.question, plugin, rejected)

    # --- one cluster --------------------------------------------------------------------------------------------

    def would_qualify(self, row: int) -> bool:
        """Whether no filter rejects it, also where none ran."""
        return bool(self._find_rejected_by(0) >> row & 1)

    def propose_for_cluster(self, name: str) -> Iterator[Proposal]:
        row = self._frame.row_of(name)
        return iter(()) if row is None else self._for_row(row)

    def _for_row(self, row: int) -> Iterator[Proposal]:
        outcome = self._outcomes.find(row)
        if outcome is ClusterOutcome.NOT_PICKED:
            yield from self._propose_higher_rank(row)
        elif (
            outcome in (ClusterOutcome.NOT_EVALUATED, ClusterOutcome.REMOVED) and self._request.placement_type == PICK_N
        ):
            yield _build_count_dial(self._request.wanted or 0, furthest=self._highest_count)
        proposals = tuple(self._propose_admission(row, outcome))
        yield from proposals
        yield from self._add_one_more(proposals)

    def _propose_admission(self, row: int, outcome: ClusterOutcome) -> Iterator[Proposal]:
        listing = [add_name(self._request, self._frame.name(row))] if outcome is ClusterOutcome.NOT_LISTED else []
        refusing = [plugin for plugin, rows in self._matrix.rejected.items() if rows >> row & 1]
        if len(refusing) == 1 and not listing:
            ((reason, rows),) = self._matrix.split_by_reason(refusing[0], 1 << row).items()
            yield from self._suggest(refusing[0], reason, rows)
        elif refusing or listing:
            for combined in self._combine(refusing, 1 << row):
                edits = (*(edit for candidate in listing for edit in candidate.edits), *combined.edits)
                title = "; ".join(text for text in (*(candidate.text for candidate in listing), combined.title) if text)
                yield Candidate(edits, "", combined.size, title)

    def _add_one_more(self, proposals: Iterable[Proposal]) -> Iterator[Candidate]:
        """If no cluster is missing, one that begins to qualify is only chosen when the count is raised."""
        wanted = self._request.wanted
        if self._request.placement_type != PICK_N or not wanted or is_improvable(self._decision):
            return
        for proposal in proposals:
            if isinstance(proposal, Candidate):
                edits, title = (
                    (*proposal.edits, SetCount(wanted + 1)),
                    f"{proposal.text}; count {wanted} → {wanted + 1}",
                )
                yield Candidate(edits, proposal.plugin, proposal.size + 1, title)

    @property
    def _highest_count(self) -> int:
        return min(max(self._frame.count, self._request.wanted or 0), (self._request.wanted or 0) + MOST_MORE)

    def _propose_higher_rank(self, row: int) -> Iterator[Proposal]:
        """More clusters, or other weights, if weights can make a difference."""
        wanted, last = self._request.wanted or 0, self._decision.round
        order = [] if last is None else last.order.tolist()
        unpicked = [ranked for ranked in order if last is None or ranked not in last.picked]
        guess = wanted + 1 + unpicked.index(row) if row in unpicked else None
        yield _build_count_dial(wanted, furthest=self._highest_count, guess=guess)
        policy = self._scenario.snapshot.spec.policy or PlacementPolicy()
        if last is not None and last.picked:
            yield from suggest_rank(self._scenario.question, policy, row, last.picked[-1])


def _build_count_dial(wanted: int, *, furthest: int, guess: int | None = None) -> Dial:
    return Dial(plugin="", field="count", start=wanted, limit=furthest, guess=guess, build_edits=_set_count)


def _set_count(value: int) -> Edits:
    return (SetCount(value),)


def _set_min_targets(value: int) -> Edits:
    return (SetMinTargets(value),)
