"""Scheduling situations with known results, and the command that runs an engine over them."""
