"""The plugin `TopologySpreadConstraints`; counting domains and picking in one pass are modules of their own."""

from __future__ import annotations

from plugins.topology_spread.plugin import TopologySpreadConstraints

__all__ = ["TopologySpreadConstraints"]
