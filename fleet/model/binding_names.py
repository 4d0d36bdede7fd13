"""Names of bindings: readable, valid as a label, and the same again after a lost answer.

A name is `<placement>-<cluster>-<suffix>`. The suffix depends on the placement's UID and the cluster, so repeating a
create meets the object it made before; when another object holds that name, its UID goes into the suffix as well.
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


def binding_name(*, placement: str, placement_uid: str, cluster: str, holder_uid: str | None = None) -> str:
    """The name for the binding of a placement on a cluster; `holder_uid` is who holds the name that came first."""
    identity = f"{placement_uid}/{cluster}" if holder_uid is None else f"{placement_uid}/{cluster}/{holder_uid}"
    suffix = hashlib.sha256(identity.encode()).hexdigest()[:SUFFIX_CHARACTERS]
    visible = (_sanitised(placement, PLACEMENT_BYTES), _sanitised(cluster, CLUSTER_BYTES))
    return "-".join((*filter(None, visible), suffix))


@lru_cache(maxsize=1 << 16)
def _sanitised(name: str, limit: int) -> str:
    return _NOT_ALLOWED.sub(b"-", name.encode().lower()).lstrip(b"-")[:limit].decode()
