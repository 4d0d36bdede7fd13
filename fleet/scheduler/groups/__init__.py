"""Placement groups: their members, the attempt that decides all of them together, and what survives a restart."""
