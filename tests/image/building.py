"""Carries out the stage `build` of the Dockerfile, in a room with this Python, and keeps what the image copies."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pip

from tests.image.dockerfile import ROOT, Copy, Run, Stage, stages
from tests.image.room import Room, with_python

STAGE: Final = "build"
_SECONDS: Final = 600.0
_INSTALLER: Final = "/usr/local/lib/installer"
_PIP: Final = f"""#!/usr/local/bin/python
import sys
sys.path.insert(0, {_INSTALLER!r})
from pip._internal.cli.main import main
sys.exit(main())
"""
_PASSED_ON: Final = ("PIP_", "SSL_", "REQUESTS_")
"""How this machine reaches its package index is nothing that the Dockerfile knows."""


class Building:
    """In a folder, which keeps everything for a look at it afterwards."""

    def __init__(self, folder: Path, *, source: Path, stage: Stage | None = None) -> None:
        self._stage = stages()[STAGE] if stage is None else stage
        self._folder = folder
        self._source = source
        for name in ("root", "opt", "tmp", "source"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._pip = folder / "pip"
        self._pip.write_text(_PIP, encoding="utf-8")
        self._pip.chmod(0o755)

    @property
    def opt(self) -> Path:
        """What was built: the folder `/opt` of the stage."""
        return self._folder / "opt"

    def build(self) -> None:
        for step in self._stage.steps:
            if isinstance(step, Copy):
                self._copy(step)
            else:
                self._run(step)

    def _copy(self, step: Copy) -> None:
        """Folders give their content, files keep their names. What comes from another stage has to be there already."""
        if step.stage:
            return
        target = self._folder / "source" / step.target
        for source in map(Path, step.sources):
            found = self._source / source
            if found.is_dir():
                shutil.copytree(found, target, dirs_exist_ok=True)
            else:
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy2(found, target / source.name)

    def _run(self, step: Run) -> None:
        entered = self._room(step).entered("/bin/sh", "-ec", step.command)
        done = subprocess.run(entered, capture_output=True, text=True, timeout=_SECONDS, check=False, cwd=ROOT)
        assert done.returncode == 0, f"RUN {step.command}\n{done.stdout}\n{done.stderr}"

    def _room(self, step: Run) -> Room:
        tools = {"/etc": "/etc", _INSTALLER: str(Path(pip.__file__).parents[1]), "/usr/local/bin/pip": str(self._pip)}
        folders = {"/opt": self.opt, "/tmp": self._folder / "tmp", self._stage.folder: self._folder / "source"}
        caches = {path: _cache() for path in step.caches}
        return Room(
            root=str(self._folder / "root"),
            readable={**with_python(tools=True), **tools},
            writable={path: str(folder) for path, folder in {**folders, **caches}.items()},
            environment=self._environment(),
            folder=self._stage.folder,
        )

    def _environment(self) -> dict[str, str]:
        passed = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
        proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        own = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root"}
        return {**passed, **proxies, **own, **self._stage.environment}


def _cache() -> Path:
    """Kept from run to run, as the cache of a container engine is."""
    folder = Path(os.environ.get("PIP_CACHE_DIR") or Path.home() / ".cache" / "pip")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
