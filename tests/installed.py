"""Plugins of a distribution that a test installs: a folder for the path, with metadata as an installer leaves it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fleet.scheduler.profiles.recorded import build_recorded

EXAMPLE_PACKAGE: Final = Path(__file__).parent / "plugin_package"
_PIP: Final = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")

LETTERS = """
from fleet.framework.types import PluginTraits


class Letter(PluginTraits):
    ROW_LOCAL = True

    def __init__(self, raw=None, handle=None):
        pass

    def name(self):
        return type(self).__name__


class Scoring(Letter):
    def score(self, ctx, state, req, frame, rows):
        return rows * 0


class A(Scoring): pass
class B(Scoring): pass
class C(Scoring): pass
class E(Scoring): pass
class F(Scoring): pass


class D(Letter):
    def filter(self, ctx, state, req, frame, alive):
        raise AssertionError("D is at no hook")


class G(Letter):
    def reserve(self, ctx, state, placement, target): ...
    def unreserve(self, ctx, state, placement, target): ...
"""


@contextmanager
def an_installed_package(folder: Path, source: str, plugins: Mapping[str, str]) -> Iterator[None]:
    """`plugins` are entry points: the name, and the attribute of the module."""
    with _on_path(folder, write_package(folder, source, plugins)):
        yield


@contextmanager
def _on_path(folder: Path, module: str) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for loaded in [name for name in sys.modules if name.partition(".")[0] == module]:
            del sys.modules[loaded]
        build_recorded.cache_clear()  # a process counts on its packages to stay as they are


def write_package(folder: Path, source: str, plugins: Mapping[str, str], *, version: str = "1.0") -> str:
    """The module of a package that is found where the folder is on the path."""
    module = f"plugins_of_{folder.name.replace('-', '_')}"
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: {version}\n", encoding="utf-8")
    lines = [f"{name} = {module}:{attribute}" for name, attribute in plugins.items()]
    (info / "entry_points.txt").write_text("\n".join(["[fleet.plugins]", *lines, ""]), encoding="utf-8")
    return module


@contextmanager
def lettered_plugins(folder: Path) -> Iterator[None]:
    """A, B, C, E and F score, D filters, G reserves."""
    with an_installed_package(folder, LETTERS, {letter: letter for letter in "ABCDEFG"}):
        yield


def install_example_package(folder: Path) -> None:
    """The package is built as a wheel, as its users do, and the wheel is installed into the folder."""
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--no-compile", "--target", str(folder))
    subprocess.run([sys.executable, *_PIP, *options, str(EXAMPLE_PACKAGE)], check=True, capture_output=True)


def build_example_wheel(folder: Path) -> Path:
    folder.mkdir()
    build = (
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
    )
    subprocess.run([sys.executable, *build, str(EXAMPLE_PACKAGE)], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@contextmanager
def the_example_package(folder: Path) -> Iterator[None]:
    """From a folder where it is installed."""
    with _on_path(folder, "acme_fleet"):
        yield


_DOUBLES: dict[str, Callable[..., Any]] = {}


def make_double(name: str) -> Callable[..., Any]:
    """The factory that an installed module has under a name."""
    return lambda raw=None, handle=None: _DOUBLES[name](raw, handle)


@contextmanager
def installed_doubles(folder: Path, factories: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Plugins of this process as those of an installed distribution."""
    lines = [f"{name} = make_double({name!r})" for name in factories]
    source = "\n".join(["from tests.installed import make_double", *lines, ""])
    _DOUBLES.update(factories)
    try:
        with an_installed_package(folder, source, {name: name for name in factories}):
            yield
    finally:
        for name in factories:
            del _DOUBLES[name]
