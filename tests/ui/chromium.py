"""Chromium for the tests of the explorer: the distribution's, installed where it is missing and may be.

`python -m tests.ui.chromium` installs it and prints its path; tests only look for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
VARIABLE: Final = "FLEET_CHROMIUM"
ATTEMPTS: Final = 3
LOCK_SECONDS: Final = 300


class NoChromium(Exception):
    """Says what to do."""


def find_chromium() -> str | None:
    """The first that runs: some distributions have a stub under the name, which only says where to get it."""
    given = os.environ.get(VARIABLE)
    candidates = [given] if given else [path for path in map(shutil.which, NAMES) if path]
    return next((path for path in candidates if _runs(path)), None)


def require_chromium() -> str:
    found = find_chromium()
    if found is None:
        raise NoChromium(
            "the tests of the explorer need Chromium: `apt-get install chromium` as root, or set "
            f"{VARIABLE} to the path of one, then run `make test-ui` again"
        )
    return found


def install_chromium() -> None:
    """As root, with apt. A mirror that does not answer is asked again."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    get = ["apt-get", "-qq", "-o", f"DPkg::Lock::Timeout={LOCK_SECONDS}"]
    for _ in range(ATTEMPTS):
        subprocess.run([*get, "update"], env=environment, stdout=sys.stderr, check=False)
        subprocess.run([*get, "install", "-y", "chromium"], env=environment, stdout=sys.stderr, check=False)
        if find_chromium() is not None:
            return


def _runs(path: str) -> bool:
    if not Path(path).is_file():
        return False
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and b"Chrom" in answer.stdout


def main() -> None:
    if find_chromium() is None:
        install_chromium()
    try:
        sys.stdout.write(f"{require_chromium()}\n")
    except NoChromium as problem:
        sys.exit(f"error: {problem}")


if __name__ == "__main__":
    main()
