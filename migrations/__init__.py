"""Migrations of the databases: the decision history and the embedded hub.

The current tables are defined beside the code that uses them; a migration never imports current code.
"""
