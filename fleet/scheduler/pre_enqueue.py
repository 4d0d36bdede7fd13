"""PreEnqueue: what holds a placement out of the queue, and what ranks it there.

Both come from the companion of the placement, else from its annotations, and from the plugins of its profile. They are
read when the placement enters the queue, and again after a change of any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import structlog

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import InputError
from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import HookContext
from fleet.framework.cycle.hook_checks import build_code_error, check_status
from fleet.framework.policy.size import has_more_parts
from fleet.framework.profiles.profile import BoundHook
from fleet.framework.request import OPTIONS_REQUIRED, PlacementRequest
from fleet.framework.runtime.framework import Framework
from fleet.framework.runtime.purity_guard import Phase, enter_phase
from fleet.framework.status import REJECTIONS, code_of, is_success, message_of
from fleet.informers.cache import Caches
from fleet.model.keys import OPTIONS, PRIORITY_CLASS
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Metadata
from fleet.scheduler.background_compiler import BackgroundCompiler
from fleet.scheduler.companions import (
    COMPANION,
    GANG,
    NO_COMPANION,
    Companion,
    Companions,
    describe_lone_member,
    describe_missing_plugin,
    find_approval_plugin,
    merge_gates,
)
from fleet.scheduler.priority_classes import PriorityClasses
from fleet.scheduler.profiles.frameworks import Frameworks
from fleet.scheduler.queue.item import BACKOFF_POLICY, DEFAULT_POLICY, PlacementTraits, PreEnqueueGate, QueueItem
from fleet.scheduler.requests import PARTS_ON_LOOP, RequestCache
from plugins.acting.placement_gates import PlacementGates, hold

HOOK: Final = "preEnqueue"
PRIORITY: Final = "PriorityClass"
"""Stands for the plugin that holds a placement without a priority."""
LARGE: Final = "LargePolicy"
"""Stands for the plugins that wait for the request of a large policy."""
_PLUGIN: Final = PlacementGates()
_GATES: Final = BoundHook(_PLUGIN.name(), _PLUGIN, _PLUGIN.pre_enqueue, scalar=False, weight=1)
"""In every profile: a gate that is not read would hold nothing."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreEnqueueRunner:
    caches: Caches
    frameworks: Frameworks
    companions: Companions
    classes: PriorityClasses
    requests: RequestCache
    compiler: BackgroundCompiler
    find_group_gate: Callable[[PlacementKey], str]
    """Why the group of the placement is not decided now; empty otherwise."""
    clock: Clock

    def describe(self, key: PlacementKey) -> PlacementTraits:
        """A placement whose priority is unknown is held; until then it ranks as one without."""
        placement = self.caches.placement(key)
        metadata = Metadata() if placement is None else placement.view.metadata
        companion = self.companions.find(key)
        profile = self.frameworks.choose(companion.name_scheduler(metadata)).profile
        try:
            priority = self._find_priority(companion, metadata)
        except InputError:
            priority = 0
        policy = BACKOFF_POLICY if profile.backoff_on_rejection else DEFAULT_POLICY
        return PlacementTraits(uid=str(key), priority=priority, policy=policy)

    def find_gate(self, item: QueueItem, now: int) -> PreEnqueueGate | None:
        """What holds the placement. Attempts also clean up what is deleted: that is never held."""
        del now
        placement = self.caches.placement(item.key)
        item.is_unseen = placement is None
        if placement is None or placement.view.metadata.deletion_timestamp:
            self.compiler.drop(item.key)
            return None
        metadata = placement.view.metadata
        companion = self.companions.find(item.key)
        scheduler_name = companion.name_scheduler(metadata)
        if self.frameworks.is_foreign(scheduler_name):
            return None
        if companion.problem:
            return PreEnqueueGate(COMPANION, f"its options cannot be used: {companion.problem}")
        framework = self.frameworks.choose(scheduler_name)
        profile = framework.profile
        if companion.approvals and find_approval_plugin(profile) is None:
            return PreEnqueueGate(COMPANION, describe_missing_plugin(profile.scheduler_name))
        group = companion.name_group(metadata)
        if group and not profile.decides_groups:
            return PreEnqueueGate(GANG, describe_lone_member(group, profile.scheduler_name))
        if companion is NO_COMPANION and metadata.annotation(OPTIONS) == OPTIONS_REQUIRED:
            kind = self.caches.kinds_of(item.key).scope.options.kind
            return PreEnqueueGate(COMPANION, f"OptionsMissing: there is no {kind} {item.key} yet")
        try:
            self._find_priority(companion, metadata)
        except InputError as error:
            return PreEnqueueGate(PRIORITY, str(error))
        return self._run_plugins(framework, item, metadata, companion)

    def list_users(self, class_name: str) -> Iterator[PlacementKey]:
        """The placements that name the PriorityClass; all that name any for an empty name."""
        for kinds in self.caches.kinds:
            for placement in kinds.placements.store.values():
                key = PlacementKey.of(placement.view.metadata)
                name = self.companions.find(key).priority_class_name or placement.view.metadata.annotation(
                    PRIORITY_CLASS
                )
                if name and class_name in ("", name):
                    yield key

    # --- details ------------------------------------------------------------------------------------------------------

    def _find_priority(self, companion: Companion, metadata: Metadata) -> int:
        return self.classes.find_priority(companion, metadata)

    def _run_plugins(
        self, framework: Framework, item: QueueItem, metadata: Metadata, companion: Companion
    ) -> PreEnqueueGate | None:
        gates, plugins = merge_gates(metadata, companion), framework.profile.hooks[HOOK]
        if gates and not any(entry.name == _GATES.name for entry in plugins):
            plugins = (_GATES, *plugins)
        if not plugins:
            return None
        held = self.find_group_gate(item.key) if framework.profile.decides_groups else ""
        latest = self.caches.latest_snapshots(item.key)
        if len(latest) != 1:
            return None
        is_large = has_more_parts(latest[0].view.spec.policy, PARTS_ON_LOOP)
        if gates and is_large:
            # It holds whatever the policy says, and to read that here would hold everything else, too.
            return PreEnqueueGate(_GATES.name, message_of(hold(gates)))
        if held and is_large:
            return PreEnqueueGate(GANG, held)
        read_request = self.requests.find if is_large else self.requests.get
        request = read_request(latest[0], placement=metadata)
        if request is None:
            self.compiler.submit(item.key, latest[0], placement=metadata)
            return PreEnqueueGate(LARGE, "its policy is large and is still being read")
        if request.problems:
            return None  # the attempt reports them
        asked = replace(request, gates=gates, priority=item.priority, held_by_group=held)
        return _run(framework, plugins, asked, clock=self.clock)


def _run(
    framework: Framework, plugins: tuple[BoundHook, ...], request: PlacementRequest, *, clock: Clock
) -> PreEnqueueGate | None:
    """The first rejection. A plugin that fails holds the placement: it may have meant to."""
    profile = framework.profile
    ctx = HookContext(
        now=epoch_nanoseconds(clock),
        bindings=PlacementBindings(),
        uid=request.uid,
        ranking=profile.ranking,
        tie_break=profile.tie_break,
    )
    with enter_phase(Phase.DECIDING, framework.cache_view()):
        for entry in plugins:
            ctx.plugin = entry.name
            try:
                status = check_status(entry, HOOK, entry.call(ctx, request))
                if is_success(status):
                    continue
                if code_of(status) not in REJECTIONS:
                    raise build_code_error(entry.name, HOOK, status)
                return PreEnqueueGate(entry.name, message_of(status) or "no reason given")
            except Exception as error:
                log.exception("a PreEnqueue plugin failed: the placement is held", placement=request.key)
                return PreEnqueueGate(entry.name, f"the plugin failed: {error}")
    return None
