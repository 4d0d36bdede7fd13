"""Running the effect hooks of one attempt: Reserve, Permit, PreBind, Bind, PostBind, and Unreserve when one fails.

Effect hooks run per target, because each can fail alone in the outside world: targets in rank order, and inside a
target the plugins in configured order. Nothing here waits, retries or writes logs. Refusals and errors come back as a
`Failure`; what must not stop anything, such as an exception in Unreserve, is kept in `complaints` for the log.

When to run what, on which thread, and what a failure means for the queue is up to the scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from fleet.errors import PluginError
from fleet.framework.context import Attempt
from fleet.framework.cycle.runner import NULL_PROBE, Probe
from fleet.framework.handle import MAX_PERMIT_WAIT, Deadlines
from fleet.framework.operations import Target
from fleet.framework.profiles.profile import CompiledProfile, Hooked
from fleet.framework.request import PlacementRequest
from fleet.framework.runtime.purity_guard import Phase, during
from fleet.framework.state import CycleState
from fleet.framework.status import REJECTIONS, SUCCESS, Code, Status, code_of, is_success, message_of
from fleet.snapshot.frame import Frame

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


@dataclass(frozen=True, slots=True)
class Failure:
    """What stopped an attempt after its decision."""

    hook: str
    target: Target
    status: Status

    @property
    def internal(self) -> bool:
        """Something broke, as opposed to a plugin saying no. No plugin counts as the rejector then."""
        return self.status.code is Code.ERROR

    @property
    def rejector(self) -> str:
        return "" if self.internal else self.status.plugin

    @property
    def reason(self) -> str:
        """The one word for events and conditions. The cluster was found, so a failed bind is not Unschedulable."""
        if self.hook in ("preBind", "bind"):
            return "BindFailed"
        return "SchedulerError" if self.internal else "Unschedulable"


@dataclass(frozen=True, slots=True)
class Permission:
    """What the Permit plugins said about all targets: go ahead, wait, or no."""

    pending: Deadlines = field(default_factory=lambda: _NO_DEADLINES)
    """Empty when nobody waits, and after a denial."""
    denial: Failure | None = None

    @property
    def granted(self) -> bool:
        """Bind at once: nobody objects and nobody asked for time."""
        return self.denial is None and not self.pending


class Answered(NamedTuple):
    """One plugin's answer about one target, for the record of the attempt."""

    hook: str
    plugin: str
    target: str
    status: Status
    deadline: int = 0
    """Permit that waits: until when, in nanoseconds since the epoch."""


class Complaint(NamedTuple):
    """A plugin broke its contract in a way that changes nothing. For the log and the plugin's author."""

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
        ctx: Attempt,
        state: CycleState,
        placement: PlacementRequest,
        frame: Frame,
        probe: Probe = NULL_PROBE,
        max_permit_wait: int = MAX_PERMIT_WAIT,
    ) -> None:
        self.ctx, self.state, self.placement = ctx, state, placement
        self.answers: list[Answered] = []
        self.complaints: list[Complaint] = []
        self._hooks, self._frame, self._probe, self._longest = profile.hooks, frame, probe, max_permit_wait
        self._preflights: dict[tuple[str, str], Status] = {}

    # --- Reserve and Permit -------------------------------------------------------------------------------------

    def run_reserve(self, targets: Sequence[Target]) -> Failure | None:
        """All or nothing: the first failure gives back every target so far, its own included."""
        for position, target in enumerate(targets):
            failure = self._first_failure("reserve", target)
            if failure is not None:
                self.run_unreserve(targets[: position + 1])
                return failure
        return None

    def run_unreserve(self, targets: Sequence[Target]) -> None:
        """In the exact reverse of the order of reserving. Every plugin is called, also one that had not reserved yet;
        none can stop the others."""
        for target in reversed(targets):
            for one in reversed(self._hooks["reserve"]):
                self._tell("unreserve", one, one.plugin.unreserve, target)

    def run_permit(self, targets: Sequence[Target]) -> Permission:
        """Never blocks. One denial decides, whatever others asked for before."""
        pending: dict[str, dict[str, int]] = {}
        for target in targets:
            for one in self._hooks["permit"]:
                status, wait = self._ask_permit(one, target)
                if status.code is Code.WAIT:
                    deadline = self.ctx.now + wait
                    pending.setdefault(target.cluster, {})[one.name] = deadline
                    self._record("permit", one, target, status, deadline=deadline)
                    continue
                self._record("permit", one, target, status)
                if not is_success(status):
                    return Permission(denial=Failure("permit", target, status))
        return Permission(pending)

    # --- PreBind, Bind, PostBind --------------------------------------------------------------------------------

    def needs_pre_bind(self, targets: Sequence[Target]) -> bool:
        """Whether any plugin has something to prepare; worth knowing before anything slow starts."""
        return any(
            self._preflight(one, target).code is not Code.SKIP for target in targets for one in self._hooks["preBind"]
        )

    def run_pre_bind(self, targets: Sequence[Target]) -> Failure | None:
        for target in targets:
            for one in self._hooks["preBind"]:
                status = self._preflight(one, target)
                if is_success(status):
                    status = self._ask("preBind", one, target)
                self._record("preBind", one, target, status)
                if status.code not in (Code.SUCCESS, Code.SKIP):
                    return Failure("preBind", target, status)
        return None

    def run_bind(self, target: Target) -> Failure | None:
        """The first plugin that does not pass the target on has the word."""
        for one in self._hooks["bind"]:
            status = self._ask("bind", one, target)
            self._record("bind", one, target, status)
            if status.code is not Code.SKIP:
                return None if is_success(status) else Failure("bind", target, status)
        return Failure("bind", target, Status.new(Code.ERROR, "no bind plugin handled"))

    def run_post_bind(self, target: Target) -> None:
        """Everybody is told; nobody can object."""
        for one in self._hooks["postBind"]:
            self._tell("postBind", one, one.call, target)

    # --- inside -------------------------------------------------------------------------------------------------

    def _first_failure(self, hook: str, target: Target) -> Failure | None:
        for one in self._hooks[hook]:
            status = self._ask(hook, one, target)
            self._record(hook, one, target, status)
            if not is_success(status):
                return Failure(hook, target, status)
        return None

    def _preflight(self, one: Hooked, target: Target) -> Status:
        """Asked once per plugin and target. A plugin without preflight always has work."""
        known = self._preflights.get((one.name, target.cluster))
        if known is not None:
            return known
        call = getattr(one.plugin, "pre_bind_preflight", None)
        status = SUCCESS if call is None else self._ask("preBindPreflight", one._replace(call=call), target)
        self._preflights[one.name, target.cluster] = status
        return status

    def _ask(self, hook: str, one: Hooked, target: Target) -> Status:
        try:
            return self._judged(hook, one, target, self._call(hook, one, one.call, target))
        except Exception as error:
            return _broken(one, error)

    def _ask_permit(self, one: Hooked, target: Target) -> tuple[Status, int]:
        """The answer, and how many nanoseconds it may wait."""
        try:
            status, timeout = _pair(self._call("permit", one, one.call, target))
            judged = self._judged("permit", one, target, status)
            return judged, self._clamped(timeout) if judged.code is Code.WAIT else 0
        except Exception as error:
            return _broken(one, error), 0

    def _tell(self, hook: str, one: Hooked, call: Any, target: Target) -> None:
        try:
            answer = self._call(hook, one, call, target)
        except Exception as error:
            self._complain(hook, one, target, f"{type(error).__name__}: {error}", error)
            return
        if answer is not None:
            self._complain(hook, one, target, f"its answer is ignored: {answer}")

    def _call(self, hook: str, one: Hooked, call: Any, target: Target) -> Any:
        self.ctx.plugin = one.name
        with during(Phase.ACTING, self._frame):
            return self._probe.measure(hook, one.name, call, self.ctx, self.state, self.placement, target)

    def _judged(self, hook: str, one: Hooked, target: Target, answer: object) -> Status:
        """A legal status with the plugin's name; anything else is an error of the plugin."""
        if not isinstance(answer, Status | None):
            raise PluginError(f"answered {type(answer).__name__}, not a Status")
        code = code_of(answer)
        if answer is None or code is Code.SUCCESS:
            return SUCCESS
        if code not in _LEGAL[hook]:
            raise PluginError(f"invalid code {code} at {hook[0].upper()}{hook[1:]}")
        if not message_of(answer) and code not in (Code.SKIP, Code.WAIT):
            self._complain(hook, one, target, f"{code} without a reason")
        return Status(code, answer.reasons, plugin=one.name, error=answer.error, details=answer.details)

    def _clamped(self, timeout: Any) -> int:
        """A timedelta as nanoseconds, exactly; its class belongs to the clock and is not imported here."""
        if not hasattr(timeout, "microseconds"):
            raise PluginError(f"asked to wait for {timeout!r}, not for a timedelta")
        asked = timeout.days * _DAY + timeout.seconds * _SECOND + timeout.microseconds * _MICROSECOND
        return int(min(max(asked, 0), self._longest))

    def _record(self, hook: str, one: Hooked, target: Target, status: Status, *, deadline: int = 0) -> None:
        self.answers.append(Answered(hook, one.name, target.cluster, status, deadline))

    def _complain(self, hook: str, one: Hooked, target: Target, text: str, error: Exception | None = None) -> None:
        self.complaints.append(Complaint(hook, one.name, target.cluster, text, error))


def _pair(answer: Any) -> tuple[Any, Any]:
    """What Permit answered; None is success here as everywhere."""
    if answer is None:
        return None, None
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise PluginError(f"answered {type(answer).__name__}, not (Status, timeout)")
    return answer


def _broken(one: Hooked, error: Exception) -> Status:
    text = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
    return Status(Code.ERROR, (text,), plugin=one.name, error=error)
