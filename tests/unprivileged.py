"""Runs a program as another user, on its parent's leash: `python -m tests.unprivileged USER GROUP PARENT PROGRAM …`.

A program of its own because rights cannot be given back, and because the interpreter itself may be where the other
user must not look: everything is imported before the rights are dropped.
"""

from __future__ import annotations

import os
import sys

from tests.control_plane import leash


def main() -> None:
    user, group = int(sys.argv[1]), int(sys.argv[2])
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    sys.argv[1:] = sys.argv[3:]
    leash.main()


if __name__ == "__main__":
    main()
