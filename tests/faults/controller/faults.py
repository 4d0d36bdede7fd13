"""The faults that one request may meet, by name, and which requests they make sense for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fleet.errors import ConnectionLost, DeadlineExceeded, Unreachable
from fleet.kube.api import DEFAULT_DEADLINE, Method, Request
from tests.fake_hub import Lost, Refused
from tests.faults.controller.line import Broken, Fault, Garbled, Killed, Late, expired
from tests.faults.scripted import Refuse

Applies = Callable[[Request], bool]


def is_watch(request: Request) -> bool:
    return ("watch", "1") in request.query


def is_list(request: Request) -> bool:
    return request.method is Method.GET and not is_watch(request) and _is_of_ours(request)


def is_write(request: Request) -> bool:
    return request.is_write


def is_call(request: Request) -> bool:
    return not is_watch(request)


def is_any(_: Request) -> bool:
    return True


def _is_of_ours(request: Request) -> bool:
    return "kubernetes-fleet.io" in request.path


_RESET: Final = ConnectionLost("scripted: reset")
_SILENCE: Final = DeadlineExceeded("scripted: no answer")
_REFUSALS: Final = {
    "an internal error": Refuse(500, "InternalError").error(),
    "unavailable": Refuse(503, "ServiceUnavailable").error(),
    "a proxy's 502": Refuse(502).error(),
    "a timeout of the server": Refuse(504, "Timeout").error(),
}

FAULTS: Final[dict[str, tuple[Fault, Applies]]] = {
    "nobody listens": (Refused(Unreachable("scripted: nobody listens")), is_any),
    "reset": (Refused(_RESET), is_any),
    "reset, done": (Lost(_RESET), is_write),
    "no answer": (Refused(_SILENCE, after=DEFAULT_DEADLINE), is_any),
    "no answer, done": (Lost(_SILENCE, after=DEFAULT_DEADLINE), is_write),
    "no answer, done later": (Late(5.0), is_write),
    "a conflict": (Refused(Refuse(409, "Conflict").error()), is_write),
    "expired": (Refused(expired()), lambda request: is_watch(request) or is_list(request)),
    "too many requests": (Refused(Refuse(429, "TooManyRequests", retry_after=3).error()), is_any),
    **{name: (Refused(error), is_any) for name, error in _REFUSALS.items()},
    **{f"{name}, done": (Lost(error), is_write) for name, error in _REFUSALS.items()},
    "garbage": (Garbled(), is_call),
    "killed": (Killed(), is_any),
    "killed, done": (Killed(arrives=0.0), is_write),
    "killed, done later": (Killed(arrives=3.0), is_write),
    "a watch reset at once": (Broken("reset"), is_watch),
    "a watch reset": (Broken("reset", after=1), is_watch),
    "a watch cut short": (Broken("cut short"), is_watch),
    "a watch half open": (Broken("silent"), is_watch),
    "a watch half open later": (Broken("silent", after=1), is_watch),
    "a watch of garbage": (Broken("garbage", after=1), is_watch),
    "a watch that expires": (Broken("expired", after=1), is_watch),
}


def faults_for(request: Request) -> list[Fault]:
    return [fault for fault, applies in FAULTS.values() if applies(request)]
