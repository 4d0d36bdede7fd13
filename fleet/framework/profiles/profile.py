"""Profiles: the plugins of each hook, their order, weights and arguments.

A `Profile` is configuration. `compile_profile` checks it against the registry, builds every plugin once, and binds
the hooks to callables, so that an attempt needs no lookups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from fleet.cached import cached_property
from fleet.errors import ConfigurationError, UnknownPlugin
from fleet.framework.arguments import RawArgs
from fleet.framework.explaining import AnyUpdate, EventSources, RegisteredSource
from fleet.framework.handle import Handle
from fleet.framework.policy.placement_terms import RESIDENTS
from fleet.framework.profiles.adapter import adapt, is_scalar
from fleet.framework.profiles.extender import Extender, ExtenderRef
from fleet.framework.profiles.registry import Registry
from fleet.framework.status import MAX_CLUSTER_SCORE, MAX_TOTAL_SCORE, REJECTIONS, Code, Status, code_of
from fleet.framework.types import Component, DownscaleOrder, GroupState, PluginTraits, Ranking, TieBreak
from fleet.framework.verdicts import FRAMEWORK, Judge, judge_of

# Hook name in configuration → method that implements it.
METHODS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "queueSort": "key",
        "preEnqueue": "pre_enqueue",
        "batch": "batch",
        "postBatch": "post_batch",
        "preFilter": "pre_filter",
        "filter": "filter",
        "postFilter": "post_filter",
        "preScore": "pre_score",
        "score": "score",
        "sort": "sort",
        "reserve": "reserve",
        "permit": "permit",
        "preBind": "pre_bind",
        "bind": "bind",
        "postBind": "post_bind",
    }
)
BINDINGS: Final = "bindings"
"""In READS: which bindings clusters have, their priorities and their room."""
_READS_NO_CLUSTER: Final = frozenset(("picks",))
_OF_CLUSTERS: Final = frozenset(
    ("labels", "namespaces", "obsolete", "picks", "properties", "signals", "taints", "usage")
)
"""In READS: columns of the clusters' objects and of the placement's own bindings."""
_SIGNABLE: Final = _OF_CLUSTERS - {"signals"}
"""In READS: what heartbeats do not change. Rankings are shared by placements without bindings only."""
_OF_THE_CLUSTER: Final = frozenset(
    (BINDINGS, "labels", "namespaces", "properties", "room", "signals", "taints", "usage")
)
_OF_THE_PLACEMENT: Final = frozenset(("obsolete", "picks"))
"""An attempt leaves no binding of an earlier policy, and clusters in use are compared by what looks for changes."""
_JUDGING_HOOKS: Final = ("postBatch", "preFilter", "filter", "postFilter", "preScore", "score")
_IN_TREE: Final = "plugins."
_EXACTLY_ONE: Final = ("queueSort", "batch", "sort")
_EFFECT_HOOKS: Final = ("reserve", "permit", "preBind", "postBind")


@dataclass(frozen=True, slots=True)
class PluginRef:
    name: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class StatusLimits:
    """How much of a decision is published on the policy snapshot; the rest goes to the history only."""

    unselected_budget: int = 20
    max_decisions: int = 1000

    def __post_init__(self) -> None:
        if not 0 <= self.unselected_budget <= 1000:
            raise ConfigurationError(f"status.unselectedBudget: {self.unselected_budget} is not in 0 … 1000")
        if not 1 <= self.max_decisions <= 1000:
            raise ConfigurationError(f"status.maxDecisions: {self.max_decisions} is not in 1 … 1000")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    scheduler_name: str
    plugins: Mapping[str, Sequence[PluginRef]]
    plugin_config: Sequence[tuple[str, RawArgs]] = ()
    ranking: Ranking = "lexicographic"
    tie_break: TieBreak = "nameDescending"
    limits: StatusLimits = field(default_factory=StatusLimits)
    downscale_order: DownscaleOrder = "StoredScore"
    percentage_of_clusters: int = 100
    """Of the fleet, to examine before settling; 0 adapts to its size. Only per-cluster plugins make this matter."""
    scan_domain_key: str | None = None
    reserve_fallback: bool = False
    partial_permit: bool = False
    """A cluster that Permit refuses leaves the others to be bound."""
    backoff_on_rejection: bool = False
    """Rejected placements back off before they are tried again, and are tried again after some time in any case."""
    packages: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Name and version of the distribution of each plugin that is not in-tree."""
    extenders: Sequence[ExtenderRef] = ()
    """They filter and score after all plugins, and bind before them."""
    has_secrets: bool = False
    """Whether arguments contain values that must not be stored: from the environment, or of fields like `token`."""


class BoundHook(NamedTuple):
    """A plugin bound to one hook."""

    name: str
    plugin: Any
    call: Callable[..., Any]
    scalar: bool
    weight: int


@dataclass(frozen=True, kw_only=True)
class CompiledProfile:
    """What every attempt asks is found once."""

    scheduler_name: str
    hooks: Mapping[str, tuple[BoundHook, ...]]
    judges: tuple[Judge, ...]
    """The sources of rejections: Filter plugins in order, PreFilter plugins without a Filter, the framework."""
    ranking: Ranking
    tie_break: TieBreak
    limits: StatusLimits
    downscale_order: DownscaleOrder
    percentage_of_clusters: int
    scan_domain_key: str | None
    reserve_fallback: bool
    partial_permit: bool
    backoff_on_rejection: bool
    config_hash: str
    document: bytes
    """What `config_hash` is the hash of, from which `parse_profile` builds an equal profile; empty if it has
    secrets."""
    warnings: tuple[str, ...]

    # The decision hooks, resolved.
    batch: BoundHook
    post_batch: tuple[BoundHook, ...]
    pre_filter: tuple[BoundHook, ...]
    filters: tuple[BoundHook, ...]
    fixed_filters: tuple[tuple[int, BoundHook], ...]
    post_filter: tuple[BoundHook, ...]
    pre_score: tuple[BoundHook, ...]
    scores: tuple[BoundHook, ...]
    sort: BoundHook
    step_picker: BoundHook | None
    """The PostBatch plugin that may make all picks in one pass, if this profile allows it."""
    scans_in_parts: bool
    """Whether a partial scan saves anything: only per-cluster plugins cost per row."""
    reads_residents: bool
    """Whether any plugin reads the placements on clusters, and so the labels of the placement that is decided."""
    has_effects: bool
    _by_method: dict[str, tuple[tuple[str, Any], ...]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    @cached_property
    def _plugins(self) -> tuple[tuple[str, Any], ...]:
        """The ones with a Filter in their order, then the others in the order of hooks."""
        hooks = (self.filters, *self.hooks.values())
        return tuple({entry.name: entry.plugin for hook in hooks for entry in hook}.items())

    def list_judges_of(self, column: str) -> list[str]:
        """The sources of rejections that read it."""
        return [judge.name for judge in self.judges if column in _trait(judge.plugin, "READS")]

    @cached_property
    def quota_readers(self) -> frozenset[str]:
        """The plugins that read what is in use of quotas."""
        return frozenset(name for name, plugin in self._plugins if "quotas" in _trait(plugin, "READS"))

    @cached_property
    def cluster_comparers(self) -> frozenset[str]:
        """The plugins that judge a cluster by more than itself, also in what they read: side data is kept for the whole
        fleet."""
        return frozenset(entry.name for entry in self._refusing if not _is_row_local(entry.plugin))

    @cached_property
    def reads_policy_only(self) -> bool:
        """Whether what they say depends on nothing else of a request."""
        return all(_trait(entry.plugin, "READS_POLICY_ONLY") for entry in self._refusing)

    @property
    def _refusing(self) -> tuple[BoundHook, ...]:
        return (*self.pre_filter, *self.filters, *self.post_batch, *self.post_filter)

    @cached_property
    def expiring(self) -> frozenset[str]:
        """Those to which time only makes clusters expire."""
        return frozenset(entry.name for entry in self._refusing if _trait(entry.plugin, "ONLY_EXPIRES"))

    @property
    def event_sources(self) -> EventSources:
        """The plugins that name events. To one that judges clusters and names none, every change may matter."""
        judging = {entry.name for entry in (*self.pre_filter, *self.filters, *self.post_batch, *self.late_judges)}
        fixed = {entry.name for _, entry in self.fixed_filters}
        sources = []
        for name, plugin in self._plugins:
            if hasattr(plugin, "events_to_register"):
                sources.append(RegisteredSource(name, plugin, name in fixed))
            elif name in judging and not _READS_NO_CLUSTER.issuperset(_trait(plugin, "READS")):
                sources.append(RegisteredSource(name, AnyUpdate(), name in fixed))
        return sources

    @cached_property
    def reads_requests(self) -> bool:
        """Whether any plugin reads what a placement requests."""
        return any(_trait(plugin, "READS_REQUESTS") for _, plugin in self._plugins)

    @cached_property
    def reads_limits(self) -> bool:
        """Whether any plugin reads the limits of the selected workloads."""
        return any(_trait(plugin, "READS_LIMITS") for _, plugin in self._plugins)

    @cached_property
    def reads_placed_limits(self) -> bool:
        """Whether any plugin reads by how much limits exceed requests on clusters."""
        return any("limits" in _trait(plugin, "READS") for _, plugin in self._plugins)

    @cached_property
    def reads_quotas(self) -> bool:
        return bool(self.quota_readers)

    @cached_property
    def reads_clusters_only(self) -> bool:
        """Whether decisions depend on nothing but the placement, its bindings, the objects of clusters and the time.
        What a plugin from elsewhere reads is not known."""
        judging = (entry for hook in _JUDGING_HOOKS for entry in self.hooks[hook])
        return (
            not self.has_effects
            and not self.decides_groups
            and all(is_in_tree(plugin) for _, plugin in self._plugins)
            and all(_OF_CLUSTERS.issuperset(_trait(entry.plugin, "READS")) for entry in judging)
        )

    @cached_property
    def signers(self) -> tuple[Any, ...] | None:
        """The plugins that sign requests, if rankings depend on nothing but that, clusters and `unsigned_filters`."""
        filters = [entry for entry in self.filters if entry.name not in self.unsigned_filters]
        others = (self.batch, *self.post_batch, *self.pre_filter, *self.pre_score, *self.scores, self.sort)
        takes_in_turn = not self.filters and not self.scores
        acts = self.has_effects or bool(self.post_filter)
        depends_on_more = takes_in_turn or acts or self.scans_in_parts or self.tie_break == "hashed"
        if depends_on_more or not all(can_sign(entry.plugin) for entry in (*filters, *others)):
            return None
        return tuple({entry.name: entry.plugin for entry in (*filters, *others)}.values())

    @cached_property
    def unsigned_filters(self) -> frozenset[str]:
        """Those that are asked again for each request: by the objects of clusters, one by one, and by the time."""
        return frozenset(entry.name for entry in self.filters if _may_be_asked_again(entry.plugin))

    @cached_property
    def decides_groups(self) -> bool:
        """Whether placements may belong to groups."""
        return bool(self.find_plugins("placement_feasible"))

    def judge_group(self, state: GroupState) -> Status | None:
        """By the first plugin that sees no way; else Wait, if any waits."""
        verdicts = [plugin.placement_feasible(state) for _, plugin in self.find_plugins("placement_feasible")]
        return max(verdicts, key=lambda status: code_of(status) is Code.UNSCHEDULABLE, default=None)

    @cached_property
    def asks_extenders(self) -> bool:
        return any(isinstance(entry.plugin, Extender) for entry in (*self.filters, *self.scores))

    @cached_property
    def evicts(self) -> bool:
        """Whether a plugin reads which bindings could leave, to make room by that."""
        return any(BINDINGS in _trait(entry.plugin, "READS") for entry in self.post_filter)

    @property
    def late_judges(self) -> tuple[BoundHook, ...]:
        """The plugins that may reject what was decided."""
        reserving = (entry for entry in self.hooks["reserve"] if _trait(entry.plugin, "RESERVE_REJECTS"))
        return (*reserving, *self.hooks["permit"], *self.hooks["preBind"])

    def find_plugins(self, method: str) -> tuple[tuple[str, Any], ...]:
        """Those that have an optional method, in the order of `_plugins`."""
        plugins = self._by_method.get(method)
        if plugins is None:
            plugins = tuple(pair for pair in self._plugins if hasattr(pair[1], method))
            self._by_method[method] = plugins
        return plugins

    @property
    def picker_position(self) -> int:
        """The position of the picker's Filter: the last."""
        return len(self.filters) - 1


def compile_profile(registry: Registry, profile: Profile, handle: Handle) -> CompiledProfile:
    """Build the plugins of a profile. Every mistake in it is a ConfigurationError before anything runs."""
    _check_lists(profile, registry)
    registry.seal()
    args = _args_by_plugin(profile)
    plugins = {name: _build(registry, name, args.get(name), handle) for name in _plugin_names(profile)}
    hooks = bind_hooks(profile, plugins)
    problems = [problem for _, problem in find_broken_rules(hooks)]
    if problems:
        raise ConfigurationError("\n".join(problems))
    filters = hooks["filter"]
    narrowing = [entry for entry in hooks["preFilter"] if entry.name not in {other.name for other in filters}]
    return CompiledProfile(
        scheduler_name=profile.scheduler_name,
        hooks=MappingProxyType(hooks),
        judges=(*(judge_of(entry.name, entry.plugin) for entry in (*filters, *narrowing)), FRAMEWORK),
        ranking=profile.ranking,
        tie_break=profile.tie_break,
        limits=profile.limits,
        downscale_order=profile.downscale_order,
        percentage_of_clusters=profile.percentage_of_clusters,
        scan_domain_key=profile.scan_domain_key,
        reserve_fallback=profile.reserve_fallback,
        partial_permit=profile.partial_permit,
        backoff_on_rejection=profile.backoff_on_rejection,
        config_hash=config_hash(profile),
        document=b"" if profile.has_secrets else encode_profile(profile),
        warnings=tuple(_ordering_warnings(filters)),
        batch=hooks["batch"][0],
        post_batch=hooks["postBatch"],
        pre_filter=hooks["preFilter"],
        filters=filters,
        fixed_filters=tuple(
            (position, entry) for position, entry in enumerate(filters) if _trait(entry.plugin, "APPLIES_TO_FIXED")
        ),
        post_filter=hooks["postFilter"],
        pre_score=hooks["preScore"],
        scores=hooks["score"],
        sort=hooks["sort"][0],
        step_picker=_step_picker(profile, hooks),
        scans_in_parts=any(entry.scalar for entry in (*filters, *hooks["score"])),
        reads_residents=any(RESIDENTS in _trait(entry.plugin, "READS") for hook in hooks.values() for entry in hook),
        has_effects=is_acting(hooks),
    )


def is_acting(hooks: Mapping[str, tuple[BoundHook, ...]]) -> bool:
    """Whether any plugin acts on a decision, beside the one that stands for the writes themselves."""
    return any(hooks[hook] for hook in _EFFECT_HOOKS) or not _is_write_path(hooks["bind"])


def config_hash(profile: Profile) -> str:
    return hashlib.blake2b(encode_profile(profile), digest_size=8).hexdigest()


def encode_profile(profile: Profile) -> bytes:
    """All that decisions depend on, in canonical form."""
    content: dict[str, Any] = {
        "plugins": {hook: [(ref.name, ref.weight) for ref in refs] for hook, refs in profile.plugins.items()},
        "args": [(name, raw.content) for name, raw in profile.plugin_config],
        "ranking": profile.ranking,
        "tieBreak": profile.tie_break,
        "limits": [profile.limits.unselected_budget, profile.limits.max_decisions],
        "downscale": profile.downscale_order,
        "scan": [profile.percentage_of_clusters, profile.scan_domain_key],
        "reserveFallback": profile.reserve_fallback,
    }
    if profile.partial_permit:
        content["partialPermit"] = True
    if profile.packages:
        content["packages"] = dict(profile.packages)
    if profile.extenders:
        content["extenders"] = [ref.list_fields() for ref in profile.extenders]
    return msgspec.json.encode(content, order="sorted")


class _EncodedProfile(msgspec.Struct, rename="camel"):
    plugins: dict[str, list[tuple[str, int]]]
    args: list[tuple[str, dict[str, Any] | str]]
    ranking: Ranking
    tie_break: TieBreak
    limits: tuple[int, int]
    downscale: DownscaleOrder
    scan: tuple[int, str | None]
    reserve_fallback: bool
    partial_permit: bool = False
    packages: dict[str, str] = {}
    extenders: list[ExtenderRef] = []


def parse_profile(document: bytes, *, scheduler_name: str) -> Profile:
    """The inverse of `encode_profile`. Raises ConfigurationError on a document of another version."""
    try:
        encoded = msgspec.json.decode(document, type=_EncodedProfile)
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"the recorded profile cannot be read: {error}") from error
    return Profile(
        scheduler_name=scheduler_name,
        plugins={hook: tuple(PluginRef(*ref) for ref in refs) for hook, refs in encoded.plugins.items()},
        plugin_config=tuple((name, RawArgs(content)) for name, content in encoded.args),
        ranking=encoded.ranking,
        tie_break=encoded.tie_break,
        limits=StatusLimits(*encoded.limits),
        downscale_order=encoded.downscale,
        percentage_of_clusters=encoded.scan[0],
        scan_domain_key=encoded.scan[1],
        reserve_fallback=encoded.reserve_fallback,
        partial_permit=encoded.partial_permit,
        packages=encoded.packages,
        extenders=tuple(encoded.extenders),
    )


# --- building -------------------------------------------------------------------------------------------------------


def _plugin_names(profile: Profile) -> list[str]:
    return list(dict.fromkeys(ref.name for hook in METHODS for ref in profile.plugins.get(hook, ())))


def _args_by_plugin(profile: Profile) -> dict[str, RawArgs]:
    args: dict[str, RawArgs] = {}
    for name, raw in profile.plugin_config:
        if name in args:
            raise ConfigurationError(f"repeated config for plugin {name}")
        args[name] = raw
    return args


def _build(registry: Registry, name: str, raw: RawArgs | None, handle: Handle) -> Any:
    if name not in registry:
        raise UnknownPlugin(name)
    try:
        plugin = adapt(registry[name](raw, handle))
        called = plugin.name()
    except Exception as error:
        raise ConfigurationError(f'error initializing plugin "{name}": {error}') from error
    if called != name:
        raise ConfigurationError(f"plugin registered as {name} calls itself {called}")
    _check_reasons(name, plugin)
    return plugin


def _check_reasons(name: str, plugin: Any) -> None:
    for reason in getattr(plugin, "REASONS", PluginTraits.REASONS).reasons:
        if reason.code not in REJECTIONS:
            raise ConfigurationError(f"plugin {name}: invalid code {reason.code} at Filter (reason {reason.name})")


def bind_hooks(profile: Profile, plugins: Mapping[str, Any]) -> dict[str, tuple[BoundHook, ...]]:
    hooks = {hook: _bind(hook, profile.plugins.get(hook, ()), plugins) for hook in METHODS}
    return {**hooks, **_bind_extenders(profile, hooks)}


def _bind(hook: str, refs: Sequence[PluginRef], plugins: Mapping[str, Any]) -> tuple[BoundHook, ...]:
    bound = []
    for ref in refs:
        plugin = plugins[ref.name]
        call = getattr(plugin, METHODS[hook], None) or (getattr(plugin, "less", None) if hook == "queueSort" else None)
        if not callable(call):
            raise ConfigurationError(f"plugin {ref.name} does not extend {hook} plugin")
        bound.append(BoundHook(ref.name, plugin, call, is_scalar(plugin, METHODS[hook]), ref.weight or 1))
    return tuple(bound)


def _bind_extenders(
    profile: Profile, hooks: Mapping[str, tuple[BoundHook, ...]]
) -> Mapping[str, tuple[BoundHook, ...]]:
    filters, scores, binders = list(hooks["filter"]), list(hooks["score"]), list(hooks["bind"])
    for ref in profile.extenders:
        extender = Extender(ref)
        if ref.filters:
            filters.append(BoundHook(ref.name, extender, extender.filter, scalar=False, weight=1))
        if ref.prioritizes:
            scores.append(BoundHook(ref.name, extender, extender.score, scalar=False, weight=ref.weight))
        if ref.binds:
            binders.insert(0, BoundHook(ref.name, extender, extender.bind, scalar=False, weight=1))
    return {"filter": tuple(filters), "score": tuple(scores), "bind": tuple(binders)}


# --- checking -------------------------------------------------------------------------------------------------------


def _check_lists(profile: Profile, registry: Registry) -> None:
    for hook, refs in profile.plugins.items():
        if hook not in METHODS:
            raise ConfigurationError(f"no hook named {hook}; hooks are {', '.join(METHODS)}")
        seen = set()
        for ref in refs:
            if ref.name not in registry:
                raise UnknownPlugin(ref.name)
            if ref.name in seen:
                raise ConfigurationError(f"plugin {ref.name} is listed twice at {hook}")
            if ref.weight < 0:
                raise ConfigurationError(f"plugin {ref.name} at {hook}: weight {ref.weight} is negative")
            seen.add(ref.name)


def find_broken_rules(hooks: Mapping[str, Sequence[BoundHook]]) -> Iterator[tuple[str, str]]:
    """The hook, and which rule its plugins break together."""
    for hook in _EXACTLY_ONE:
        if len(hooks[hook]) != 1:
            yield hook, f"exactly one {hook} plugin is needed, {len(hooks[hook])} configured"
    if all(isinstance(entry.plugin, Extender) for entry in hooks["bind"]):
        yield "bind", "at least one bind plugin is needed"
    for entry in hooks["reserve"]:
        if not callable(getattr(entry.plugin, "unreserve", None)):
            yield "reserve", f"plugin {entry.name} does not extend reserve plugin: unreserve is missing"
    filtering = {entry.name for entry in hooks["filter"]}
    for entry in hooks["postFilter"]:
        if callable(getattr(entry.plugin, "filter", None)) and entry.name not in filtering:
            yield "postFilter", f"plugin {entry.name} at postFilter needs to be enabled at filter, too"
    if sum(entry.weight for entry in hooks["score"]) * MAX_CLUSTER_SCORE > MAX_TOTAL_SCORE:
        yield "score", "total score of Score plugins could overflow"
    yield from _find_names_taken(hooks)


def _find_names_taken(hooks: Mapping[str, Sequence[BoundHook]]) -> Iterator[tuple[str, str]]:
    taken: dict[str, Any] = {}
    entries = [(hook, entry) for hook, bound in hooks.items() for entry in bound]
    for hook, entry in sorted(entries, key=lambda pair: isinstance(pair[1].plugin, Extender)):
        if taken.setdefault(entry.name, entry.plugin) is not entry.plugin:
            taken[entry.name] = entry.plugin
            yield hook, f"extender {entry.name}: there is a plugin or another extender of this name"


def _ordering_warnings(filters: Sequence[BoundHook]) -> list[str]:
    for position, entry in enumerate(filters):
        later = next((other for other in filters[position + 1 :] if not other.scalar), None)
        if entry.scalar and later is not None:
            return [
                f"filter {entry.name} works cluster by cluster: put {later.name} before it, which judges all at once"
            ]
    return []


def _step_picker(profile: Profile, hooks: Mapping[str, tuple[BoundHook, ...]]) -> BoundHook | None:
    """One pass equals the rounds only when no plugin but the picker gives other results between rounds."""
    limiting, filters = hooks["postBatch"], hooks["filter"]
    if profile.ranking != "lexicographic" or len(limiting) != 1 or not hasattr(limiting[0].plugin, "pick"):
        return None
    picker = limiting[0].plugin
    others = [entry.plugin for entry in (*filters, *hooks["score"]) if entry.plugin is not picker]
    equal = (
        bool(filters) and filters[-1].plugin is picker,
        all(_trait(plugin, "ROW_LOCAL") for plugin in others),
        all(_trait(plugin, "SCORE_COMPONENT") is not Component.TOPOLOGY for plugin in others),
        any("picks" in _trait(plugin, "READS") for plugin in others),  # a filter rejects clusters already picked
        not any(entry.scalar for entry in (*filters, *hooks["score"])),  # no scan in parts
        getattr(hooks["sort"][0].plugin, "RANKS_BY_PROFILE", False),
    )
    return limiting[0] if all(equal) else None


def _is_write_path(binders: tuple[BoundHook, ...]) -> bool:
    return len(binders) == 1 and bool(_trait(binders[0].plugin, "IS_WRITE_PATH"))


def is_in_tree(plugin: Any) -> bool:
    return type(plugin).__module__.startswith(_IN_TREE)


def _is_row_local(plugin: Any) -> bool:
    return bool(_trait(plugin, "ROW_LOCAL")) and _list_reads(plugin) <= _OF_THE_CLUSTER | _OF_THE_PLACEMENT


def _list_reads(plugin: Any) -> set[str]:
    """Kinds of columns, without keys."""
    return {column.partition(":")[0] for column in _trait(plugin, "READS")}


def _may_be_asked_again(plugin: Any) -> bool:
    by_cluster = _trait(plugin, "ROW_LOCAL") and _list_reads(plugin) <= _OF_CLUSTERS - {"picks"}
    return bool(by_cluster) and not can_sign(plugin)


def can_sign(plugin: Any) -> bool:
    return hasattr(plugin, "sign") and _list_reads(plugin) <= _SIGNABLE


def _trait(plugin: Any, name: str) -> Any:
    return getattr(plugin, name, getattr(PluginTraits, name))
