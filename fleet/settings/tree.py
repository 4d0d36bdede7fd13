"""The settings: their names, defaults, limits and meanings, each written once.

The reference page, the names of environment variables and the messages about wrong values all come from here.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from fleet.settings.secrets import shown
from fleet.settings.values import Address, Duration, Kinds, Namespaces, PositiveDuration, Rate

_CLUSTERS_PER_WORKER: Final = 50
_PLACEMENTS_PER_WORKER: Final = 10
_OBJECT_NAME: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"

BudgetName = Literal["bind", "evict", "status"]


class Planned:
    """Marks a setting whose name is taken although nothing reads it yet: only its default is accepted."""


class Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


# --- deciding ---------------------------------------------------------------------------------------------------------


class Eligibility(Section):
    """When a cluster counts as connected."""

    heartbeat_timeout: Annotated[Duration, Field(description="Longest silence of a connected member agent.")] = (
        Duration("5m")
    )
    unhealthy_timeout: Annotated[Duration, Field(description="How long a cluster may report itself unhealthy.")] = (
        Duration("5m")
    )
    retention: Annotated[
        Duration, Field(description="How long a cluster that dropped out keeps its place over a policy change; 0: not.")
    ] = Duration("15m")


class Status(Section):
    """How much of a decision is published."""

    unselected_budget: Annotated[
        int, Field(ge=0, le=1000, description="Published clusters that were not selected.")
    ] = 20
    max_decisions: Annotated[int, Field(ge=1, le=1000, description="Published clusters in all.")] = 1000


class Spread(Section):
    """Topology spread constraints."""

    missing_key: Annotated[
        Literal["Neutral", "Exclude"], Field(description="What becomes of clusters without the label.")
    ] = "Neutral"
    usable_domains_only: Annotated[
        bool, Field(description="Whether domains without a usable cluster are left out of the counting.")
    ] = False


class Downscale(Section):
    """Wanting fewer clusters."""

    order: Annotated[Literal["StoredScore", "SpreadAware"], Field(description="Which clusters go first.")] = (
        "StoredScore"
    )


class Sorter(Section):
    """Property sorters."""

    population: Annotated[
        Literal["AllClusters", "PassedClusters"], Field(description="Whose values span the range of a sorter.")
    ] = "AllClusters"


class Eviction(Section):
    """Bindings that others deleted."""

    cooldown: Annotated[
        Duration, Planned(), Field(description="How long such a cluster is not picked again for the placement.")
    ] = Duration("0s")


class Capacity(Section):
    """What placements take from the clusters they are placed on."""

    reservation: Annotated[
        str,
        Planned(),
        Field(description="`Off`: available capacity is what the cluster reported last, whatever was placed since."),
    ] = "Off"


class Evaluation(Section):
    """How a decision is computed."""

    parallelism: Annotated[
        int, Field(ge=1, description="Threads that look at clusters. Decisions are made in columns, by one."), Planned()
    ] = 4


# --- when to decide ---------------------------------------------------------------------------------------------------


class Queue(Section):
    """Placements that wait to be scheduled."""

    mode: Annotated[
        Literal["simple", "batched"],
        Field(description="`batched`: placements woken by member clusters wait for `queue.batchPeriod`."),
    ] = "simple"
    batch_period: Annotated[PositiveDuration, Field(description="How often the batched ones are let through.")] = (
        Duration("300s")
    )
    base_delay: Annotated[
        PositiveDuration, Field(description="Wait after a first failure; each further one doubles it.")
    ] = Duration("5ms")
    max_delay: Annotated[PositiveDuration, Field(description="Longest wait after a failure.")] = Duration("60s")
    rate: Annotated[Rate, Field(description="How many failed placements may come back, all together.")] = Rate("10/s")
    burst: Annotated[int, Field(ge=1, description="How many failed placements may come back at once.")] = 100
    initial_backoff_seconds: Annotated[
        int,
        Field(ge=1, description="Wait after a first rejection; each further one doubles it. Not in DefaultProfile."),
    ] = 1
    max_backoff_seconds: Annotated[
        int, Field(ge=1, description="Longest wait after a rejection. Not in DefaultProfile.")
    ] = 10
    max_in_unschedulable_seconds: Annotated[
        int,
        Field(
            ge=0,
            description="After this an unfulfilled placement is tried again for no reason; at least 30, or 0: never. "
            "Not in DefaultProfile.",
        ),
    ] = 300
    early_pop: Annotated[
        bool, Field(description="Whether an idle worker may take a placement before its back-off has ended.")
    ] = True


class ResourcePlacements(Section):
    """Placements that live in a namespace."""

    enabled: Annotated[bool, Field(description="Whether ResourcePlacements are served.")] = True


class Bindings(Section):
    """The bindings a decision starts from."""

    read: Annotated[
        Literal["Cache", "List"],
        Field(
            description="`Cache`: the watch cache with our own writes on top, and a live list whenever the outcome of "
            "an earlier write of the placement is unknown. `List`: a live list for every decision."
        ),
    ] = "Cache"


# --- the API server ---------------------------------------------------------------------------------------------------


class Budget(Section):
    """The share of one class of writes."""

    qps: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="Requests per second. Without: 60 % (bind) or 20 % of `api.qps`."),
    ] = None
    burst: Annotated[
        int | None, Field(ge=1, description="Requests at once. Without: the same share of `api.burst`.")
    ] = None


class Budgets(Section):
    """What each class of writes may spend, so that none can starve another."""

    bind: Annotated[Budget, Field(description="Bindings created or changed.")] = Budget()
    evict: Annotated[Budget, Field(description="Bindings unscheduled or deleted.")] = Budget()
    status: Annotated[Budget, Field(description="Statuses of policy snapshots.")] = Budget()


SHARES: Final[dict[BudgetName, float]] = {"bind": 0.6, "evict": 0.2, "status": 0.2}


class Api(Section):
    """How hard the API server is used."""

    qps: Annotated[float, Field(gt=0, allow_inf_nan=False, description="Requests per second of one class.")] = 250
    burst: Annotated[int, Field(ge=1, description="Requests of one class at once.")] = 1000
    write_concurrency: Annotated[int, Field(ge=1, description="Writes on their way at the same time.")] = 32
    budget: Budgets = Budgets()

    def rate_of(self, name: BudgetName) -> float:
        given: Budget = getattr(self.budget, name)
        return self.qps * SHARES[name] if given.qps is None else given.qps

    def burst_of(self, name: BudgetName) -> int:
        given: Budget = getattr(self.budget, name)
        return max(1, int(self.burst * SHARES[name])) if given.burst is None else given.burst


# --- the placement controller -----------------------------------------------------------------------------------------


class Selection(Section):
    """What placements may select."""

    skipped_namespaces: Annotated[
        Namespaces, Field(description="Namespaces that are never placed, besides `default`, `fleet-*` and `kube-*`.")
    ] = ()
    skipped_kinds: Annotated[Kinds, Field(description="Kinds that are never placed.")] = ()
    allowed_kinds: Annotated[
        Kinds, Field(description="If any: the only kinds that are placed. Excludes `selection.skippedKinds`.")
    ] = ()
    workloads_on_hub: Annotated[
        bool,
        Field(description="Whether workloads may run on the hub; PersistentVolumeClaims are then not placed."),
    ] = False


class ResourceSnapshots(Section):
    """Snapshots of what was selected."""

    minimum_interval: Annotated[Duration, Field(description="Least time between two groups of a placement.")] = (
        Duration("30s")
    )
    collection_time: Annotated[
        Duration, Field(description="How long further changes are awaited before a group is made.")
    ] = Duration("15s")


# --- the process ------------------------------------------------------------------------------------------------------


class LeaderElection(Section):
    """The lease that makes sure that one controller works at a time."""

    leader_elect: Annotated[bool, Field(description="Whether to wait for the lease before working.")] = True
    lease_duration: Annotated[
        PositiveDuration, Field(description="After this without a renewal another process may lead. Whole seconds.")
    ] = Duration("60s")
    renew_deadline: Annotated[
        PositiveDuration, Field(description="After this without a renewal the leader stops by itself.")
    ] = Duration("45s")
    retry_period: Annotated[PositiveDuration, Field(description="Between two attempts to get or renew the lease.")] = (
        Duration("5s")
    )
    resource_name: Annotated[
        str,
        Field(
            pattern=_OBJECT_NAME,
            description="Name of the lease. The default is the one that KubeFleet's hub agent takes, so that it and "
            "Fleet never work at the same time.",
        ),
    ] = "136224848560.hub.fleet.azure.com"
    resource_namespace: Annotated[
        str, Field(pattern=_OBJECT_NAME, description="Namespace of the lease. It has to exist.")
    ] = "fleet-system"

    @property
    def key(self) -> str:
        return f"{self.resource_namespace}/{self.resource_name}"

    def terms(self) -> tuple[int, float, float]:
        """Duration, renew deadline and retry period in seconds, as `LeaseDurations` takes them."""
        return int(self.lease_duration.seconds), self.renew_deadline.seconds, self.retry_period.seconds


class Shutdown(Section):
    """The end of the process."""

    grace_period: Annotated[Duration, Field(description="How long work that has begun may take to finish.")] = Duration(
        "30s"
    )


class RecorderHistory(Section):
    """What is kept of the decisions, and how much."""

    max_age_hours: Annotated[int, Field(ge=1, description="Older attempts are removed.")] = 720
    max_mib: Annotated[
        int, Field(ge=1, description="When there is more, the oldest attempts are removed.", alias="maxMiB")
    ] = 1024
    max_attempts: Annotated[int, Field(ge=1, description="The same, by number.")] = 200_000
    attempts_per_placement: Annotated[int, Field(ge=1, description="Attempts of one placement.")] = 1000
    inputs: Annotated[
        bool, Field(description="Whether what was decided on is kept, so that decisions can be evaluated again.")
    ] = True
    checkpoint_every: Annotated[
        int,
        Planned(),
        Field(ge=1, description="Attempts between two full copies of the fleet; there is one per start."),
    ] = 1000


class Recorder(Section):
    """Decisions on their way into the history."""

    enabled: Annotated[bool, Field(description="Whether decisions are recorded, if there is a `history.url`.")] = True
    detail_per_placement: Annotated[
        int, Field(ge=0, description="Attempts of one placement that keep a verdict for every cluster.")
    ] = 20
    sample_detail: Annotated[
        int, Field(ge=0, le=100, description="Percentage of attempts that get a verdict for every cluster.")
    ] = 100
    memory_mib: Annotated[
        int,
        Field(
            ge=1,
            alias="memoryMiB",
            description="What may wait in memory for the database; beyond it, details are shed, then inputs, then the "
            "oldest attempts.",
        ),
    ] = 256
    digests_total: Annotated[
        int, Field(ge=1, description="How many attempts may wait in memory at all; beyond it, the oldest is given up.")
    ] = 200_000
    frames: Annotated[int, Planned(), Field(ge=1, description="Fleets kept in memory for explanations.")] = 64
    history: RecorderHistory = RecorderHistory()


class HistoryDatabase(Section):
    """The database of decisions."""

    url: Annotated[
        str | None,
        Field(
            description="Where decisions are kept: `sqlite:///relative/path`, `sqlite:////absolute/path` or "
            "`postgresql://user@host/database`. Without: nowhere."
        ),
    ] = None


class Metrics(Section):
    """Figures for Prometheus."""

    address: Annotated[Address, Field(description="Where `/metrics` is served, or `off`.")] = Address(":8080")


class Health(Section):
    """Probes."""

    address: Annotated[Address, Field(description="Where `/livez` and `/readyz` are served, or `off`.")] = Address(
        ":8081"
    )


class Logging(Section):
    """Lines on standard error."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Field(description="The least that is logged.")] = (
        "info"
    )
    format: Annotated[
        Literal["auto", "json", "console"], Field(description="`auto`: for people on a terminal, JSON elsewhere.")
    ] = "auto"


class Settings(Section):
    max_fleet_size: Annotated[int, Field(ge=1, description="Expected member clusters; sizes the workers.")] = 100
    max_concurrent_placements: Annotated[
        int, Field(ge=1, description="Placements expected to change at the same time; sizes the workers.")
    ] = 100
    workers: Annotated[
        int | None,
        Field(
            ge=1,
            le=10_000,
            description="Placements scheduled at the same time. Without: one for every 50 of `maxFleetSize` times one "
            "for every 10 of `maxConcurrentPlacements`.",
        ),
    ] = None
    resource_placements: ResourcePlacements = ResourcePlacements()
    queue: Queue = Queue()
    eligibility: Eligibility = Eligibility()
    status: Status = Status()
    spread: Spread = Spread()
    downscale: Downscale = Downscale()
    sorter: Sorter = Sorter()
    eviction: Eviction = Eviction()
    capacity: Capacity = Capacity()
    evaluation: Evaluation = Evaluation()
    bindings: Bindings = Bindings()
    api: Api = Api()
    selection: Selection = Selection()
    resource_snapshots: ResourceSnapshots = ResourceSnapshots()
    leader_election: LeaderElection = LeaderElection()
    shutdown: Shutdown = Shutdown()
    recorder: Recorder = Recorder()
    history: HistoryDatabase = HistoryDatabase()
    metrics: Metrics = Metrics()
    health: Health = Health()
    logging: Logging = Logging()

    @property
    def worker_count(self) -> int:
        if self.workers is not None:
            return self.workers
        by_size = math.ceil(self.max_fleet_size / _CLUSTERS_PER_WORKER)
        return by_size * math.ceil(self.max_concurrent_placements / _PLACEMENTS_PER_WORKER)

    def profile_changes(self) -> dict[str, Any]:
        """The keyword arguments for `plugins.default_profile.default_profile`, except its limits.

        Only what differs from the defaults, so that settings nobody touched leave the profile and its hash alone.
        """
        args = {
            "ClusterAffinity": _given(self.sorter, population="sorterPopulation"),
            "ClusterEligibility": _given(self.eligibility),
            "TopologySpreadConstraints": _given(self.spread),
        }
        found: dict[str, Any] = {"args": {plugin: values for plugin, values in args.items() if values}}
        return found if self.downscale == Downscale() else found | {"downscale_order": self.downscale.order}

    def published_limits(self) -> dict[str, int]:
        """The fields of `fleet.framework.profiles.profile.Limits`."""
        return self.status.model_dump()

    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults, by name. For people: secrets are hidden."""
        leaves = _leaves(self.model_dump(mode="json", by_alias=True, exclude_defaults=True))
        return {name: shown(name, value) for name, value in leaves}


DECIDING: Final = ("eligibility", "status", "spread", "downscale", "sorter")
"""The sections that a single decision depends on, and `fleet simulate` therefore reads."""


def _given(section: Section, **renamed: str) -> dict[str, Any]:
    """What differs from the defaults, under the names plugins have for it."""
    values = section.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {renamed.get(name, name): value for name, value in values.items()}


def _leaves(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in tree.items():
        found += _leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]
    return found
