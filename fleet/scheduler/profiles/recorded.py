"""Profiles of recorded attempts, built again from the document that the history keeps."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

import structlog

from fleet.errors import ConfigurationError
from fleet.framework.handle import NoWatches, OfflineHandle
from fleet.framework.profiles.discovery import list_installed, read_entries, register_installed
from fleet.framework.profiles.profile import CompiledProfile, compile_profile, parse_profile
from fleet.history import ReplayInputs
from fleet.scheduler.profiles.frameworks import CompiledProfiles
from plugins import in_tree_registry

_RECORDED: Final = "recorded"
_MAX_BUILT: Final = 32

log = structlog.get_logger(__name__)


def find_recorded_profile(current: CompiledProfiles, recorded: ReplayInputs) -> CompiledProfile:
    """The profile of a recorded attempt. Where it cannot be had, the default one stands in: its hash differs, and the
    comparison says so."""
    known = current.find_equal(recorded.attempt.config_hash)
    built = build_recorded(recorded.profile) if known is None and recorded.profile else None
    return known or built or current.default


@lru_cache(maxsize=_MAX_BUILT)
def build_recorded(document: bytes) -> CompiledProfile | None:
    """With the packages that are installed now: if their versions are others, so is the hash. None if they cannot
    build it."""
    try:
        profile = parse_profile(document, scheduler_name=_RECORDED)
        names = {ref.name for refs in profile.plugins.values() for ref in refs}
        registry = in_tree_registry()
        foreign = names - set(registry)
        entries = read_entries() if foreign else ()
        register_installed(registry, only=foreign, entries=entries)
        packages = {name: origin for name, origin in list_installed(entries).items() if name in foreign}
        return compile_profile(registry, replace(profile, packages=packages), OfflineHandle(watches=NoWatches()))
    except ConfigurationError as error:
        log.warning("a recorded profile cannot be built again", error=str(error))
        return None
