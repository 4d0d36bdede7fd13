"""The command `fleet`, for whoever compares what `fleet up` said earlier with what it says later."""

from __future__ import annotations

from typing import Final

CALM: Final = """
from functools import partial
from fleet.demo import members

members.MemberBehavior = partial(members.MemberBehavior, calm=3600.0)

from fleet.cli.main import run

run()
"""
"""Simulated members stay as they are; otherwise some leave, join or fall silent when it has run for a minute."""
