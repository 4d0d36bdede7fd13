"""Names of bindings: readable, valid as a label, and the same again after a lost answer.

A name is `<placement>-<cluster>-<suffix>`. The suffix depends on the placement's UID and the cluster, so repeating a
create finds the object it created before; if another object has that name, the suffix includes the UID as well.
Names are never parsed: bindings are found by label.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

# A label holds 63 bytes; two dashes and the suffix leave 53 for the two names.
PLACEMENT_BYTES: Final = 26
CLUSTER_BYTES: Final = 27
SUFFIX_CHARACTERS: Final = 8

_NOT_ALLOWED: Final = re.compile(rb"[^a-z0-9-]")


def build_binding_name(*, placement: str, placement_uid: str, cluster: str, holder_uid: str | None = None) -> str:
    """The name for the binding of a placement on a cluster; `holder_uid` is the object that has the first name."""
    identity = f"{placement_uid}/{cluster}" if holder_uid is None else f"{placement_uid}/{cluster}/{holder_uid}"
    suffix = hashlib.sha256(identity.encode()).hexdigest()[:SUFFIX_CHARACTERS]
    visible = (_sanitize(placement, PLACEMENT_BYTES), _sanitize(cluster, CLUSTER_BYTES))
    return "-".join((*filter(None, visible), suffix))


@lru_cache(maxsize=1 << 16)
def _sanitize(name: str, limit: int) -> str:
    return _NOT_ALLOWED.sub(b"-", name.encode().lower()).lstrip(b"-")[:limit].decode()
