"""The test of `helm test`: every component is ready, and one of the controllers is the leader.

    python ready.py [--within SECONDS] [--authority FILE] [--ready URL …] [--pods URL …] [--working URL …]

Uses the standard library only and imports nothing of Fleet: it checks what other pods can reach.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from urllib.parse import urlsplit

WORKING = "fleet_working 1.0"
"""The leader's metric, once its caches have synced."""

Fetch = Callable[[str], str]


def main() -> None:
    parser = argparse.ArgumentParser(description="Polls until all is well or the time is up.")
    parser.add_argument("--within", type=float, default=90.0, metavar="SECONDS")
    parser.add_argument("--authority", metavar="FILE", help="CA certificates for --ready; without it, none is verified")
    parser.add_argument("--ready", action="append", default=[], metavar="URL", help="must answer 200")
    parser.add_argument("--pods", action="append", default=[], metavar="URL", help="every pod must answer 200")
    parser.add_argument("--working", action="append", default=[], metavar="URL", help="a pod must report that it leads")
    options = parser.parse_args()
    fetch, fetch_from_pod = build_fetch(options.authority), build_fetch(None)
    deadline = time.monotonic() + options.within
    while wrong := [
        *find_unready(options.ready, fetch),
        *find_unready([pod for url in options.pods for pod in resolve(url)], fetch_from_pod),
        *find_leaderless(options.working, fetch_from_pod),
    ]:
        if time.monotonic() > deadline:
            raise SystemExit("\n".join(wrong))
        time.sleep(1)
    sys.stdout.write("all components are ready, and one of the controllers is the leader\n")


def build_fetch(authority: str | None) -> Fetch:
    context = ssl.create_default_context(cafile=authority)
    if authority is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def fetch(url: str) -> str:
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:
            return str(answer.read().decode())

    return fetch


def find_unready(urls: list[str], fetch: Fetch) -> Iterator[str]:
    for url in urls:
        if (problem := check(url, fetch)) is not None:
            yield f"not ready: {url}: {problem}"


def find_leaderless(urls: list[str], fetch: Fetch) -> Iterator[str]:
    for url in urls:
        if not any(is_leader(address, fetch) for address in resolve(url)):
            yield f"no controller is the leader: none at {url} reports {WORKING}; see which one holds the lease"


def is_leader(url: str, fetch: Fetch) -> bool:
    try:
        return WORKING in fetch(url).splitlines()
    except (OSError, HTTPException):
        return False


def check(url: str, fetch: Fetch) -> str | None:
    try:
        fetch(url)
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode().strip()}"
    except (OSError, HTTPException) as error:
        return str(error)
    return None


def resolve(url: str) -> list[str]:
    """The addresses of every pod behind a name."""
    parts = urlsplit(url)
    if parts.hostname is None:
        return [url]
    try:
        entries = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except OSError:
        return [url]  # fetching it reports what is wrong with the name
    hosts = (f"[{host}]" if ":" in host else host for host in sorted({str(entry[4][0]) for entry in entries}))
    return [parts._replace(netloc=f"{host}:{parts.port}").geturl() for host in hosts]


if __name__ == "__main__":
    main()
