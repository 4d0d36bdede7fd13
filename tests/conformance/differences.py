"""Where the embedded hub answers differently from the real API server, on purpose.

A difference is a decision: it has a reason here, it is in docs/embedded-hub.md, and a test looks it up by name:

    assert answer.message == wanted(hub.target, "quota", real="exceeded quota: …")

Everything that is not here is expected to be the same, word for word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from tests.conformance.targets import EMBEDDED

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Difference:
    """What the embedded hub answers instead, and why that is right for it."""

    embedded: object
    why: str


_NOT_OUR_FAULT: Final = "nothing a client sends is answered with a server error"

DIFFERENCES: Final[Mapping[str, Difference]] = {
    "status of a new object with a version": Difference(400, _NOT_OUR_FAULT),
    "status of applying an unknown field": Difference(400, _NOT_OUR_FAULT),
    "refusal: an answer of an unknown type": Difference(
        "only the following media types are accepted: application/json, application/json;stream=watch",
        "answers are JSON only, and the refusal says so",
    ),
}
"""By name."""


def wanted(target: str, name: str, *, real: Answer) -> Answer:
    """What this target should answer: as the real one does, unless the embedded one differs on purpose."""
    difference = DIFFERENCES.get(name)
    if target != EMBEDDED or difference is None:
        return real
    assert isinstance(difference.embedded, type(real)), f"difference {name} is of another type than the real answer"
    return difference.embedded
