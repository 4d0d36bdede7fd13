"""The command line. It may use everything; nothing uses it."""

from __future__ import annotations
