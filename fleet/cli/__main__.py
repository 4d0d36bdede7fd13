"""`python -m fleet.cli` is the command `fleet`."""

from __future__ import annotations

from fleet.cli.main import run

run()
