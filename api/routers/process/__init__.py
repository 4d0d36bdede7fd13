"""Endpoints about this process: health, configuration, sessions, pages."""
