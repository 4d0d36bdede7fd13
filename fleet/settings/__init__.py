"""Settings of the controller: one typed tree, loaded from a file, the environment and the command line.

This package holds names and values only; the code that uses a setting builds objects from it. It imports nothing of
Fleet except its errors.
"""

from __future__ import annotations

from fleet.settings.loading import Effective, load_settings, read_settings
from fleet.settings.tree import Settings
from fleet.settings.values import Address, Duration, Rate

__all__ = ["Address", "Duration", "Effective", "Rate", "Settings", "load_settings", "read_settings"]
