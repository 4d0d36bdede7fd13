"""The end of a profile's plugins, apart from their beginning (`profiles`): whoever only decides needs no log for it."""

from __future__ import annotations

import structlog

from fleet.framework.runtime.framework import Framework

log = structlog.get_logger(__name__)


def close_plugins(framework: Framework) -> None:
    """When the process ends: plugins let go of what they hold. That some cannot changes nothing about how it ends."""
    try:
        framework.close()
    except Exception as errors:
        log.error("plugins could not be closed", exc_info=errors)
