"""Phrases: reasons in a few words for summaries, and the values for which one cluster is rejected.

Plugins declare them with their reasons. A reason without a phrase is described by its name, and a rejection without a
declared reason by its message.
"""

from __future__ import annotations

import re
from typing import Final

from fleet.explain.facts.rejections import ClusterRejection
from fleet.framework.status import Code
from fleet.framework.types import Reason

_CODES: Final = frozenset(str(code) for code in Code)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def find_plain_phrase(name: str, reason: Reason | None) -> str | None:
    """The phrase for a reason that reads the same for every cluster; None where it depends on the cluster."""
    if name in _CODES or (reason is not None and callable(reason.short)):
        return None
    declared = "" if reason is None else str(reason.short)
    return declared or _HUMP.sub(" ", name).lower()


def describe_reason(rejection: ClusterRejection) -> str:
    """The phrase under which a rejection is counted."""
    reason = rejection.declared
    if reason is not None and callable(reason.short):
        return reason.short(rejection.details)
    return find_plain_phrase(rejection.reason, reason) or rejection.message


def describe_lack(rejection: ClusterRejection) -> str:
    """What keeps this cluster out, with its values; of several terms, those of the closest one."""
    reason = rejection.declared
    if reason is None or reason.lacks is None:
        return describe_reason(rejection)
    return reason.lacks(rejection.details)
