"""The settings: their names, defaults, limits and descriptions, each defined once.

The reference page, the names of environment variables and the messages about wrong values are derived from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf
from pydantic.alias_generators import to_camel

from fleet.settings.document.extenders import ExtenderDocument
from fleet.settings.document.feeds import FeedDocument
from fleet.settings.document.model import LONGEST_PERMIT_WAIT, ProfileDocument
from fleet.settings.secrets import redact
from fleet.settings.values import (
    Address,
    CipherSuites,
    ClusterSelector,
    Duration,
    Kinds,
    Namespaces,
    PositiveDuration,
    Rate,
)

_CLUSTERS_PER_WORKER: Final = 50
_PLACEMENTS_PER_WORKER: Final = 10
_OBJECT_NAME: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"

BudgetName = Literal["bind", "evict", "status"]


class Planned:
    """Marks a setting whose name is reserved and that is not used yet: only its default is accepted."""


class Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


# --- deciding ---------------------------------------------------------------------------------------------------------


class EligibilitySection(Section):
    """When a cluster is eligible."""

    heartbeat_timeout: Annotated[Duration, Field(description="Maximum time without a heartbeat of the agent.")] = (
        Duration("5m")
    )
    unhealthy_timeout: Annotated[Duration, Field(description="How long a cluster may report that it is unhealthy.")] = (
        Duration("5m")
    )
    retention: Annotated[
        Duration, Field(description="How long an ineligible cluster is kept when the policy changes; 0: not.")
    ] = Duration("15m")


class StatusSection(Section):
    """How much of a decision is published in the status."""

    unselected_budget: Annotated[
        int, Field(ge=0, le=1000, description="Maximum number of published clusters that were not selected.")
    ] = 20
    max_decisions: Annotated[int, Field(ge=1, le=1000, description="Maximum number of published clusters.")] = 1000


class SpreadSection(Section):
    """Topology spread constraints."""

    missing_key: Annotated[
        Literal["Neutral", "Exclude"], Field(description="How clusters without the label are treated.")
    ] = "Neutral"
    usable_domains_only: Annotated[bool, Field(description="Count only domains that have a usable cluster.")] = False


class DownscaleSection(Section):
    """Placements scaled down to fewer clusters."""

    order: Annotated[Literal["StoredScore", "SpreadAware"], Field(description="Which clusters are removed first.")] = (
        "StoredScore"
    )


class SorterSection(Section):
    """Property sorters."""

    population: Annotated[
        Literal["AllClusters", "PassedClusters"],
        Field(description="Clusters whose values set the range of a sorter."),
    ] = "AllClusters"


class EvictionSection(Section):
    """Bindings deleted by another client."""

    cooldown: Annotated[
        Duration, Planned(), Field(description="How long such a cluster is not picked again for the placement.")
    ] = Duration("0s")


class CapacitySection(Section):
    """Capacity that placements use on their clusters."""

    reservation: Annotated[
        Literal["Off", "Shared"],
        Field(
            description="`Off`: nothing is reserved for others to see. `Shared`: for profiles that compare room, each "
            "binding is preceded by an entry in the `ClusterReservation` of its cluster, so that several schedulers "
            "with this setting never take the same room."
        ),
    ] = "Off"
    cluster_selector: Annotated[
        ClusterSelector,
        Field(
            description="Labels of the member clusters that this process knows, as `pool=a,env in (test, dev)`; all "
            "when empty. Other clusters are as if they had left the fleet."
        ),
    ] = ""


class EvaluationSection(Section):
    """How a decision is computed."""

    parallelism: Annotated[
        int,
        Field(
            ge=1,
            description="Threads for plugins that act on decisions (Reserve, Permit, PreBind, Bind, PostBind) and are "
            "no coroutines. Decisions are vectorized and use none of them.",
        ),
    ] = 4
    percentage_of_clusters_to_score: Annotated[
        int | None,
        Field(
            ge=0,
            le=100,
            description="Percentage of the fleet to examine before a profile with a per-cluster plugin settles, from a "
            "thousand clusters on; 0 adapts it to the fleet. Default: 0 for profiles of a document, else 100.",
        ),
    ] = None
    check_plugins: Annotated[
        bool,
        Field(
            description="For those who write plugins: a hook that acts and reads the frame of the decision "
            "(`handle.snapshot()`), which may be out of date by then, fails. Without it, it reads what was decided on."
        ),
    ] = False


# --- when to decide ---------------------------------------------------------------------------------------------------


class QueueSection(Section):
    """The scheduling queue."""

    mode: Annotated[
        Literal["simple", "batched"],
        Field(description="`batched`: placements activated by cluster events wait for `queue.batchPeriod`."),
    ] = "simple"
    batch_period: Annotated[PositiveDuration, Field(description="How often batched placements are released.")] = (
        Duration("300s")
    )
    base_delay: Annotated[
        PositiveDuration, Field(description="Backoff after a first failure; each further one doubles it.")
    ] = Duration("5ms")
    max_delay: Annotated[PositiveDuration, Field(description="Maximum backoff after a failure.")] = Duration("60s")
    rate: Annotated[Rate, Field(description="Rate limit of retries after failures, overall.")] = Rate("10/s")
    burst: Annotated[int, Field(ge=1, description="Burst of that rate limit.")] = 100
    hints: Annotated[
        bool,
        Field(
            description="Retry a placement only after changes of a cluster that can alter its decision; `false`: after "
            "every change of what it reads."
        ),
    ] = True
    initial_backoff_seconds: Annotated[
        int,
        Field(
            ge=1,
            description="Backoff after a first rejection; each further one doubles it. For profiles with "
            "`backoffOnRejection`, as the next three.",
        ),
    ] = 1
    max_backoff_seconds: Annotated[int, Field(ge=1, description="Maximum backoff after a rejection.")] = 10
    max_in_unschedulable_seconds: Annotated[
        int,
        Field(
            ge=0,
            description="Retry an unschedulable placement after this even without an event. Minimum 30; 0 disables.",
        ),
    ] = 300
    early_pop: Annotated[
        bool, Field(description="Idle workers may take a rejected placement before its backoff ends.")
    ] = True


class ResourcePlacementsSection(Section):
    """Namespaced placements."""

    enabled: Annotated[bool, Field(description="Serve ResourcePlacements.")] = True


class BindingsSection(Section):
    """How a decision reads the bindings it starts from."""

    read: Annotated[
        Literal["Cache", "List"],
        Field(
            description="`Cache`: from the watch cache with Fleet's own writes applied, and by a live list when the "
            "outcome of an earlier write of the placement is unknown. `List`: by a live list for every decision."
        ),
    ] = "Cache"


# --- the API server ---------------------------------------------------------------------------------------------------


class BudgetSection(Section):
    """The request budget of one class of writes."""

    qps: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="Requests per second. Default: 60 % (bind) or 20 % of `api.qps`."),
    ] = None
    burst: Annotated[int | None, Field(ge=1, description="Burst. Default: the same share of `api.burst`.")] = None


class BudgetsSection(Section):
    """Separate budgets per class of writes, so that none can starve another."""

    bind: Annotated[BudgetSection, Field(description="Bindings created or updated.")] = BudgetSection()
    evict: Annotated[BudgetSection, Field(description="Bindings unscheduled or deleted.")] = BudgetSection()
    status: Annotated[BudgetSection, Field(description="Status updates of policy snapshots.")] = BudgetSection()


SHARES: Final[dict[BudgetName, float]] = {"bind": 0.6, "evict": 0.2, "status": 0.2}


class ApiSection(Section):
    """Limits of requests to the API server."""

    qps: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="Requests per second per class. Default: no fixed rate."),
    ] = None
    burst: Annotated[int, Field(ge=1, description="Burst per class, where a rate is set.")] = 1000
    write_concurrency: Annotated[
        int,
        Field(ge=1, description="Maximum number of writes in flight. Fewer after 429s, timeouts and slow responses."),
    ] = 32
    budget: BudgetsSection = BudgetsSection()

    def rate_of(self, name: BudgetName) -> float | None:
        given: BudgetSection = getattr(self.budget, name)
        if given.qps is not None or self.qps is None:
            return given.qps
        return self.qps * SHARES[name]

    def burst_of(self, name: BudgetName) -> int:
        given: BudgetSection = getattr(self.budget, name)
        return max(1, int(self.burst * SHARES[name])) if given.burst is None else given.burst


# --- the placement controller -----------------------------------------------------------------------------------------


class SelectionSection(Section):
    """Which resources placements may select."""

    skipped_namespaces: Annotated[
        Namespaces, Field(description="Namespaces that are never placed, besides `default`, `fleet-*` and `kube-*`.")
    ] = ()
    skipped_kinds: Annotated[Kinds, Field(description="Kinds that are never placed.")] = ()
    allowed_kinds: Annotated[
        Kinds, Field(description="If set: the only kinds that are placed. Excludes `selection.skippedKinds`.")
    ] = ()
    secrets: Annotated[
        bool,
        Field(
            description="Placements may select Secrets. If not, one that selects them by kind is rejected, and "
            "namespaces are placed without them."
        ),
    ] = True
    workloads_on_hub: Annotated[
        bool,
        Field(description="Workloads may run on the hub; PersistentVolumeClaims are then not placed."),
    ] = False


class ResourceSnapshotsSection(Section):
    """Snapshots of the selected resources."""

    minimum_interval: Annotated[Duration, Field(description="Minimum time between two snapshots of a placement.")] = (
        Duration("30s")
    )
    collection_time: Annotated[
        Duration, Field(description="How long to collect further changes before a snapshot is created.")
    ] = Duration("15s")


# --- the process ------------------------------------------------------------------------------------------------------


class LeaderElectionSection(Section):
    """The lease that keeps all controllers but one on standby."""

    leader_elect: Annotated[bool, Field(description="Wait for the lease before starting the controllers.")] = True
    lease_duration: Annotated[
        PositiveDuration, Field(description="After this without a renewal another process may lead. Whole seconds.")
    ] = Duration("15s")
    renew_deadline: Annotated[PositiveDuration, Field(description="After this without a renewal the leader stops.")] = (
        Duration("10s")
    )
    retry_period: Annotated[PositiveDuration, Field(description="How often to try to acquire or renew the lease.")] = (
        Duration("2s")
    )
    resource_name: Annotated[
        str,
        Field(
            pattern=_OBJECT_NAME,
            description="Name of the lease. The default is the lease of KubeFleet's hub agent, so that the two never "
            "work at the same time.",
        ),
    ] = "136224848560.hub.fleet.azure.com"
    resource_namespace: Annotated[
        str, Field(pattern=_OBJECT_NAME, description="Namespace of the lease. It must exist.")
    ] = "fleet-system"

    @property
    def key(self) -> str:
        return f"{self.resource_namespace}/{self.resource_name}"

    def terms(self) -> tuple[int, float, float]:
        """Duration, renew deadline and retry period in seconds, as `LeaseDurations` takes them."""
        return int(self.lease_duration.seconds), self.renew_deadline.seconds, self.retry_period.seconds


class ShutdownSection(Section):
    """Shutdown of the process."""

    grace_period: Annotated[Duration, Field(description="How long work in flight may take to finish.")] = Duration(
        "30s"
    )


class RecorderHistorySection(Section):
    """Retention of recorded decisions."""

    max_age_hours: Annotated[int, Field(ge=1, description="Attempts older than this are removed.")] = 720
    max_mib: Annotated[
        int, Field(ge=1, description="Beyond this size, the oldest attempts are removed.", alias="maxMiB")
    ] = 1024
    max_attempts: Annotated[int, Field(ge=1, description="Likewise by number of attempts.")] = 200_000
    attempts_per_placement: Annotated[int, Field(ge=1, description="Attempts kept per placement.")] = 1000
    inputs: Annotated[bool, Field(description="Keep the inputs of each decision, so that it can be replayed.")] = True
    checkpoint_every: Annotated[
        int,
        Planned(),
        Field(ge=1, description="Attempts between two full copies of the fleet; there is one per start."),
    ] = 1000


class RecorderSection(Section):
    """The recorder, which writes decisions to the history."""

    enabled: Annotated[bool, Field(description="Record decisions, if `history.url` is set.")] = True
    detail_per_placement: Annotated[
        int, Field(ge=0, description="Attempts per placement that keep a verdict for every cluster.")
    ] = 20
    sample_detail: Annotated[
        int, Field(ge=0, le=100, description="Percentage of attempts that get a verdict for every cluster.")
    ] = 100
    memory_mib: Annotated[
        int,
        Field(
            ge=1,
            alias="memoryMiB",
            description="Memory for attempts that wait for the database; beyond it, details are shed, then inputs, "
            "then the oldest attempts.",
        ),
    ] = 256
    digests_total: Annotated[
        int, Field(ge=1, description="Attempts that may wait for the database; beyond it, the oldest is dropped.")
    ] = 200_000
    frames: Annotated[int, Planned(), Field(ge=1, description="Fleet snapshots kept in memory for explanations.")] = 64
    history: RecorderHistorySection = RecorderHistorySection()


class HistorySection(Section):
    """The database of the decision history."""

    url: Annotated[
        str | None,
        Field(
            description="Database for decisions: `sqlite:///relative/path`, `sqlite:////absolute/path` or "
            "`postgresql://user@host/database`. Default: decisions are not recorded."
        ),
    ] = None


class MetricsSection(Section):
    """Prometheus metrics."""

    address: Annotated[Address, Field(description="Address of `/metrics`, or `off`.")] = Address(":8080")
    sample_plugins: Annotated[
        int, Field(ge=0, le=100, description="Percentage of attempts in which every plugin is timed by itself.")
    ] = 10


class HealthSection(Section):
    """Health probes."""

    address: Annotated[Address, Field(description="Address of `/livez` and `/readyz`, or `off`.")] = Address(":8081")


class TlsSection(Section):
    """Metrics and health probes over HTTPS."""

    enabled: Annotated[bool, Field(description="Serve `metrics.address` and `health.address` over HTTPS.")] = False
    folder: Annotated[
        str,
        Field(
            min_length=1,
            description="Folder with `tls.crt` and `tls.key`, such as a mounted Secret; renewed files are used without "
            "a restart. While there are none, a self-signed certificate serves.",
        ),
    ] = "/etc/fleet-tls"
    min_version: Annotated[
        Literal["VersionTLS12", "VersionTLS13"], Field(description="Oldest version of TLS that clients may use.")
    ] = "VersionTLS12"
    cipher_suites: Annotated[
        CipherSuites,
        Field(
            description="Cipher suites of TLS 1.2 that clients may use, by the names that Kubernetes has for them, "
            "separated by commas. Default: those of OpenSSL. Suites of TLS 1.3 are always on."
        ),
    ] = ()


class DebugSection(Section):
    """Profiles of the running controller."""

    enabled: Annotated[
        bool,
        Field(
            description="Serve `/debug/profile`, `/debug/stacks` and `/debug/heap` at `metrics.address`, and only to "
            "callers on the machine or in the pod itself."
        ),
    ] = False


DEBUG_VERBOSITY: Final = 4
"""Of the option -v: from here on the log has the level `debug`."""


class LoggingSection(Section):
    """Logs on standard error."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Field(description="Lowest level logged.")] = "info"
    format: Annotated[
        Literal["auto", "json", "console"], Field(description="`auto`: console on a terminal, JSON otherwise.")
    ] = "auto"


class Settings(Section):
    max_fleet_size: Annotated[int, Field(ge=1, description="Expected member clusters; determines `workers`.")] = 100
    max_concurrent_placements: Annotated[
        int, Field(ge=1, description="Placements expected to change at the same time; determines `workers`.")
    ] = 100
    workers: Annotated[
        int | None,
        Field(
            ge=1,
            le=10_000,
            description="Placements scheduled in parallel. Default: one per 50 of `maxFleetSize`, times one per 10 of "
            "`maxConcurrentPlacements`.",
        ),
    ] = None
    resource_placements: ResourcePlacementsSection = ResourcePlacementsSection()
    queue: QueueSection = QueueSection()
    eligibility: EligibilitySection = EligibilitySection()
    status: StatusSection = StatusSection()
    spread: SpreadSection = SpreadSection()
    downscale: DownscaleSection = DownscaleSection()
    sorter: SorterSection = SorterSection()
    eviction: EvictionSection = EvictionSection()
    capacity: CapacitySection = CapacitySection()
    evaluation: EvaluationSection = EvaluationSection()
    bindings: BindingsSection = BindingsSection()
    api: ApiSection = ApiSection()
    selection: SelectionSection = SelectionSection()
    resource_snapshots: ResourceSnapshotsSection = ResourceSnapshotsSection()
    leader_election: LeaderElectionSection = LeaderElectionSection()
    shutdown: ShutdownSection = ShutdownSection()
    recorder: RecorderSection = RecorderSection()
    history: HistorySection = HistorySection()
    metrics: MetricsSection = MetricsSection()
    health: HealthSection = HealthSection()
    tls: TlsSection = TlsSection()
    logging: LoggingSection = LoggingSection()
    debug: DebugSection = DebugSection()
    profiles: Annotated[tuple[InstanceOf[ProfileDocument], ...], Field(exclude=True)] = ()
    """Of a configuration document; without one there is the default profile."""
    extenders: Annotated[tuple[InstanceOf[ExtenderDocument], ...], Field(exclude=True)] = ()
    feeds: Annotated[tuple[InstanceOf[FeedDocument], ...], Field(exclude=True)] = ()
    max_permit_wait_seconds: Annotated[int, Field(exclude=True)] = LONGEST_PERMIT_WAIT

    def list_document_values(self) -> Iterator[tuple[str, Any, str]]:
        """Path, value as written and origin of what is no setting."""
        for profile in self.profiles:
            yield from profile.list_values()
        for extender in self.extenders:
            yield from extender.list_values()
        for feed in self.feeds:
            yield from feed.list_values()

    @property
    def worker_count(self) -> int:
        if self.workers is not None:
            return self.workers
        by_size = math.ceil(self.max_fleet_size / _CLUSTERS_PER_WORKER)
        return by_size * math.ceil(self.max_concurrent_placements / _PLACEMENTS_PER_WORKER)

    def profile_changes(self) -> dict[str, Any]:
        """The keyword arguments for `plugins.default_profile.default_profile`, except its limits.

        Only values that differ from the defaults, so that untouched settings do not change the profile and its hash.
        """
        args = {
            "ClusterAffinity": _collect_changes(self.sorter, population="sorterPopulation"),
            "ClusterEligibility": _collect_changes(self.eligibility),
            "TopologySpreadConstraints": _collect_changes(self.spread),
        }
        changes: dict[str, Any] = {"args": {plugin: values for plugin, values in args.items() if values}}
        return changes if self.downscale == DownscaleSection() else changes | {"downscale_order": self.downscale.order}

    def published_limits(self) -> dict[str, int]:
        """The fields of `fleet.framework.profiles.profile.StatusLimits`."""
        return self.status.model_dump()

    def collect_changes(self) -> dict[str, Any]:
        """The settings that differ from their defaults, by name, with secrets redacted."""
        leaves = _flatten(self.model_dump(mode="json", by_alias=True, exclude_defaults=True))
        return {name: redact(name, value) for name, value in leaves}


DECIDING: Final = ("eligibility", "selection", "status", "spread", "downscale", "sorter", "evaluation")
"""The sections that affect a single decision, and that `fleet simulate` therefore accepts."""
_CARRIES_OUT: Final = ("evaluation.parallelism", "evaluation.checkPlugins")


def is_deciding(name: str) -> bool:
    """Whether a setting affects a single decision."""
    return name.partition(".")[0] in DECIDING and name not in _CARRIES_OUT


def _collect_changes(section: Section, **renamed: str) -> dict[str, Any]:
    """The values that differ from the defaults, under the names that plugins use."""
    values = section.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {renamed.get(name, name): value for name, value in values.items()}


def _flatten(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for name, value in tree.items():
        leaves += _flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]
    return leaves
