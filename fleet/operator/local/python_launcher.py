"""Starts schedulers as processes of this machine. An image is a Python environment in which Fleet is installed."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleet.operator.local.replica import Process, Revision

_LOOPBACK: Final = "127.0.0.1"
_DEADLINE: Final = 5.0
"""Seconds for the answer to a probe."""
_UNVERIFIED: Final = ssl._create_unverified_context()
"""As a kubelet: the certificate is most often self-signed."""
_OF_PYTHON: Final = ("PYTHONPATH", "PYTHONHOME")
_ADDRESSES: Final = ("health.address", "metrics.address")


@dataclass(frozen=True, slots=True)
class PythonLauncher:
    environments: Mapping[str, Path]
    """By image; those of other images are the operator's own."""
    connection: Sequence[str]
    """Options by which the scheduler finds the hub."""

    async def start(self, revision: Revision, config: Path) -> Process:
        environment = self.environments.get(revision.image)
        python = sys.executable if environment is None else str(environment / "bin" / "python")
        port = _find_free_port()
        arguments = [*render_arguments(revision.arguments, config, f"{_LOOPBACK}:{port}"), *self.connection]
        process = await asyncio.create_subprocess_exec(
            python,
            "-m",
            "fleet.operator.local.attached",
            *arguments,
            env=None if environment is None else _leave_environment(os.environ),
            stdin=asyncio.subprocess.PIPE,  # it ends when nothing holds the other end
            start_new_session=True,  # Ctrl-C ends the operator, which ends its processes in order
        )
        config.with_name("pid").write_text(f"{process.pid}\n", encoding="utf-8")
        return _LocalProcess(process, (_LOOPBACK, port))


def render_arguments(arguments: Sequence[str], config: Path, address: str) -> Iterator[str]:
    """Those of a pod, with the file and the address of this process."""
    for argument in arguments:
        option, _, value = argument.partition("=")
        name = value.partition("=")[0]
        if option == "--config":
            yield f"--config={config}"
        elif option == "--set" and name in _ADDRESSES:
            yield f"--set={name}={address}"
        else:
            yield argument


def _leave_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Without what would bring packages of the operator's environment into another."""
    return {name: value for name, value in variables.items() if name not in _OF_PYTHON}


def _find_free_port() -> int:
    """Another process may take it meanwhile: the scheduler ends then, and is started with another one."""
    with socket.create_server((_LOOPBACK, 0)) as bound:
        port: int = bound.getsockname()[1]
    return port


@dataclass(frozen=True, slots=True)
class _LocalProcess:
    process: asyncio.subprocess.Process
    address: tuple[str, int]

    async def wait(self) -> int:
        return await self.process.wait()

    async def is_ready(self) -> bool:
        return await self._probe(b"/readyz")

    async def is_live(self) -> bool:
        return await self._probe(b"/livez")

    async def _probe(self, path: bytes) -> bool:
        try:
            async with asyncio.timeout(_DEADLINE):
                return await self._ask(path)
        except (OSError, TimeoutError):
            return False

    async def _ask(self, path: bytes) -> bool:
        reader, writer = await asyncio.open_connection(*self.address, ssl=_UNVERIFIED)
        try:
            writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: scheduler\r\nConnection: close\r\n\r\n")
            return (await reader.readline()).split()[1:2] == [b"200"]
        finally:
            writer.close()

    def terminate(self) -> None:
        if self.process.returncode is None:
            self.process.terminate()

    def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
