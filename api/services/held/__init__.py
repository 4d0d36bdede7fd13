"""Reasons to hold a placement back: gates, approvals, evictions."""
