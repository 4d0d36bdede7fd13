"""API types: the kinds that Fleet reads and writes, and their views, quantities and selectors.

Nothing is imported here: the scheduling core uses the narrow views, quantities and selectors of this package and must
not import the pydantic kinds.
"""
