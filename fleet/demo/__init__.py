"""Demo fleet: simulated member clusters, simulated rollout agents, and workloads to place.

For `fleet up` and for tests that need the other controllers of a fleet. All access to the hub is through its API, so it
runs against the embedded hub and against a real API server.
"""

from __future__ import annotations
