"""Runs a program in a file system of its own, as a container engine would: `python -m tests.image.room ROOM PARENT …`.

Namespaces of the kernel and nothing else. The program sees what was put into the room, and of that it can change only
what was put there to be changed, whoever it runs as. Mounts end with the last program in the room.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.control_plane import leash

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_PROGRAMS: Final = ("/bin", "/sbin", "/usr/bin", "/usr/sbin")


@dataclass(frozen=True, kw_only=True)
class Room:
    root: str
    """An empty folder; it becomes `/`, and cannot be written to."""
    readable: dict[str, str] = field(default_factory=dict)
    """What is where in the room, by the path in the room."""
    writable: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: int = 0

    def entered(self, *command: str) -> list[str]:
        """What to run to have this run in the room. It ends with whoever starts it."""
        enter = [sys.executable, "-m", "tests.image.room", json.dumps(asdict(self)), str(os.getpid()), *command]
        return ["unshare", "--mount", "--propagation", "private", *enter]


def why_not() -> str:
    """Why there can be no rooms here; nothing where there can."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return "rooms are made of Linux namespaces, with the program unshare"
    if os.geteuid() != 0:
        return "making a room and leaving the rights of its maker behind takes root"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip()


def with_python(*, tools: bool = False) -> dict[str, str]:
    """This Python where the base of the image has its own. No shell is among it, unless tools are wanted."""
    library = sysconfig.get_path("stdlib")
    places = [sysconfig.get_config_var("LIBDIR"), *_LIBRARIES, *(_PROGRAMS if tools else ())]
    return {
        "/usr/local/bin/python": str(Path(sys.executable).resolve()),
        f"/usr/local/lib/{Path(library).name}": library,
        **{path: path for path in places if os.path.lexists(path)},
    }


def _furnish(room: Room) -> None:
    _mount("--bind", room.root, room.root)
    for target, source in room.readable.items():
        if os.path.islink(source):
            _link(room, target, os.readlink(source))
        else:
            _bind(room, target, source)
            _mount("-o", "remount,bind,ro", _inside(room, target))
    for path in DEVICES:
        _bind(room, path, path)
    for target, source in room.writable.items():
        _bind(room, target, source)
    _bind(room, "/proc", "/proc", how="--rbind")
    _mount("-o", "remount,bind,ro", room.root)


def _bind(room: Room, target: str, source: str, *, how: str = "--bind") -> None:
    place = Path(_inside(room, target))
    if os.path.isdir(source):
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    _mount(how, source, str(place))


def _link(room: Room, target: str, to: str) -> None:
    place = Path(_inside(room, target))
    place.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(place):
        place.symlink_to(to)


def _inside(room: Room, path: str) -> str:
    return f"{room.root}{path}"


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _leave_everything_behind(room: Room) -> None:
    os.chroot(room.root)
    os.chdir(room.folder)
    os.setgroups([])
    os.setgid(room.user)
    os.setuid(room.user)
    _become(room.environment)


def _become(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def main() -> None:
    description, parent, program, *arguments = sys.argv[1:]
    room = Room(**json.loads(description))
    _furnish(room)
    _leave_everything_behind(room)
    found = shutil.which(program)
    if found is None:
        sys.exit(f"there is no {program} in the room")
    sys.argv[1:] = [parent, found, *arguments]
    leash.main()


if __name__ == "__main__":
    main()
