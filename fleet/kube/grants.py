"""The API group of the aggregation layer, and commands that grant a role of the chart, for errors."""

from __future__ import annotations

import re
import shlex
from typing import Final

EXPLAIN_GROUP: Final = "explain.fleet"
"""The API group of the aggregation layer that leads to the API. It has questions and no objects."""
ASK: Final = "fleet-ask"
VIEWER: Final = "fleet-viewer"
EDITOR: Final = "fleet-editor"
OPERATOR: Final = "fleet-operator"
METRICS: Final = "fleet-metrics"
"""Names of the roles for a release named `fleet`."""
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9.@:_-]+")


def format_grant(role: str, user: str, *, namespace: str = "") -> str:
    """The command by which an administrator of the hub binds the role to the user, in a namespace or everywhere."""
    if user.startswith(_SERVICE_ACCOUNT):
        account = user.removeprefix(_SERVICE_ACCOUNT)
        subject, name = f"--serviceaccount={account}", account.rpartition(":")[2]
    else:
        subject, name = f"--user={user}", user
    binding = f"{role}-{_NOT_IN_NAMES.sub('-', name)}"
    kind, within = ("rolebinding", [f"--namespace={namespace}"]) if namespace else ("clusterrolebinding", [])
    return shlex.join(["kubectl", "create", kind, binding, f"--clusterrole={role}", subject, *within])
