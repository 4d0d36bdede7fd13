"""The JSON of what only pages ask: sessions, and whole matrices in one answer."""

from __future__ import annotations

from typing import Annotated

import msgspec

from api.models import ApiModel


class SessionModel(ApiModel, frozen=True, kw_only=True):
    """The caller of a page."""

    user: str
    expires: str | None
    """When the session ends; None for a caller without one, such as one with a bearer token."""


class SessionRequest(ApiModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session for the code of a one-time link, instead of a bearer token."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class SessionLink(ApiModel, frozen=True, kw_only=True):
    """A link that opens the explorer, once."""

    path: str
    """With the code in its fragment, which browsers send to no server."""
    expires: str
