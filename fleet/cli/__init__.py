"""The command line. It may import every package, and none imports it."""

from __future__ import annotations
