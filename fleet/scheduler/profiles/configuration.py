"""Profiles of a configuration document: the lists of their base with their changes, checked against the plugins.

Every problem is reported with the line that it comes from. Plugins are built once without a hub, to learn which hooks
they implement and whether they take their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from fleet.errors import ConfigurationError
from fleet.framework.arguments import RawArgs
from fleet.framework.handle import NoWatches, OfflineHandle
from fleet.framework.profiles.adapter import adapt, is_scalar
from fleet.framework.profiles.discovery import list_installed, read_entries, register_installed
from fleet.framework.profiles.extender import ExtenderRef
from fleet.framework.profiles.profile import (
    METHODS,
    PluginRef,
    Profile,
    StatusLimits,
    bind_hooks,
    compile_profile,
    find_broken_rules,
)
from fleet.framework.profiles.queue_sort import require_one_queue_sort
from fleet.framework.profiles.registry import Registry
from fleet.model.keys import PICK_FIXED
from fleet.settings import Settings
from fleet.settings.document.merging import ALL, BaseLists, merge_profile
from fleet.settings.document.model import (
    DEFAULT_BASE,
    HOOKS,
    MULTI_POINT,
    WEIGHTED_BASES,
    PluginChoice,
    PluginSet,
    ProfileDocument,
)
from fleet.settings.secrets import redact_all
from fleet.similarity import nearest
from plugins import extended_profile, in_tree_registry
from plugins.default_profile import DEFAULT_PLUGINS, default_profile
from plugins.load_aware_profile import LOAD_AWARE_PLUGINS

_ADAPTIVE: Final = 0
_NEEDS_NO_PLUGIN: Final = {PICK_FIXED: "placements of type PickFixed get the clusters that they name in every profile"}
_IN_FRONT: Final = re.compile(r"^error initializing plugin \"[^\"]*\": ")
_AT_PATH: Final = re.compile(r" - at `\$\.?([^`]*)`$")

Report = Callable[[str, str], None]
"""Called with the origin and the problem."""


def build_profiles(settings: Settings) -> tuple[tuple[Profile, ...], Registry]:
    """The profiles that the settings describe, and the plugins they may use. Raises ConfigurationError with every
    problem on its own line."""
    registry = in_tree_registry()
    if not settings.profiles:
        return (_build_default(settings),), registry
    problems: list[str] = []
    profiles = _build_documents(settings, registry, problems)
    if problems:
        raise ConfigurationError("\n".join(dict.fromkeys(problems)))
    return tuple(profiles), registry


def find_more_problems(settings: Settings, problems: Sequence[str]) -> list[str]:
    """Of the profiles in a document that has these problems, all that do not follow from these."""
    collected = [*problems]
    _build_documents(settings, in_tree_registry(), collected)
    known = {_find_place(problem) for problem in problems}
    return [problem for problem in dict.fromkeys(collected) if _find_place(problem) not in known]


def _build_documents(settings: Settings, registry: Registry, problems: list[str]) -> list[Profile]:
    """Adds the plugins that they name to the registry, and what is wrong to the problems."""
    documents = settings.profiles
    packages = _register_plugins(registry, documents, lambda origin, text: problems.append(_locate(origin, text)))
    profiles = [_Builder(settings, document, registry, packages, problems).build() for document in documents]
    problems += _find_conflicts(profiles, documents, problems)
    return profiles


def _find_place(problem: str) -> str:
    """Origin and path."""
    return ": ".join(problem.split(": ")[:2])


def describe_deviation(profile: Profile) -> str:
    """How a profile departs from the one that is compatible with KubeFleet; empty if it does not."""
    default = default_profile()
    parts = [hook for hook in METHODS if _names(profile.plugins.get(hook, ())) != _names(default.plugins.get(hook, ()))]
    changes = [f"other plugins at {', '.join(parts)}"] if parts else []
    changes += [f"extenders {', '.join(ref.name for ref in profile.extenders)}"] if profile.extenders else []
    changes += [f"ranking {profile.ranking}"] if profile.ranking != default.ranking else []
    changes += [f"tieBreak {profile.tie_break}"] if profile.tie_break != default.tie_break else []
    return "; ".join(changes)


def _names(refs: Sequence[PluginRef]) -> list[str]:
    return [ref.name for ref in refs]


def _build_default(settings: Settings) -> Profile:
    percentage = settings.evaluation.percentage_of_clusters_to_score
    changes: dict[str, Any] = {} if percentage is None else {"percentage_of_clusters": percentage}
    if settings.extenders:  # their opinion changes without an event
        changes |= {"extenders": _list_extenders(settings), "backoff_on_rejection": True}
    return default_profile(limits=StatusLimits(**settings.published_limits()), **settings.profile_changes(), **changes)


def _list_extenders(settings: Settings) -> tuple[ExtenderRef, ...]:
    return tuple(
        ExtenderRef(
            name=extender.name,
            filters=bool(extender.filter_verb),
            prioritizes=bool(extender.prioritize_verb),
            weight=extender.weight,
            ignorable=extender.ignorable,
            names_only=extender.names_only,
            binds=bool(extender.bind_verb),
            managed_resources=extender.managed_resources,
        )
        for extender in settings.extenders
    )


# --- plugins ----------------------------------------------------------------------------------------------------------


def _register_plugins(registry: Registry, documents: Sequence[ProfileDocument], report: Report) -> Mapping[str, str]:
    """Those of installed distributions that a profile names. The distribution of each that is installed."""
    listed = [each for document in documents for each in _list_names(document)]
    foreign = [each for each in listed if each[0] not in registry and each[0] != ALL]
    entries = read_entries() if foreign else ()
    packages = list_installed(entries)
    known = {*registry, *packages}
    for name, origin, path in foreign:
        if name in registry:  # by now
            continue
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else "`fleet plugins list` has those that are installed"
            report(origin, f"{path}: no plugin named {name} exists; {_NEEDS_NO_PLUGIN.get(name, hint)}")
            continue
        try:
            register_installed(registry, only=[name], entries=entries)
        except ConfigurationError as error:
            report(origin, f"{path}: {error}")
    return {name: origin for name, origin in packages.items() if name not in in_tree_registry()}


def _list_names(document: ProfileDocument) -> Iterator[tuple[str, str, str]]:
    for changes in document.plugins.values():
        for choice in (*changes.disabled, *changes.enabled):
            yield choice.name, choice.origin, f"{choice.path}.name"
    for config in document.plugin_config:
        yield config.name, config.origin, f"{config.path}.name"


def _base_lists(name: str) -> BaseLists:
    if name == DEFAULT_BASE:
        return BaseLists(by_hook={hook: [*map(_choice, refs)] for hook, refs in DEFAULT_PLUGINS.items()})
    if name == "ExtendedProfile":
        return BaseLists(multi_point=[*map(_choice, extended_profile.EXTENDED_PLUGINS)])
    if name == "LoadAware":
        return BaseLists(multi_point=[*map(_choice, LOAD_AWARE_PLUGINS)])
    return BaseLists()


def _choice(ref: PluginRef) -> PluginChoice:
    return PluginChoice(ref.name, ref.weight)


# --- one profile ------------------------------------------------------------------------------------------------------


class _Builder:
    def __init__(
        self,
        settings: Settings,
        document: ProfileDocument,
        registry: Registry,
        packages: Mapping[str, str],
        problems: list[str],
    ) -> None:
        self._settings, self._document, self._registry = settings, document, registry
        self._packages, self._problems = packages, problems
        self._configs = {config.name: config for config in document.plugin_config}
        self._defaults: Mapping[str, Mapping[str, Any]] = settings.profile_changes()["args"]
        self._plugins: dict[str, Any] = {}

    def build(self) -> Profile:
        """With problems, it is what they leave of the profile. No problem is reported that may follow from another."""
        base = _base_lists(self._document.base)
        self._plugins = self._build_plugins(base)
        plugins = self._merge(base)
        if not self._is_reported("base"):
            self._check_disabled(base)
        self._check_hooks()
        if not self._mentions("feeds"):
            self._check_feeds(plugins)
        profile = self._build_profile(plugins)
        self._check_rules(profile, base)
        if not self._is_reported():
            self._dry_build(profile)
        return profile

    def _is_reported(self, *fields: str) -> bool:
        """Whether there is a problem with the profile, or with this field of it."""
        return self._mentions(re.escape(".".join((self._document.path, *fields))))

    def _mentions(self, path: str) -> bool:
        """`path` is a regular expression."""
        place = re.compile(rf"(^| ){path}(?!\w)")
        return any(place.search(problem) for problem in self._problems)

    def _build_plugins(self, base: BaseLists) -> dict[str, Any]:
        names = [choice.name for choices in base.by_hook.values() for choice in choices]
        names += [choice.name for choice in base.multi_point]
        names += [choice.name for changes in self._document.plugins.values() for choice in changes.enabled]
        plugins = {}
        for name in dict.fromkeys((*names, *self._configs)):
            if name in self._registry:
                try:
                    plugins[name] = self._build_plugin(name, self._args_of(name))
                except Exception as error:
                    self._report_args(name, error)
                    with suppress(Exception):
                        plugins[name] = self._build_plugin(name, None)
        return plugins

    def _build_plugin(self, name: str, args: RawArgs | None) -> Any:
        return adapt(self._registry[name](args, OfflineHandle(watches=NoWatches())))

    def _args_of(self, name: str) -> RawArgs | None:
        """Settings first; what the profile gives overrides them."""
        config = self._configs.get(name)
        args = {**self._defaults.get(name, {}), **({} if config is None else config.args)}
        return RawArgs(args) if args else None

    def _report_args(self, name: str, error: Exception) -> None:
        config = self._configs.get(name)
        path = self._document.path if config is None else f"{config.path}.args"
        text = str(error) if config is None else config.hide_values(str(error))
        is_known = config is not None and isinstance(error, ConfigurationError)
        prefix = "" if is_known else f'error initializing plugin "{name}": '
        for line in text.splitlines() or [type(error).__name__]:
            self._report(*_locate_argument(path, prefix + _IN_FRONT.sub("", line), is_known=is_known))

    def _merge(self, base: BaseLists) -> dict[str, tuple[PluginRef, ...]]:
        known = {
            hook: PluginSet(
                tuple(choice for choice in changes.enabled if choice.name in self._plugins), changes.disabled
            )
            for hook, changes in self._document.plugins.items()
        }
        merged = merge_profile(base, known, HOOKS, self._implements)
        return {
            hook: tuple(PluginRef(each.name, each.weight or 1) for each in choices if self._implements(each.name, hook))
            for hook, choices in merged.items()
        }

    def _implements(self, name: str, hook: str) -> bool:
        plugin = self._plugins.get(name)
        methods = ("key", "less") if hook == "queueSort" else (METHODS[hook],)
        return any(callable(getattr(plugin, method, None)) for method in methods)

    def _check_disabled(self, base: BaseLists) -> None:
        general = {choice.name for choice in base.multi_point}
        for choice in self._document.plugins.get(MULTI_POINT, PluginSet()).disabled:
            if choice.name not in general and not (choice.name == ALL and general):
                self._report(
                    choice.path,
                    f"{choice.name} leaves out nothing: {self._document.base} lists it at no multiPoint; "
                    "disable it at its hooks",
                )

    def _check_hooks(self) -> None:
        for hook, changes in self._document.plugins.items():
            for choice in changes.enabled:
                if hook == MULTI_POINT or choice.name not in self._plugins or self._implements(choice.name, hook):
                    continue
                hooks = [other for other in HOOKS if self._implements(choice.name, other)]
                self._report(choice.path, f"{choice.name} has no {hook} hook; it has {', '.join(hooks) or 'none'}")

    def _check_feeds(self, plugins: Mapping[str, Sequence[PluginRef]]) -> None:
        known = [feed.name for feed in self._settings.feeds]
        for name in dict.fromkeys(ref.name for refs in plugins.values() for ref in refs):
            list_feeds = getattr(self._plugins.get(name), "list_feeds", None)
            config = self._configs.get(name)
            path = self._document.path if config is None else f"{config.path}.args"
            if config is not None and self._mentions(re.escape(path)):
                continue
            read = () if list_feeds is None else list_feeds()
            is_optional = getattr(self._plugins.get(name), "FEEDS_OPTIONAL", False)
            if list_feeds is not None and not read and not is_optional:
                self._report(path, f"{name} reads no feed: name one in its args")
            for feed in read:
                if feed not in known:
                    near = nearest(feed, known)
                    hint = f"; did you mean {near}?" if near else f"; feeds has {', '.join(known) or 'none'}"
                    self._report(path, f"{name}: no feed named {feed} exists{hint}")

    def _build_profile(self, plugins: Mapping[str, Sequence[PluginRef]]) -> Profile:
        document, settings = self._document, self._settings
        is_extended = document.base in WEIGHTED_BASES
        names = dict.fromkeys(ref.name for refs in plugins.values() for ref in refs)
        ranking: Any = document.ranking or (extended_profile.RANKING if is_extended else "lexicographic")
        tie_break: Any = document.tie_break or (extended_profile.TIE_BREAK if is_extended else "nameDescending")
        changes = {name: value for name, value in settings.profile_changes().items() if name != "args"}
        return Profile(
            scheduler_name=document.scheduler_name,
            plugins=plugins,
            plugin_config=tuple((name, raw) for name in self._list_configured(names) if (raw := self._args_of(name))),
            ranking=ranking,
            tie_break=tie_break,
            limits=StatusLimits(**settings.published_limits()),
            percentage_of_clusters=self._choose_percentage(plugins),
            backoff_on_rejection=is_extended or bool(settings.extenders)
            if document.backoff_on_rejection is None
            else document.backoff_on_rejection,
            reserve_fallback=bool(document.reserve_fallback),
            partial_permit=bool(document.partial_permit),
            extenders=_list_extenders(settings),
            packages={name: self._packages[name] for name in names if name in self._packages},
            has_secrets=any(config.args != redact_all(config.written) for config in document.plugin_config),
            **changes,
        )

    def _list_configured(self, names: Iterable[str]) -> Iterator[str]:
        """In the order of the settings, then of the document, so that equal profiles have equal hashes."""
        used = set(names)
        yield from (name for name in dict.fromkeys((*self._defaults, *self._configs)) if name in used)

    def _choose_percentage(self, plugins: Mapping[str, Sequence[PluginRef]]) -> int:
        given = self._document.percentage_of_clusters
        if given is None:
            given = self._settings.evaluation.percentage_of_clusters_to_score
        if given is not None:
            return given
        judged = {hook: [self._plugins[ref.name] for ref in plugins.get(hook, ())] for hook in ("filter", "score")}
        has_scalar = any(is_scalar(plugin, hook) for hook, each in judged.items() for plugin in each)
        return _ADAPTIVE if has_scalar else 100

    def _check_rules(self, profile: Profile, base: BaseLists) -> None:
        """At the hooks whose lists are what the document means."""
        if self._is_reported("base") or self._mentions(rf"{re.escape(self._document.path)}(\.plugins)?\.\w+: unknown"):
            return
        for hook, problem in find_broken_rules(bind_hooks(profile, self._plugins)):
            if not any(self._is_uncertain(name, base) for name in (hook, MULTI_POINT)):
                self._report(self._document.path, problem)

    def _is_uncertain(self, hook: str, base: BaseLists) -> bool:
        """Whether its list has a problem, or a plugin that cannot be built."""
        choices = base.multi_point if hook == MULTI_POINT else base.by_hook.get(hook, ())
        listed = [*choices, *self._document.plugins.get(hook, PluginSet()).enabled]
        return self._is_reported("plugins", hook) or any(each.name not in self._plugins for each in listed)

    def _dry_build(self, profile: Profile) -> None:
        try:
            compile_profile(self._registry, profile, OfflineHandle(watches=NoWatches()))
        except ConfigurationError as error:
            self._report(self._document.path, str(error))

    def _report(self, path: str, text: str) -> None:
        self._problems.append(_locate(self._document.find_origin(path), f"{path}: {text}"))


def _find_conflicts(
    profiles: Sequence[Profile], documents: Sequence[ProfileDocument], problems: Sequence[str]
) -> Iterator[str]:
    """Between profiles whose order of the queue is known."""
    if any("queueSort" in problem or ".base: " in problem for problem in problems):
        return
    try:
        require_one_queue_sort(profiles)
    except ConfigurationError as error:
        at = documents[-1]
        yield _locate(at.find_origin(f"{at.path}.plugins.queueSort"), f"profiles: {error}")


def _locate(origin: str, text: str) -> str:
    return f"{origin}: {text}" if origin else text


def _locate_argument(path: str, text: str, *, is_known: bool) -> tuple[str, str]:
    """The path of an argument and the problem, from `QuarantineArgs.regions: unknown field` and the like."""
    if not is_known:
        return path, text
    kind, _, problem = text.partition(": ")
    at = _AT_PATH.search(problem)
    if at is not None:
        return f"{path}.{at[1]}".rstrip("."), _AT_PATH.sub("", problem)
    if re.fullmatch(r"\w+(\.\w+|\[\d+\])+", kind):
        return f"{path}.{kind.partition('.')[2]}", problem
    return path, problem if re.fullmatch(r"\w+Args", kind) else text
