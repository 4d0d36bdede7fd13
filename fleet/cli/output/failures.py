"""The last words of a command: an error, and on a line of its own the next step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from fleet.errors import ApiError, ConfigurationError, FleetError
from fleet.model.keys import PLACEMENT_GROUP

_REQUEST: Final = re.compile(r"^[A-Z]+ /\S*: ")
"""In front of the hub's messages."""
_NEXT: Final = "\nnext: "
_CHECK_HUB: Final = "try again; `kubectl get --raw /readyz` shows whether the hub is healthy"
_REPORT: Final = "this is a defect of Fleet or of a plugin: report it with the command and its input"

STEPS: Final[Mapping[str, str]] = {
    "FleetError": _REPORT,
    "InputError": "see `{command} --help`",
    "ConfigurationError": "see `{command} --help`",
    "UnusableSchema": "see docs/upgrade.md; `fleet migrate --help` lists what can be done",
    "DuplicatePlugin": "`fleet plugins list` shows which package each is from; uninstall one",
    "UnknownPlugin": "`fleet plugins list` shows those that are installed",
    "PluginError": "`fleet plugins check NAME` finds where a plugin breaks its contract",
    "PurityError": "`fleet plugins check NAME` finds where a plugin breaks its contract",
    "SnapshotUseError": "`fleet plugins check NAME` finds where a plugin breaks its contract",
    "StaleInputs": "try again",
    "Unauthorized": "renew the credentials of your kubeconfig, or choose another with --kubeconfig or --context",
    "Forbidden": "ask an administrator of the hub for this right",
    "NotFound": "check that the hub has Fleet's definitions: `kubectl api-resources --api-group={group}`",
    "AlreadyExists": "read the object, and decide again",
    "Conflict": "read the object, and decide again",
    "Gone": "try again",
    "TooManyRequests": "try again later: the hub is busy",
    "InternalError": _CHECK_HUB,
    "Unavailable": _CHECK_HUB,
    "ServerTimeout": _CHECK_HUB,
    "ConnectionLost": _CHECK_HUB,
    "DeadlineExceeded": _CHECK_HUB,
    "Unreachable": "check that the hub runs, or choose another with --kubeconfig or --context",
    "UnreadableAnswer": "check that the server of your kubeconfig is a Kubernetes API server, and not a proxy's login",
    "NotLeading": "start it again: it waits until it leads",
    "LeadershipLost": "start it again: it waits until it leads",
    "GitError": "check the repository, and that its remote can be reached and written to",
    "RegistryError": "check the address, and that your container tool is logged in to the registry",
    "ReleaseRefused": "change what each line names; see docs/releases.md",
    "RaceLost": "try again",
    "HistoryUnavailable": "check history.url, and that the database answers",
    "ServerStopped": "the lines before this one have the reason; start it again",
    "StreamInterrupted": "run it again",
}
"""By the name of the class, so that a failing command imports nothing more; the nearest base class counts."""
EVIDENT: Final[Mapping[str, str]] = {
    "BadRequest": "the hub says what is wrong with the request",
    "ApiRefusal": "the API sends the next step, and what reads its answers has its own",
    "Invalid": "the hub names each field and what is wrong with it",
    "DocumentError": "names the field of a document and what is expected there",
    "QuantityError": "names the value and what a quantity is",
    "TimestampError": "names the value and what a time is",
}
"""Errors without a next step, because they say themselves what to change."""


def describe_failure(error: FleetError, program: str, arguments: Sequence[str]) -> str:
    text = strip_request(str(error)) if isinstance(error, ApiError) else str(error)
    if isinstance(error, ConfigurationError) and _NEXT not in text:
        text = "\nerror: ".join(text.splitlines())  # each line is a mistake
    step = None if _NEXT in text else _find_step(type(error))
    if step is None:
        return text
    command = f"{program} {arguments[0]}" if arguments and not arguments[0].startswith("-") else program
    return f"{text}{_NEXT}{step.format(command=command, group=PLACEMENT_GROUP)}"


def strip_request(message: str) -> str:
    return _REQUEST.sub("", message)


def _find_step(kind: type[FleetError]) -> str | None:
    for name in (base.__name__ for base in kind.__mro__):
        if name in EVIDENT:
            return None
        if name in STEPS:
            return STEPS[name]
    return None
