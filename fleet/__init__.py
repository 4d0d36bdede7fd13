"""Fleet decides which member clusters a workload runs on, and says why."""

__version__ = "0.1.0"
