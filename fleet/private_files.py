"""Files and directories that only their owner may read, whatever the umask: they hold Secrets, tokens and decisions."""

from __future__ import annotations

import os
from pathlib import Path


def create_private_directory(path: Path) -> None:
    """Creates a directory for the owner only. One that exists keeps its mode: it may hold files of others."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def create_private_file(path: Path) -> None:
    """Creates an empty file for the owner only, or takes the rights of others to a file that exists."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        os.chmod(path, 0o600)
    finally:
        os.close(descriptor)
