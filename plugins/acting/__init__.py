"""Plugins that hold back a placement, prepare for it, or write it."""
