"""The restricted profile of the Pod Security Standards, as a check of pod templates: every control, in the standard's
order. What a profile demands is a fact; that the API server says the same is another test's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

Json = dict[str, Any]
Complaints = Iterator[str]

_VOLUMES: Final = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
_SYSCTLS: Final = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
}
_SELINUX_TYPES: Final = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
_PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")


def complaints_about(template: Json) -> list[str]:
    """What is not restricted about a template of a pod."""
    return [complaint for control in _CONTROLS for complaint in control(template)]


def _containers(template: Json) -> Iterator[Json]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from template["spec"].get(field, ())


def _contexts(template: Json) -> Iterator[tuple[str, Json]]:
    """Of the pod and of each container."""
    yield "the pod", template["spec"].get("securityContext", {})
    for one in _containers(template):
        yield one["name"], one.get("securityContext", {})


def _inherited(template: Json, field: str) -> Iterator[tuple[str, Any]]:
    """What holds for each container: its own word, or that of the pod."""
    of_pod = template["spec"].get("securityContext", {}).get(field)
    for one in _containers(template):
        yield one["name"], one.get("securityContext", {}).get(field, of_pod)


# --- baseline ---------------------------------------------------------------------------------------------------------


def _host_process(template: Json) -> Complaints:
    for whose, context in _contexts(template):
        if context.get("windowsOptions", {}).get("hostProcess"):
            yield f"{whose} is a process of the host"


def _host_namespaces(template: Json) -> Complaints:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if template["spec"].get(field):
            yield f"the pod has {field}"


def _privileged(template: Json) -> Complaints:
    for whose, context in _contexts(template):
        if context.get("privileged"):
            yield f"{whose} is privileged"


def _host_ports(template: Json) -> Complaints:
    for one in _containers(template):
        if any(port.get("hostPort") for port in one.get("ports", ())):
            yield f"{one['name']} takes a port of the host"


def _host_probes(template: Json) -> Complaints:
    for one in _containers(template):
        handlers = [one[probe] for probe in _PROBES if probe in one] + list(one.get("lifecycle", {}).values())
        for handler in handlers:
            if any(handler.get(kind, {}).get("host") for kind in ("httpGet", "tcpSocket")):
                yield f"{one['name']} has another host asked"


def _app_armor(template: Json) -> Complaints:
    for whose, context in _contexts(template):
        if context.get("appArmorProfile", {}).get("type", "RuntimeDefault") not in ("RuntimeDefault", "Localhost"):
            yield f"{whose} has no AppArmor profile"


def _selinux(template: Json) -> Complaints:
    for whose, context in _contexts(template):
        options = context.get("seLinuxOptions", {})
        if options.get("type", "") not in _SELINUX_TYPES or options.get("user") or options.get("role"):
            yield f"{whose} changes its SELinux context"


def _proc_mount(template: Json) -> Complaints:
    for whose, context in _contexts(template):
        if context.get("procMount", "Default") != "Default":
            yield f"{whose} mounts /proc unmasked"


def _sysctls(template: Json) -> Complaints:
    for one in template["spec"].get("securityContext", {}).get("sysctls", ()):
        if one["name"] not in _SYSCTLS:
            yield f"the pod sets {one['name']}"


# --- restricted -------------------------------------------------------------------------------------------------------


def _volume_types(template: Json) -> Complaints:
    for volume in template["spec"].get("volumes", ()):
        for kind in volume.keys() - {"name"} - _VOLUMES:
            yield f"volume {volume['name']} is a {kind}"


def _privilege_escalation(template: Json) -> Complaints:
    for one in _containers(template):
        if one.get("securityContext", {}).get("allowPrivilegeEscalation") is not False:
            yield f"{one['name']} may escalate"


def _running_as_non_root(template: Json) -> Complaints:
    for whose, said in _inherited(template, "runAsNonRoot"):
        if said is not True:
            yield f"{whose} may run as root"


def _non_root_user(template: Json) -> Complaints:
    for whose, context in _contexts(template):
        if context.get("runAsUser") == 0:
            yield f"{whose} is root"


def _seccomp(template: Json) -> Complaints:
    for whose, said in _inherited(template, "seccompProfile"):
        if (said or {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{whose} has no seccomp profile"


def _capabilities(template: Json) -> Complaints:
    for one in _containers(template):
        capabilities = one.get("securityContext", {}).get("capabilities", {})
        if "ALL" not in capabilities.get("drop", ()):
            yield f"{one['name']} keeps capabilities"
        for added in set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
            yield f"{one['name']} adds {added}"


_CONTROLS: Final[tuple[Callable[[Json], Complaints], ...]] = (
    _host_process,
    _host_namespaces,
    _privileged,
    _host_ports,
    _host_probes,
    _app_armor,
    _selinux,
    _proc_mount,
    _sysctls,
    _volume_types,
    _privilege_escalation,
    _running_as_non_root,
    _non_root_user,
    _seccomp,
    _capabilities,
)
