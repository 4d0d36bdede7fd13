"""Attempts on their way into a history, without a scheduler: said is what a test is about, the rest is ordinary."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import msgspec

from fleet.history import (
    Columns,
    History,
    HistoryAttempt,
    Judgement,
    RecordedInputs,
    RecordedTarget,
    RecordedWrite,
    SnapshotReference,
)
from tests.builders import NOW
from tests.databases import SOON

HOUR: Final = 3_600 * 10**9
_NUMBERS = itertools.count(1)


class Fleet:
    """The clusters between attempts: tells what changed since it was asked last, as the recorder does."""

    def __init__(self, **clusters: str) -> None:
        self.clusters = {name: value.encode() for name, value in clusters.items()}
        self._told: dict[str, bytes] = {}

    def change(self, **clusters: str | None) -> None:
        for name, value in clusters.items():
            if value is None:
                self.clusters.pop(name, None)
            else:
                self.clusters[name] = value.encode()

    def changes(self, now: Mapping[str, bytes], *, anew: bool) -> list[tuple[str, bytes | None]]:
        before = {} if anew else self._told
        self._told = dict(now)
        gone: list[tuple[str, bytes | None]] = [(name, None) for name in before if name not in now]
        return gone + [(name, value) for name, value in now.items() if before.get(name) != value]


@dataclass(frozen=True)
class Offered:
    """Implements `fleet.history.Source`."""

    told: HistoryAttempt
    weight: int = 0
    light_weight: int = 0
    kept_columns: Columns | None = None
    kept_inputs: RecordedInputs | None = None
    kept_profile: bytes = b""
    fleet: Fleet = field(default_factory=Fleet)
    frame: Mapping[str, bytes] = field(default_factory=dict)
    shed: frozenset[str] = frozenset()

    # as tests make them

    def of(self, key: str, uid: str = "") -> Self:
        return self._told(key=key, placement_uid=uid or f"uid-of-{key}")

    def renamed(self, attempt_id: str) -> Self:
        return self._told(id=attempt_id)

    def at(self, started: int) -> Self:
        return self._told(started=started)

    def led(self, epoch: int) -> Self:
        """Made in that leadership."""
        return self._told(epoch=epoch)

    def unchanged(self) -> Self:
        """It wrote nothing and published nothing."""
        return self._told(writes=(), status_written=False)

    def decided(self, digest: str, *, outcome: str = "Selected") -> Self:
        return self._told(digest=digest, outcome=outcome)

    def choosing(self, *clusters: str) -> Self:
        targets = [RecordedTarget(cluster=name, action="create", rank=rank) for rank, name in enumerate(clusters, 1)]
        return self._told(targets=tuple(targets))

    def found_gone(self) -> Self:
        return self._told(ending="Gone", is_end=True, digest="", outcome="", writes=(), status_written=False)

    def on(self, fleet: Fleet, *, bindings: Sequence[bytes] = ()) -> Self:
        """With inputs: the clusters as they are right now."""
        inputs = RecordedInputs(
            request=b'{"spec":{}}', placement_uid=self.told.placement_uid, bindings=tuple(bindings), previous=b"{}",
            now=self.told.started,
        )  # fmt: skip
        return replace(self, kept_inputs=inputs, fleet=fleet, frame=dict(fleet.clusters))

    def judged(self, size: int = 3) -> Self:
        """With columns."""
        return replace(
            self,
            kept_columns=Columns(
                names_hash="h", judges=("Taints",), judgements=(Judgement(-1, 0, 0),), verdicts=bytes(size)
            ),
        )

    def by_profile(self, config_hash: str) -> Self:
        """Decided with the profile of this hash, whose document the history keeps."""
        return replace(self._told(config_hash=config_hash), kept_profile=f"profile {config_hash}".encode())

    def weighing(self, weight: int, light: int = 0) -> Self:
        return replace(self, weight=weight, light_weight=light)

    def _told(self, **changes: Any) -> Self:
        return replace(self, told=msgspec.structs.replace(self.told, **changes))

    # as the history asks them

    @property
    def key(self) -> str:
        return self.told.key

    @property
    def changed(self) -> bool:
        return not self.told.changed_nothing

    def without_columns(self) -> Self:
        return replace(self, kept_columns=None, shed=self.shed | {"columns"})

    def without_inputs(self) -> Self:
        return replace(self, kept_columns=None, kept_inputs=None, shed=self.shed | {"columns", "inputs"})

    def attempt(self) -> HistoryAttempt:
        return self.told

    def columns(self, *, with_names: bool) -> Columns | None:
        if self.kept_columns is None:
            return None
        return msgspec.structs.replace(self.kept_columns, names=tuple(sorted(self.frame)) if with_names else None)

    def inputs(self) -> RecordedInputs | None:
        return self.kept_inputs

    def profile(self) -> bytes:
        return self.kept_profile

    def clusters(self, *, anew: bool) -> list[tuple[str, bytes | None]]:
        return self.fleet.changes(self.frame, anew=anew)


def an_attempt(key: str = "web") -> Offered:
    """A placement that was put on a cluster."""
    number = next(_NUMBERS)
    told = HistoryAttempt(
        id=f"a-test-{number}",
        key=key,
        placement_uid=f"uid-of-{key}",
        started=NOW + number,
        ending="Decided",
        outcome="Selected",
        fulfilled=True,
        digest=f"digest-{number}",
        config_hash="c0",
        snapshot=SnapshotReference(name=f"{key}-0", uid=f"uid-of-{key}-0", generation=1),
        writes=(RecordedWrite(action="create", cluster="c1", binding=f"{key}-c1", result="written"),),
    )
    return Offered(told)


def keep(history: History, *offered: Offered) -> None:
    """Recorded, one after the other."""
    for one in offered:
        history.offer(one)
    assert history.flush(seconds=SOON)


def ids(*offered: Offered) -> list[str]:
    return [one.told.id for one in offered]
