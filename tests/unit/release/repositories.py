"""A bare remote and clones of it, by the real git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

IDENTITY = {
    **{f"GIT_{role}_NAME": "A Committer" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "committer@example.com" for role in ("AUTHOR", "COMMITTER")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


class Clone:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.folder), *arguments],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, **IDENTITY},
        )
        return done.stdout.strip()

    def commit(self, name: str) -> str:
        """A change of a file of its own, pushed to the present branch."""
        (self.folder / name).write_text(f"{name}\n", encoding="utf-8")
        self.git("add", name)
        self.git("commit", "--quiet", "-m", f"adds {name}")
        self.push()
        return self.head

    def push(self) -> None:
        self.git("push", "--quiet", "origin", "HEAD")

    def release(self, tag: str) -> None:
        """As upstream does: an annotated tag on HEAD."""
        self.git("tag", "-a", tag, "-m", tag)
        self.git("push", "--quiet", "origin", f"refs/tags/{tag}")

    def checkout(self, branch: str, start: str | None = None) -> None:
        self.git("checkout", "--quiet", *(["-b", branch, start] if start else [branch]))
        if start:
            self.push()

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    @property
    def remote_tags(self) -> dict[str, str]:
        """By tag the commit that it names on the remote."""
        lines = [line.split("\t") for line in self.git("ls-remote", "--tags", "origin").splitlines()]
        return {name.removeprefix("refs/tags/").removesuffix("^{}"): sha for sha, name in lines}


def create_remote(folder: Path) -> Path:
    bare = folder / "remote.git"
    subprocess.run(
        ["git", "init", "--quiet", "--bare", "--template=", "-b", "main", str(bare)],
        check=True,
        env={**os.environ, **IDENTITY},
    )
    (bare / "hooks").mkdir()
    return bare


def clone_remote(bare: Path, folder: Path) -> Clone:
    subprocess.run(["git", "clone", "--quiet", "--template=", str(bare), str(folder)], check=True, capture_output=True)
    return Clone(folder)


def copy_remote(folder: Path, copy: Path) -> Clone:
    """Copies a folder's remote.git and the clone of it, which no git needs to run for."""
    for name in ("remote.git", "clone"):
        shutil.copytree(folder / name, copy / name)
    config = copy / "clone" / ".git" / "config"
    config.write_text(config.read_text(encoding="utf-8").replace(str(folder), str(copy)), encoding="utf-8")
    return Clone(copy / "clone")
