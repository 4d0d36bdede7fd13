"""Documents of kube-scheduler, as documents of Fleet: every field is honoured, translated, ignored or refused.

The translation works on YAML nodes and keeps their marks, so that later problems name lines of the original file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

import yaml

from fleet.settings.document.kubescheduler_extenders import convert_extenders
from fleet.settings.document.kubescheduler_lifting import Lifted, find_lifted
from fleet.settings.document.kubescheduler_nodes import (
    Pairs,
    build_mapping,
    build_scalar,
    build_sequence,
    build_texts,
    find_or_add,
    find_text,
    get_hook,
    list_leaves,
    merge_items,
)
from fleet.settings.document.kubescheduler_plugins import (
    COUNTERPARTS,
    FITS_LEAST,
    FITS_MOST,
    MOST,
    NEEDS_NO_PLUGIN,
    WITHOUT_COUNTERPART,
    Counterpart,
    find_argument,
    find_native,
)
from fleet.settings.document.model import API_VERSION, HOOKS, KIND, MULTI_POINT
from fleet.settings.document.substitution import NO_SOURCES, NamedSources

GROUP: Final = "kubescheduler.config.k8s.io"
FOREIGN_KIND: Final = "KubeSchedulerConfiguration"
SUBSTITUTION: Final = "substitution"
VERSIONS: Final = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3", "v1")
_OLD_VERSIONS: Final = ("v1alpha1", "v1alpha2", "v1beta1")
Treatment = Literal["honoured", "translated", "ignored", "refused"]

_NULL: Final = "tag:yaml.org,2002:null"
_PATHS: Final = {
    "parallelism": "evaluation.parallelism",
    "percentageOfNodesToScore": "evaluation.percentageOfClustersToScore",
    "podInitialBackoffSeconds": "queue.initialBackoffSeconds",
    "podMaxBackoffSeconds": "queue.maxBackoffSeconds",
    "clientConnection.qps": "api.budget.bind.qps",
    "clientConnection.burst": "api.budget.bind.burst",
    "leaderElection.leaderElect": "leaderElection.leaderElect",
    "leaderElection.leaseDuration": "leaderElection.leaseDuration",
    "leaderElection.renewDeadline": "leaderElection.renewDeadline",
    "leaderElection.retryPeriod": "leaderElection.retryPeriod",
    "leaderElection.resourceName": "leaderElection.resourceName",
    "leaderElection.resourceNamespace": "leaderElection.resourceNamespace",
    "healthzBindAddress": "health.address",
    "metricsBindAddress": "metrics.address",
    "enableProfiling": "debug.enabled",
}
_UNUSED: Final = {
    "clientConnection.kubeconfig": "give it to the process with --kubeconfig",
    "clientConnection.acceptContentTypes": "Fleet chooses the encoding",
    "clientConnection.contentType": "Fleet chooses the encoding",
    "enableContentionProfiling": "there is no such profile of a Python process",
    "delayCacheUntilActive": "a standby always keeps its caches",
}
_REFUSED: Final = {
    "algorithmSource": "policies of v1alpha1 are not read: list the plugins in profiles",
    "hardPodAffinitySymmetricWeight": "required terms of placements rank no others",
    "disablePreemption": "only profiles that name DefaultPreemption evict anything",
    "bindTimeoutSeconds": "bindings have no time-out of their own",
}


@dataclass(frozen=True, slots=True)
class Conversion:
    """What became of one field."""

    path: str
    treatment: Treatment
    note: str = ""
    line: int = 0
    native: str = ""
    """Where it is in the converted document."""


@dataclass(slots=True)
class ConvertedDocument:
    root: yaml.MappingNode
    fields: list[Conversion] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def is_foreign(root: yaml.Node | None) -> bool:
    return isinstance(root, yaml.MappingNode) and any(
        key.value == "apiVersion" and str(value.value).partition("/")[0] == GROUP for key, value in root.value
    )


def convert_document(root: yaml.MappingNode, sources: NamedSources = NO_SOURCES) -> ConvertedDocument:
    converted = _Converter(root).convert()
    add_sources(converted.root, sources)
    return converted


def names_sources(root: yaml.MappingNode) -> bool:
    return any(key.value == SUBSTITUTION for key, _ in root.value)


def add_sources(root: yaml.MappingNode, sources: NamedSources) -> None:
    """To a native document that names none."""
    named = [("fromEnv", sources.variables), ("fromSecret", sources.secrets)]
    lists: Pairs = [(build_scalar(root, kind), build_texts(root, names)) for kind, names in named if names]
    if lists:
        root.value.append((build_scalar(root, SUBSTITUTION), build_mapping(root, lists)))


class _Converter:
    def __init__(self, root: yaml.MappingNode) -> None:
        self._root = root
        self._version = find_text(root, "apiVersion").partition("/")[2]
        self._sections: dict[str, yaml.MappingNode] = {}
        self._result = ConvertedDocument(build_mapping(root, []))
        self._profile: yaml.MappingNode | None = None
        self._lifted = Lifted()
        """Of the profile."""
        self._fits_most: yaml.Node | None = None
        """Where the profile enables the plugin that stands for a strategy."""

    def convert(self) -> ConvertedDocument:
        self._set("apiVersion", build_scalar(self._root, API_VERSION))
        self._set("kind", build_scalar(self._root, KIND))
        for key, value in self._root.value:
            self._convert_top(str(key.value), key, value)
        if self._profile is not None:
            self._finish_profile(self._profile)
        return self._result

    def _convert_top(self, name: str, key: yaml.Node, value: yaml.Node) -> None:
        match name:
            case "apiVersion":
                self._convert_version(key)
            case "kind":
                is_known = value.value == FOREIGN_KIND
                note = KIND if is_known else f"{value.value} is not {FOREIGN_KIND}"
                self._note(key, name, "translated" if is_known else "refused", note)
            case "profiles":
                self._convert_profiles(key, value)
            case "plugins" | "pluginConfig":
                self._convert_single(name, key, value)
            case "clientConnection" | "leaderElection":
                for inner, node in self._fields(name, key, value):
                    self._convert_setting(f"{name}.{inner.value}", inner, node)
            case "extenders" if not value.value:
                self._note(key, name, "ignored", "the list is empty")
            case "extenders":
                self._set(name, convert_extenders(value, self._note))
            case _:
                self._convert_setting(name, key, value)

    def _convert_version(self, key: yaml.Node) -> None:
        version = self._version
        if version not in VERSIONS:
            self._note(key, "apiVersion", "refused", f"there is no version {version}; use {GROUP}/v1")
            return
        self._note(key, "apiVersion", "translated", API_VERSION)
        if version != "v1":
            self._result.warnings.append(f"version {version} is no longer served; convert the document")

    def _convert_setting(self, path: str, key: yaml.Node, value: yaml.Node) -> None:
        if path == "leaderElection.resourceLock":
            is_lease = value.value == "leases"
            self._note(key, path, "honoured" if is_lease else "refused", "" if is_lease else "only leases are held")
        elif path in _PATHS:
            native = _PATHS[path]
            self._set(native, value)
            is_same = native == path
            self._note(key, path, "honoured" if is_same else "translated", "" if is_same else native, native=native)
        elif path in _UNUSED:
            self._note(key, path, "ignored", _UNUSED[path])
        else:
            self._note(key, path, "refused", _REFUSED.get(path) or "there is no such field")

    # --- profiles -----------------------------------------------------------------------------------------------------

    def _convert_single(self, name: str, key: yaml.Node, value: yaml.Node) -> None:
        """Plugins at the top, as in v1alpha1: those of the one profile."""
        if self._profile is None:
            self._profile = build_mapping(key, [(build_scalar(key, "base"), build_scalar(key, "ExtendedProfile"))])
            self._set("profiles", build_sequence(key, [self._profile]))
        self._convert_profile_field(self._profile, name, name, key, value)

    def _convert_profiles(self, key: yaml.Node, value: yaml.Node) -> None:
        profiles: list[yaml.Node] = []
        for position, item in enumerate(self._items("profiles", key, value)):
            profile = build_mapping(item, [(build_scalar(item, "base"), build_scalar(item, "ExtendedProfile"))])
            profiles.append(profile)
            for inner, node in self._fields(f"profiles[{position}]", item, item):
                self._convert_profile_field(
                    profile, str(inner.value), f"profiles[{position}].{inner.value}", inner, node
                )
            self._finish_profile(profile)
        self._set("profiles", build_sequence(key, profiles))

    def _convert_profile_field(
        self, profile: yaml.MappingNode, name: str, path: str, key: yaml.Node, value: yaml.Node
    ) -> None:
        match name:
            case "schedulerName":
                profile.value.append((key, value))
                self._note(key, path, "honoured")
            case "percentageOfNodesToScore":
                profile.value.append((build_scalar(key, "percentageOfClustersToScore"), value))
                native = "percentageOfClustersToScore"
                self._note(key, path, "translated", native, native=path.replace(name, native))
            case "plugins":
                self._lifted = find_lifted(value)
                profile.value.append((key, build_mapping(value, list(self._convert_hooks(path, key, value)))))
            case "pluginConfig":
                items = merge_items(self._convert_args(path, key, value))
                profile.value.append((key, build_sequence(value, items)))
            case _:
                self._note(key, path, "refused", "there is no such field")

    def _finish_profile(self, profile: yaml.MappingNode) -> None:
        """With what follows from plugins whose counterparts are enabled or set in another way."""
        self._lifted.add_to(profile)
        if self._fits_most is not None:
            at = self._fits_most
            native = COUNTERPARTS[FITS_MOST].native
            strategy = build_mapping(at, [(build_scalar(at, "strategy"), build_scalar(at, MOST))])
            item = build_mapping(
                at, [(build_scalar(at, "name"), build_scalar(at, native)), (build_scalar(at, "args"), strategy)]
            )
            items = find_or_add(at, profile, "pluginConfig", build_sequence(at, []))
            items.value[:] = merge_items([*items.value, item])
        self._lifted, self._fits_most = Lifted(), None

    def _convert_hooks(self, path: str, at: yaml.Node, node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        for key, value in self._fields(path, at, node):
            hook, where = str(key.value), f"{path}.{key.value}"
            if hook not in (*HOOKS, MULTI_POINT):
                self._note(key, where, "refused", "there is no such hook")
                continue
            lists: Pairs = []
            for name, items in self._fields(where, key, value):
                if name.value not in ("enabled", "disabled"):
                    self._note(name, f"{where}.{name.value}", "refused", "there is no such field")
                    continue
                chosen = self._convert_entries(f"{where}.{name.value}", name, items)
                lists.append((name, build_sequence(items, list(chosen))))
            yield key, build_mapping(value, lists)

    def _convert_entries(self, path: str, at: yaml.Node, node: yaml.Node) -> Iterator[yaml.Node]:
        seen: set[str] = set()
        is_enabled = path.endswith(".enabled")
        for position, item in enumerate(self._items(path, at, node)):
            where, becomes = f"{path}[{position}]", f"{path}[{len(seen)}]"
            fields = {str(key.value): (key, value) for key, value in self._fields(where, item, item)}
            name = str(fields["name"][1].value) if "name" in fields else ""
            native = self._convert_name(where, item, name, is_enabled=is_enabled, becomes=becomes) if fields else None
            if is_enabled and name == FITS_MOST:
                self._fits_most = item
            weight = fields.get("weight")
            if weight is not None:
                is_kept = native is not None and native not in seen
                self._note_weight(f"{where}.weight", weight[0], name, is_kept=is_kept, becomes=f"{becomes}.weight")
            for other in fields.keys() - {"name", "weight"}:
                self._note(fields[other][0], f"{where}.{other}", "refused", "there is no such field")
            if native is None or native in seen:
                continue
            seen.add(native)
            parts: Pairs = [(build_scalar(item, "name"), build_scalar(item, native))]
            if weight is not None and is_enabled and name != "TaintToleration":
                parts.append(weight)
            yield build_mapping(item, parts)

    def _convert_name(
        self, where: str, item: yaml.Node, name: str, *, is_enabled: bool, becomes: str = ""
    ) -> str | None:
        if not name:
            self._note(item, f"{where}.name", "refused", "is missing")
            return None
        if name in NEEDS_NO_PLUGIN:
            self._note(item, f"{where}.name", "ignored", NEEDS_NO_PLUGIN[name])
            return None
        if name in WITHOUT_COUNTERPART:
            note = f"{name} has no counterpart"
            self._note(item, f"{where}.name", "ignored", note)
            if is_enabled:
                self._result.warnings.append(f"{where}.name: {note}: it is left out")
            return None
        if get_hook(where) and not is_enabled and name == FITS_LEAST and self._version not in _OLD_VERSIONS:
            note = f"{self._version} has no such plugin, and NodeResourcesFit scores all the same: disable that"
            self._note(item, f"{where}.name", "ignored", note)
            self._result.warnings.append(f"{where}.name: {name}: {note}")
            return None
        if name == "TaintToleration" and where.rpartition(".")[0].endswith(("preScore", "score")):
            self._note(item, f"{where}.name", "ignored", "taints of clusters have nothing to score")
            return None
        hook = get_hook(where)
        is_effective, note = self._lifted.judge(name, hook, is_enabled=is_enabled) if hook else (False, "")
        if note:
            self._note(item, f"{where}.name", "translated" if is_effective else "ignored", note)
            return None
        native = find_native(name, hook)
        is_same, becomes = native == name, f"{becomes or where}.name"
        note = "" if is_same else native
        self._note(item, f"{where}.name", "honoured" if is_same else "translated", note, native=becomes)
        return native

    def _note_weight(self, path: str, key: yaml.Node, name: str, *, is_kept: bool, becomes: str) -> None:
        if name == "TaintToleration":
            self._note(key, path, "ignored", "taints of clusters have nothing to score")
        else:
            note = "" if is_kept else "its plugin is left out"
            self._note(key, path, "honoured" if is_kept else "ignored", note, native=becomes)

    def _convert_args(self, path: str, at: yaml.Node, node: yaml.Node) -> Iterator[yaml.Node | None]:
        for position, item in enumerate(self._items(path, at, node)):
            where = f"{path}[{position}]"
            fields = {str(key.value): (key, value) for key, value in self._fields(where, item, item)}
            if not fields:
                continue
            name = str(fields["name"][1].value) if "name" in fields else ""
            native = self._convert_name(where, item, name, is_enabled=False)
            counterpart = COUNTERPARTS.get(name)
            own = list(self._list_arguments(f"{where}.args", *fields["args"])) if "args" in fields else []
            if native is not None and counterpart is not None:
                yield self._translate_args(f"{where}.args.", item, counterpart, own)
                continue
            is_kept = native is not None
            for leaf, value in own:
                if leaf.endswith((".apiVersion", ".kind")):
                    self._note(value, leaf, "ignored", "arguments have no version here")
                elif leaf.endswith(".token") and not str(value.value).startswith("${"):
                    self._note(value, leaf, "refused", "a token has to come from a variable: write ${NAME}")
                elif is_kept:
                    self._note(value, leaf, "honoured")
                else:
                    self._note(value, leaf, "ignored", f"{native or name} takes no such arguments")
            if is_kept:
                args = (
                    [pair for pair in fields["args"][1].value if pair[0].value not in ("apiVersion", "kind")]
                    if own
                    else []
                )
                yield build_mapping(
                    item,
                    [
                        (build_scalar(item, "name"), build_scalar(item, native or "")),
                        (build_scalar(item, "args"), build_mapping(item, args)),
                    ],
                )

    def _translate_args(
        self, prefix: str, item: yaml.Node, counterpart: Counterpart, given: list[tuple[str, yaml.Node]]
    ) -> yaml.Node | None:
        args: dict[str, yaml.Node] = {}
        for leaf, value in given:
            argument, path = find_argument(counterpart, leaf.removeprefix(prefix)), leaf.removeprefix(prefix)
            if path in ("apiVersion", "kind"):
                self._note(value, leaf, "ignored", "arguments have no version here")
            elif argument == "strategy" and value.value not in counterpart.strategies:
                note = f"{counterpart.native} has no strategy {value.value}"
                self._note(value, leaf, "ignored", note)
                self._result.warnings.append(f"{leaf}: {note}: it is left out")
            elif argument == "resources":
                args.setdefault(argument, build_sequence(value, [])).value.append(value)
                self._note(value, leaf, "translated", argument)
            elif argument:
                args[argument] = value
                self._note(value, leaf, "translated", argument)
            elif path.startswith(("resources", "scoringStrategy.resources")) and path.endswith(".weight"):
                self._note(value, leaf, "ignored", "all resources weigh the same")
            else:
                self._note(value, leaf, "ignored", f"{counterpart.native} takes no such arguments")
        if not args:
            return None
        pairs: Pairs = [(build_scalar(item, name), node) for name, node in args.items()]
        return build_mapping(
            item,
            [
                (build_scalar(item, "name"), build_scalar(item, counterpart.native)),
                (build_scalar(item, "args"), build_mapping(item, pairs)),
            ],
        )

    def _list_arguments(self, path: str, at: yaml.Node, node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
        for key, value in self._fields(path, at, node):
            yield from list_leaves(f"{path}.{key.value}", value)

    # --- building -----------------------------------------------------------------------------------------------------

    def _set(self, path: str, value: yaml.Node) -> None:
        *sections, name = path.split(".")
        inner, prefix = self._result.root, ""
        for section in sections:
            prefix = f"{prefix}.{section}" if prefix else section
            if prefix not in self._sections:
                self._sections[prefix] = build_mapping(value, [])
                inner.value.append((build_scalar(value, section), self._sections[prefix]))
            inner = self._sections[prefix]
        inner.value.append((build_scalar(value, name), value))

    # --- reading ------------------------------------------------------------------------------------------------------

    def _fields(self, path: str, at: yaml.Node, node: yaml.Node) -> Pairs:
        if isinstance(node, yaml.MappingNode) and node.value:
            return list(node.value)
        self._note_missing(path, at, node, is_right=isinstance(node, yaml.MappingNode), expected="a mapping")
        return []

    def _items(self, path: str, at: yaml.Node, node: yaml.Node) -> list[yaml.Node]:
        if isinstance(node, yaml.SequenceNode) and node.value:
            return list(node.value)
        self._note_missing(path, at, node, is_right=isinstance(node, yaml.SequenceNode), expected="a list")
        return []

    def _note_missing(self, path: str, at: yaml.Node, node: yaml.Node, *, is_right: bool, expected: str) -> None:
        if is_right or node.tag == _NULL:
            self._note(at, path, "ignored", "it is empty")
        else:
            self._note(at, path, "refused", f"should be {expected}")

    def _note(self, node: yaml.Node, path: str, treatment: Treatment, note: str = "", *, native: str = "") -> None:
        line = node.start_mark.line + 1
        self._result.fields.append(Conversion(path, treatment, note, line, native or path))
