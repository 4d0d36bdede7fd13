"""No new work for a cluster in maintenance, or shortly before it.

The start and the length of a maintenance are properties of the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.scalar import ClusterView, ScalarPlugin
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status

START = "acme.example/maintenance-start"
"""Seconds since the epoch."""
LENGTH = "acme.example/maintenance-minutes"

SECOND = 1_000_000_000
MINUTE = 60 * SECOND


@dataclass(frozen=True)
class MaintenanceArgs:
    notice_minutes: int = 30
    """How long before the work a cluster takes nothing new."""


class MaintenanceWindow(ScalarPlugin):
    ROW_LOCAL = True
    READS = ("properties",)

    def __init__(self, args: MaintenanceArgs) -> None:
        self._notice = args.notice_minutes * MINUTE

    def filter_one(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, cluster: ClusterView
    ) -> Status | None:
        start = cluster.properties.get(START)
        if start is None:
            return None
        begins = int(start) * SECOND
        ends = begins + int(cluster.properties.get(LENGTH, 60) * MINUTE)
        if begins - self._notice <= ctx.now < ends:
            return Status.new(Code.UNSCHEDULABLE, "cluster is in maintenance, or soon will be")
        return None


def new(raw: RawArgs | None, handle: Handle) -> MaintenanceWindow:
    return MaintenanceWindow(decode_into(raw, MaintenanceArgs))
