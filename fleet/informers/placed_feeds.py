"""Feeds that follow from bindings: recent placements and placed limits.

Recent placements are how many each cluster got that a measurement of its load may not contain yet. A placement counts
from the decision on, and by its binding once there is one. Bindings have the time of the API server, in whole seconds;
the minute before a measurement that also counts covers that, and clocks that differ.

Placed limits are by how much the limits of the placements on each cluster exceed what they request. Members report what
is requested on their clusters, and no limits. What is not placed by the fleet counts as limited to its requests.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from fleet.clock import SECOND, Clock, epoch_nanoseconds
from fleet.kube.cache.store import Store
from fleet.kube.scopes import owner_key
from fleet.model.keys import UNSCHEDULED
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import timestamp_or_none
from fleet.model.views import Binding, MemberCluster, Observed, Placement, PlacementOptions, PolicySnapshot
from fleet.snapshot.sidedata import REPORTED, CpuUse, FeedSample, list_recent_columns

if TYPE_CHECKING:
    from fleet.informers.cache import PlacementKinds

WINDOW: Final = 60 * SECOND
"""A measurement may lack what was placed this long before."""
LONGEST_USE: Final = 240 * SECOND
"""Of a measurement, unless its feed allows a longer one."""
SWEEP_INTERVAL: Final = 60 * SECOND

Named = TypeVar("Named", Placement, PlacementOptions)
Outer = TypeVar("Outer")
Inner = TypeVar("Inner")
ExcessOf = Callable[[PlacementKey, str], Mapping[str, int]]


# --- recent placements ------------------------------------------------------------------------------------------------


class PlacedLoad(NamedTuple):
    cluster: str
    moment: int
    use: CpuUse


Counts = dict[str, dict[str, float]]
"""By column and cluster."""


class RecentPlacements:
    def __init__(
        self,
        stores: Iterable[Store[Observed[Binding]]],
        *,
        loads_of: Callable[[], Collection[str]],
        use_of: Callable[[PlacementKey, str], CpuUse],
        clock: Clock,
    ) -> None:
        """`loads_of` returns the feeds that plugins read as loads, `use_of` what is expected of a placement on a
        cluster."""
        self._loads_of, self._use_of = loads_of, use_of
        self._clock = clock
        self._lock = threading.Lock()
        self._made: dict[str, dict[PlacementKey, int]] = {}
        """By cluster, when each placement came there."""
        self._assumed: dict[PlacementKey, set[str]] = {}
        """Clusters that were chosen in an attempt and have no binding yet."""
        self._longest = LONGEST_USE
        self._swept = epoch_nanoseconds(clock)
        self._changed: set[str] = set()
        """Clusters to count anew."""
        self._loads: set[str] = set()
        self._counts: Counts = {}
        for store in stores:
            store.subscribe(self._update)

    def __len__(self) -> int:
        return sum(map(len, self._made.values()))

    def assume(self, key: PlacementKey, clusters: Iterable[str]) -> None:
        """An attempt has chosen them, and will create the bindings."""
        with self._lock:
            now = epoch_nanoseconds(self._clock)
            for cluster in clusters:
                if self._made.setdefault(cluster, {}).setdefault(key, now) == now:
                    self._assumed.setdefault(key, set()).add(cluster)
                    self._changed.add(cluster)

    def settle(self, key: PlacementKey) -> None:
        """The attempt has ended: what it did not create does not count."""
        with self._lock:
            for cluster in self._assumed.pop(key, ()):
                self._drop(cluster, key)

    def note_measurement(self, load: str) -> None:
        """Another one counts from now on."""
        with self._lock:
            if load in self._loads:
                self._changed.update(self._made)

    def note_report(self, cluster: str) -> None:
        with self._lock:
            if cluster in self._made:
                self._changed.add(cluster)

    def note_joined(self, cluster: str) -> None:
        """Its counts are returned again, even if they are those of before it left."""
        with self._lock:
            self._changed.add(cluster)
            for counts in self._counts.values():
                counts.pop(cluster, None)

    def count(self, samples: Mapping[str, FeedSample], clusters: Store[MemberCluster]) -> Counts | None:
        """None if the counts are those of the last call. Only clusters with changes are counted."""
        with self._lock:
            self._sweep(samples)
            loads = set(self._loads_of())
            is_changed = loads != self._loads
            if is_changed:
                self._loads, self._counts = loads, count_by_load(loads, (), samples, clusters.get)
                self._changed.update(self._made)
            changed, self._changed = self._changed, set()
            for cluster in changed if loads else ():
                is_changed |= self._count_cluster(cluster, samples, clusters)
            return self._counts if is_changed else None

    def _count_cluster(self, cluster: str, samples: Mapping[str, FeedSample], clusters: Store[MemberCluster]) -> bool:
        """Whether any of its counts is another."""
        entries = self._made.get(cluster, {}).items()
        made = [PlacedLoad(cluster, moment, self._use_of(key, cluster)) for key, moment in entries]
        is_changed = False
        for column, values in count_by_load(self._loads, made, samples, clusters.get).items():
            counts, value = self._counts[column], values.get(cluster)
            is_changed |= counts.get(cluster) != value
            if value is None:
                counts.pop(cluster, None)
            else:
                counts[cluster] = value
        return is_changed

    def _sweep(self, samples: Mapping[str, FeedSample]) -> None:
        """Also without measurements. Nothing that a usable one could lack is dropped. All clusters are counted then:
        the requests of placements may have changed."""
        now = epoch_nanoseconds(self._clock)
        self._longest = max((LONGEST_USE, *(sample.max_age for sample in samples.values())))
        if now - self._swept >= SWEEP_INTERVAL:
            self._swept = now
            self._changed.update(self._made)
            for cluster, made in list(self._made.items()):
                for key in [key for key, moment in made.items() if not self._is_recent(moment, now)]:
                    self._drop(cluster, key)

    def _drop(self, cluster: str, key: PlacementKey) -> None:
        made = self._made.get(cluster, {})
        if made.pop(key, None) is not None:
            self._changed.add(cluster)
        if not made:
            self._made.pop(cluster, None)

    def _is_recent(self, made: int, now: int) -> bool:
        return made >= now - self._longest - WINDOW

    def _update(self, old: Observed[Binding] | None, new: Observed[Binding] | None) -> None:
        observed = new or old
        owner = None if observed is None else owner_key(observed.view.metadata)
        if observed is None or owner is None:
            return
        binding = observed.view
        cluster, now = binding.spec.target_cluster, epoch_nanoseconds(self._clock)
        with self._lock:
            before = self._made.get(cluster, {}).get(owner)
            made = None if new is None else _find_moment(binding)
            if made is not None and old is not None:
                made = now if _is_leaving(old.view) else before  # one that stays after all is a new placement
            if made is not None and self._is_recent(made, now):
                self._made.setdefault(cluster, {})[owner] = made
                self._changed.update([cluster] if made != before else ())
            else:
                self._drop(cluster, owner)
            self._assumed.get(owner, set()).discard(cluster)


def select_new(clusters: Iterable[str], bindings: Iterable[Binding]) -> list[str]:
    """Without those where the placement is already."""
    held = {binding.spec.target_cluster for binding in bindings if not _is_leaving(binding)}
    return [cluster for cluster in clusters if cluster not in held]


def list_placed(bindings: Iterable[Binding], use_on: Callable[[str], CpuUse]) -> Iterator[PlacedLoad]:
    """Those that stay; `use_on` is what is expected of their placement on a cluster."""
    for binding in bindings:
        made = _find_moment(binding)
        if made is not None:
            yield PlacedLoad(binding.spec.target_cluster, made, use_on(binding.spec.target_cluster))


def count_by_load(
    loads: Iterable[str],
    placed: Collection[PlacedLoad],
    samples: Mapping[str, FeedSample],
    find_cluster: Callable[[str], MemberCluster | None],
) -> Counts:
    """The columns of the feed of recent placements."""

    def find_measured(load: str, cluster: str) -> int | None:
        if load == REPORTED:
            return _find_report(find_cluster(cluster))
        return samples[load].sampled_at if load in samples else None

    counts: Counts = {}
    for load in loads:
        columns = [counts.setdefault(column, {}) for column in list_recent_columns(load)]
        for each in placed:
            measured = find_measured(load, each.cluster)
            if measured is not None and each.moment >= measured - WINDOW:
                limited, requested, unsized = each.use
                numbers = (1, limited, sum(size * count for size, count in requested), unsized)
                for column, number in zip(columns, numbers, strict=True):
                    column[each.cluster] = column.get(each.cluster, 0.0) + number
    return counts


def _find_moment(binding: Binding) -> int | None:
    return None if _is_leaving(binding) else timestamp_or_none(binding.metadata.creation_timestamp)


def _is_leaving(binding: Binding) -> bool:
    return binding.spec.state == UNSCHEDULED or binding.metadata.deletion_timestamp is not None


def _find_report(cluster: MemberCluster | None) -> int | None:
    """When a member has measured what it reports; an agent that does not say so has done it by its last heartbeat."""
    if cluster is None:
        return None
    usage = cluster.status.resource_usage
    observed = None if usage is None else timestamp_or_none(usage.observation_time)
    beats = [timestamp_or_none(agent.last_received_heartbeat) for agent in cluster.status.agent_status]
    return observed if observed is not None else max((beat for beat in beats if beat is not None), default=None)


# --- placed limits ----------------------------------------------------------------------------------------------------


class PlacedLimits:
    def __init__(
        self, all_kinds: Iterable[PlacementKinds], *, is_read: Callable[[], bool], excess_of: ExcessOf
    ) -> None:
        """`excess_of` returns it by resource, in whole units, for a placement on a cluster."""
        self._is_read, self._excess_of = is_read, excess_of
        self._lock = threading.Lock()
        self._on: dict[str, Counter[PlacementKey]] = {}
        """By cluster, the bindings of each placement."""
        self._clusters: dict[PlacementKey, Counter[str]] = {}
        self._changed: set[str] = set()
        """Clusters to sum up anew."""
        self._sums: dict[str, Mapping[str, int]] = {}
        self._is_stale = True
        for kinds in all_kinds:
            kinds.bindings.store.subscribe(self._update)
            kinds.policy_snapshots.store.subscribe(self._note_snapshot)
            kinds.placements.store.subscribe(self._note)
            kinds.options.store.subscribe(self._note)

    def note_report(self, cluster: str) -> None:
        """Labels and nodes may be others, by which limits are."""
        with self._lock:
            if cluster in self._on:
                self._changed.add(cluster)

    def note_joined(self, cluster: str) -> None:
        """Its sums are returned again, even if they are those of before it left."""
        with self._lock:
            self._is_stale |= cluster in self._on

    def sum_up(self) -> dict[str, dict[str, float]] | None:
        """By resource and cluster; None if it is as it was at the last call."""
        with self._lock:
            if not self._is_read() or not (self._changed or self._is_stale):
                return None
            changed, self._changed = self._changed, set()
            before = dict(self._sums)
            for cluster in changed:
                self._sums[cluster] = self._sum_cluster(cluster)
            if before == self._sums and not self._is_stale:
                return None
            self._is_stale = False
            return build_columns(self._sums)

    def _sum_cluster(self, cluster: str) -> Mapping[str, int]:
        return sum_excess(self._excess_of(key, cluster) for key in self._on.get(cluster, ()))

    def _note_snapshot(self, old: Observed[PolicySnapshot] | None, new: Observed[PolicySnapshot] | None) -> None:
        observed = new or old
        key = None if observed is None else owner_key(observed.view.metadata)
        if key is not None:
            self._note_key(key)

    def _note(self, old: Observed[Named] | None, new: Observed[Named] | None) -> None:
        observed = new or old
        if observed is not None:
            self._note_key(PlacementKey.of(observed.view.metadata))

    def _note_key(self, key: PlacementKey) -> None:
        with self._lock:
            self._changed.update(self._clusters.get(key, ()))

    def _update(self, old: Observed[Binding] | None, new: Observed[Binding] | None) -> None:
        with self._lock:
            for observed, change in ((old, -1), (new, 1)):
                key = None if observed is None else owner_key(observed.view.metadata)
                if observed is not None and key is not None:
                    cluster = observed.view.spec.target_cluster
                    _count(self._on, cluster, key, change)
                    _count(self._clusters, key, cluster, change)
                    self._changed.add(cluster)


def _count(index: dict[Outer, Counter[Inner]], outer: Outer, inner: Inner, change: int) -> None:
    counts = index.get(outer)
    if counts is None:
        counts = index[outer] = Counter()
    counts[inner] += change
    if counts[inner] <= 0:
        del counts[inner]
    if not counts:
        del index[outer]


def sum_excess(parts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return total


def build_columns(sums: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, float]]:
    """Of the feed of placed limits."""
    columns: dict[str, dict[str, float]] = {}
    for cluster, amounts in sums.items():
        for resource, amount in amounts.items():
            columns.setdefault(resource, {})[cluster] = float(amount)
    return columns
