"""The objects Fleet reads and writes, each kind written once.

Nothing is imported here: the scheduling core uses the narrow views, quantities and selectors of this package and
must not pay for, or depend on, the pydantic kinds beside them.
"""
