"""What operators may set: one typed tree, filled from a file, the environment and the command line.

Building something from settings is left to whoever runs it: this package knows names and values, and imports nothing of
the house but its errors.
"""

from __future__ import annotations

from fleet.settings.loading import Effective, load_settings, read_settings
from fleet.settings.tree import Settings
from fleet.settings.values import Address, Duration, Rate

__all__ = ["Address", "Duration", "Effective", "Rate", "Settings", "load_settings", "read_settings"]
