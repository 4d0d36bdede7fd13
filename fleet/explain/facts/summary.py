"""A decision in one sentence: how many clusters were selected, how many are needed, and what became of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from fleet.explain.facts.cluster_outcome import Standings
from fleet.explain.facts.equivalence import alike
from fleet.explain.facts.phrases import bucket, plain_bucket
from fleet.explain.facts.redaction import Veil
from fleet.explain.facts.rejections import Gathered, first_refusal, gathered
from fleet.framework.cycle.decision import Decision
from fleet.model.keys import PICK_FIXED

LONGEST: Final = 1024
_CUT: Final = " ..."


def summary(decision: Decision, veil: Veil | None = None) -> str:
    """`3/12 clusters selected, need 4: 1 fit; 6 agent silent, 2 untolerated taint {dedicated: batch}`"""
    veil = veil or Veil(decision.frame, None)
    standings = Standings(decision)
    counts, need = standings.counts(), needed(decision)
    head = f"{counts.selected}/{counts.total} clusters selected"
    if need is not None:
        head += f", need {need}"
    good = _listed((counts.fit, "fit"), (counts.already_selected, "already selected"))
    bad = ", ".join(f"{count} {text}" for count, text in _buckets(standings, veil))
    rest = "; ".join(part for part in (good, bad, _strangers(decision)) if part)
    return _shortened(f"{head}: {rest}" if rest else head)


def needed(decision: Decision) -> int | None:
    """How many clusters the policy asks for; None for PickAll, which asks for no number."""
    request = decision.request
    if request.placement_type == PICK_FIXED:
        return len(request.cluster_names)
    return request.wanted if request.min_targets is None else request.min_targets


def _buckets(standings: Standings, veil: Veil) -> list[tuple[int, str]]:
    """Most frequent first, then by text."""
    totals: Counter[str] = Counter()
    for one in gathered(standings):
        plain = plain_bucket(one.plugin, one.reason)
        if plain is not None:
            totals[plain] += one.rows.bit_count()
        else:
            for text, count in _detailed(standings, one, veil):
                totals[text] += count
    if standings.idle:
        totals["not evaluated"] += standings.idle.bit_count()
    return sorted(((count, text) for text, count in totals.items()), key=lambda one: (-one[0], one[1]))


def _detailed(standings: Standings, one: Gathered, veil: Veil) -> Iterator[tuple[str, int]]:
    for rows, speaker in alike(standings.frame, standings.decision.request, one):
        refused = first_refusal(standings, speaker)
        assert refused is not None
        yield bucket(veil.refusal(refused)), rows.bit_count()


def _strangers(decision: Decision) -> str:
    return _listed((len(decision.missing), "listed but not in the fleet"))


def _listed(*parts: tuple[int, str]) -> str:
    return ", ".join(f"{count} {text}" for count, text in parts if count)


def _shortened(text: str) -> str:
    """Cut after a whole bucket, so that no number is left without its meaning."""
    if len(text) <= LONGEST:
        return text
    room = text[: LONGEST - len(_CUT)]
    return room[: max(room.rfind(", "), room.rfind("; "), room.rfind(": "))] + _CUT
