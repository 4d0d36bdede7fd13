"""Recorded decisions as text: a table of attempts, and one line per decision of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from api.models import DecisionModel
from api.text.tables import render_plain_table

UNNAMED: Final = "a placement you may not read"


def render_history(decisions: Iterable[DecisionModel]) -> str:
    rows = (
        (
            _format_number(decision),
            decision.at,
            decision.result,
            _format_clusters(decision),
            ", ".join(decision.triggers),
        )
        for decision in decisions
    )
    return render_plain_table(("ATTEMPT", "AT", "OUTCOME", "CHOSE", "BECAUSE OF"), rows)


def render_decision_line(decision: DecisionModel) -> str:
    because = f" [{', '.join(decision.triggers)}]" if decision.triggers else ""
    subject, result = decision.key or UNNAMED, decision.result
    return f"{decision.at}  {subject}: {result}, {_format_clusters(decision)}{because}\n"


def _format_number(decision: DecisionModel) -> str:
    return f"{decision.n}-{decision.n + decision.repeats}" if decision.repeats else str(decision.n)


def _format_clusters(decision: DecisionModel) -> str:
    names = ", ".join(target.cluster for target in decision.targets)
    if decision.redacted:
        return f"{names} and {decision.redacted} more" if names else f"{decision.redacted} clusters"
    return names or (f"none new, {decision.active} in use" if decision.active else "none")
