"""Properties that are computed once per object, without a lock.

The one of Python 3.11 has a lock for all objects of a class: the event loop would wait while a thread computes the same
property of another object. Two threads that need the property of one object may both compute it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:  # noqa: N801 - as in functools
        def __init__(self, compute):
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value


__all__ = ["cached_property"]
