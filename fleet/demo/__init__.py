"""A hub that looks lived in: simulated members, a stand-in for the agents that roll out, and workloads to place.

For `fleet up` and for tests that need somebody to act as the other controllers of a fleet. Everything here speaks to
the hub through the API, as those controllers would, so it runs against the embedded hub and against a real API server.
"""

from __future__ import annotations
