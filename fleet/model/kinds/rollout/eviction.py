"""Evictions remove a placement from one cluster; disruption budgets limit them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet.model.kinds.markers import ValidationRule, count_or_percentage
from fleet.model.kinds.meta import Conditions, Document, Model

_BUDGET = "DB-01: give maxUnavailable or minAvailable, as a whole number ≥ 0 or a percentage"
_KEYWORDS, _RULE = count_or_percentage(pattern="^(100|[0-9]{1,2})%$", at_least=0, message=_BUDGET)


class EvictionSpec(Model):
    """What is taken off where."""

    rules = (ValidationRule(id="EV-01", text="an eviction cannot be edited; create a new one", cel="self == oldSelf"),)

    placement_name: Annotated[str, Field(max_length=255, description="The ClusterResourcePlacement.")]
    cluster_name: Annotated[str, Field(max_length=255, description="The cluster.")]


class EvictionStatus(Model):
    """What came of it."""

    conditions: Annotated[Conditions, Field(description="Valid and Executed.")] = ()


class ClusterResourcePlacementEviction(Document):
    """Asks once to take a placement off a cluster."""

    spec: Annotated[EvictionSpec, Field(description="What is taken off where.")]
    status: Annotated[EvictionStatus, Field(description="What came of it.")] = EvictionStatus()


class DisruptionBudgetSpec(Model):
    """How many clusters evictions may take away."""

    rules = (
        ValidationRule(
            id="DB-01",
            text=_BUDGET.removeprefix("DB-01: "),
            cel="!(has(self.maxUnavailable) && has(self.minAvailable))",
            holds=lambda spec: spec.max_unavailable is None or spec.min_available is None,
        ),
    )

    max_unavailable: Annotated[
        int | str | None, Field(description="How many clusters may be without the placement."), _KEYWORDS, _RULE
    ] = None
    min_available: Annotated[
        int | str | None, Field(description="How many clusters must keep the placement."), _KEYWORDS, _RULE
    ] = None


class ClusterResourcePlacementDisruptionBudget(Document):
    """Limits evictions of the ClusterResourcePlacement of the same name."""

    spec: Annotated[DisruptionBudgetSpec, Field(description="How many clusters evictions may take away.")]
