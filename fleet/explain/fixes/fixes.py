"""What would help: changes that were tried on the decision function itself and do what is said of them.

A fix is never a rule of thumb. Suggestions come from the reasons of the clusters that one change would let in; each is
carried out on a copy of the world and decided, and only what improves the outcome is shown, made as small as it can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, product
from typing import Final, Literal

import msgspec

from fleet.explain.facts.cluster_outcome import Standing, Standings
from fleet.explain.facts.nearness import by_count
from fleet.explain.facts.placement_outcome import SELECTED, Effect, effect_of, level
from fleet.explain.facts.verdict_matrix import Matrix
from fleet.explain.fixes.candidates import Candidate, Dial, Edits, Proposal, key_of
from fleet.explain.fixes.evaluator import DEEP, FAST, BetterOutcome, Budget, ClusterChosen, Exhausted, Trials
from fleet.explain.fixes.suggestions import Refused, names_with, names_without, suggestions, weights
from fleet.explain.whatif.edits import Edit, Patch, Scope, SetCount, clusters_of
from fleet.explain.whatif.scenario import World
from fleet.framework.cycle.decision import Decision
from fleet.model.keys import PICK_ALL, PICK_FIXED, PICK_N
from fleet.model.views import PlacementPolicy

MOST_FIXES: Final = 8
MOST_WAYS: Final = 2
"""Of ending one plugin's refusals, where several plugins refuse."""
MOST_MORE: Final = 100
"""Clusters beyond the number wanted: whoever ranks further down does not get in by asking for more."""
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
    """The role that may do it, where the one who asks has not got it."""

    @property
    def lists_names(self) -> bool:
        """Whether it changes, and tells, the names of a fixed policy."""
        return any(isinstance(edit, Patch) and "clusterNames" in edit.patch for edit in self.edits)

    def named(self) -> set[str]:
        """Every cluster the edits name."""
        return {name for edit in self.edits for name in clusters_of(edit)}


class Fixes(msgspec.Struct, frozen=True, rename="camel"):
    fixes: tuple[Fix, ...] = ()
    truncated: bool = False
    """Whether there was more to try than the budget allowed."""
    evaluations: int = 0


def fixes(world: World, decision: Decision, *, mode: Mode = "fast", budget: Budget | None = None) -> Fixes:
    """What would serve the policy better; nothing for a policy that is served, or cannot be evaluated."""
    if mode == "none" or not needs_help(decision):
        return Fixes()
    trials = Trials(world, decision, BetterOutcome(), budget or (DEEP if mode == "deep" else FAST))
    search = _Search(world, decision)
    return _tried(trials, search.proposals(), search.pairs() if mode == "deep" else ())


def fixes_for_cluster(
    world: World,
    decision: Decision,
    cluster: str,
    *,
    mode: Mode = "fast",
    budget: Budget | None = None,
    told: tuple[World, Decision] | None = None,
) -> Fixes:
    """What would bring one cluster in: let it qualify, or let it rank high enough.

    `told` is an earlier decision under the same policy. Once all wanted clusters are bound nobody ranks the others, and
    only that one knows by how much this cluster lost. It makes suggestions; they are tried in `world`."""
    row = decision.frame.row_of(cluster)
    if mode == "none" or row is None or level(decision) == 0:
        return Fixes()
    search = _Search(world, decision)
    goal = ClusterChosen(cluster, qualifies=search.would_qualify(row))
    if goal.measure(decision)[0] == goal.best:
        return Fixes()
    trials = Trials(world, decision, goal, budget or (DEEP if mode == "deep" else FAST))
    return _tried(trials, _for_cluster([*([_Search(*told)] if told else []), search], cluster))


def _for_cluster(searches: Iterable[_Search], cluster: str) -> Iterator[Proposal]:
    """What the first of them proposes to turn is left alone by the next: it knows better where the effect begins."""
    known: set[str] = set()
    for search in searches:
        proposals = tuple(search.for_cluster(cluster))
        yield from (one for one in proposals if not isinstance(one, Dial) or one.field not in known)
        known.update(one.field for one in proposals if isinstance(one, Dial))


def needs_help(decision: Decision) -> bool:
    """Whether the policy could be served better than this."""
    if decision.request.problems or level(decision) == 0:
        return False
    is_nowhere = decision.request.placement_type == PICK_ALL and not Standings(decision).in_use
    return level(decision) < SELECTED or is_nowhere


# --- trying ---------------------------------------------------------------------------------------------------------


class _Found(msgspec.Struct, frozen=True):
    candidate: Candidate
    turned: Turned | None = None


def _tried(trials: Trials, proposals: Iterable[Proposal], pairs: Iterable[Proposal] = ()) -> Fixes:
    """Pairs are a last resort: they are tried when nothing single serves the policy in full."""
    found: list[_Found] = []
    truncated = False
    try:
        for proposal in proposals:
            found += _try(trials, proposal)
        if all(trials.measure(one.candidate.edits)[0] < trials.goal.best for one in found):
            for proposal in pairs:
                found += _try(trials, proposal)
    except Exhausted:
        truncated = True
    return Fixes(_presented(trials, found), truncated, trials.spent)


def _try(trials: Trials, proposal: Proposal) -> Iterator[_Found]:
    if isinstance(proposal, Dial):
        turned = trials.turned(proposal)
        if turned is not None:
            candidate, value = turned
            yield _Found(candidate, Turned(proposal.field, proposal.start, value))
        return
    smallest = trials.smallest(proposal)
    if smallest is not None:
        yield _Found(smallest)


def _presented(trials: Trials, found: Sequence[_Found]) -> tuple[Fix, ...]:
    """Those that raise the outcome, else those that let more qualify; the best and smallest first."""
    unique = {key_of(one.candidate.edits): one for one in reversed(found)}
    outcomes = {key: trials.measure(one.candidate.edits)[0] for key, one in unique.items()}
    if any(outcome > trials.before[0] for outcome in outcomes.values()):
        unique = {key: one for key, one in unique.items() if outcomes[key] > trials.before[0]}

    def order(one: _Found) -> tuple[int, int, int, float, str]:
        candidate = one.candidate
        outcome = outcomes[key_of(candidate.edits)]
        return -outcome, _SCOPES.index(candidate.scope), len(candidate.edits), candidate.size, candidate.text

    return tuple(_fix(trials, one) for one in sorted(unique.values(), key=order)[:MOST_FIXES])


def _fix(trials: Trials, one: _Found) -> Fix:
    candidate = one.candidate
    decision = trials.decision(candidate.edits)
    assert decision is not None
    effect = effect_of(trials.before_name, trials.goal.name(decision), decision)
    return Fix(edits=candidate.edits, scope=candidate.scope, text=candidate.text, effect=effect, turned=one.turned)


# --- what to try ----------------------------------------------------------------------------------------------------


class _Search:
    def __init__(self, world: World, decision: Decision) -> None:
        self._world, self._decision = world, decision
        self._request, self._frame = decision.request, decision.frame
        self._standings = Standings(decision)
        self._matrix = Matrix(decision, world.question)

    def proposals(self) -> Iterator[Proposal]:
        """The cheapest to try and the most promising first; what concerns single clusters last."""
        yield from self._smaller_wish()
        blocked = list(self._one_change_away())
        found = [one for plugin, reason, rows in blocked for one in self._suggested(plugin, reason, rows)]
        about_policy = [one for one in found if isinstance(one, Dial) or one.scope != "cluster"]
        yield from (one for one in about_policy if isinstance(one, Candidate))
        yield from (one for one in about_policy if isinstance(one, Dial))
        yield from (one for one in found if one not in about_policy)

    def _smaller_wish(self) -> Iterator[Proposal]:
        have, wanted = self._decision.active or 0, self._request.wanted
        if self._request.placement_type == PICK_FIXED and have:
            yield names_without(self._request, [*self._decision.invalid, *self._decision.missing])
        if wanted is not None and 0 < have < wanted:
            yield _count_dial(wanted, furthest=have, guess=have)

    def _one_change_away(self) -> list[tuple[str, str, int]]:
        """Plugin, reason and rows that nobody else refuses; the largest groups first."""
        rows = self._refused_by(1)
        found = [
            (plugin, reason, members)
            for plugin, refusing in self._matrix.refused.items()
            for reason, members in self._matrix.reasons(plugin, refusing & rows).items()
        ]
        return sorted(found, key=lambda one: (-one[2].bit_count(), one[0], one[1]))

    def pairs(self) -> Iterator[Proposal]:
        """For clusters that two plugins refuse: a change for each."""
        rows = self._refused_by(2)
        refused = {plugin: refusing & rows for plugin, refusing in self._matrix.refused.items()}
        shared = {pair: refused[pair[0]] & refused[pair[1]] for pair in combinations(refused, 2)}
        for one, other in sorted(shared, key=lambda pair: (-shared[pair].bit_count(), pair)):
            yield from self._combined([one, other], shared[one, other])

    def _combined(self, plugins: Sequence[str], rows: int) -> Iterator[Candidate]:
        """One change for each of the plugins, in all ways there are."""
        ways = [list(islice(self._fixed(plugin, rows), MOST_WAYS)) for plugin in plugins]
        for chosen in product(*ways):
            edits = tuple(edit for one in chosen for edit in one.edits)
            title = "; ".join(one.text for one in chosen)
            yield Candidate(edits, next(iter(plugins), ""), sum(one.size for one in chosen), title)

    def _fixed(self, plugin: str, rows: int) -> Iterator[Candidate]:
        """Of a dial, its first step: one unit less would be no change at all."""
        for reason, members in self._matrix.reasons(plugin, rows).items():
            for one in self._suggested(plugin, reason, members):
                if isinstance(one, Candidate):
                    yield one
                elif one.start != one.limit:
                    yield one.at(one.start + one.step)

    def _refused_by(self, count: int) -> int:
        """Rows that exactly so many filters refuse."""
        divided = by_count(list(self._matrix.refused.values()), self._candidates())
        return divided[count] if count < len(divided) else 0

    def _candidates(self) -> int:
        """Rows that could be let in."""
        rows = self._frame.valid & ~self._standings.in_use & ~self._frame.excluded
        if self._request.placement_type == PICK_FIXED:
            named = {self._frame.row_of(name) for name in self._request.cluster_names}
            rows &= sum(1 << row for row in named if row is not None)
        return rows

    def _suggested(self, plugin: str, reason: str, rows: int) -> Iterator[Proposal]:
        missing = 1
        if self._request.wanted is not None:
            missing = max(self._request.wanted - (self._decision.active or 0), 1)
        refused = Refused(
            decision=self._decision,
            question=self._world.question,
            plugin=plugin,
            rows=rows,
            need=missing,
        )
        return suggestions(refused, reason)

    # --- one cluster --------------------------------------------------------------------------------------------

    def would_qualify(self, row: int) -> bool:
        """Whether no filter refuses it, also where none was asked."""
        return bool(self._refused_by(0) >> row & 1)

    def for_cluster(self, name: str) -> Iterator[Proposal]:
        row = self._frame.row_of(name)
        return iter(()) if row is None else self._for_row(row)

    def _for_row(self, row: int) -> Iterator[Proposal]:
        standing = self._standings.of(row)
        if standing is Standing.NOT_PICKED:
            yield from self._higher_rank(row)
        elif standing in (Standing.NOT_EVALUATED, Standing.REMOVED) and self._request.placement_type == PICK_N:
            yield _count_dial(self._request.wanted or 0, furthest=self._furthest)
        proposals = tuple(self._letting_in(row, standing))
        yield from proposals
        yield from self._with_one_more(proposals)

    def _letting_in(self, row: int, standing: Standing) -> Iterator[Proposal]:
        listing = [names_with(self._request, self._frame.name(row))] if standing is Standing.NOT_LISTED else []
        refusing = [plugin for plugin, rows in self._matrix.refused.items() if rows >> row & 1]
        if len(refusing) == 1 and not listing:
            ((reason, rows),) = self._matrix.reasons(refusing[0], 1 << row).items()
            yield from self._suggested(refusing[0], reason, rows)
        elif refusing or listing:
            for found in self._combined(refusing, 1 << row):
                edits = (*(edit for one in listing for edit in one.edits), *found.edits)
                title = "; ".join(text for text in (*(one.text for one in listing), found.title) if text)
                yield Candidate(edits, "", found.size, title)

    def _with_one_more(self, proposals: Iterable[Proposal]) -> Iterator[Candidate]:
        """Where no cluster is missing, one that begins to qualify is not chosen before one more is wanted."""
        wanted = self._request.wanted
        if self._request.placement_type != PICK_N or not wanted or needs_help(self._decision):
            return
        for one in proposals:
            if isinstance(one, Candidate):
                edits, title = (*one.edits, SetCount(wanted + 1)), f"{one.text}; count {wanted} → {wanted + 1}"
                yield Candidate(edits, one.plugin, one.size + 1, title)

    @property
    def _furthest(self) -> int:
        return min(max(self._frame.count, self._request.wanted or 0), (self._request.wanted or 0) + MOST_MORE)

    def _higher_rank(self, row: int) -> Iterator[Proposal]:
        """More clusters, or other weights, if weights can make a difference."""
        wanted, last = self._request.wanted or 0, self._decision.round
        order = [] if last is None else last.order.tolist()
        unpicked = [one for one in order if last is None or one not in last.picked]
        guess = wanted + 1 + unpicked.index(row) if row in unpicked else None
        yield _count_dial(wanted, furthest=self._furthest, guess=guess)
        policy = self._world.snapshot.spec.policy or PlacementPolicy()
        if last is not None and last.picked:
            yield from weights(self._world.question, policy, row, last.picked[-1])


def _count_dial(wanted: int, *, furthest: int, guess: int | None = None) -> Dial:
    return Dial(plugin="", field="count", start=wanted, limit=furthest, guess=guess, turned=_counted)


def _counted(value: int) -> Edits:
    return (SetCount(value),)
