"""Names of new bindings: a readable prefix and a suffix that depends on placement and cluster only."""

from __future__ import annotations

import hashlib
import re

from tests.oracle.documents import PARENT_LABEL, Json, dig, is_terminating, labels_of

FALLBACKS = 5


class NameTaken(Exception):
    """No name is free, or the binding to be created seems to exist: the cycle has to run again."""


def new_name(placement: str, cluster: str, placement_uid: str, holders: dict[str, Json]) -> str:
    prefix = f"{sanitised(placement)[:26]}-{sanitised(cluster)[:27]}-"
    name = prefix + digest(f"{placement_uid}/{cluster}")
    for _ in range(FALLBACKS):
        if name not in holders:
            return name
        holder = holders[name]
        if is_the_same(holder, placement, cluster):
            raise NameTaken(name)
        name = prefix + digest(f"{placement_uid}/{cluster}/{dig(holder, 'metadata', 'uid') or ''}")
    if name in holders:
        raise NameTaken(name)
    return name


def is_the_same(holder: Json, placement: str, cluster: str) -> bool:
    own = labels_of(holder).get(PARENT_LABEL) == placement and holder["spec"]["targetCluster"] == cluster
    return own and not is_terminating(holder)


def sanitised(name: str) -> str:
    lowered = name.lower().encode()
    return re.sub(rb"[^a-z0-9-]", b"-", lowered).decode().lstrip("-")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
