"""Answers as bytes: made once, and served until something that they were made from changes.

An answer about a recorded decision was made from the record, from the placement, and from its place in the queue. One
about the present fleet was also made from the bindings, the clusters and the time of day. All of this is compared
before an answer is served again, so that it equals the one that would be made now. Two things cannot be compared
cheaply: what another process has recorded since, and what some plugins read besides the clusters. For their sake a
record is read again after a second, and an answer about the present is made again if its profile has such plugins.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from fleet.clock import Clock, epoch_nanoseconds
from fleet.kube.cache.store import Store
from fleet.model.views import AgentStatus, MemberCluster, PropertyValue
from fleet.scheduler.profiles.frameworks import SignalRule
from fleet.snapshot.columns.signals import NEVER
from fleet.snapshot.frame import Frame

MAX_BYTES: Final = 32 * 1_048_576
RECHECK_SECONDS: Final = 1.0
_OVERHEAD: Final = 1_024
"""Bytes of an entry besides its body."""
_LARGEST_SHARE: Final = 8
"""A body may take this fraction of the cache: one huge answer must not displace all others."""


@dataclass(frozen=True, slots=True)
class EncodedAnswer:
    body: bytes
    media_type: str
    etag: str
    """Empty for an answer that is never the same."""
    state: str
    """Of the placement, for scripts."""


def encode_answer(body: bytes, media_type: str, *, tag: str = "", state: str = "") -> EncodedAnswer:
    """The ETag begins with what was answered from; a digest covers what the caller may see of it, and in which form."""
    prefix = "".join(char for char in tag if char.isascii() and (char.isalnum() or char in "-._:"))
    etag = f'"{prefix}-{hashlib.blake2b(body, digest_size=6).hexdigest()}"' if tag else ""
    return EncodedAnswer(body, media_type, etag, state)


class StateMark(NamedTuple):
    """Counters that grow with every change, and the time."""

    history: Hashable
    fleet: int
    wall: int
    monotonic: float


@dataclass(slots=True, kw_only=True)
class CachedAnswer:
    answer: EncodedAnswer
    made: StateMark
    """When its making began."""
    placement: bytes | None
    """The version of the placement, with its objects."""
    queue: Hashable
    record: bytes
    """A digest of what was recorded."""
    holds_until: int | None
    """For answers about the present: by the time of day. None for recorded decisions, which no clock changes."""
    is_of_clusters_only: bool = False
    """Whether an answer about the present was made from nothing that is not compared."""
    checked_at: float = field(init=False)
    """By the monotonic clock: when the record was last read."""

    def __post_init__(self) -> None:
        self.checked_at = self.made.monotonic

    @property
    def is_present(self) -> bool:
        return self.holds_until is not None

    def holds(self, now: StateMark) -> bool:
        """As far as counters and clocks show it."""
        if now.history != self.made.history:
            return False
        if self.holds_until is None:
            return True
        return (
            now.fleet == self.made.fleet
            and self.made.wall <= now.wall <= self.holds_until
            and (self.is_of_clusters_only or now.monotonic - self.made.monotonic < RECHECK_SECONDS)
        )

    def is_due(self, now: StateMark) -> bool:
        """Whether the record has to be read again."""
        return now.monotonic - self.checked_at >= RECHECK_SECONDS


class AnswerKey(NamedTuple):
    question: Hashable
    """With the form of the answer."""
    visible: bytes
    """A digest of the clusters that the caller may read."""
    may_edit_clusters: bool


class AnswerCache:
    """The most recently served answers, as many as fit."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[AnswerKey, CachedAnswer] = OrderedDict()
        self._questions: Counter[Hashable] = Counter()
        self.size = 0
        self.in_flight: dict[AnswerKey, asyncio.Future[None]] = {}
        """Answers that are being made, by their keys: requests for the same wait for them."""

    def __len__(self) -> int:
        return len(self._entries)

    def has_any(self, question: Hashable) -> bool:
        """Whether anyone's answer to it is cached."""
        return self._questions[question] > 0

    def get(self, key: AnswerKey) -> CachedAnswer | None:
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: AnswerKey, entry: CachedAnswer) -> None:
        if key in self._entries:
            self._remove(key)
        if _size_of(entry) * _LARGEST_SHARE > self._max_bytes:
            return
        self._entries[key] = entry
        self._questions[key.question] += 1
        self.size += _size_of(entry)
        while self.size > self._max_bytes:
            self._remove(next(iter(self._entries)))

    def _remove(self, key: AnswerKey) -> None:
        self.size -= _size_of(self._entries.pop(key))
        self._questions[key.question] -= 1
        if not self._questions[key.question]:
            del self._questions[key.question]


def _size_of(entry: CachedAnswer) -> int:
    return len(entry.answer.body) + _OVERHEAD


# --- the fleet --------------------------------------------------------------------------------------------------------


class FleetChanges:
    """Counts the changes of clusters that an answer may show.

    Heartbeats of healthy clusters come all the time and change no answer: while answers about the present are served,
    they do not count. At other times everything counts, so that nothing has to be compared."""

    def __init__(
        self, clusters: Store[MemberCluster], rules_of: Callable[[], Collection[SignalRule]], clock: Clock
    ) -> None:
        """`rules_of` returns those of the present profiles."""
        self._clock = clock
        self._rules_of, self._rules = rules_of, rules_of()
        self._watched_until = 0.0
        self.count = 0
        clusters.subscribe(self._note)

    def find_next_expiry(self, frame: Frame, now: int) -> int:
        """Until when, by the time of day, the signals of this fleet are judged alike."""
        self.watch()
        self._rules = self._rules_of()
        rules = ((each.eligibility, each.retention) for each in self._rules)
        return min((rule.holds_until(frame.signals, now, retention=time) for rule, time in rules), default=NEVER)

    def watch(self) -> None:
        """Heartbeats do not count for the next moments."""
        self._watched_until = self._clock.monotonic() + RECHECK_SECONDS

    def _note(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        is_watched = self._clock.monotonic() <= self._watched_until
        if not is_watched or old is None or new is None or not self._is_repetition(old, new):
            self.count += 1

    def _is_repetition(self, old: MemberCluster, new: MemberCluster) -> bool:
        """Whether only times of reports have changed, of a cluster that may take work before and after. Those of others
        are shown."""
        now = epoch_nanoseconds(self._clock)
        return _without_times(old) == _without_times(new) and all(
            each.eligibility.of(cluster, now) for each in self._rules for cluster in (old, new)
        )


def _without_times(cluster: MemberCluster) -> tuple[object, ...]:
    status = cluster.status
    properties = {name: _without_time(value) for name, value in (status.properties or {}).items()}
    return (
        replace(cluster.metadata, resource_version=""),
        cluster.spec,
        replace(status, properties=properties, agent_status=tuple(map(_without_heartbeat, status.agent_status))),
    )


def _without_time(value: PropertyValue) -> PropertyValue:
    return replace(value, observation_time=None)


def _without_heartbeat(status: AgentStatus) -> AgentStatus:
    return replace(status, last_received_heartbeat=None)
