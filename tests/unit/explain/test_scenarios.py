"""What holds for the explanation of any decision, on scenarios nobody thought of."""

from __future__ import annotations

from collections import Counter

import pytest

from fleet.explain.answer.answer import build_answer
from fleet.explain.facts.clusters import Explainer
from fleet.explain.facts.outcomes import ClusterOutcome, count_clusters
from fleet.explain.facts.summary import summarize
from fleet.framework.cycle.cycle import decide
from fleet.framework.cycle.inspection import consider_newcomers
from tests.strategies import random_scenario
from tests.vectors.engine import decision_input

CHOSEN = (ClusterOutcome.SELECTED, ClusterOutcome.REFRESHED, ClusterOutcome.REVIVED)


@pytest.mark.parametrize("seed", range(20))
def test_W_05_every_explanation_adds_up(seed: int) -> None:
    inp = decision_input(random_scenario(seed))
    decision, question = consider_newcomers(decide(inp), inp)
    explainer = Explainer(decision, question)
    found = count_clusters(decision)
    outcomes = Counter(explainer.explain(name).outcome for name in decision.frame.names.ordered)

    assert sum((found.selected, found.fit, found.already_selected, found.rejected, found.not_evaluated)) == found.total
    assert sum(one.count for one in build_answer(inp, decide(inp)).attempt.groups) == found.rejected
    assert sum(outcomes[one] for one in CHOSEN) == found.selected
    assert outcomes[ClusterOutcome.KEPT] == found.already_selected
    assert outcomes[ClusterOutcome.NOT_PICKED] == found.fit
    assert decision.active in (None, found.selected + found.already_selected)
    summary = summarize(decision)
    if decision.fulfilled and found.already_selected and not found.selected:
        assert summary.startswith(f"{found.already_selected} ")
        assert found.not_evaluated == decision.frame.count - found.already_selected - found.fit - found.rejected
    else:
        assert summary.startswith(f"{found.selected}/{found.total} clusters selected")
