"""The hub that the demo's tests run against: the embedded one, in memory."""

from __future__ import annotations

from tests.faults.hub_api import Document, HubApi, a_hub

__all__ = ["Document", "HubApi", "a_hub"]
