"""Reading: the envelope and the profiles of a document, from YAML nodes, with the line of each value.

Strict: an unknown field, a repeated one, or one of another type is a problem, and all problems are reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from fleet.settings.document.model import (
    API_VERSION,
    BASES,
    DEFAULT_BASE,
    DEFAULT_NAME,
    HOOKS,
    KIND,
    MULTI_POINT,
    RANKINGS,
    TIE_BREAKS,
    PluginArgs,
    PluginChoice,
    PluginSet,
    ProfileDocument,
)
from fleet.settings.document.substitution import Substitution
from fleet.similarity import nearest

ENVELOPE: Final = ("apiVersion", "kind")
DOCUMENT_FIELDS: Final = (*ENVELOPE, "profiles", "extenders", "substitution", "maxPermitWaitSeconds", "debug")
"""The fields of a document that are no settings."""
_PROFILE_FIELDS: Final = (
    "schedulerName",
    "base",
    "ranking",
    "tieBreak",
    "percentageOfClustersToScore",
    "backoffOnRejection",
    "reserveFallback",
    "plugins",
    "pluginConfig",
)
_WITHOUT_EFFECT: Final = {"reserveFallback": "false"}
_LARGEST_WEIGHT: Final = 1_000_000
_LONGEST_NAME: Final = 63
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NULL: Final = "tag:yaml.org,2002:null"
_STRING: Final = "tag:yaml.org,2002:str"

Report = Callable[[str, str], None]
"""Called with the place and the problem."""


@dataclass(frozen=True, slots=True)
class DocumentParts:
    """The parts of a document that are no settings."""

    profiles: tuple[ProfileDocument, ...] = ()
    substitution: Substitution = field(default_factory=Substitution)


def is_document(root: yaml.Node | None) -> bool:
    """A file without an envelope is a settings file."""
    return isinstance(root, yaml.MappingNode) and any(
        isinstance(key, yaml.ScalarNode) and key.value in (*ENVELOPE, "profiles") for key, _ in root.value
    )


def read_document(root: yaml.MappingNode, file: str, environ: Mapping[str, str], report: Report) -> DocumentParts:
    reader = _Reader(file, report)
    fields = {name: node for name, _, node in reader.list_fields(root, "") if name in DOCUMENT_FIELDS}
    reader.check_envelope(root, fields)
    reader.check_unsupported(fields)
    if "substitution" in fields:
        reader.substitution = reader.read_substitution(fields["substitution"], environ)
    profiles = reader.read_profiles(fields["profiles"]) if "profiles" in fields else ()
    return DocumentParts(profiles, reader.substitution)


class _Reader:
    def __init__(self, file: str, report: Report) -> None:
        self._file, self._report_to = file, report
        self.substitution = Substitution()
        self._origins: dict[str, str] = {}

    # --- the envelope -------------------------------------------------------------------------------------------------

    def check_envelope(self, root: yaml.Node, fields: Mapping[str, yaml.Node]) -> None:
        for name, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
            node = fields.get(name)
            if node is None:
                self._report(root, name, f"is missing; write {name}: {expected}")
            elif not isinstance(node, yaml.ScalarNode) or node.value != expected:
                self._report(node, name, f"{_show(node)} should be {expected}")

    def check_unsupported(self, fields: Mapping[str, yaml.Node]) -> None:
        """Parts that nothing reads yet are accepted only where they change nothing."""
        if "extenders" in fields and getattr(fields["extenders"], "value", None):
            self._report(fields["extenders"], "extenders", "are not supported: leave the list out")
        if "maxPermitWaitSeconds" in fields and _show(fields["maxPermitWaitSeconds"]) != "900":
            node = fields["maxPermitWaitSeconds"]
            self._report(node, "maxPermitWaitSeconds", f"{_show(node)} would have no effect; only 900 is accepted")
        if "debug" in fields:
            for name, _, node in self.list_fields(fields["debug"], "debug", known=("enabled",)):
                if _show(node) != "false":
                    self._report(node, f"debug.{name}", f"{_show(node)} would have no effect; only false is accepted")

    def read_substitution(self, node: yaml.Node, environ: Mapping[str, str]) -> Substitution:
        allowed: list[str] = []
        for name, _, value in self.list_fields(node, "substitution", known=("fromEnv", "fromSecret")):
            path = f"substitution.{name}"
            if name == "fromSecret":
                message = "is not supported: give the Secret to the process as variables, and name them in fromEnv"
                self._report(value, path, message)
                continue
            for position, item in enumerate(self._list_items(value, path)):
                text = self._read_string(item, f"{path}[{position}]")
                allowed += [text] if text else []
        return Substitution(environ, frozenset(allowed))

    # --- profiles -----------------------------------------------------------------------------------------------------

    def read_profiles(self, node: yaml.Node) -> tuple[ProfileDocument, ...]:
        items = list(self._list_items(node, "profiles"))
        profiles = tuple(
            self._read_profile(item, f"profiles[{position}]", is_only=len(items) == 1)
            for position, item in enumerate(items)
        )
        seen: dict[str, ProfileDocument] = {}
        for item, profile in zip(items, profiles, strict=True):
            name, other = profile.scheduler_name, seen.setdefault(profile.scheduler_name, profile)
            if name and other is not profile:
                self._report(item, f"{profile.path}.schedulerName", f"{name} is also the name of {other.path}")
        return profiles

    def _read_profile(self, node: yaml.Node, path: str, *, is_only: bool) -> ProfileDocument:
        self._origins = {path: self._origin(node)}
        fields = {name: value for name, _, value in self.list_fields(node, path, known=_PROFILE_FIELDS)}
        for name, accepted in _WITHOUT_EFFECT.items():
            if name in fields and _show(fields[name]) != accepted:
                message = f"{_show(fields[name])} would have no effect yet; only {accepted} is accepted"
                self._report(fields[name], f"{path}.{name}", message)
        profile = ProfileDocument(
            scheduler_name=self._read_scheduler_name(fields, node, path, is_only=is_only),
            base=self._read_word(fields, "base", path, BASES) or DEFAULT_BASE,
            ranking=self._read_word(fields, "ranking", path, RANKINGS),
            tie_break=self._read_word(fields, "tieBreak", path, TIE_BREAKS),
            percentage_of_clusters=self._read_percentage(fields, path),
            backoff_on_rejection=self._read_flag(fields, "backoffOnRejection", path),
            plugins=self._read_plugins(fields["plugins"], f"{path}.plugins") if "plugins" in fields else {},
            plugin_config=self._read_plugin_config(fields, path),
            path=path,
            origins=self._origins,
        )
        self._origins = {}
        return profile

    def _read_scheduler_name(
        self, fields: Mapping[str, yaml.Node], node: yaml.Node, path: str, *, is_only: bool
    ) -> str:
        where = f"{path}.schedulerName"
        if "schedulerName" not in fields:
            if not is_only:
                self._report(node, where, "is missing: only a single profile may go without")
            return DEFAULT_NAME if is_only else ""
        name = self._read_string(fields["schedulerName"], where)
        if name and name != DEFAULT_NAME and not _LABEL.fullmatch(name):
            message = f"{name!r} should be a DNS label: lower-case letters, digits and dashes, at most {_LONGEST_NAME}"
            self._report(fields["schedulerName"], where, message)
        return name or ""

    def _read_word(self, fields: Mapping[str, yaml.Node], name: str, path: str, words: Collection[str]) -> str | None:
        if name not in fields:
            return None
        text = self._read_string(fields[name], f"{path}.{name}")
        if text and text not in words:
            self._report(fields[name], f"{path}.{name}", f"{text!r} should be one of {', '.join(words)}")
            return None
        return text or None

    def _read_flag(self, fields: Mapping[str, yaml.Node], name: str, path: str) -> bool | None:
        if name not in fields:
            return None
        text = _show(fields[name])
        if text not in ("true", "false"):
            self._report(fields[name], f"{path}.{name}", f"{text} should be true or false")
        return text == "true"

    def _read_percentage(self, fields: Mapping[str, yaml.Node], path: str) -> int | None:
        node = fields.get("percentageOfClustersToScore")
        if node is None:
            return None
        return self._read_number(node, f"{path}.percentageOfClustersToScore", most=100)

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
        for position, item in enumerate(self._list_items(node, path)):
            where = f"{path}[{position}]"
            known = ("name", "weight") if may_weigh else ("name",)
            fields = {name: value for name, _, value in self.list_fields(item, where, known=known)}
            name = self._read_name(fields, item, where, seen)
            if may_weigh and name == "*":
                self._report(item, f"{where}.name", "* may stand in disabled only")
            weight = fields.get("weight")
            number = None if weight is None else self._read_number(weight, f"{where}.weight", most=_LARGEST_WEIGHT)
            if name:
                yield PluginChoice(name, number or 0, self._origin(item), where)

    def _read_plugin_config(self, fields: Mapping[str, yaml.Node], path: str) -> tuple[PluginArgs, ...]:
        if "pluginConfig" not in fields:
            return ()
        configs: list[PluginArgs] = []
        seen: set[str] = set()
        for position, item in enumerate(self._list_items(fields["pluginConfig"], f"{path}.pluginConfig")):
            where = f"{path}.pluginConfig[{position}]"
            inner = {name: value for name, _, value in self.list_fields(item, where, known=("name", "args"))}
            name = self._read_name(inner, item, where, seen)
            written = self._read_mapping(inner["args"], f"{where}.args") if "args" in inner else {}
            if name:
                args = self.substitution.resolve_all(written)
                configs.append(PluginArgs(name, args, written, self._origin(item), where))
        return tuple(configs)

    def _read_name(self, fields: Mapping[str, yaml.Node], item: yaml.Node, where: str, seen: set[str]) -> str:
        name = self._read_string(fields["name"], f"{where}.name") if "name" in fields else None
        if "name" not in fields and isinstance(item, yaml.MappingNode):
            self._report(item, f"{where}.name", "is missing")
        if name and name in seen:
            self._report(item, f"{where}.name", f"{name} is listed twice")
            return ""
        seen.add(name or "")
        return name or ""

    # --- values -------------------------------------------------------------------------------------------------------

    def list_fields(
        self, node: yaml.Node, path: str, *, known: Collection[str] | None = None
    ) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        """Name, key and value. Values that are null are left out, as if all their lines were commented out."""
        if not isinstance(node, yaml.MappingNode):
            if node.tag != _NULL:
                self._report(node, path, "should be a mapping, one field per line as name: value")
            return
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._report(key, path, "a name should be a plain word")
                continue
            name, where = key.value, f"{path}.{key.value}" if path else key.value
            if name in seen:
                if path:  # at the top, the settings are read in the same way and report it
                    self._report(key, where, f"is given twice; the other one is in line {seen[name]}")
                continue
            seen[name] = key.start_mark.line + 1
            if known is not None and name not in known:
                near = nearest(name, known)
                self._report(key, where, f"unknown field{f'; did you mean {near}?' if near else ''}")
                continue
            self._origins[where] = self._origin(key)
            if value.tag != _NULL:
                yield name, key, value

    def _list_items(self, node: yaml.Node, path: str) -> Iterator[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                self._origins[f"{path}[{position}]"] = self._origin(item)
                yield item
        elif node.tag != _NULL:
            self._report(node, path, "should be a list, one entry per line as - entry")

    def _read_string(self, node: yaml.Node, path: str) -> str | None:
        if not isinstance(node, yaml.ScalarNode) or node.tag != _STRING:
            self._report(node, path, f"{_show(node)} should be a text")
            return None
        if not node.value:
            self._report(node, path, "is empty")
            return None
        text, problems = self.substitution.resolve(node.value)
        for problem in problems:
            self._report(node, path, problem)
        return None if problems else text

    def _read_number(self, node: yaml.Node, path: str, *, most: int) -> int | None:
        text = node.value if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":int") else ""
        if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) > most:
            self._report(node, path, f"{_show(node)} should be a whole number of 0 to {most}")
            return None
        return int(text)

    def _read_mapping(self, node: yaml.Node, path: str) -> dict[str, Any]:
        return {name: self._read_any(value, f"{path}.{name}") for name, _, value in self.list_fields(node, path)}

    def _read_any(self, node: yaml.Node, path: str) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._read_any(item, f"{path}[{at}]") for at, item in enumerate(self._list_items(node, path))]
        assert isinstance(node, yaml.ScalarNode)
        if node.tag == _STRING:
            for problem in self.substitution.resolve(node.value)[1]:
                self._report(node, path, problem)
            return node.value
        return _construct(node)

    def _report(self, node: yaml.Node, path: str, message: str) -> None:
        self._report_to(self._origin(node), f"{path}: {message}" if path else message)

    def _origin(self, node: yaml.Node) -> str:
        return f"{self._file}:{node.start_mark.line + 1}"


def _construct(node: yaml.ScalarNode) -> Any:
    """Numbers, booleans and dates, as YAML reads them; dates stay text."""
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_object(node)
    except (ValueError, yaml.YAMLError):
        return node.value
    finally:
        loader.dispose()
    return value if isinstance(value, bool | int | float | None) else node.value


def _show(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value) if node.style in ("'", '"') else str(node.value)
    return "a mapping" if isinstance(node, yaml.MappingNode) else "a list"
