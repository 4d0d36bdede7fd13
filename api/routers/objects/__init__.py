"""Endpoints about placements, clusters and bindings."""
