"""Runs a program that dies when its parent dies: `leash.py PARENT PROGRAM ARGUMENT…`.

A killed test run cannot stop its servers, so the kernel does. This is a program of its own because code between fork
and exec is not safe in a process with threads. The kernel watches the thread that started us: start servers from a
thread that lives as long as they should. Elsewhere than on Linux this only runs the program.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):
            sys.exit("the parent ended before its child was on the leash")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
