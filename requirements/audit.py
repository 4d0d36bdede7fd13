"""`python requirements/audit.py ADVISORIES LOCK…` looks for known vulnerabilities of locked versions, without a
network.

ADVISORIES is a copy of advisories in the OSV format: a folder with JSON files, or the archive of an ecosystem as
osv.dev offers it. Only packages of PyPI are compared. Without a copy nothing is known, and that is what it prints.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

FINE, VULNERABLE, UNUSABLE = 0, 1, 2
_PINNED: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_DAYS_FRESH: Final = 30
_FIRST: Final = "0.dev0"
"""What advisories write as 0: the version before all others."""


class UnusableAdvisory(Exception):
    pass


def audit(advisories: Path, locks: Sequence[Path], *, now: datetime) -> tuple[int, list[str]]:
    """Exit code, and lines to print."""
    if not advisories.exists():
        return FINE, [f"NOT AUDITED: there is no copy of advisories at {advisories}; see docs/security.md"]
    try:
        by_package, newest, unreadable = _index_advisories(advisories)
    except UnusableAdvisory as error:
        return UNUSABLE, [f"NOT AUDITED: {error}"]
    age = (now - newest).days
    warnings = [f"WARNING: the newest advisory is {age} days old: later ones are unknown here"]
    vulnerable = sorted({line for lock in locks for line in _list_vulnerable(lock, by_package)})
    result = vulnerable or [f"no known vulnerability in {len(locks)} locks; advisories name {len(by_package)} packages"]
    code = VULNERABLE if vulnerable else UNUSABLE if unreadable else FINE
    return code, [*(warnings if age > _DAYS_FRESH else ()), *unreadable, *result]


def _index_advisories(path: Path) -> tuple[Mapping[str, Sequence[dict[str, Any]]], datetime, Sequence[str]]:
    """By package, when the last one was modified, and what cannot be read."""
    unreadable: list[str] = []
    by_package: dict[str, list[dict[str, Any]]] = defaultdict(list)
    newest = datetime.min.replace(tzinfo=UTC)
    for name, content in _read_files(path):
        try:
            advisory = json.loads(content)
            newest = max(newest, datetime.fromisoformat(advisory["modified"]).astimezone(UTC))
            if "withdrawn" in advisory:
                continue
            for affected in advisory.get("affected", ()):
                if affected["package"]["ecosystem"] == "PyPI":
                    by_package[canonicalize_name(affected["package"]["name"])].append(affected | {"id": advisory["id"]})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            unreadable.append(f"NOT READ: {name} is no advisory in the OSV format: {error!r}")
    if not by_package:
        raise UnusableAdvisory("; ".join([f"{path} has no advisory about packages of PyPI", *unreadable]))
    return by_package, newest, unreadable


def _read_files(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for file in sorted(path.rglob("*.json")):
            yield str(file), file.read_bytes()
        return
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".json"):
                    yield name, archive.read(name)
    except zipfile.BadZipFile as error:
        raise UnusableAdvisory(f"{path} is neither a folder nor an archive") from error


def _list_vulnerable(lock: Path, by_package: Mapping[str, Sequence[dict[str, Any]]]) -> Iterator[str]:
    for name, version in _PINNED.findall(lock.read_text(encoding="utf-8")):
        for affected in by_package.get(canonicalize_name(name), ()):
            if _is_affected(version, affected):
                yield f"{lock.name}: {name} {version}: {affected['id']}{_describe_fix(version, affected)}"


def _is_affected(version: str, affected: Mapping[str, Any]) -> bool:
    if version in affected.get("versions", ()):
        return True
    ranges = [each for each in affected.get("ranges", ()) if each["type"] in ("ECOSYSTEM", "SEMVER")]
    try:
        return any(_is_within(Version(version), each["events"]) for each in ranges)
    except InvalidVersion:
        return True  # it cannot be compared: better looked at than missed


def _is_within(version: Version, events: Sequence[Mapping[str, str]]) -> bool:
    """Of the events up to the version, the last one counts."""
    is_within = False
    moments = ((Version(_FIRST if text == "0" else text), kind) for event in events for kind, text in event.items())
    for moment, kind in sorted(moments):
        if kind == "introduced" and moment <= version:
            is_within = True
        elif (kind == "fixed" and moment <= version) or (kind == "last_affected" and moment < version):
            is_within = False
    return is_within


def _describe_fix(version: str, affected: Mapping[str, Any]) -> str:
    ends = {event["fixed"] for each in affected.get("ranges", ()) for event in each["events"] if "fixed" in event}
    later = sorted(Version(end) for end in ends if _is_version(end) and Version(end) > Version(version))
    return f", fixed in {later[0]}" if later else ""


def _is_version(text: str) -> bool:
    """GIT ranges have commits."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


if __name__ == "__main__":
    copy, *locked = map(Path, sys.argv[1:])
    code, printed = audit(copy, locked, now=datetime.now(UTC))
    sys.stdout.write("\n".join([*printed, ""]))
    sys.exit(code)
