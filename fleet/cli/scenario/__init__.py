"""Scenarios: the real controller on a hub in memory, in virtual time."""
