"""Reading: the envelope and the profiles of a document, from YAML nodes, with the line of each value.

Strict: an unknown field, a repeated one, or one of another type is a problem, and all problems are reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from fleet.settings.document.extenders import ExtenderDocument, read_extenders
from fleet.settings.document.feeds import FeedDocument, read_feeds
from fleet.settings.document.load_providers import split_provider
from fleet.settings.document.model import (
    API_VERSION,
    BASES,
    DEFAULT_BASE,
    DEFAULT_NAME,
    HOOKS,
    KIND,
    LONGEST_PERMIT_WAIT,
    MULTI_POINT,
    RANKINGS,
    TIE_BREAKS,
    PluginArgs,
    PluginChoice,
    PluginSet,
    ProfileDocument,
)
from fleet.settings.document.nodes import NodeReader, Report, show_node
from fleet.settings.document.substitution import SecretValues, Substitution

ENVELOPE: Final = ("apiVersion", "kind")
PERMIT_WAIT: Final = "maxPermitWaitSeconds"
DOCUMENT_FIELDS: Final = (*ENVELOPE, "profiles", "extenders", "feeds", "substitution", PERMIT_WAIT)
"""The fields of a document that are no settings."""
_PROFILE_FIELDS: Final = (
    "schedulerName",
    "base",
    "ranking",
    "tieBreak",
    "percentageOfClustersToScore",
    "backoffOnRejection",
    "reserveFallback",
    "partialPermit",
    "plugins",
    "pluginConfig",
)
_LARGEST_WEIGHT: Final = 1_000_000
_LONGEST_NAME: Final = 63
_SECRET_NAME: Final = re.compile(r"([a-z0-9][a-z0-9-]{0,62}/)?[a-z0-9][a-z0-9.-]{0,252}")
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class DocumentParts:
    """The parts of a document that are no settings."""

    profiles: tuple[ProfileDocument, ...] = ()
    extenders: tuple[ExtenderDocument, ...] = ()
    feeds: tuple[FeedDocument, ...] = ()
    max_permit_wait_seconds: int | None = None
    substitution: Substitution = field(default_factory=Substitution)
    warnings: tuple[str, ...] = ()


def is_document(root: yaml.Node | None) -> bool:
    """A file without an envelope is a settings file."""
    return isinstance(root, yaml.MappingNode) and any(
        isinstance(key, yaml.ScalarNode) and key.value in (*ENVELOPE, "profiles") for key, _ in root.value
    )


def read_document(
    root: yaml.MappingNode,
    file: str,
    environ: Mapping[str, str],
    report: Report,
    *,
    secrets: SecretValues | None = None,
    substitution: Substitution | None = None,
) -> DocumentParts:
    """`secrets` is what the Secrets hold that the document names, if they were read; `substitution` counts where the
    document names none."""
    reader = _Reader(file, report)
    reader.substitution = substitution or Substitution(environ, secrets=secrets)
    fields = {name: node for name, _, node in reader.list_fields(root, "") if name in DOCUMENT_FIELDS}
    reader.check_envelope(root, fields)
    if "substitution" in fields:
        reader.substitution = reader.read_substitution(fields["substitution"], environ, secrets)
    profiles = reader.read_profiles(fields["profiles"]) if "profiles" in fields else ()
    extenders = read_extenders(reader, fields["extenders"]) if "extenders" in fields else ()
    feeds = read_feeds(reader, fields["feeds"]) if "feeds" in fields else ()
    wait = reader.read_permit_wait(fields[PERMIT_WAIT]) if PERMIT_WAIT in fields else None
    feeds = (*feeds, *reader.load_feeds)
    return DocumentParts(profiles, extenders, feeds, wait, reader.substitution, tuple(reader.warnings))


class _Reader(NodeReader):
    def __init__(self, file: str, report: Report) -> None:
        super().__init__(file, report)
        self.load_feeds: list[FeedDocument] = []
        """Of providers in the arguments of plugins."""

    # --- the envelope -------------------------------------------------------------------------------------------------

    def check_envelope(self, root: yaml.Node, fields: Mapping[str, yaml.Node]) -> None:
        for name, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
            node = fields.get(name)
            if node is None:
                self.report(root, name, f"is missing; write {name}: {expected}")
            elif not isinstance(node, yaml.ScalarNode) or node.value != expected:
                self.report(node, name, f"{show_node(node)} should be {expected}")

    def read_permit_wait(self, node: yaml.Node) -> int | None:
        seconds = self.read_number(node, PERMIT_WAIT, most=LONGEST_PERMIT_WAIT)
        if seconds == 0:
            self.report(node, PERMIT_WAIT, "0 should be 1 or more")
        return seconds

    def read_substitution(
        self, node: yaml.Node, environ: Mapping[str, str], secrets: SecretValues | None
    ) -> Substitution:
        sources: dict[str, list[str]] = {"fromEnv": [], "fromSecret": []}
        for name, _, value in self.list_fields(node, "substitution", known=tuple(sources)):
            for position, item in enumerate(self.list_items(value, f"substitution.{name}")):
                path = f"substitution.{name}[{position}]"
                text = self.read_string(item, path)
                if text and name == "fromSecret" and not _SECRET_NAME.fullmatch(text):
                    self.report(item, path, f"{text!r} should be the name of a Secret, or NAMESPACE/NAME")
                sources[name] += [text] if text else []
        return Substitution(environ, frozenset(sources["fromEnv"]), tuple(sources["fromSecret"]), secrets)

    # --- profiles -----------------------------------------------------------------------------------------------------

    def read_profiles(self, node: yaml.Node) -> tuple[ProfileDocument, ...]:
        items = list(self.list_items(node, "profiles"))
        profiles = tuple(
            self._read_profile(item, f"profiles[{position}]", is_only=len(items) == 1)
            for position, item in enumerate(items)
        )
        seen: dict[str, ProfileDocument] = {}
        for item, profile in zip(items, profiles, strict=True):
            name, other = profile.scheduler_name, seen.setdefault(profile.scheduler_name, profile)
            if name and other is not profile:
                self.report(item, f"{profile.path}.schedulerName", f"{name} is also the name of {other.path}")
        return profiles

    def _read_profile(self, node: yaml.Node, path: str, *, is_only: bool) -> ProfileDocument:
        self.origins = {path: self.origin(node)}
        fields = {name: value for name, _, value in self.list_fields(node, path, known=_PROFILE_FIELDS)}
        scheduler_name = self._read_scheduler_name(fields, node, path, is_only=is_only)
        profile = ProfileDocument(
            scheduler_name=scheduler_name,
            base=self.read_word(fields, "base", path, BASES) or DEFAULT_BASE,
            ranking=self.read_word(fields, "ranking", path, RANKINGS),
            tie_break=self.read_word(fields, "tieBreak", path, TIE_BREAKS),
            percentage_of_clusters=self._read_percentage(fields, path),
            backoff_on_rejection=self.read_flag(fields, "backoffOnRejection", path),
            reserve_fallback=self.read_flag(fields, "reserveFallback", path),
            partial_permit=self.read_flag(fields, "partialPermit", path),
            plugins=self._read_plugins(fields["plugins"], f"{path}.plugins") if "plugins" in fields else {},
            plugin_config=self._read_plugin_config(fields, path, scheduler_name),
            path=path,
            origins=self.origins,
        )
        self.origins = {}
        return profile

    def _read_scheduler_name(
        self, fields: Mapping[str, yaml.Node], node: yaml.Node, path: str, *, is_only: bool
    ) -> str:
        where = f"{path}.schedulerName"
        if "schedulerName" not in fields:
            if not is_only:
                self.report(node, where, "is missing: only a single profile may go without")
            return DEFAULT_NAME if is_only else ""
        name = self.read_string(fields["schedulerName"], where)
        if name and name != DEFAULT_NAME and not _LABEL.fullmatch(name):
            message = f"{name!r} should be a DNS label: lower-case letters, digits and dashes, at most {_LONGEST_NAME}"
            self.report(fields["schedulerName"], where, message)
        return name or ""

    def _read_percentage(self, fields: Mapping[str, yaml.Node], path: str) -> int | None:
        node = fields.get("percentageOfClustersToScore")
        if node is None:
            return None
        return self.read_number(node, f"{path}.percentageOfClustersToScore", most=100)

    # --- plugins ------------------------------------------------------------------------------------------------------

    def _read_plugins(self, node: yaml.Node, path: str) -> dict[str, PluginSet]:
        sets = {}
        for hook, _, value in self.list_fields(node, path, known=(*HOOKS, MULTI_POINT)):
            where = f"{path}.{hook}"
            lists: dict[str, tuple[PluginChoice, ...]] = {}
            for name, _, items in self.list_fields(value, where, known=("enabled", "disabled")):
                lists[name] = tuple(self._read_choices(items, f"{where}.{name}", may_weigh=name == "enabled"))
            sets[hook] = PluginSet(**lists)
        return sets

    def _read_choices(self, node: yaml.Node, path: str, *, may_weigh: bool) -> Iterator[PluginChoice]:
        seen: set[str] = set()
        for position, item in enumerate(self.list_items(node, path)):
            where = f"{path}[{position}]"
            known = ("name", "weight") if may_weigh else ("name",)
            fields = {name: value for name, _, value in self.list_fields(item, where, known=known)}
            name = self._read_name(fields, item, where, seen)
            if may_weigh and name == "*":
                self.report(item, f"{where}.name", "* may stand in disabled only")
            weight = fields.get("weight")
            number = None if weight is None else self.read_number(weight, f"{where}.weight", most=_LARGEST_WEIGHT)
            if number == 0:
                self.warnings.append(f"{self.origin(item)}: {where}.weight: 0 counts as 1; disable the plugin instead")
            if name:
                yield PluginChoice(name, number or 0, self.origin(item), where)

    def _read_plugin_config(
        self, fields: Mapping[str, yaml.Node], path: str, scheduler_name: str
    ) -> tuple[PluginArgs, ...]:
        if "pluginConfig" not in fields:
            return ()
        configs: list[PluginArgs] = []
        seen: set[str] = set()
        for position, item in enumerate(self.list_items(fields["pluginConfig"], f"{path}.pluginConfig")):
            where = f"{path}.pluginConfig[{position}]"
            inner = {name: value for name, _, value in self.list_fields(item, where, known=("name", "args"))}
            name = self._read_name(inner, item, where, seen)
            if "args" in inner:
                inner["args"], feed = split_provider(
                    self, inner["args"], f"{where}.args", plugin=name, scheduler_name=scheduler_name
                )
                self.load_feeds += [] if feed is None else [feed]
            written = self.read_mapping(inner["args"], f"{where}.args") if "args" in inner else {}
            if name:
                args = self.substitution.resolve_all(written)
                configs.append(PluginArgs(name, args, written, self.origin(item), where))
        return tuple(configs)

    def _read_name(self, fields: Mapping[str, yaml.Node], item: yaml.Node, where: str, seen: set[str]) -> str:
        name = self.read_string(fields["name"], f"{where}.name") if "name" in fields else None
        if "name" not in fields and isinstance(item, yaml.MappingNode):
            self.report(item, f"{where}.name", "is missing")
        if name and name in seen:
            self.report(item, f"{where}.name", f"{name} is listed twice")
            return ""
        seen.add(name or "")
        return name or ""
