"""A control plane to try things on: `python -m tests.control_plane` runs one until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.control_plane.assets import assets
from tests.control_plane.failures import AssetsUnavailable, NeverReady
from tests.control_plane.instance import ControlPlane


def main() -> int:
    try:
        with (
            tempfile.TemporaryDirectory(prefix="fleet-control-plane-") as folder,
            ControlPlane(Path(folder), programs=assets()) as control_plane,
        ):
            print(f"export KUBECONFIG={control_plane.access.kubeconfig}")
            print(f"export PATH={control_plane.access.programs}:$PATH", flush=True)
            with suppress(KeyboardInterrupt):
                signal.pause()
    except (AssetsUnavailable, NeverReady) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
