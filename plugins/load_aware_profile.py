"""The load-aware profile: the extended one, which also packs clusters up to a load of their cpu."""

from __future__ import annotations

from typing import Final

from fleet.framework.profiles.profile import PluginRef
from plugins.extended_profile import EXTENDED_PLUGINS

LOAD_AWARE_PLUGINS: Final = (*EXTENDED_PLUGINS, PluginRef("TargetLoadPacking"))
