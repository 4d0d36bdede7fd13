"""A placement that room is made for: on which clusters, at whose expense, and how far that is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fleet.framework.policy.resource_requests import Needs
from fleet.model.placement_key import PlacementKey

SELECTED: Final = "Selected"
EVICTING: Final = "Evicting"
DRAINED: Final = "Drained"
_WORDS: Final = {
    SELECTED: "{victims} will leave {cluster}",
    EVICTING: "waits for {victims} to leave {cluster}",
    DRAINED: "{victims} left {cluster}, where the room is kept",
}


@dataclass(frozen=True, slots=True)
class Preemption:
    """On one cluster."""

    cluster: str
    victims: tuple[str, ...]
    """Placements whose bindings have to leave it."""
    phase: str
    since: int
    """Nanoseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Preemptor:
    uid: str
    priority: int
    needs: Needs
    generation: int | None
    """Of the placement, when the clusters were chosen; None if that was in an earlier process."""
    targets: tuple[Preemption, ...]


def describe_preemptions(key: PlacementKey, targets: Iterable[Preemption]) -> str:
    """For those who may read the placement: they need not know of other namespaces."""
    texts = (
        _WORDS[target.phase].format(victims=_name_victims(key, target.victims), cluster=target.cluster)
        if target.victims
        else f"room is kept on {target.cluster}"
        for target in targets
    )
    return f"room is made for the placement: {'; '.join(texts)}"


def _name_victims(key: PlacementKey, victims: Iterable[str]) -> str:
    names = list(victims)
    shown = [name for name in names if PlacementKey.parse(name).namespace == key.namespace]
    others = len(names) - len(shown)
    parts = [*shown, *([f"{others} of other namespaces"] if others else [])]
    return ", ".join(parts)
