"""Pages for finding out why a process is slow or large: `/debug/profile`, `/debug/stacks` and `/debug/heap`.

They need no token, so they answer only callers on the machine itself, as `kubectl port-forward` is for a pod. One at a
time, and on a thread of their own where they take long.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from ipaddress import IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from fleet.manager.profiling import describe_heap, describe_stacks, profile_cpu
from fleet.worker_thread import WorkerThread

PREFIX: Final = "/debug/"
_DEFAULT_SECONDS: Final = 10
_MOST_SECONDS: Final = 60
_FORWARDED: Final = (b"forwarded", b"x-forwarded-for")
"""Headers of a proxy on the machine, whose callers are anywhere."""


class DebugPages:
    def __init__(self) -> None:
        self._thread = WorkerThread("profiling")
        self._is_busy = False

    def close(self) -> None:
        self._thread.close()

    async def render(self, scope: MutableMapping[str, Any]) -> tuple[int, str]:
        """Status and text."""
        if not _is_local(scope):
            return 403, "403: only callers on the machine itself: use a port-forward\n"
        if self._is_busy:
            return 429, "429: one at a time\n"
        self._is_busy = True
        try:
            return await self._find_page(scope["path"].removeprefix(PREFIX), scope["query_string"])
        finally:
            self._is_busy = False

    async def _find_page(self, name: str, query: bytes) -> tuple[int, str]:
        match name:
            case "profile":
                seconds = _read_seconds(query)
                if seconds is None:
                    return 400, f"400: seconds should be a whole number of 1 to {_MOST_SECONDS}\n"
                return 200, await self._thread.run(profile_cpu, seconds)
            case "stacks":
                return 200, describe_stacks(asyncio.all_tasks())
            case "heap":
                return 200, await self._thread.run(describe_heap)
        return 404, "404: there are profile, stacks and heap\n"


def _is_local(scope: MutableMapping[str, Any]) -> bool:
    """A page of another site, whose name leads a browser on the machine here, has that name as its host."""
    if scope["client"] is None or any(name in _FORWARDED for name, _ in scope["headers"]):
        return False
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    return _is_loopback(scope["client"][0]) and all(map(_names_machine, hosts))


def _names_machine(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or _is_loopback(name)
    except ValueError:
        return False


def _is_loopback(text: str) -> bool:
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _read_seconds(query: bytes) -> int | None:
    text = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("seconds", [str(_DEFAULT_SECONDS)])[-1]
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_SECONDS))
    return int(text) if is_number and 1 <= int(text) <= _MOST_SECONDS else None
