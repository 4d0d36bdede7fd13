"""What `helm test` runs: is everybody ready, and does one of the controllers work?

    python ready.py [--within SECONDS] [--authority FILE] [--ready URL …] [--working URL …]

Stands on Python alone and imports nothing of Fleet: what it tries is what others can reach, not what it could load.
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
"""As the leader's figures have it, once it has read everything."""

Ask = Callable[[str], str]


def main() -> None:
    parser = argparse.ArgumentParser(description="Asks until all is well, or for so many seconds.")
    parser.add_argument("--within", type=float, default=90.0, metavar="SECONDS")
    parser.add_argument(
        "--authority", metavar="FILE", help="who signed certificates; without it they are not looked at"
    )
    parser.add_argument("--ready", action="append", default=[], metavar="URL", help="has to answer 200")
    parser.add_argument("--working", action="append", default=[], metavar="URL", help="one address has to say it works")
    options = parser.parse_args()
    ask = asking(options.authority)
    deadline = time.monotonic() + options.within
    while wrong := [*unready(options.ready, ask), *idle(options.working, ask)]:
        if time.monotonic() > deadline:
            raise SystemExit("\n".join(wrong))
        time.sleep(1)
    sys.stdout.write("everybody is ready, and one of the controllers works\n")


def asking(authority: str | None) -> Ask:
    context = ssl.create_default_context(cafile=authority)
    if authority is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def ask(url: str) -> str:
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:
            return str(answer.read().decode())

    return ask


def unready(urls: list[str], ask: Ask) -> Iterator[str]:
    for url in urls:
        for address in addresses(url):
            if (problem := problem_of(address, ask)) is not None:
                yield f"not ready: {url}: {problem}"


def idle(urls: list[str], ask: Ask) -> Iterator[str]:
    for url in urls:
        if not any(works(address, ask) for address in addresses(url)):
            yield f"no controller works: none of those at {url} says {WORKING}; see who holds the lease"


def works(url: str, ask: Ask) -> bool:
    try:
        return WORKING in ask(url).splitlines()
    except (OSError, HTTPException):
        return False


def problem_of(url: str, ask: Ask) -> str | None:
    try:
        ask(url)
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode().strip()}"
    except (OSError, HTTPException) as error:
        return str(error)
    return None


def addresses(url: str) -> list[str]:
    """Every pod behind a name. Certificates are for names, so with HTTPS it is whoever the name leads to."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        return [url]
    try:
        found = {one[4][0] for one in socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)}
    except OSError:
        return [url]  # says itself what is wrong with the name
    hosts = (f"[{one}]" if ":" in str(one) else one for one in sorted(map(str, found)))
    return [parts._replace(netloc=f"{host}:{parts.port}").geturl() for host in hosts]


if __name__ == "__main__":
    main()
