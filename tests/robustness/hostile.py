"""Hostile requests to `fleet api`: `python -m tests.robustness.hostile --requests 100000 --seed 1`.

Every path of the API with values, headers and bodies that no client sends, requests that end in the middle, and bytes
that are no HTTP. No answer may be a 500, the process has to go on, and its memory may not grow with the requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

from fleet.hub.access.authentication import read_tokens
from tests.control_plane.process import ServerProcess
from tests.robustness.faults import HubProcess
from tests.robustness.fleet import write_kubeconfig
from tests.robustness.forwarder import forwarding
from tests.robustness.requests import request

OPENAPI: Final = Path(__file__).resolve().parents[2] / "api" / "openapi.json"
CONNECTIONS: Final = 16
SECONDS: Final = 60.0
WARMING_UP: Final = 5
"""A part of so many of the requests is sent before memory is measured."""
MOST_GROWTH: Final = 64 * 2**20
"""Bytes, whatever the number of requests."""
_VALUES: Final = (
    "", "-", "..", "%00", "a" * 300, "web", "default", "💥", "';--", "<script>", "-1", "1e999", "NaN", "null",
    "\r\nX: y",
)  # fmt: skip
_HEADERS: Final = (
    "Accept: */*;q=x", "Accept: application/yaml", "Content-Type: text/html", "Content-Type: application/json",
    "If-None-Match: \"", "Range: bytes=9-1", "Content-Length: -1", "Content-Length: 99999999999",
    "Expect: 100-continue",
    "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Host: a b", "Cookie: =;=;fleet=\x7f", "X:\t\t",
    "Authorization: Basic !!", "Last-Event-ID: -1", "Idempotency-Key: " + "k" * 300, "Upgrade: websocket",
    "A: " + "b" * 9000,
)  # fmt: skip
_BODIES: Final = (
    b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a":' * 5000, b"[" * 50000, b'{"placement": {"kind": 1}}', b"9" * 5000,
    b'{"edits": [{"set": null}]}', b'{"plugin": "x", "message": "\xed\xa0\x80"}',
    b'{"placement": {"spec": {"policy": []}}}',
)  # fmt: skip


@dataclass
class HostileReport:
    codes: Counter[int] = field(default_factory=Counter)
    """Of answers; 0 for a connection that ended without."""
    wrong: list[str] = field(default_factory=list)
    growth: int = 0
    seconds: float = 0.0

    @property
    def violations(self) -> list[str]:
        grown = [f"memory grew by {self.growth / 2**20:.0f} MiB"] if self.growth > MOST_GROWTH else []
        return [*self.wrong, *grown]


def make_request(rng: Random, operations: list[tuple[str, str]], token: str) -> bytes:
    path, method = rng.choice(operations)
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + quote(rng.choice(_VALUES), safe="%") + rest.partition("}")[2]
    names = ["limit", "cluster", "since", "deep", "format", "watch", rng.choice(_VALUES)]
    query = "&".join(f"{quote(rng.choice(names))}={quote(rng.choice(_VALUES))}" for _ in range(rng.randrange(4)))
    body = rng.choice(_BODIES) if rng.random() < 0.7 else rng.randbytes(rng.randrange(200))
    method = method.upper() if rng.random() < 0.9 else rng.choice(("PROPFIND", "HEAD", "G\x00T", "OPTIONS"))
    lines = [f"{method} {path}?{query} HTTP/1.1", "Host: fleet", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"Authorization: Bearer {token}"] if rng.random() < 0.8 else []
    lines += rng.sample(_HEADERS, rng.randrange(3))
    message = "\r\n".join([*lines, "", ""]).encode(errors="surrogateescape") + body
    kind = rng.random()
    if kind < 0.05:
        return rng.randbytes(rng.randrange(1, 2000))
    return message[: rng.randrange(1, len(message))] if kind < 0.2 else message


async def send(port: int, message: bytes) -> int:
    """The status code; 0 without an answer. Nothing follows the message."""
    try:
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(message)
                writer.write_eof()
                line = await reader.readline()
                return int(line.split()[1]) if line.startswith(b"HTTP/1.1 ") else 0
            finally:
                writer.close()
    except (OSError, EOFError, ValueError):
        return 0


async def attack(port: int, pid: int, *, count: int, rng: Random, token: str) -> HostileReport:
    report, numbers = HostileReport(), iter(range(count))
    paths: dict[str, dict[str, Any]] = json.loads(OPENAPI.read_text(encoding="utf-8"))["paths"]
    operations = [(path, method) for path, methods in paths.items() for method in methods]
    measured = 0
    begun = time.monotonic()

    async def work() -> None:
        nonlocal measured
        for number in numbers:
            if number == count // WARMING_UP:
                measured = read_memory(pid)
            message = make_request(rng, operations, token)
            try:
                code = await send(port, message)
            except TimeoutError:
                report.wrong.append(f"no answer within {SECONDS:g} s: {message[:200]!r}")
                continue
            report.codes[code] += 1
            if code >= 500 and code != 503:
                report.wrong.append(f"{code}: {message[:200]!r}")

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(work())
    report.seconds = time.monotonic() - begun
    report.growth = read_memory(pid) - measured
    code, _ = await request(port, "GET", "/v1/status", token=token)
    report.wrong += [] if code == 200 else [f"the status is answered {code} afterwards"]
    return report


def read_memory(pid: int) -> int:
    """Bytes that the process has in memory."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


async def run(folder: Path, *, count: int, seed: int) -> HostileReport:
    async with forwarding() as forwarder:
        hub = HubProcess(folder, forwarder)
        ready = folder / "api.json"
        command = [sys.executable, "-m", "fleet.cli", "api", "--address", "127.0.0.1:0", "--ready-file", str(ready)]
        api = ServerProcess([*command, "--kubeconfig", str(write_kubeconfig(folder, hub))], log=folder / "api.log")
        try:
            await hub.start()
            api.start()
            async with asyncio.timeout(SECONDS):
                while not ready.exists():
                    assert api.is_running, api.last_words()
                    await asyncio.sleep(0.05)
            port = int(json.loads(ready.read_text())["api"].rpartition(":")[2])
            token = next(iter(read_tokens(folder / "data" / "tokens.csv")))
            assert api.pid is not None
            report = await attack(port, api.pid, count=count, rng=Random(seed), token=token)
            assert api.is_running, api.last_words()
            return report
        finally:
            api.stop()
            hub.server.stop()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.robustness.hostile", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        report = asyncio.run(run(Path(folder), count=options.requests, seed=options.seed))
    codes = ", ".join(f"{code or 'none'}: {number}" for code, number in sorted(report.codes.items()))
    lines = [f"{codes}; {report.growth / 2**20:+.1f} MiB; {report.seconds:.0f} s", *report.violations[:20]]
    sys.stdout.write("\n".join([*lines, ""]))
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
