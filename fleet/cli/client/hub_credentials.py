"""The caller's own credentials for the hub, as kubectl takes them from a kubeconfig: tokens, client certificates, exec
plugins and impersonation.

Uses the standard library only: the `kubernetes` package, which knows the same, takes most of a second to import.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from fleet.errors import ConfigurationError
from fleet.kube.client.kubeconfig import KubeconfigContext

Json = dict[str, Any]

_EXPIRES_EARLY: Final = timedelta(seconds=30)
_EXTENSION: Final = "client.authentication.k8s.io/exec"


class HubCredentials:
    """Read again when they expire, or when the hub refuses them."""

    def __init__(self, context: KubeconfigContext, *, interactive: bool = True) -> None:
        """`interactive`: an exec plugin may ask the user."""
        self.context = context
        self._interactive = interactive
        self._issued: Json = {}
        self._tls: ssl.SSLContext | None = None
        if context.user.get("auth-provider"):
            raise ConfigurationError(
                f"{self._place()}.auth-provider: is no longer supported by kubectl either; use an exec plugin"
            )

    def headers(self) -> dict[str, str]:
        token = self._read_token()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        for name, value in self._impersonation():
            if name in headers:
                raise ConfigurationError(f"{self._place()}: cannot send {name} more than once; use --token-file")
            headers[name] = value
        return headers

    def tls(self) -> ssl.SSLContext | None:
        if self._tls is None and self.context.server.startswith("https://"):
            self._run_plugin()
            self._tls = self._build_tls()
        return self._tls

    @property
    def proxy(self) -> str:
        return str(self.context.cluster.get("proxy-url") or "")

    def renew(self) -> bool:
        """Whether there may be other credentials now: an exec plugin runs again."""
        if not self._plugin:
            return False
        self._forget()
        return True

    # --- tokens -------------------------------------------------------------------------------------------------------

    def _read_token(self) -> str:
        user = self.context.user
        if user.get("tokenFile"):
            return self._read_file(self.context.user_folder / str(user["tokenFile"])).strip()
        if user.get("token"):
            return str(user["token"]).strip()
        self._run_plugin()
        return str(self._issued.get("token") or "")

    def _impersonation(self) -> Iterator[tuple[str, str]]:
        user = self.context.user
        for field, header in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid")):
            if user.get(field):
                yield header, str(user[field])
        for group in user.get("as-groups") or ():
            yield "Impersonate-Group", str(group)
        for key, values in (user.get("as-user-extra") or {}).items():
            for value in values:
                yield f"Impersonate-Extra-{key}", str(value)

    # --- exec plugins -------------------------------------------------------------------------------------------------

    @property
    def _plugin(self) -> Json:
        plugin = self.context.user.get("exec")
        return plugin if isinstance(plugin, dict) else {}

    def _run_plugin(self) -> None:
        if self._issued and not _is_expired(self._issued):
            return
        self._forget()
        if self._plugin:
            self._issued = self._execute(self._plugin)

    def _forget(self) -> None:
        self._issued, self._tls = {}, None

    def _execute(self, plugin: Json) -> Json:
        command, place = str(plugin.get("command") or ""), f"{self._place()}.exec"
        program = shutil.which(self._resolve(command)) if command else None
        if program is None:
            hint = str(plugin.get("installHint") or "install it, or correct the kubeconfig").strip()
            raise ConfigurationError(f"{place}.command: there is no program {command!r}\nnext: {hint}")
        asks = self._may_ask(str(plugin.get("interactiveMode") or "IfAvailable"), place)
        spec: Json = {"interactive": asks}
        if plugin.get("provideClusterInfo"):
            spec["cluster"] = self._describe_cluster()
        request = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
        variables = {str(entry["name"]): str(entry["value"]) for entry in plugin.get("env") or ()}
        done = subprocess.run(
            [program, *map(str, plugin.get("args") or ())],
            env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdin=None if asks else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
        if done.returncode:
            raise ConfigurationError(
                f"{place}: {command} failed with exit code {done.returncode}\nnext: log in again, or run it by hand"
            )
        return _parse_credential(done.stdout, f"{place}: {command}", str(plugin.get("apiVersion")))

    def _may_ask(self, mode: str, place: str) -> bool:
        has_terminal = self._interactive and sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not has_terminal:
            raise ConfigurationError(f"{place}.interactiveMode: is Always, and there is no terminal to ask at")
        return has_terminal and mode != "Never"

    def _describe_cluster(self) -> Json:
        cluster = self.context.cluster
        authority = cluster.get("certificate-authority-data") or base64.b64encode(
            (self._authority() or "").encode()
        ).decode("ascii")
        extensions = {entry.get("name"): entry.get("extension") for entry in cluster.get("extensions") or ()}
        described = {
            "server": self.context.server,
            "tls-server-name": cluster.get("tls-server-name"),
            "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify"),
            "certificate-authority-data": authority,
            "proxy-url": cluster.get("proxy-url"),
            "config": extensions.get(_EXTENSION),
        }
        return {name: value for name, value in described.items() if value}

    # --- TLS ----------------------------------------------------------------------------------------------------------

    def _build_tls(self) -> ssl.SSLContext:
        cluster = self.context.cluster
        context = _NamedServer(ssl.PROTOCOL_TLS_CLIENT)
        context.server_name = str(cluster.get("tls-server-name") or "")
        try:
            if cluster.get("insecure-skip-tls-verify"):
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            elif authority := self._authority():
                context.load_verify_locations(cadata=authority)
            else:
                context.load_default_certs()
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{self.context}: the certificate authority of {self.context.server} cannot be used: {error}"
            ) from error
        certificate, key = self._client_certificate()
        if certificate:
            self._load_client_certificate(context, certificate, key)
        return context

    def _authority(self) -> str | None:
        return self._material("certificate-authority", self.context.cluster, self.context.cluster_folder)

    def _client_certificate(self) -> tuple[str, str]:
        user, folder = self.context.user, self.context.user_folder
        given = [self._material(field, user, folder) or "" for field in ("client-certificate", "client-key")]
        issued = [str(self._issued.get(field) or "") for field in ("clientCertificateData", "clientKeyData")]
        certificate, key = given if given[0] else issued
        return certificate, key

    def _load_client_certificate(self, context: ssl.SSLContext, certificate: str, key: str) -> None:
        """By a file that only its owner may read, and that is gone afterwards: nothing else is possible."""
        with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
            file.write(f"{certificate}\n{key}\n")
            file.flush()
            try:
                context.load_cert_chain(file.name, password="")
            except (OSError, ValueError) as error:
                raise ConfigurationError(f"{self._place()}: the client certificate cannot be used: {error}") from error

    def _material(self, field: str, holder: Mapping[str, Any], folder: Path) -> str | None:
        """PEM, from inline data or else from a file."""
        data = holder.get(f"{field}-data")
        if data:
            try:
                return base64.b64decode(str(data), validate=True).decode("ascii")
            except (binascii.Error, UnicodeError) as error:
                raise ConfigurationError(f"{self.context}: {field}-data: is not base64 of PEM") from error
        return self._read_file(folder / str(holder[field])) if holder.get(field) else None

    # --- files --------------------------------------------------------------------------------------------------------

    def _resolve(self, command: str) -> str:
        """A command with a slash is relative to the kubeconfig."""
        return str(self.context.user_folder / command) if "/" in command else command

    def _read_file(self, file: Path) -> str:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise ConfigurationError(f"{self.context}: {file} cannot be read: {error}") from error

    def _place(self) -> str:
        return f"{self.context.file}: users[{self.context.user_name}].user"


class _NamedServer(ssl.SSLContext):
    """With a name of the server that is not that of its address."""

    server_name = ""

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        if self.server_name:
            options["server_hostname"] = self.server_name
        return super().wrap_socket(*arguments, **options)


def _parse_credential(output: bytes, source: str, version: str) -> Json:
    try:
        document = json.loads(output)
    except ValueError as error:
        raise ConfigurationError(f"{source} printed no JSON") from error
    status = document.get("status") if isinstance(document, dict) else None
    if not isinstance(status, dict) or document.get("kind") != "ExecCredential":
        raise ConfigurationError(f"{source} printed no ExecCredential with a status")
    if document.get("apiVersion") != version:
        raise ConfigurationError(f"{source} answered in {document.get('apiVersion')}, and {version} was asked for")
    if not (status.get("token") or status.get("clientCertificateData")):
        raise ConfigurationError(f"{source} gave neither a token nor a client certificate")
    return status


def _is_expired(issued: Json) -> bool:
    try:
        ends = datetime.fromisoformat(str(issued["expirationTimestamp"]).replace("Z", "+00:00"))
        return datetime.now(UTC) >= ends - _EXPIRES_EARLY
    except (KeyError, TypeError, ValueError):
        return False
