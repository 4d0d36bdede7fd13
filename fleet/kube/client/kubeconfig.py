"""Validation of kubeconfigs: errors with file, field and value, before a connection is opened.

The library that reads kubeconfigs fails somewhere inside, with messages about its internals. Only what is needed to
find a server is validated here: only the server can validate credentials.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from fleet.errors import ConfigurationError

KUBECONFIG: Final = "KUBECONFIG"
_NAME_ANOTHER: Final = "name another file with --kubeconfig or KUBECONFIG"
_FILES: Final = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}

Json = dict[str, Any]


def validate_kubeconfig(
    path: Path | None = None, context: str | None = None, environ: Mapping[str, str] = os.environ
) -> str:
    """The address of the server; a ConfigurationError if none can be found. `path` None: where kubectl looks."""
    return _merge(path, environ).resolve(context).server


def _merge(path: Path | None, environ: Mapping[str, str]) -> _Merged:
    paths = [path] if path is not None else _default_paths(environ)
    files = [_read(path) for path in paths if path.exists()]
    if not files:
        names = ", ".join(map(str, paths))
        raise ConfigurationError(f"kubeconfig: there is no file {names}; {_NAME_ANOTHER}")
    return _Merged(files)


def _default_paths(environ: Mapping[str, str]) -> list[Path]:
    paths = [Path(path) for path in environ.get(KUBECONFIG, "").split(os.pathsep) if path]
    return paths or [Path.home() / ".kube" / "config"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigContext:
    """A context with its cluster and user. Paths in these are relative to the folder of their file."""

    name: str
    file: Path
    server: str
    cluster: Json
    cluster_folder: Path
    user_name: str = ""
    user: Json
    user_folder: Path

    def __str__(self) -> str:
        return f"context {self.name} of {self.file}"


def read_kubeconfig(
    path: Path | None = None, context: str | None = None, environ: Mapping[str, str] = os.environ
) -> KubeconfigContext:
    """Raises ConfigurationError as `validate_kubeconfig` does."""
    return _merge(path, environ).resolve(context)


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    content: Json

    def entries_by_name(self, section: str) -> dict[str, Json]:
        """The entries of a list of named things."""
        entries = self.content.get(section) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ConfigurationError(f"{self.path}: {section}: should be a list of named {section}")
        return {str(entry.get("name")): entry for entry in entries}


def _read(path: Path) -> _File:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}; {_NAME_ANOTHER}") from error
    except UnicodeError as error:
        raise ConfigurationError(f"{path}: is not a text file; {_NAME_ANOTHER}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ConfigurationError(f"{path}: {place}no YAML: {error.problem}; mend it, or {_NAME_ANOTHER}") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: no YAML: {error}; mend it, or {_NAME_ANOTHER}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{path}: is not a kubeconfig: it holds {_describe(content)}, not contexts, clusters and users; "
            f"{_NAME_ANOTHER}"
        )
    return _File(path, content)


@dataclass(frozen=True, slots=True)
class _Merged:
    """Several files as one: the first that has a value counts."""

    files: Sequence[_File]

    def resolve(self, context: str | None) -> KubeconfigContext:
        name, source = self._select_context(context)
        file, entry = self._find("contexts", name, source)
        chosen = _read_mapping(file, "contexts", name, entry, "context")
        holder, cluster = self._resolve_cluster(file, name, chosen)
        user_file, user = self._resolve_user(file, name, chosen)
        return KubeconfigContext(
            name=name,
            file=file.path,
            server=str(cluster["server"]).rstrip("/"),
            cluster=cluster,
            cluster_folder=holder.path.parent,
            user_name=str(chosen.get("user") or ""),
            user=user,
            user_folder=user_file.path.parent,
        )

    def _select_context(self, context: str | None) -> tuple[str, str]:
        """The name of the context, and its source."""
        if context:
            return context, "--context"
        for file in self.files:
            if current := file.content.get("current-context"):
                return str(current), f"{file.path}: current-context"
        path = self.files[0].path
        raise ConfigurationError(
            f"{path}: current-context: is not set; {self._list_choices('contexts', 'choose with --context')}"
        )

    def _resolve_cluster(self, file: _File, context: str, chosen: Json) -> tuple[_File, Json]:
        name = str(chosen.get("cluster") or "")
        holder, entry = self._find("clusters", name, f"{file.path}: contexts[{context}].context.cluster")
        cluster = _read_mapping(holder, "clusters", name, entry, "cluster")
        server, field = str(cluster.get("server") or ""), f"{holder.path}: clusters[{name}].cluster.server"
        if not server.startswith(("http://", "https://")):
            problem = f"{server!r} is not an address of an API server" if server else "is not set"
            raise ConfigurationError(f"{field}: {problem}; write it as https://hub.example.com:6443")
        _check_files(holder, f"clusters[{name}].cluster", cluster, _FILES["cluster"])
        return holder, cluster

    def _resolve_user(self, file: _File, context: str, chosen: Json) -> tuple[_File, Json]:
        name = str(chosen.get("user") or "")
        if not name:
            return file, {}  # anonymous, and the server may allow that
        holder, entry = self._find("users", name, f"{file.path}: contexts[{context}].context.user")
        user = entry.get("user") or {}
        _check_files(holder, f"users[{name}].user", user, _FILES["user"])
        return holder, user

    def _find(self, section: str, name: str, source: str) -> tuple[_File, Json]:
        for file in self.files:
            if entry := file.entries_by_name(section).get(name):
                return file, entry
        where = ", ".join(str(file.path) for file in self.files)
        problem = f"{name!r} is none of the {section} in {where}" if name else "is not set"
        raise ConfigurationError(f"{source}: {problem}; {self._list_choices(section, 'choose one of')}")

    def _list_choices(self, section: str, invitation: str) -> str:
        names = dict.fromkeys(name for file in self.files for name in file.entries_by_name(section))
        return f"{invitation}: {', '.join(names)}" if names else f"there are no {section}; {_NAME_ANOTHER}"


def _read_mapping(file: _File, section: str, name: str, entry: Json, field: str) -> Json:
    value = entry.get(field)
    if not isinstance(value, dict):
        raise ConfigurationError(f"{file.path}: {section}[{name}].{field}: should be a mapping, not {_describe(value)}")
    return value


def _check_files(file: _File, place: str, holder: Json, fields: Sequence[str]) -> None:
    """Paths are relative to the kubeconfig. Inline data takes precedence over a file."""
    for field in fields:
        named = holder.get(field)
        if named and not holder.get(f"{field}-data") and not (file.path.parent / str(named)).is_file():
            raise ConfigurationError(f"{file.path}: {place}.{field}: there is no file {named}")


def _describe(value: object) -> str:
    names: dict[type, str] = {type(None): "nothing", str: "a text", list: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")
