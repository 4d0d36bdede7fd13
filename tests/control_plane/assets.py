"""The folder with etcd, kube-apiserver and kubectl: `python -m tests.control_plane.assets`, or `make -s assets`.

Builds what is missing and prints the folder, nothing else, on standard output. With `--with helm kwok` and the like the
folder has those too. `KUBEBUILDER_ASSETS` names a folder to use instead.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.control_plane.cache import cache_folder, locked
from tests.control_plane.failures import AssetsUnavailable, say
from tests.control_plane.programs import OPTIONAL, PROGRAMS, USUAL, Program, pinned
from tests.control_plane.toolchain import Toolchain, toolchain

VARIABLE: Final = "KUBEBUILDER_ASSETS"
BUILD_ENVIRONMENT: Final = {
    "CGO_ENABLED": "0",  # runs on any Linux, and needs no C compiler
    "GOFLAGS": "-mod=readonly -buildvcs=false",  # what go.mod and go.sum say, without this repository's commit
    "GOTOOLCHAIN": "local",  # the toolchain is part of the key: no other may be fetched silently
    "GOWORK": "off",
}


def assets(*extras: str) -> Path:
    """A folder with the usual programs and these; builds those that are missing, once for every process of the user."""
    wanted = (*USUAL, *extras)
    given = os.environ.get(VARIABLE)
    if given:
        return _checked(Path(given), wanted)
    cache = cache_folder()
    go = toolchain(cache)
    folder = cache / _key(go)
    missing = _missing(folder, wanted)
    if missing:
        with locked(folder.with_name(f"{folder.name}.lock")):
            _build(_missing(folder, wanted), into=folder, go=go)
    return folder


def _checked(folder: Path, wanted: Collection[str]) -> Path:
    missing = _missing(folder, wanted)
    if missing:
        raise AssetsUnavailable(
            f"{VARIABLE} is {folder}, which has no {' and no '.join(missing)}: put them there, or unset {VARIABLE} to "
            "have them built"
        )
    return folder


def _missing(folder: Path, wanted: Collection[str]) -> list[str]:
    return [name for name in wanted if not os.access(folder / name, os.X_OK)]


def _key(go: Toolchain) -> str:
    """Changes with anything that changes the programs; starts with what a person looks for."""
    digest = hashlib.sha256(pinned() + repr(sorted(BUILD_ENVIRONMENT.items())).encode()).hexdigest()
    system = f"{platform.system()}-{platform.machine()}".lower()
    return f"{PROGRAMS['kube-apiserver'].version}-{go.version}-{system}-{digest[:12]}"


def _build(names: Sequence[str], *, into: Path, go: Toolchain) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for name in names:
        _build_one(PROGRAMS[name], into=into, go=go.ready())


def _build_one(program: Program, *, into: Path, go: Path) -> None:
    """Into a temporary folder first: a program that is in its place is whole."""
    say(f"building {program.name} {program.version}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f".{program.name}.", dir=into) as folder:
        built = Path(folder) / program.name
        command = [str(go), "build", "-o", str(built), "-ldflags", program.linker_flags, program.package]
        done = subprocess.run(command, cwd=program.module, env=_environment(os.environ), stdout=sys.stderr, check=False)
        if done.returncode:
            raise AssetsUnavailable(f"building {program.name} from {program.module} failed (see above)")
        built.rename(into / program.name)
    say(f"built {program.name} in {time.monotonic() - started:.0f} s")


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    return {**ours, **BUILD_ENVIRONMENT}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.control_plane.assets", description=__doc__)
    parser.add_argument("--with", dest="extras", nargs="+", action="extend", choices=OPTIONAL, default=[])
    options = parser.parse_args(arguments)
    try:
        folder = assets(*options.extras)
    except AssetsUnavailable as failure:
        say(str(failure))
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
