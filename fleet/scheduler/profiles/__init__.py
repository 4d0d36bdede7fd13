"""Profiles: from their documents to frameworks that decide."""
