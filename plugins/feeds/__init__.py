"""Plugins that read numbers from outside."""
