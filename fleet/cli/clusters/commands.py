"""`fleet cordon`, `uncordon` and `drain`: the impact first, then the question, then the writes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.cli.client.connection import ConnectionOptions
from fleet.cli.client.hub_access import HubOptions, connect_to_hub, describe_missing
from fleet.cli.clusters.cordon import CORDON, is_cordoned, read_cluster, set_cordon
from fleet.cli.clusters.evictions import ClusterContent, EvictionResult, evict_all, load_content
from fleet.cli.clusters.impact import confirm, print_impact
from fleet.kube.api import Api

SUCCESS: Final = 0
INCOMPLETE: Final = 1
_PATIENCE: Final = 10.0
"""Seconds without any result after which the reader is reminded of who executes evictions."""
_HINT: Final = "note: KubeFleet's hub agent executes evictions; nothing happens while it does not run\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceOptions:
    """The options of the command line."""

    cluster: str
    yes: bool = False
    dry_run: bool = False
    timeout: float = 300.0
    """Seconds."""
    shows_impact: bool = True
    hub: HubOptions = field(default_factory=HubOptions)
    api: ConnectionOptions = field(default_factory=ConnectionOptions)


def run_cordon(change: MaintenanceOptions, *, cordoned: bool) -> int:
    return asyncio.run(_cordon(change, cordoned=cordoned))


def run_drain(change: MaintenanceOptions) -> int:
    """Returns 1 if something remains on the cluster."""
    try:
        return asyncio.run(_drain(change))
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted: run it again to go on; `fleet uncordon {change.cluster}` lets work back\n")
        raise


async def _cordon(change: MaintenanceOptions, *, cordoned: bool) -> int:
    verb = "cordon" if cordoned else "uncordon"
    async with connect_to_hub(change.hub) as api:
        with describe_missing("clusters"):
            cluster = await read_cluster(api, change.cluster)
        if is_cordoned(cluster) is cordoned:
            sys.stdout.write(f"{change.cluster} is {'already' if cordoned else 'not'} cordoned\n")
            return SUCCESS
        if change.shows_impact:
            edit = {"op": "addTaint" if cordoned else "removeTaint", "cluster": change.cluster, **CORDON}
            await asyncio.to_thread(print_impact, change.api, [edit])
        if change.dry_run:
            sys.stdout.write(f"{change.cluster} would be {verb}ed\n")
            return SUCCESS
        if not confirm(f"{verb.capitalize()} {change.cluster}?", yes=change.yes):
            sys.stderr.write("nothing was changed\n")
            return INCOMPLETE
        await set_cordon(api, change.cluster, cordoned=cordoned)
    sys.stdout.write(f"{change.cluster} {verb}ed\n")
    return SUCCESS


async def _drain(change: MaintenanceOptions) -> int:
    name = change.cluster
    async with connect_to_hub(change.hub) as api:
        with describe_missing("clusters"):
            await read_cluster(api, name)
        content = await load_content(api, name)
        _describe(content, name)
        if change.shows_impact and content.evictable:
            await asyncio.to_thread(print_impact, change.api, _build_edits(name, content))
        if change.dry_run:
            sys.stdout.write(f"{name} would be cordoned, and {_count(content.evictable)} evicted\n")
            return SUCCESS
        if not confirm(f"Drain {name}?", yes=change.yes):
            sys.stderr.write("nothing was changed\n")
            return INCOMPLETE
        changed = await set_cordon(api, name, cordoned=True)
        _report(f"{name} cordoned" if changed else f"{name} is already cordoned")
        failed = await _evict(api, change, (await load_content(api, name)).evictable)
        left = (await load_content(api, name)).remaining
    for placement in left:
        _report(f"{placement} remains: it is not evictable; change or delete it")
    _report(f"{name} {'is not drained' if failed or left else 'drained'}; `fleet uncordon {name}` lets work back")
    return INCOMPLETE if failed or left else SUCCESS


async def _evict(api: Api, change: MaintenanceOptions, placements: Sequence[str]) -> bool:
    """Returns whether one failed, or did not finish in time."""
    failed = False
    reminder = asyncio.get_running_loop().call_later(_PATIENCE, sys.stderr.write, _HINT)
    waiting = set(placements)
    try:
        async with asyncio.timeout(change.timeout):
            async for result in evict_all(api, change.cluster, placements):
                reminder.cancel()
                waiting.discard(result.placement)
                failed |= not result.is_gone
                _report_result(result)
    except TimeoutError:
        for placement in sorted(waiting):
            _report(f"{placement} is not evicted after {change.timeout:g} s; run the command again to go on")
        return True
    finally:
        reminder.cancel()
    return failed


def _build_edits(cluster: str, content: ClusterContent) -> list[dict[str, Any]]:
    evictions = [{"op": "evict", "cluster": cluster, "placement": placement} for placement in content.evictable]
    return [{"op": "addTaint", "cluster": cluster, **CORDON}, *evictions]


def _describe(content: ClusterContent, cluster: str) -> None:
    _report(f"{cluster} has {_count([*content.evictable, *content.remaining])}")
    for placement in content.fixed:
        _report(f"  {placement} names {cluster} in its policy: it cannot be evicted")
    for placement in content.namespaced:
        _report(f"  {placement} is namespaced: KubeFleet has no eviction for it")


def _report_result(result: EvictionResult) -> None:
    _report(f"{result.placement} {'evicted' if result.is_gone else f'not evicted: {result.message}'}")


def _report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _count(placements: Sequence[str]) -> str:
    return f"{len(placements)} placement{'' if len(placements) == 1 else 's'}"
