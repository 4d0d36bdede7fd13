"""Changes by hand of the objects of a secondary scheduler, as merge patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fleet.kube.resource import Resource
from fleet.operator.operands import CONFIG_MAPS, DEPLOYMENTS, SERVICE_ACCOUNTS, SERVICES

ChangeByHand = Callable[[dict[str, Any]], dict[str, Any]]
"""From the object to the patch."""


def change_port(service: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"ports": [{**service["spec"]["ports"][0], "port": 9999}]}}


def add_port(service: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"ports": [*service["spec"]["ports"], {"name": "more", "port": 7777, "protocol": "TCP"}]}}


def narrow_selector(service: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"selector": {"track": "canary"}}}


def drop_ports_name(service: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"ports": [{**service["spec"]["ports"][0], "name": None}]}}


def set_affinity_of_sessions(service: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"sessionAffinity": "ClientIP"}}


def add_key(copy: dict[str, Any]) -> dict[str, Any]:
    return {"data": {"more": "of it"}}


def pause(deployment: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"paused": True}}


def scale(deployment: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"replicas": 7}}


def share_host_network(deployment: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"hostNetwork": True}}}}


def edit_container(deployment: dict[str, Any], **change: Any) -> dict[str, Any]:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {"spec": {"template": {"spec": {"containers": [{**container, **change}]}}}}


def add_variable(deployment: dict[str, Any]) -> dict[str, Any]:
    return edit_container(deployment, env=[{"name": "FLEET_LOG_LEVEL", "value": "debug"}])


def add_container(deployment: dict[str, Any]) -> dict[str, Any]:
    patch = edit_container(deployment)
    patch["spec"]["template"]["spec"]["containers"].append({"name": "shell", "image": "registry.example/shell"})
    return patch


def mount_token(account: dict[str, Any]) -> dict[str, Any]:
    return {"automountServiceAccountToken": True}


CHANGES_BY_HAND: Final[tuple[tuple[Resource, ChangeByHand], ...]] = (
    (SERVICES, change_port),
    (SERVICES, add_port),
    (SERVICES, narrow_selector),
    (SERVICES, drop_ports_name),
    (SERVICES, set_affinity_of_sessions),
    (CONFIG_MAPS, add_key),
    (DEPLOYMENTS, pause),
    (DEPLOYMENTS, scale),
    (DEPLOYMENTS, share_host_network),
    (DEPLOYMENTS, add_variable),
    (DEPLOYMENTS, add_container),
    (SERVICE_ACCOUNTS, mount_token),
)


_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "Service": {"type": "ClusterIP", "sessionAffinity": "None"},
    "Deployment": {"replicas": 1},
}
"""The embedded hub sets them at the creation only."""


def get_contents(document: dict[str, Any]) -> dict[str, Any]:
    """All but metadata and status."""
    contents = {key: value for key, value in document.items() if key not in ("metadata", "status")}
    if document["kind"] in _DEFAULTS:
        contents["spec"] = {**_DEFAULTS[document["kind"]], **contents["spec"]}
    return contents
