"""`python requirements/sbom.py requirements/image.txt sbom.cdx.json` writes a bill of materials in CycloneDX JSON.

Its components are the packages of a lock that the Python which runs this would install, with the hashes of the files
that may be installed for each. It needs nothing but Python, because the image is built without any other tool; and no
time or serial number, because the same lock gives the same file.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_ENTRY: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)\s*(?:;\s*(?P<marker>[^\\]+?))?\s*\\?")
_MARKER: Final = re.compile(r"(\w+) (==|!=) '([^']*)'")
_PYTHON: Final = re.compile(r"python_full_version (<|>=) '(\d+)\.(\d+)'")
_ENVIRONMENT: Final = {
    "sys_platform": sys.platform,
    "implementation_name": sys.implementation.name,
    "platform_python_implementation": platform.python_implementation(),
}
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def build_bill(lock: str) -> dict[str, Any]:
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "fleet", "bom-ref": "fleet"}},
        "components": list(_iter_components(lock)),
    }


def _iter_components(lock: str) -> Iterator[dict[str, Any]]:
    """Raises ValueError for a line that is no part of a lock with hashes."""
    component: dict[str, Any] | None = None
    for number, line in enumerate(lock.splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        found = _HASH.match(text)
        if found and component is not None:
            component["hashes"].append({"alg": "SHA-256", "content": found[1]})
            continue
        entry = _ENTRY.fullmatch(text)
        if entry is None:
            raise ValueError(f"line {number} is neither a package with its version nor a hash: {text}")
        yield from _checked(component)
        component = _build_component(entry)
    yield from _checked(component)


def _build_component(entry: re.Match[str]) -> dict[str, Any]:
    name = re.sub(r"[-_.]+", "-", entry["name"]).lower()
    reference = f"pkg:pypi/{name}@{entry['version']}"
    component = {"type": "library", "bom-ref": reference, "name": name, "version": entry["version"], "purl": reference}
    return component | {"scope": "required" if _is_installed(entry["marker"]) else "excluded", "hashes": []}


def _is_installed(marker: str | None) -> bool:
    return marker is None or all(_holds(comparison.strip()) for comparison in marker.split(" and "))


def _holds(text: str) -> bool:
    if python := _PYTHON.fullmatch(text):
        return (sys.version_info >= (int(python[2]), int(python[3]))) == (python[1] == ">=")
    comparison = _MARKER.fullmatch(text)
    if comparison is None or comparison[1] not in _ENVIRONMENT:
        raise ValueError(f"marker {text} is of a form that is not supported")
    return (_ENVIRONMENT[comparison[1]] == comparison[3]) == (comparison[2] == "==")


def _checked(component: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if component is None:
        return
    if not component["hashes"]:
        raise ValueError(f"{component['name']} has no hash")
    if component["scope"] == "required":
        yield component


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    bill = build_bill(source.read_text(encoding="utf-8"))
    target.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
