"""Runs `fleet` as a process that ends with its parent: `python -m fleet.operator.local.attached ARGUMENT…`.

The parent holds the other end of standard input. When it is gone, however it ended, the process gets SIGTERM, and
SIGKILL if it still runs after the grace period.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

from fleet.operator.local.replica import GRACE


def _follow_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    threading.Thread(target=_follow_parent, name="following the parent", daemon=True).start()
    sys.argv[0] = "fleet"
    runpy.run_module("fleet.cli", run_name="__main__")


if __name__ == "__main__":
    main()
