"""Decisions: recorded attempts, their replay, and those of other schedulers."""
