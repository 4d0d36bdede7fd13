"""Scheduling plugins of a company that does not exist."""

from __future__ import annotations
