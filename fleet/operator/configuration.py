"""Review of a configuration document, as the scheduler itself would read it. Nothing is started."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import yaml

from fleet.errors import ConfigurationError
from fleet.scheduler.profiles.configuration import build_profiles, find_more_problems
from fleet.settings import load_settings
from fleet.settings.document.kubescheduler import SUBSTITUTION, add_sources, convert_document, is_foreign, names_sources
from fleet.settings.document.model import DEFAULT_NAME
from fleet.settings.document.substitution import NO_SOURCES, NamedSources

KEY: Final = "config.yaml"
"""Of the ConfigMap, and the name of the file."""
VALID: Final = "Valid"
MISSING: Final = "Missing"
PARSE_ERROR: Final = "ParseError"
UNKNOWN_PLUGIN: Final = "UnknownPlugin"
BAD_ARGS: Final = "BadArgs"
BUILD_ERROR: Final = "BuildError"

_ABOUT_SOURCES: Final = re.compile(rf"^.*?:\d+: (?={SUBSTITUTION}\b)", re.MULTILINE)
"""The place of a problem with sources that the document does not name."""
_ABOUT_ARGS: Final = re.compile(r"^[^ ]+: profiles\[\d+\]\.pluginConfig\[\d+\]\.args\b(?!.* has no source)")
_LEASE_TERMS: Final = {"leaseDuration": "137s", "renewDeadline": "107s", "retryPeriod": "26s"}
"""Of documents that set none of them."""


@dataclass(frozen=True, slots=True)
class ConfigReview:
    """`document` is empty unless it is valid."""

    reason: str
    message: str = ""
    document: str = ""
    lease_terms: tuple[tuple[str, str], ...] = ()
    elects: bool = True
    """Whether a process decides only while it holds the lease."""

    @property
    def is_valid(self) -> bool:
        return self.reason == VALID

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.document.encode()).hexdigest()


class _UnknownVariables(Mapping[str, str]):
    """Of the scheduler's process: whichever the document names exists there, and references stay as written."""

    def __getitem__(self, name: str) -> str:
        return f"${{{name}}}"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def read_sources(substitution: Mapping[str, Sequence[str]]) -> NamedSources:
    """`spec.substitution`."""
    return NamedSources(tuple(substitution.get("fromEnv") or ()), tuple(substitution.get("fromSecret") or ()))


def review_config(document: str, sources: NamedSources = NO_SOURCES) -> ConfigReview:
    """Of the document as it is written; `sources` are those of one that names none. If it is valid, the document of the
    review is the native one that names them."""
    with TemporaryDirectory() as folder:
        file = Path(folder, KEY)
        file.write_text(document, encoding="utf-8")
        root = _compose(document)
        if root is None or names_sources(root):
            sources = NO_SOURCES
        review = _review_file(file, document, sources)
        if not review.is_valid:
            message = review.message.replace(f"{folder}/", "")
            return ConfigReview(review.reason, _ABOUT_SOURCES.sub("spec.", message) if any(sources) else message)
        return replace(review, document=_name_sources(root, sources)) if root and any(sources) else review


def _compose(document: str) -> yaml.MappingNode | None:
    """None for what cannot be read, which is reported."""
    try:
        root = yaml.compose(document, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    return root if isinstance(root, yaml.MappingNode) else None


def _name_sources(root: yaml.MappingNode, sources: NamedSources) -> str:
    if is_foreign(root):
        root = convert_document(root, sources).root
    else:
        add_sources(root, sources)
    text: str = yaml.serialize(root, Dumper=yaml.SafeDumper)
    return text


def _review_file(file: Path, document: str, sources: NamedSources) -> ConfigReview:
    try:
        effective = load_settings(
            file, _UnknownVariables(), (), find_more=find_more_problems, sources=sources, are_for_native=True
        )
    except ConfigurationError as error:
        return ConfigReview(_find_reason(str(error), PARSE_ERROR), str(error))
    names = [profile.scheduler_name for profile in effective.settings.profiles]
    if not names or DEFAULT_NAME in names:
        return ConfigReview(
            BUILD_ERROR,
            f"profiles: placements of {DEFAULT_NAME} belong to the first scheduler; give each profile a schedulerName "
            "of its own",
        )
    try:
        build_profiles(effective.settings)
    except ConfigurationError as error:
        return ConfigReview(_find_reason(str(error), BUILD_ERROR), str(error))
    is_default = all(effective.origins[f"leaderElection.{name}"] == "default" for name in _LEASE_TERMS)
    return ConfigReview(
        VALID,
        document=document,
        lease_terms=tuple(_LEASE_TERMS.items()) if is_default else (),
        elects=effective.settings.leader_election.leader_elect,
    )


def _find_reason(problems: str, otherwise: str) -> str:
    if all(map(_ABOUT_ARGS.match, problems.splitlines())):
        return BAD_ARGS
    return UNKNOWN_PLUGIN if "no plugin named" in problems else otherwise
