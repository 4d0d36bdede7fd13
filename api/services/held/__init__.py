"""What holds a placement back: gates, approvals, evictions."""
