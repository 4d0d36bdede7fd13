"""Group attempt: all members of a group are decided in one go, and all of them are bound or none.

Each member has an attempt of its own, which meets the others twice: before its decision, where they are decided one
after the other, each as if those before it were placed, and if enough of them fit, reserved; and before its first
write, when every plugin has permitted them. What is to be bound is then written to the status of the group, and only
after that to bindings: a process that ends in between leaves the rest to the next leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from fleet.errors import QueueClosed
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Target
from fleet.framework.runtime.effects import Failure, HookResult
from fleet.framework.runtime.reserve_permit import PermitResult
from fleet.framework.status import NO_DETAILS, Code, Status, code_of
from fleet.framework.types import GroupState
from fleet.model.placement_key import PlacementKey
from fleet.name_lists import join_first
from fleet.scheduler.binding.binding_cycle import STOPPING, CycleFailed
from fleet.scheduler.companions import GANG
from fleet.scheduler.groups.group_evidence import GroupEvidence
from fleet.scheduler.groups.growing_overlay import Overlay
from fleet.snapshot.columns.bitset import each_row
from fleet.snapshot.frame import Frame

_NO_TARGET: Final = Target("", -1, None, None)
_MOST_NAMED: Final = 3
_RECHECK_SECONDS: Final = 5.0
_EVICTING: Final = "DefaultPreemption"
ROOM_IS_MADE: Final = "room is being made for"
"""In the message of a group, before the names of members; no longer true once their room is given up."""

Placed = Mapping[PlacementKey, frozenset[str]]
"""Members that are bound, or being bound, with their clusters."""


class GroupRejected(CycleFailed):
    """Nothing of the member is reserved. `rejectors` are the plugins that refuse it within the group."""

    def __init__(
        self,
        message: str,
        target: Target,
        rejectors: Collection[str] = (),
        details: Mapping[str, Any] = NO_DETAILS,
    ) -> None:
        status = Status(Code.UNSCHEDULABLE, (message,), plugin=GANG, details=details)
        super().__init__(Failure("permit", target, status))
        self.args = (message,)
        self.rejectors = frozenset((GANG, *rejectors))

    @property
    def result(self) -> HookResult:
        """For the record of the attempt."""
        return HookResult("permit", GANG, self.failure.target.cluster, self.failure.status)


@dataclass(frozen=True, slots=True)
class GroupRules:
    """Of the group, at the moment of a decision."""

    name: PlacementKey
    needed: int
    members: frozenset[PlacementKey]
    same_clusters: bool
    topology_key: str
    placed: Placed
    planned: Placed
    """Members whose binding was begun, and has to be completed."""
    unwinds: bool = False
    """What was bound of the last decision is being given up."""


class GroupStore(Protocol):
    def read_rules(self, group: PlacementKey) -> GroupRules | None:
        """None if there is no such group any more."""

    def list_in_flight(self, group: PlacementKey) -> set[PlacementKey]: ...

    def begin_decision(self, group: PlacementKey) -> None:
        """What has changed until now is seen by it."""

    def note_rejection(self, group: PlacementKey, message: str, *, is_split: bool) -> None:
        """With `is_split`, other members had attempts of their own: once these have ended, all are tried together."""

    async def commit(self, group: PlacementKey, plan: Placed) -> None:
        """Returns when it is stored that these members are bound to these clusters."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """What the attempt of a member does for the group."""

    key: PlacementKey
    priority: int
    decide: Callable[[Overlay, Iterable[str]], Awaitable[tuple[DecisionInput, Decision]]]
    """As if those before were placed; these clusters are picked first."""
    reserve: Callable[[DecisionInput, Decision], Awaitable[PermitResult]]
    """The last decision."""
    unreserve: Callable[[], Awaitable[None]]
    discard: Callable[[], None]
    """What was decided is not expected to be placed any more."""
    refuse: Callable[[str], object]
    """Ends its wait in Permit."""
    record: Callable[[DecisionInput | None, Decision | None], None]
    """What the attempt shows as its decision."""
    may_evict: bool
    keep_room: Callable[[Mapping[str, Collection[str]]], None]
    """From now on it has room on these clusters, once these placements have left them."""
    seek_room: Callable[[], None]
    """It is tried again when others could leave for it."""


class _Choice(NamedTuple):
    inputs: DecisionInput
    decision: Decision
    fits: bool


class _Domain(NamedTuple):
    name: str
    """The value of the topology key; empty without one."""
    clusters: frozenset[str] | None
    """The only ones that members may get; None for all."""


class _Trial(NamedTuple):
    """The group in one domain, or anywhere."""

    domain: _Domain
    choices: dict[PlacementKey, _Choice]
    fitting: int
    """With those that are placed."""


_Plan = dict[PlacementKey, dict[str, tuple[str, ...]]]
"""By member, its clusters, with the placements that have to leave them."""


class _Planned(NamedTuple):
    plan: _Plan
    refused: Decision | None = None
    """Of the first member that has no place even so."""


class GroupAttempt:
    def __init__(
        self,
        group: PlacementKey,
        keys: Iterable[PlacementKey],
        *,
        store: GroupStore,
        read_frame: Callable[[], Frame],
        judge: Callable[[GroupState], Status | None],
    ) -> None:
        """`keys` are the members with an attempt. `judge` says after each of them whether the rest can suffice."""
        self.name, self._store, self._read_frame, self._judge = group, store, read_frame, judge
        self.keys = frozenset(keys)
        self._expected = set(self.keys)
        self._is_split = not store.list_in_flight(group) <= self._expected
        self._members: dict[PlacementKey, GroupMember] = {}
        self._outcomes: dict[PlacementKey, asyncio.Future[PermitResult | None]] = {}
        self._all_arrived = asyncio.Event()
        self._errors: dict[PlacementKey, Exception] = {}
        self._rules: GroupRules | None = None
        self._evidence = GroupEvidence()
        self._chosen: set[PlacementKey] = set()
        """Reserved; to be permitted."""
        self._permitted: dict[PlacementKey, frozenset[str]] = {}
        self._commits: dict[PlacementKey, asyncio.Future[None]] = {}
        self._rechecks: dict[PlacementKey, Callable[[], None]] = {}
        self._all_permitted = asyncio.Event()

    # --- for the attempts of members ----------------------------------------------------------------------------------

    async def decide(self, member: GroupMember, lock: asyncio.Lock) -> PermitResult | None:
        """What is reserved for the member; None if it has what it wants already. Raises GroupRejected."""
        self._members[member.key] = member
        outcome: asyncio.Future[PermitResult | None] = asyncio.get_running_loop().create_future()
        self._outcomes[member.key] = outcome
        self._check()
        await self._all_arrived.wait()
        if member.key == min(self._members, key=str):
            await self._run_for_all(self._outcomes, self._decide_all(lock))
        return await outcome

    async def commit(self, key: PlacementKey, clusters: Iterable[str], recheck: Callable[[], None]) -> None:
        """Before the first write. Raises GroupRejected if too few of the others were permitted, and what `recheck`
        raises if the member is not to be bound any more: others may wait for an approval meanwhile."""
        self._permitted[key] = frozenset(clusters)
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._commits[key], self._rechecks[key] = outcome, recheck
        self._check()
        while not await self._are_all_permitted():
            try:
                recheck()
            except Exception:
                self._permitted.pop(key)
                self._commits.pop(key)
                raise
        if key == min(self._permitted, key=str):
            await self._run_for_all(self._commits, self._commit_all())
        await outcome

    async def _are_all_permitted(self) -> bool:
        """Or a while has passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_RECHECK_SECONDS):
                await self._all_permitted.wait()
        return self._all_permitted.is_set()

    def leave(self, key: PlacementKey) -> None:
        """The attempt of the member has ended, wherever it was."""
        self._expected.discard(key)
        if key in self._chosen and key not in self._permitted:
            self._chosen.discard(key)
            self._end_waits()
        self._check()

    def _end_waits(self) -> None:
        """After a refusal. Where the others do not suffice, they give back their room, and the group is tried again."""
        rules = self._store.read_rules(self.name)
        if rules is not None and not rules.planned and len(self._chosen | rules.placed.keys()) < rules.needed:
            for other in self._chosen - self._permitted.keys():
                self._members[other].refuse(f"GroupInfeasible: too few members of group {self.name} were permitted")

    def _check(self) -> None:
        if self._expected <= self._members.keys():
            self._all_arrived.set()
        if self._permitted and self._chosen <= self._permitted.keys():
            self._all_permitted.set()

    async def _run_for_all(self, outcomes: Mapping[PlacementKey, asyncio.Future[Any]], work: Awaitable[None]) -> None:
        """One of them works; a failure is that of all."""
        try:
            await work
        except BaseException as error:
            failure = error if isinstance(error, Exception) else QueueClosed("the scheduler stops")
            for outcome in outcomes.values():
                if not outcome.done():
                    outcome.set_exception(failure)
            if failure is not error:
                raise

    # --- the decision -------------------------------------------------------------------------------------------------

    async def _decide_all(self, lock: asyncio.Lock) -> None:
        async with lock:
            self._rules = rules = self._store.read_rules(self.name)
            if rules is None:
                self._reject(None, f"GroupMissing: there is no group {self.name} any more")
                return
            self._store.begin_decision(self.name)
            if rules.unwinds:
                self._reject(None, f"GroupUnwinding: bindings of group {self.name} are being given up")
                return
            trial, in_vain = await self._search(rules), ""
            if self._may_evict(rules, trial):
                in_vain = await self._make_room(rules, trial)
            await self._reserve(rules, trial, in_vain)

    async def _reserve(self, rules: GroupRules, trial: _Trial, in_vain: str) -> None:
        """`in_vain`: why nothing is evicted for it, if that was tried."""
        results: dict[PlacementKey, PermitResult] = {}
        for key, choice in trial.choices.items():
            if choice.decision.newly_chosen and self._may_go_on(rules, trial, key):
                results[key] = await self._members[key].reserve(choice.inputs, choice.decision)
        failed = [key for key, result in results.items() if result.failure is not None]
        unfit = [key for key, choice in trial.choices.items() if not choice.fits]
        message = self._describe_shortage(rules, trial)
        helped = self._list_helped(rules)
        why, named = (ROOM_IS_MADE, helped) if helped else ("no place for", unfit)
        if failed and trial.fitting - len(failed) < rules.needed:
            staying = {*failed, *rules.planned, *rules.placed}
            for key in [key for key in reversed(results) if key not in staying]:
                await self._members[key].unreserve()
                del results[key]
            message, why, named = (
                f"GroupInfeasible: too few of group {self.name} may be bound",
                "plugins refused",
                failed,
            )
        self._chosen = {key for key, result in results.items() if result.failure is None}
        for key, result in results.items():
            self._outcomes[key].set_result(result)
        self._reject(trial, message, why, named, in_vain)

    def _may_go_on(self, rules: GroupRules, trial: _Trial, key: PlacementKey) -> bool:
        """A member that was bound with the others moves by itself later."""
        if key in rules.placed:
            return True
        return trial.choices[key].fits and (trial.fitting >= rules.needed or key in rules.planned)

    def _reject(
        self,
        trial: _Trial | None,
        message: str,
        why: str = "",
        named: Collection[PlacementKey] = (),
        in_vain: str = "",
    ) -> None:
        """All that have no outcome yet. What is in place stays. The group says which members are the reason; to each of
        them only itself is named, as who may read it need not know the others."""
        choices = {} if trial is None else trial.choices
        placed = {} if self._rules is None else self._rules.placed
        is_refused, more = False, f"; {in_vain}" if in_vain else ""
        for key, outcome in self._outcomes.items():
            if outcome.done():
                continue
            choice = choices.get(key)
            if key in self._errors:
                outcome.set_exception(self._errors[key])
            elif choice is not None and not choice.decision.newly_chosen and (choice.decision.active or key in placed):
                outcome.set_result(None)
            else:
                is_refused = True
                target = _NO_TARGET if choice is None else next(iter(choice.decision.newly_chosen), _NO_TARGET)
                own = () if choice is None or choice.fits else choice.decision.rejectors
                text = f"{message}: {why} {key.name}" if key in named else message
                outcome.set_exception(GroupRejected(text + more, target, own, self._describe(trial, key)))
        if is_refused:
            text = f"{message}: {why} {join_first([key.name for key in named], _MOST_NAMED)}" if named else message
            self._store.note_rejection(self.name, text + more, is_split=self._is_split)

    def _describe(self, trial: _Trial | None, key: PlacementKey) -> Mapping[str, Any]:
        if trial is None or self._rules is None:
            return NO_DETAILS
        return self._evidence.describe(key, self._rules.needed).to_details()

    def _describe_shortage(self, rules: GroupRules, trial: _Trial) -> str:
        if len(rules.members) < rules.needed:
            return f"GroupTooSmall: group {self.name} has {len(rules.members)} members, {rules.needed} are needed"
        return f"GroupInfeasible: {trial.fitting} members of group {self.name} fit, {rules.needed} are needed"

    # --- the search ---------------------------------------------------------------------------------------------------

    async def _search(self, rules: GroupRules) -> _Trial:
        """The first domain that fits all; else that which fits most."""
        best: _Trial | None = None
        last: _Trial | None = None
        for domain in self._list_domains(rules):
            last = await (self._try_same(rules, domain) if rules.same_clusters else self._try(rules, domain))
            self._note_trial(last)
            if best is None or last.fitting > best.fitting:
                best = last
            if len(last.choices) == len(self._members) and all(choice.fits for choice in last.choices.values()):
                return last
        assert best is not None, "there is a domain, if only an empty one"
        if best is last:
            return best
        return await self._try(rules, best.domain)

    def _note_trial(self, trial: _Trial) -> None:
        size = self._read_frame().count if trial.domain.clusters is None else len(trial.domain.clusters)
        choices = {key: (choice.decision, choice.fits) for key, choice in trial.choices.items()}
        self._evidence.add(trial.domain.name, trial.fitting, choices, size)

    async def _try_same(self, rules: GroupRules, domain: _Domain) -> _Trial:
        """What the first member picks is for all; a cluster that some member does not get is for none."""
        allowed = domain.clusters
        known = frozenset(self._list_names(self._read_frame())) if allowed is None else allowed
        while True:
            trial = await self._try(rules, _Domain("", known))
            unfit = next((choice for choice in trial.choices.values() if not choice.fits), None)
            first = next((choice for choice in trial.choices.values() if choice.fits), None)
            if unfit is None or first is None or allowed is not None:
                return trial
            lacking = _list_clusters(first.decision) - _list_clusters(unfit.decision)
            if not lacking:
                return trial
            known -= lacking

    async def _try(self, rules: GroupRules, domain: _Domain) -> _Trial:
        self._errors.clear()
        for member in self._members.values():
            member.discard()
        so_far, choices = Overlay(domain.clusters, evicts=False), dict[PlacementKey, _Choice]()
        fitting = sum(key not in self._members for key in rules.placed)
        order = self._order_members()
        order.sort(key=lambda each: (each.key not in rules.planned, each.key not in rules.placed))
        for position, member in enumerate(order):
            state = GroupState(fitting, len(order) - position, rules.needed)
            is_asked = self._evict_any or member.key in rules.placed or bool(rules.planned)
            if not is_asked and code_of(self._judge(state)) is Code.UNSCHEDULABLE:
                break
            choice = await self._choose(member, so_far, rules.planned.get(member.key, ()))
            if choice is None:
                continue
            choices[member.key] = choice
            if choice.fits:
                fitting += 1
                so_far.add(choice.inputs, choice.decision, rules.planned.get(member.key, ()))
                if rules.same_clusters and len(_list_clusters(choice.decision)):
                    so_far.allowed = _list_clusters(choice.decision)
        return _Trial(domain, choices, fitting)

    async def _choose(self, member: GroupMember, so_far: Overlay, planned: Collection[str] = ()) -> _Choice | None:
        """None if it fails: its own attempt does then."""
        self._errors.pop(member.key, None)
        try:
            inputs, decision = await member.decide(so_far, planned)
        except STOPPING:
            raise
        except Exception as error:
            self._errors[member.key] = error
            return None
        return _Choice(inputs, decision, _fits(decision))

    @property
    def _evict_any(self) -> bool:
        return any(member.may_evict for member in self._members.values())

    def _order_members(self) -> list[GroupMember]:
        return sorted(self._members.values(), key=lambda each: (-each.priority, str(each.key)))

    # --- room that is made --------------------------------------------------------------------------------------------

    def _may_evict(self, rules: GroupRules, trial: _Trial) -> bool:
        """Not for those that come later, or move: the minimum is there."""
        if trial.fitting >= rules.needed or rules.planned or self._errors or self._is_split:
            return False
        is_begun = any(key in rules.placed for key in self._members)
        return not is_begun and self._evict_any

    def _list_kept(self, rules: GroupRules) -> dict[PlacementKey, frozenset[str]]:
        """The members that room is kept for, with the clusters: also those that have no attempt now."""
        kept: dict[PlacementKey, frozenset[str]] = {}
        for nomination in self._read_frame().nominations:
            key = PlacementKey.parse(nomination.placement)
            if key in rules.members and key not in rules.placed:
                kept[key] = kept.get(key, frozenset()) | {nomination.cluster}
        return kept

    def _list_helped(self, rules: GroupRules) -> list[PlacementKey]:
        """The members that others leave for."""
        waiting = {each.placement for each in self._read_frame().nominations if each.remaining}
        return sorted((key for key in rules.members if str(key) in waiting), key=str)

    async def _make_room(self, rules: GroupRules, trial: _Trial) -> str:
        """For as many members as are needed, or for none. Without a plan, it is the trial that tells why they wait;
        returns why nothing is evicted for them: of the domain where most fit, the first member that stays without."""
        kept, plan, in_vain = self._list_kept(rules), _Plan(), ""
        missing = rules.needed - len(kept) - sum(key not in self._members for key in rules.placed)
        if missing <= 0:
            return ""
        clusters = frozenset[str]().union(*kept.values())
        members = [member for member in self._order_members() if member.key not in kept]
        for domain in self._list_domains(rules):
            if domain.clusters is None or clusters <= domain.clusters:
                if not rules.same_clusters:
                    plan, refused = await self._plan_evictions(members, Overlay(domain.clusters), missing)
                else:
                    plan, refused = await self._plan_same(members, clusters or domain.clusters, missing)
                if plan:
                    in_vain = ""
                    break
                if refused is not None and (not in_vain or domain.name == trial.domain.name):
                    in_vain = _describe_vain(refused)
        for member in self._order_members():
            member.discard()
            choice = trial.choices.get(member.key)
            if member.key in plan:
                member.keep_room(plan[member.key])
                continue
            if choice is not None:
                member.record(choice.inputs, choice.decision)
            if member.may_evict and not plan and member.key not in kept:
                member.seek_room()
        return in_vain

    async def _plan_same(self, members: list[GroupMember], allowed: frozenset[str] | None, missing: int) -> _Planned:
        """What the first member gets is for all; a cluster that some member does not get is for none."""
        known = frozenset(self._list_names(self._read_frame())) if allowed is None else allowed
        while True:
            plan, refused = await self._plan_evictions(members, Overlay(known), missing, is_same=True)
            first = next(iter(plan.values()), {})
            if refused is None:
                return _Planned(plan if len(plan) == len(members) else {})
            lacking = first.keys() - _list_clusters(refused) - {*refused.nomination}
            if not lacking or allowed is not None:
                return _Planned({}, refused)
            known -= lacking

    async def _plan_evictions(
        self, members: list[GroupMember], so_far: Overlay, missing: int, *, is_same: bool = False
    ) -> _Planned:
        """Those that fit as it is come first. With `is_same` all are on the same clusters."""
        plan, left = _Plan(), list[GroupMember]()
        for member in members:
            choice = await self._choose(member, so_far)
            if choice is None or not choice.fits:
                left += () if choice is None else (member,)
                continue
            so_far.add(choice.inputs, choice.decision)
            plan[member.key] = dict.fromkeys((target.cluster for target in choice.decision.newly_chosen), ())
            if is_same:
                so_far.allowed = _list_clusters(choice.decision)
        refused: Decision | None = None
        for member in left:
            if len(plan) >= missing:
                break
            choice = await self._choose(member, so_far)
            if choice is None:
                continue
            inputs, decision, fits = choice
            clusters: Collection[str] = decision.nomination
            if fits:
                clusters = [target.cluster for target in decision.newly_chosen]
                so_far.add(inputs, decision)
            elif member.may_evict and _fits_after(decision):
                so_far.add_evicting(inputs, decision)
            else:
                refused = refused or decision
                continue
            plan[member.key] = {cluster: so_far.list_evicted(cluster) for cluster in clusters}
            if is_same:
                so_far.allowed = frozenset(clusters)
        if is_same:
            return _Planned(plan, refused)
        return _Planned(plan if len(plan) >= missing else {}, refused)

    def _list_domains(self, rules: GroupRules) -> Iterator[_Domain]:
        """The smallest first."""
        frame = self._read_frame()
        taken = frozenset[str]().union(*rules.placed.values())
        taken &= frozenset(self._list_names(frame)) if taken else taken
        if rules.same_clusters:
            yield _Domain("", taken or None)
        elif not rules.topology_key:
            yield _Domain("", None)
        else:
            domains = _group_by_label(frame, rules.topology_key)
            own = [domain for domain in domains if taken & domain[1]] if taken else domains
            yield from (_Domain(*domain) for domain in (own[:1] if taken else own))
            if not own:
                yield _Domain("", frozenset())

    def _list_names(self, frame: Frame) -> Iterator[str]:
        return (frame.name(row) for row in each_row(frame.valid))

    # --- before the first write ---------------------------------------------------------------------------------------

    async def _commit_all(self) -> None:
        for key in list(self._permitted):
            try:
                self._rechecks[key]()
            except Exception as error:
                self._permitted.pop(key)
                self._commits.pop(key).set_exception(error)
        rules = self._store.read_rules(self.name)
        others = {} if rules is None else {key: on for key, on in rules.placed.items() if key not in self._permitted}
        if rules is None or (len(others) + len(self._permitted) < rules.needed and not rules.planned):
            message = f"GroupInfeasible: too few members of group {self.name} were permitted"
            self._store.note_rejection(self.name, message, is_split=self._is_split)
            moving = {} if rules is None else {key: self._permitted[key] for key in rules.placed.keys() & self._commits}
            for key, outcome in self._commits.items():
                if key not in moving:
                    target = Target(min(self._permitted[key], default=""), -1, None, None)
                    outcome.set_exception(GroupRejected(message, target))
            self._permitted = moving
        if self._permitted:
            await self._store.commit(self.name, self._permitted)
        for key in self._permitted:
            self._commits[key].set_result(None)


def _group_by_label(frame: Frame, label: str) -> list[tuple[str, frozenset[str]]]:
    """The clusters of each value, with it: the fewest first, then by value. Clusters without the label are in none."""
    domains: dict[str, set[str]] = {}
    for row in each_row(frame.valid):
        metadata = frame.cluster(row).metadata
        value = (metadata.labels or {}).get(label)
        if value is not None:
            domains.setdefault(value, set()).add(metadata.name)
    order = sorted(domains.items(), key=lambda each: (len(each[1]), each[0]))
    return [(value, frozenset(names)) for value, names in order]


def _fits(decision: Decision) -> bool:
    least = decision.request.min_targets
    active = decision.active or 0
    return active > 0 and (decision.fulfilled or (least is not None and active >= least))


def _fits_after(decision: Decision) -> bool:
    """Once those have left that it names."""
    request = decision.request
    needed = request.min_targets or request.wanted or 0
    return bool(decision.nomination) and (decision.active or 0) + len(decision.nomination) >= needed


def _describe_vain(refused: Decision) -> str:
    """Empty where nothing was looked for: a member that gets some of its clusters evicts nothing."""
    return str(refused.notes.get(_EVICTING, {}).get("preemption", ""))


def _list_clusters(decision: Decision) -> frozenset[str]:
    return frozenset(target.cluster for target in decision.targets)
