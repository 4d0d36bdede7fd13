"""The JSON of what only pages ask: sessions, and whole matrices in one answer."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from api.models import ApiModel
from fleet.explain.facts.compact import VerdictReason


class SessionModel(ApiModel, frozen=True, kw_only=True):
    """The caller of a page."""

    user: str
    expires: str | None
    """When the session ends; None for a caller without one, such as one with a bearer token."""


class SessionRequest(ApiModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session for the code of a one-time link, instead of a bearer token."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    user: str = ""
    """Whom the link signs in, as confirmed by the one who opened it. Without it, the answer has only the name."""


class SessionLink(ApiModel, frozen=True, kw_only=True):
    """A link that opens the explorer, once."""

    path: str
    """With the code in its fragment, which browsers send to no server."""
    expires: str


class VerdictGrid(ApiModel, frozen=True, kw_only=True):
    """Every filter's verdict on every cluster that the caller may read."""

    placement: str
    attempt: str
    """The id of the attempt that it is about; empty without one."""
    evaluated_on: Literal["recorded", "current"]
    plugins: tuple[str, ...]
    """In the order in which they run."""
    clusters: tuple[str, ...]
    """Sorted; all lists below have this order."""
    redacted: int
    """How many more there are that the caller may not read."""
    verdicts: bytes
    """In base64, a row for each plugin, a byte for each cluster: 0 passed, 255 not run, else one more than an index of
    `reasons`. About a cluster in use they are about the cluster by itself, as if the placement was not there yet."""
    reasons: tuple[VerdictReason, ...]
    scores: tuple[int | None, ...]
    """The sum of the scores; None where there are none."""
    outcomes: str
    """A letter for each cluster: (s)elected, (a)lready selected, (f)its, (r)ejected, (n)ot evaluated."""
    bound: tuple[int, ...]
    """Indices of the clusters in use, once the decision is carried out."""
    labels: dict[str, tuple[str | None, ...]]
    """By label key that the policy names: the value of each cluster."""


class FleetColumn(ApiModel, frozen=True, kw_only=True):
    """A cluster."""

    name: str
    eligible: bool
    state: str
    """As in the status of the fleet; empty for a cluster that may get any work."""
    labels: dict[str, str]
    """Those by which the fleet can be grouped: of few values, at most eight keys."""


class FleetRow(ApiModel, frozen=True, kw_only=True):
    """A placement."""

    key: str
    type: str
    wanted: int | None
    """How many clusters; None for PickAll."""
    selected: int
    fulfilled: bool | None
    """None while the scheduler has not decided."""
    condition: str
    """The first condition that does not hold, such as Scheduled; empty for a placement without trouble."""
    reason: str
    bound: tuple[int, ...]
    """Indices of the clusters in use."""
    redacted: int
    """How many more clusters there are that the caller may not read."""


class FleetGrid(ApiModel, frozen=True, kw_only=True):
    """Placements and the clusters they are on."""

    clusters: tuple[FleetColumn, ...]
    """Those that the caller may read, by name."""
    redacted: int
    """How many more there are."""
    placements: tuple[FleetRow, ...]
    """Those in trouble first, the worst ones before; then by name."""
    more: int
    """How many placements are left out."""
