"""What is wrong with a kubeconfig, told by file, field and value, before anything is opened with it.

The library that makes a connection of a kubeconfig trips over what is wrong with it somewhere on its way, and says
where it was at that moment. Only what is needed to find a server is looked at here: whether credentials are any good,
nobody but the server can tell.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml

from fleet.errors import ConfigurationError

KUBECONFIG: Final = "KUBECONFIG"
_NAME_ONE: Final = "name another file with --kubeconfig or KUBECONFIG"
_FILES: Final = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}

Json = dict[str, Any]


def validate_kubeconfig(
    path: Path | None = None, context: str | None = None, environ: Mapping[str, str] = os.environ
) -> None:
    """Raises ConfigurationError if no server can be found. `path` None: where kubectl looks."""
    files = [path] if path is not None else _usual_files(environ)
    found = [_read(one) for one in files if one.exists()]
    if not found:
        names = ", ".join(map(str, files))
        raise ConfigurationError(f"kubeconfig: there is no file {names}; {_NAME_ONE}")
    _Merged(found).check(context)


def _usual_files(environ: Mapping[str, str]) -> list[Path]:
    named = [Path(one) for one in environ.get(KUBECONFIG, "").split(os.pathsep) if one]
    return named or [Path.home() / ".kube" / "config"]


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    content: Json

    def named(self, section: str) -> dict[str, Json]:
        """The entries of a list of named things."""
        entries = self.content.get(section) or []
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise ConfigurationError(f"{self.path}: {section}: should be a list of named {section}")
        return {str(one.get("name")): one for one in entries}


def _read(path: Path) -> _File:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}; {_NAME_ONE}") from error
    except UnicodeError as error:
        raise ConfigurationError(f"{path}: is no text; {_NAME_ONE}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ConfigurationError(f"{path}: {place}no YAML: {error.problem}; mend it, or {_NAME_ONE}") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: no YAML: {error}; mend it, or {_NAME_ONE}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{path}: is no kubeconfig: it holds {_what(content)}, not contexts, clusters and users; {_NAME_ONE}"
        )
    return _File(path, content)


@dataclass(frozen=True, slots=True)
class _Merged:
    """Several files as one: the first that says something counts."""

    files: Sequence[_File]

    def check(self, context: str | None) -> None:
        name, source = self._chosen(context)
        found = self._entry("contexts", name)
        if found is None:
            self._unknown(source, "contexts", name)
        file, entry = found
        chosen = _inner(file, "contexts", name, entry, "context")
        self._check_cluster(file, name, chosen)
        self._check_user(file, name, chosen)

    def _chosen(self, context: str | None) -> tuple[str, str]:
        """The name of the context, and where it is said."""
        if context:
            return context, "--context"
        for file in self.files:
            if current := file.content.get("current-context"):
                return str(current), f"{file.path}: current-context"
        path = self.files[0].path
        raise ConfigurationError(
            f"{path}: current-context: is not set; {self._choice('contexts', 'choose with --context')}"
        )

    def _check_cluster(self, file: _File, context: str, chosen: Json) -> None:
        name = str(chosen.get("cluster") or "")
        found = self._entry("clusters", name)
        if found is None:
            self._unknown(f"{file.path}: contexts[{context}].context.cluster", "clusters", name)
        holder, entry = found
        cluster = _inner(holder, "clusters", name, entry, "cluster")
        server, field = str(cluster.get("server") or ""), f"{holder.path}: clusters[{name}].cluster.server"
        if not server.startswith(("http://", "https://")):
            said = f"{server!r} is no address of an API server" if server else "is not set"
            raise ConfigurationError(f"{field}: {said}; write it as https://hub.example.com:6443")
        _check_files(holder, f"clusters[{name}].cluster", cluster, _FILES["cluster"])

    def _check_user(self, file: _File, context: str, chosen: Json) -> None:
        name = str(chosen.get("user") or "")
        if not name:
            return  # anonymous, and the server may allow that
        found = self._entry("users", name)
        if found is None:
            self._unknown(f"{file.path}: contexts[{context}].context.user", "users", name)
        holder, entry = found
        _check_files(holder, f"users[{name}].user", entry.get("user") or {}, _FILES["user"])

    def _entry(self, section: str, name: str) -> tuple[_File, Json] | None:
        return next(((file, entry) for file in self.files if (entry := file.named(section).get(name))), None)

    def _unknown(self, source: str, section: str, name: str) -> NoReturn:
        where = ", ".join(str(file.path) for file in self.files)
        said = f"{name!r} is none of the {section} in {where}" if name else "is not set"
        raise ConfigurationError(f"{source}: {said}; {self._choice(section, 'choose one of')}")

    def _choice(self, section: str, invitation: str) -> str:
        names = dict.fromkeys(name for file in self.files for name in file.named(section))
        return f"{invitation}: {', '.join(names)}" if names else f"there are no {section}; {_NAME_ONE}"


def _inner(file: _File, section: str, name: str, entry: Json, field: str) -> Json:
    found = entry.get(field)
    if not isinstance(found, dict):
        raise ConfigurationError(f"{file.path}: {section}[{name}].{field}: should be a mapping, not {_what(found)}")
    return found


def _check_files(file: _File, place: str, holder: Json, fields: Sequence[str]) -> None:
    """Paths are relative to the kubeconfig. Content that is in the kubeconfig itself counts more than a file."""
    for field in fields:
        named = holder.get(field)
        if named and not holder.get(f"{field}-data") and not (file.path.parent / str(named)).is_file():
            raise ConfigurationError(f"{file.path}: {place}.{field}: there is no file {named}")


def _what(value: object) -> str:
    names: dict[type, str] = {type(None): "nothing", str: "a text", list: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")
