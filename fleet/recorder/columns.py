"""A verdict for every cluster and the scores of the feasible ones, as bytes in the order of names.

Rows are slots of one process and have no meaning later; positions among the sorted names mean the same everywhere.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fleet.history import Columns, Judgement, RecordedScores
from fleet.snapshot.columns.packing import in_name_order, number_values, width_of

if TYPE_CHECKING:
    from fleet.framework.cycle.decision import Decision
    from fleet.framework.scores import PluginScores as Scored
    from fleet.framework.verdicts import Verdicts
    from fleet.snapshot.columns.bitset import Int64Array, Rows
    from fleet.snapshot.columns.rows import NameIndex


def columns_of(decision: Decision, *, with_names: bool) -> Columns | None:
    verdicts = decision.verdicts
    if verdicts is None:
        return None
    names = decision.frame.names
    scored = _scores(decision) if decision.round is not None else {}
    return Columns(
        names_hash=hash_of_names(names),
        names=tuple(names.ordered) if with_names else None,
        judges=tuple(judge.name for judge in verdicts.judges),
        **_verdicts(verdicts, names),
        **scored,
    )


@lru_cache(maxsize=4)
def hash_of_names(names: NameIndex) -> str:
    """Equal for frames with the same clusters. Names rarely change, and an index of them never does."""
    return hashlib.blake2b("\n".join(names.ordered).encode(), digest_size=8).hexdigest()


# --- verdicts ---------------------------------------------------------------------------------------------------------


def _verdicts(verdicts: Verdicts, names: NameIndex) -> dict[str, Any]:
    """Few verdicts differ, so each is stored once, and for every cluster only its number."""
    reason, codes = verdicts.reason, verdicts.codes()
    reasons, kinds = int(reason.max(initial=0)) + 1, int(codes.max(initial=0)) + 1
    mixed = verdicts.first.astype("intp")
    for factor, added in ((1, 1), (reasons, reason), (kinds, codes)):
        mixed *= factor
        mixed += added
    known, numbers = number_values(mixed[names.order])
    return {
        "judgements": tuple(
            Judgement(code // kinds // reasons - 1, code // kinds % reasons, code % kinds) for code in known.tolist()
        ),
        "width": numbers.itemsize,
        "verdicts": numbers.tobytes(),
    }


# --- scores -----------------------------------------------------------------------------------------------------------


def _scores(decision: Decision) -> dict[str, Any]:
    last = decision.round
    assert last is not None
    names = decision.frame.names
    feasible, by_name = in_name_order(names, last.scores.rows)
    return {
        "feasible": feasible,
        "order": names.rank[last.order].astype("<i4").tobytes(),
        "scores": tuple(packed_score(column, by_name) for column in last.scores.columns),
    }


def packed_score(column: Scored, by_name: Rows) -> RecordedScores:
    raw, normalized, final = column.raw, column.normalized, column.final
    is_raw, is_normalized = _are_equal(normalized, raw), _are_equal(final, normalized)
    parts = [raw] + ([] if is_raw else [normalized]) + ([] if is_normalized else [final])
    width = max(map(width_of, parts))
    packed = iter([part[by_name].astype(f"<i{width}").tobytes() for part in parts])
    return RecordedScores(
        plugin=column.plugin,
        component=column.component.name,
        weight=column.weight,
        width=width,
        raw=next(packed),
        normalized=b"" if is_raw else next(packed),
        final=b"" if is_normalized else next(packed),
    )


def _are_equal(left: Int64Array, right: Int64Array) -> bool:
    return left is right or bool((left == right).all())
