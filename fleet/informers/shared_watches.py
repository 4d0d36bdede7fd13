"""Watches that plugins share: handlers on the informers that the process runs anyway, so one watch per kind."""

from __future__ import annotations

from collections.abc import Callable
from inspect import ismethod
from typing import Any
from weakref import WeakMethod

from fleet.errors import ConfigurationError
from fleet.informers.cache import Caches
from fleet.kube.cache.store import Store
from fleet.model.views import Observed


class SharedWatches:
    """Implements `fleet.framework.handle.WatchHub`. Handlers get the views of `fleet.model.views`.

    A handler that is a method lives as long as its plugin: one that a reload has replaced hears nothing more.
    """

    def __init__(self, caches: Caches) -> None:
        informers = [caches.cluster_informer, *(informer for kinds in caches.kinds for informer in kinds)]
        self._stores: dict[str, Store[Any]] = {informer.resource.kind: informer.store for informer in informers}

    def add_handler(self, kind: str, handler: Callable[[Any, Any], None]) -> None:
        store = self._stores.get(kind)
        if store is None:
            raise ConfigurationError(f"{kind} is not watched here: use one of {', '.join(sorted(self._stores))}")
        find_handler: Callable[[], Callable[[Any, Any], None] | None]
        find_handler = WeakMethod(handler) if ismethod(handler) else lambda: handler

        def notify(old: Any, new: Any) -> None:
            present = find_handler()
            if present is not None:
                present(_view_of(old), _view_of(new))

        store.subscribe(notify)

    def start(self) -> None:
        """The informers run with the process, and begin after the first plugins have added their handlers."""


def _view_of(known: Any) -> Any:
    return known.view if isinstance(known, Observed) else known
