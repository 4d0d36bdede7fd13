"""The programs tests can run, and where their sources are.

`go/go.mod` and the modules in `go/` are the only places with versions: the programs are declared there as tools, so
that the real main packages are built and no Go code is needed here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GO: Final = Path(__file__).parent / "go"
KUBERNETES: Final = "k8s.io/kubernetes"


@dataclass(frozen=True)
class Program:
    """One program: its main package, the module that pins it, and the variable its version is stamped into."""

    name: str
    package: str
    requirement: str
    module: Path = GO
    version_variable: str = ""
    is_optional: bool = False

    @property
    def version(self) -> str:
        found = re.search(rf"^(?:require|\t)\s*{re.escape(self.requirement)} (v\S+)", _text(self.module), re.MULTILINE)
        if found is None:
            raise LookupError(
                f"{self.module / 'go.mod'} requires no {self.requirement}, which {self.name} is built from"
            )
        return found.group(1)

    @property
    def linker_flags(self) -> str:
        stamp = f" -X {self.version_variable}={self.version}" if self.version_variable else ""
        return f"-s -w{stamp}"


def _text(module: Path) -> str:
    return (module / "go.mod").read_text(encoding="utf-8")


def _of_kubernetes(name: str, *, is_optional: bool = False) -> Program:
    return Program(
        name,
        f"{KUBERNETES}/cmd/{name}",
        KUBERNETES,
        version_variable="k8s.io/component-base/version.gitVersion",
        is_optional=is_optional,
    )


PROGRAMS: Final = {
    program.name: program
    for program in (
        Program("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
        _of_kubernetes("kube-apiserver"),
        _of_kubernetes("kubectl"),
        _of_kubernetes("kube-controller-manager", is_optional=True),
        _of_kubernetes("kube-scheduler", is_optional=True),
        Program(
            "helm",
            "helm.sh/helm/v4/cmd/helm",
            "helm.sh/helm/v4",
            module=GO / "helm",
            version_variable="helm.sh/helm/v4/internal/version.version",
            is_optional=True,
        ),
        Program(
            "kwok",
            "sigs.k8s.io/kwok/cmd/kwok",
            "sigs.k8s.io/kwok",
            module=GO / "kwok",
            is_optional=True,
        ),
    )
}
USUAL: Final = tuple(name for name, program in PROGRAMS.items() if not program.is_optional)
OPTIONAL: Final = tuple(name for name, program in PROGRAMS.items() if program.is_optional)


def pinned() -> bytes:
    """Everything that decides what is built, apart from the toolchain."""
    modules = sorted({program.module for program in PROGRAMS.values()})
    return b"\0".join((module / name).read_bytes() for module in modules for name in ("go.mod", "go.sum"))


def oldest_go() -> tuple[int, ...]:
    """The oldest toolchain that builds all of them."""
    wanted = (re.search(r"^go ([0-9.]+)$", _text(program.module), re.MULTILINE) for program in PROGRAMS.values())
    return max(tuple(map(int, found.group(1).split("."))) for found in wanted if found)
