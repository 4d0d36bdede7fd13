"""Decisions to ask about: clusters, a policy and bindings in, the decision and what explains it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.explain.facts.clusters import ClusterExplanation, Explainer
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.profiles.profile import CompiledProfile
from plugins.default_profile import compile_default
from tests.builders import NOW, BindingBuilder, ClusterBuilder, PolicyBuilder, a_frame

DEFAULT = compile_default()


@dataclass(frozen=True)
class Asked:
    decision: Decision
    inp: DecisionInput

    def explained(self, name: str) -> ClusterExplanation:
        return Explainer(self.decision, self.inp).explain(name)

    def outcomes(self) -> dict[str, str]:
        return {name: str(self.explained(name).outcome) for name in self.decision.frame.names.ordered}

    def verdicts(self, name: str) -> dict[str, str]:
        return {one.plugin: one.verdict for one in self.explained(name).verdicts}


def ask(
    fleet: Sequence[ClusterBuilder],
    policy: PolicyBuilder,
    *bindings: BindingBuilder,
    profile: CompiledProfile = DEFAULT,
    now: int = NOW,
) -> Asked:
    inp = DecisionInput(
        frame=a_frame(*fleet),
        request=policy.request(),
        bindings=[one.build() for one in bindings],
        profile=profile,
        now=now,
    )
    return Asked(decide(inp), inp)
