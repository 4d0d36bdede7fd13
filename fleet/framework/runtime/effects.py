"""Runs the effect hooks of one attempt: Reserve, Permit, PreBind, Bind, PostBind, and Unreserve after a failure.

Effect hooks run per target, because each write can fail on its own: targets in rank order, and for each target the
plugins in configured order. A hook is a plain function or a coroutine. Nothing here retries or writes logs. Refusals
and errors are returned as a `Failure`; problems that must not stop anything, such as an exception in Unreserve, are
kept in `violations` for the log.

The scheduler decides on threads, on deadlines (`HookCaller`), and on what a failure means for the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from fleet.errors import PluginError
from fleet.framework.context import HookContext
from fleet.framework.handle import MAX_PERMIT_WAIT, Deadlines
from fleet.framework.operations import Target
from fleet.framework.profiles.profile import BoundHook, CompiledProfile
from fleet.framework.request import PlacementRequest
from fleet.framework.runtime.purity_guard import Phase, enter_phase
from fleet.framework.state import CycleState
from fleet.framework.status import REJECTIONS, SUCCESS, Code, Status, code_of, is_success, message_of
from fleet.framework.types import PluginTraits
from fleet.snapshot.frame import Frame

EFFECT_HOOKS: Final = ("reserve", "permit", "preBind", "bind", "postBind")
"""In the order in which they run."""
_ALWAYS: Final = frozenset({Code.SUCCESS, Code.ERROR})
_UNSCHEDULABLE: Final = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE})
_LEGAL: Final[Mapping[str, frozenset[Code]]] = MappingProxyType(
    {
        "reserve": _ALWAYS | REJECTIONS,
        "permit": _ALWAYS | REJECTIONS | {Code.WAIT},
        "preBindPreflight": _ALWAYS | {Code.SKIP},
        "preBind": _ALWAYS | _UNSCHEDULABLE,
        "bind": _ALWAYS | {Code.SKIP},
    }
)
_NO_DEADLINES: Final[Deadlines] = MappingProxyType({})
_DAY, _SECOND, _MICROSECOND = 86_400_000_000_000, 1_000_000_000, 1_000


class HookCaller(Protocol):
    async def __call__(self, hook: str, plugin: str, call: Callable[..., Any], *args: Any) -> Any:
        """The result of `call(*args)`, awaited where it is a coroutine."""


async def call_inline(hook: str, plugin: str, call: Callable[..., Any], *args: Any) -> Any:
    """On the thread of the caller, without a deadline."""
    del hook, plugin
    answer = call(*args)
    return await answer if isawaitable(answer) else answer


@dataclass(frozen=True, slots=True)
class Failure:
    """The status that stopped an attempt after its decision."""

    hook: str
    target: Target
    status: Status

    @property
    def internal(self) -> bool:
        """An error, as opposed to a plugin's refusal. No plugin counts as the rejector then."""
        return self.status.code is Code.ERROR

    @property
    def rejector(self) -> str:
        return "" if self.internal else self.status.plugin

    @property
    def reason(self) -> str:
        """The reason in events and conditions. The cluster was found, so a failed bind is not Unschedulable."""
        if self.hook in ("preBind", "bind"):
            return "BindFailed"
        return "SchedulerError" if self.internal else "Unschedulable"


@dataclass(frozen=True, slots=True)
class Permission:
    """The result of the Permit plugins over all targets: granted, pending or denied."""

    pending: Deadlines = field(default_factory=lambda: _NO_DEADLINES)
    """Empty when no plugin waits, and after a denial."""
    denial: Failure | None = None

    @property
    def granted(self) -> bool:
        """Bind at once: no plugin denied or returned Wait."""
        return self.denial is None and not self.pending


class HookResult(NamedTuple):
    """One plugin's result for one target, for the record of the attempt."""

    hook: str
    plugin: str
    target: str
    status: Status
    deadline: int = 0
    """Permit that waits: until when, in nanoseconds since the epoch."""


class ContractViolation(NamedTuple):
    """A plugin broke its contract, without an effect on the result. For the log and the plugin's author."""

    hook: str
    plugin: str
    target: str
    text: str
    error: Exception | None = None


class Effects:
    """The effect hooks of one profile, for one attempt.

    `ctx.now` is the moment that deadlines count from; a binding cycle that starts later sets it first.
    """

    def __init__(
        self,
        profile: CompiledProfile,
        *,
        ctx: HookContext,
        state: CycleState,
        placement: PlacementRequest,
        frame: Frame,
        call_hook: HookCaller = call_inline,
        max_permit_wait: int = MAX_PERMIT_WAIT,
    ) -> None:
        self.ctx, self.state, self.placement = ctx, state, placement
        self.results: list[HookResult] = []
        self.violations: list[ContractViolation] = []
        self._hooks, self._frame, self._call_hook, self._longest = profile.hooks, frame, call_hook, max_permit_wait
        self._preflights: dict[tuple[str, str], Status] = {}
        self.is_partial = profile.partial_permit

    # --- Reserve and Permit -------------------------------------------------------------------------------------

    async def run_reserve(self, targets: Sequence[Target]) -> Failure | None:
        """All or nothing: the first failure unreserves every target so far, its own included."""
        for position, target in enumerate(targets):
            failure = await self._first_failure("reserve", target)
            if failure is not None:
                await self.run_unreserve(targets[: position + 1])
                return failure
        return None

    async def run_unreserve(self, targets: Sequence[Target]) -> None:
        """In the exact reverse of the order of reserving. Every plugin is called, also one that had not reserved yet;
        none can stop the others."""
        for target in reversed(targets):
            for entry in reversed(self._hooks["reserve"]):
                await self._notify("unreserve", entry, entry.plugin.unreserve, target)

    async def run_permit(self, targets: Sequence[Target]) -> Permission:
        """Never waits. One denial decides, even after other plugins returned Wait. After Pending the other targets are
        still asked: who has to agree is then known for all of them."""
        pending: dict[str, dict[str, int]] = {}
        unready: Failure | None = None
        for target in targets:
            for entry in self._hooks["permit"]:
                status, wait = await self._call_permit(entry, target)
                if status.code is Code.WAIT:
                    deadline = self.ctx.now + wait
                    pending.setdefault(target.cluster, {})[entry.name] = deadline
                    self._record("permit", entry, target, status, deadline=deadline)
                    continue
                self._record("permit", entry, target, status)
                if status.code is Code.PENDING:
                    unready = unready or Failure("permit", target, status)
                elif not is_success(status):
                    return Permission(denial=Failure("permit", target, status))
        return Permission(pending) if unready is None else Permission(denial=unready)

    def leaves_others(self, denial: Status) -> bool:
        """Whether the other clusters are bound without the one that Permit refused."""
        is_refusal = denial.code in REJECTIONS - {Code.PENDING}
        return (self.is_partial and is_refusal) or self.is_about_cluster(denial)

    def is_about_cluster(self, denial: Status) -> bool:
        """Whether another cluster may take the place of one that Permit refused."""
        plugins = (entry.plugin for entry in self._hooks["permit"] if entry.name == denial.plugin)
        return denial.code in REJECTIONS - {Code.PENDING} and any(
            getattr(plugin, "DENIAL_IS_OF_CLUSTER", PluginTraits.DENIAL_IS_OF_CLUSTER) for plugin in plugins
        )

    # --- PreBind, Bind, PostBind --------------------------------------------------------------------------------

    async def needs_pre_bind(self, targets: Sequence[Target]) -> bool:
        """Whether any plugin has something to prepare; checked before anything slow starts."""
        for target in targets:
            for entry in self._hooks["preBind"]:
                if (await self._preflight(entry, target)).code is not Code.SKIP:
                    return True
        return False

    async def run_pre_bind(self, targets: Sequence[Target]) -> Failure | None:
        for target in targets:
            for entry in self._hooks["preBind"]:
                status = await self._preflight(entry, target)
                if is_success(status):
                    status = await self._call_checked("preBind", entry, target)
                self._record("preBind", entry, target, status)
                if status.code not in (Code.SUCCESS, Code.SKIP):
                    return Failure("preBind", target, status)
        return None

    async def run_bind(self, target: Target) -> Failure | None:
        """The first plugin that does not skip the target decides."""
        for entry in self._hooks["bind"]:
            status = await self._call_checked("bind", entry, target)
            self._record("bind", entry, target, status)
            if status.code is not Code.SKIP:
                return None if is_success(status) else Failure("bind", target, status)
        return Failure("bind", target, Status.new(Code.ERROR, "no bind plugin handled"))

    async def run_post_bind(self, target: Target) -> None:
        """Calls every plugin; their results are ignored."""
        for entry in self._hooks["postBind"]:
            await self._notify("postBind", entry, entry.call, target)

    # --- inside -------------------------------------------------------------------------------------------------

    async def _first_failure(self, hook: str, target: Target) -> Failure | None:
        for entry in self._hooks[hook]:
            status = await self._call_checked(hook, entry, target)
            self._record(hook, entry, target, status)
            if not is_success(status):
                return Failure(hook, target, status)
        return None

    async def _preflight(self, entry: BoundHook, target: Target) -> Status:
        """Called once per plugin and target. A plugin without preflight always has work."""
        known = self._preflights.get((entry.name, target.cluster))
        if known is not None:
            return known
        call = getattr(entry.plugin, "pre_bind_preflight", None)
        status = SUCCESS
        if call is not None:
            status = await self._call_checked("preBindPreflight", entry._replace(call=call), target)
        self._preflights[entry.name, target.cluster] = status
        return status

    async def _call_checked(self, hook: str, entry: BoundHook, target: Target) -> Status:
        try:
            return self._check_status(hook, entry, target, await self._call(hook, entry, entry.call, target))
        except Exception as error:
            return _error_status(entry, error)

    async def _call_permit(self, entry: BoundHook, target: Target) -> tuple[Status, int]:
        """The status, and how many nanoseconds the target may wait."""
        try:
            status, timeout = _pair(await self._call("permit", entry, entry.call, target))
            judged = self._check_status("permit", entry, target, status)
            return judged, self._clamp_timeout(timeout) if judged.code is Code.WAIT else 0
        except Exception as error:
            return _error_status(entry, error), 0

    async def _notify(self, hook: str, entry: BoundHook, call: Any, target: Target) -> None:
        try:
            answer = await self._call(hook, entry, call, target)
        except Exception as error:
            self._report_violation(hook, entry, target, f"{type(error).__name__}: {error}", error)
            return
        if answer is not None:
            self._report_violation(hook, entry, target, f"its answer is ignored: {answer}")

    async def _call(self, hook: str, entry: BoundHook, call: Any, target: Target) -> Any:
        self.ctx.plugin = entry.name
        with enter_phase(Phase.ACTING, self._frame):
            return await self._call_hook(hook, entry.name, call, self.ctx, self.state, self.placement, target)

    def _check_status(self, hook: str, entry: BoundHook, target: Target, answer: object) -> Status:
        """A legal status with the plugin's name; anything else is an error of the plugin."""
        if not isinstance(answer, Status | None):
            raise PluginError(f"answered {type(answer).__name__}, not a Status")
        code = code_of(answer)
        if answer is None or (code is Code.SUCCESS and not answer.reasons and not answer.details):
            return SUCCESS
        if code not in _LEGAL[hook]:
            raise PluginError(f"invalid code {code} at {hook[0].upper()}{hook[1:]}")
        if not message_of(answer) and code not in (Code.SUCCESS, Code.SKIP, Code.WAIT):
            self._report_violation(hook, entry, target, f"{code} without a reason")
        return Status(code, answer.reasons, plugin=entry.name, error=answer.error, details=answer.details)

    def _clamp_timeout(self, timeout: Any) -> int:
        """A timedelta as nanoseconds, exactly; its class belongs to the clock and is not imported here."""
        if not hasattr(timeout, "microseconds"):
            raise PluginError(f"asked to wait for {timeout!r}, not for a timedelta")
        asked = timeout.days * _DAY + timeout.seconds * _SECOND + timeout.microseconds * _MICROSECOND
        return int(min(max(asked, 0), self._longest))

    def _record(self, hook: str, entry: BoundHook, target: Target, status: Status, *, deadline: int = 0) -> None:
        self.results.append(HookResult(hook, entry.name, target.cluster, status, deadline))

    def _report_violation(
        self, hook: str, entry: BoundHook, target: Target, text: str, error: Exception | None = None
    ) -> None:
        self.violations.append(ContractViolation(hook, entry.name, target.cluster, text, error))


def _pair(answer: Any) -> tuple[Any, Any]:
    """The result of Permit as a pair; None is success here as everywhere."""
    if answer is None:
        return None, None
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise PluginError(f"answered {type(answer).__name__}, not (Status, timeout)")
    return answer


def _error_status(entry: BoundHook, error: Exception) -> Status:
    text = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
    return Status(Code.ERROR, (text,), plugin=entry.name, error=error)
