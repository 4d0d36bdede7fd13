"""Some regions are out of bounds, whatever a placement says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code
from fleet.framework.types import PluginTraits, Reason, ReasonTable, Verdict
from fleet.snapshot import Frame


@dataclass(frozen=True)
class QuarantineArgs:
    regions: tuple[str, ...] = ()
    key: str = "topology.acme.example/region"


class RegionQuarantine(PluginTraits):
    ROW_LOCAL = True
    READS = ("labels",)
    REASONS = ReasonTable(
        Reason("RegionQuarantined", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "region {region} is in quarantine")
    )

    def __init__(self, raw: RawArgs | None, handle: Handle) -> None:
        args = decode_into(raw, QuarantineArgs)
        self._regions, self._key = args.regions, args.key

    def name(self) -> str:
        return "RegionQuarantine"

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        return Verdict(ok=~frame.labels(self._key).isin(self._regions))

    def explain_row(self, req: PlacementRequest, frame: Frame, row: int, reason: int) -> Mapping[str, object]:
        return {"region": frame.labels(self._key).value(row)}
