"""What people see while they wait for a control plane, and when it does not come."""

from __future__ import annotations

import sys


class AssetsUnavailable(Exception):
    """The programs are not there and could not be built."""


class NeverReady(Exception):
    """A server did not come up in time, or ended at once."""


def say(text: str) -> None:
    """Tells whoever waits; standard output belongs to the result."""
    sys.stderr.write(f"assets: {text}\n")
    sys.stderr.flush()
