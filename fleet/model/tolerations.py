"""Matching of tolerations with taints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleet.model.views import Taint, Toleration


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An absent effect means every effect, an absent operator means Equal; an unknown operator matches no taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    if toleration.operator in ("", "Equal"):
        return toleration.key == taint.key and toleration.value == taint.value
    return False


def find_untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """The first taint, in the order of the cluster, that no toleration accepts."""
    for taint in taints:
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None
