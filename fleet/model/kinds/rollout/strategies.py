"""Rollout, apply, delete and report-back strategies."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fleet.model.kinds.markers import V1BETA1, Bool, Int, ValidationRule, count_or_percentage, only_in, required_in
from fleet.model.kinds.meta import Model

_KEYWORDS_OF_UNAVAILABLE, _RULE_OF_UNAVAILABLE = count_or_percentage(
    pattern="^((100|[0-9]{1,2})%|[0-9]+)$",
    at_least=0,
    message="ST-03: maxUnavailable must be a whole number ≥ 0 or a percentage from 0 to 100",
)
_KEYWORDS_OF_SURGE, _RULE_OF_SURGE = count_or_percentage(
    pattern="^((100|[0-9]{1,2})%|[0-9]+)$",
    at_least=0,
    message="ST-03: maxSurge must be a whole number ≥ 0 or a percentage from 0 to 100",
)


class ServerSideApplyConfig(Model):
    """Options of server-side apply."""

    force: Annotated[Bool, Field(description="Whether to take over fields that others manage.")] = False


class ApplyStrategy(Model):
    """How objects are written on a member, and what happens to what is already there."""

    type: Annotated[
        Literal["ClientSideApply", "ServerSideApply", "ReportDiff"],
        Field(description="How to write; ReportDiff writes nothing and reports differences."),
    ] = "ClientSideApply"
    comparison_option: Annotated[
        Literal["PartialComparison", "FullComparison"],
        Field(description="Whether only the fields of the manifest are compared, or all."),
    ] = "PartialComparison"
    when_to_apply: Annotated[
        Literal["Always", "IfNotDrifted"], Field(description="Whether drifted objects are overwritten.")
    ] = "Always"
    when_to_take_over: Annotated[
        Literal["Always", "IfNoDiff", "Never"],
        Field(description="Whether objects that exist already become managed by the fleet."),
    ] = "Always"
    allow_co_ownership: Annotated[Bool, Field(description="Whether an object may have other owners as well.")] = False
    server_side_apply_config: Annotated[
        ServerSideApplyConfig | None, Field(description="Options of server-side apply.")
    ] = None


class DeleteStrategy(Model):
    """What happens to placed objects when the placement is deleted."""

    propagation_policy: Annotated[
        Literal["Abandon", "Delete"], Field(description="Whether placed objects stay on the members or go.")
    ] = "Delete"


class ReportBackStrategy(Model):
    """Whether the status of placed objects is brought back to the hub."""

    rules = (
        ValidationRule(
            id="ST-05",
            text="Mirror needs a destination",
            cel="self.type != 'Mirror' || has(self.destination)",
            holds=lambda strategy: strategy.type != "Mirror" or strategy.destination is not None,
        ),
    )

    # The API server fills in the default before it asks for what is required.
    type: Annotated[
        Literal["Disabled", "Mirror"], Field(description="Whether status is reported."), required_in(V1BETA1)
    ] = "Disabled"
    destination: Annotated[
        Literal["OriginalResource", "WorkAPI"] | None, Field(description="Where status is reported, with Mirror.")
    ] = None


class RollingUpdate(Model):
    """The pace of a rolling update."""

    max_unavailable: Annotated[
        int | str,
        Field(description="How many clusters may be without a working copy, as a count or a percentage."),
        _KEYWORDS_OF_UNAVAILABLE,
        _RULE_OF_UNAVAILABLE,
    ] = "25%"
    max_surge: Annotated[
        int | str,
        Field(description="How many clusters may be added beyond the target, as a count or a percentage."),
        _KEYWORDS_OF_SURGE,
        _RULE_OF_SURGE,
    ] = "25%"
    unavailable_period_seconds: Annotated[
        Int,
        Field(ge=0, description="How long objects whose availability cannot be tracked count as unavailable."),
    ] = 60


class RolloutStrategy(Model):
    """How changes are rolled out."""

    type: Annotated[
        Literal["RollingUpdate", "External"],
        Field(description="Whether the fleet paces changes itself, or staged update runs do."),
    ] = "RollingUpdate"
    rolling_update: Annotated[RollingUpdate | None, Field(description="The pace, with RollingUpdate.")] = None
    apply_strategy: Annotated[ApplyStrategy | None, Field(description="How objects are written on the members.")] = None
    delete_strategy: Annotated[
        DeleteStrategy | None,
        Field(description="What happens to placed objects when the placement is deleted."),
        only_in(V1BETA1),
    ] = None
    report_back_strategy: Annotated[
        ReportBackStrategy | None,
        Field(description="Whether the status of placed objects is brought back to the hub."),
        only_in(V1BETA1),
    ] = None
