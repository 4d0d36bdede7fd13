"""What the figures were measured on: without it they mean nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

_CPU_INFO: Final = Path("/proc/cpuinfo")


class Machine(msgspec.Struct, frozen=True):
    cpu: str
    cores: int
    system: str
    python: str
    numpy: str
    msgspec: str

    def __str__(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.system}, {self.python}, numpy {self.numpy}, msgspec {self.msgspec}"
        )


def this_machine() -> Machine:
    return Machine(
        cpu=next(_cpu_names(), None) or platform.processor() or platform.machine(),
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        numpy=version("numpy"),
        msgspec=version("msgspec"),
    )


def _cpu_names() -> Iterator[str]:
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                yield " ".join(value.split())


def load() -> float:
    """How many processes wanted a core during the last minute; 0 where the system does not say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0
