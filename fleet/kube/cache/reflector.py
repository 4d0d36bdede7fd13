"""Reflector: keeps a store equal to the objects on the API server, as long as the process lives.

A paged list, then a watch from the list's version, and again whenever the watch ends. Failures:

- The watch closes, breaks, is idle for too long or has an unreadable line: it is resumed from the last version that was
read, so
  nothing is lost or repeated. After three failures in a row without progress: list again.
- The version is too old (410), or the server was restored from a backup: list again. The store calls its handlers only
  for real changes.
- Repeated failures: delays grow from 0.8 to 30 seconds, longer if the server requests it. They are reset when a watch
  has made progress, but not while the server keeps rejecting our versions as too old.
- One object cannot be read: its last readable state stays in the store, it is reported and kept in `unreadable` until
  it can be read or is gone, and all other objects are not affected.

A watch may lag behind unnoticed. A process that needs the newest state, such as a new leader, calls `refresh`.

Whether the watch or an own write is newer is left to `store`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, TypeVar

from fleet.clock import Clock
from fleet.errors import ApiError, DeadlineExceeded, DocumentError, Forbidden, Gone, NotFound, UnreadableAnswer
from fleet.eventloop import free_later
from fleet.kube.api import Api, Method, Request
from fleet.kube.backoff import WATCH_BACKOFF, ExponentialBackoff, FailureBackoff, Jitter
from fleet.kube.cache.large_documents import LARGE
from fleet.kube.cache.store import Relist, Store, is_older
from fleet.kube.cache.watch import (
    ADDED,
    BOOKMARK,
    DELETED,
    ERROR,
    MODIFIED,
    LineSplitter,
    ObjectHead,
    extract_deleted,
    extract_document,
    iter_items,
    read_event,
    read_head,
    read_page,
    read_status,
    read_version,
)
from fleet.kube.client.failures import build_error
from fleet.kube.resource import Resource, key_of

T = TypeVar("T")

_PAGE_SIZE: Final = 500
_MAX_STUCK: Final = 3
"""Failed watches in a row from the same version before listing again."""


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Which objects of a kind; everything by default."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


@dataclass(frozen=True, slots=True)
class ReflectorTimings:
    """In seconds."""

    silence: float = 150.0
    """Maximum time until the next event or bookmark. The API server sends a bookmark about once a minute."""
    healthy: float = 10.0
    """A watch that lasted this long may be resumed at once."""
    shortest_watch: float = 300.0
    """Watches have a timeout of this up to twice this, so that those of many clients do not end together."""
    absence: float = 30.0
    """Between two lists of an optional kind that the server does not know."""
    pace: ExponentialBackoff = WATCH_BACKOFF


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """An object that exists and cannot be read."""

    key: str
    version: str
    error: Exception


@dataclass(slots=True)
class ReflectorCounts:
    lists: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    failures: int = 0
    unreadable: int = 0


WatchProblem = ApiError | UnreadableObject


class Reflector(Generic[T]):
    def __init__(
        self,
        api: Api,
        resource: Resource,
        store: Store[T],
        *,
        clock: Clock,
        jitter: Jitter,
        selection: ListFilter | None = None,
        timings: ReflectorTimings | None = None,
        optional: bool = False,
        on_problem: Callable[[WatchProblem], None] | None = None,
    ) -> None:
        """Of an `optional` kind that the server does not know there are no objects, which is no problem."""
        self.counts = ReflectorCounts()
        self.unreadable: dict[str, UnreadableObject] = {}
        self.on_unreadable_gone: Callable[[str], None] = lambda _: None
        """Called with the key of an object that could not be read, is gone, and is not in the store."""
        self._api = api
        self._store = store
        self._clock = clock
        self._jitter = jitter
        self._selection = selection or ListFilter()
        self._timings = timings or ReflectorTimings()
        self._on_problem = on_problem or (lambda _: None)
        self._path = resource.collection(self._selection.namespace)
        self._backoff = FailureBackoff(self._timings.pace, jitter)
        self._needs_list = True
        self._pages_expire = False
        self._optional = optional
        self._stuck = 0
        self._synced = asyncio.Event()
        self._refreshes: list[asyncio.Event] = []
        self._interruption: asyncio.Timeout | None = None

    @property
    def is_synced(self) -> bool:
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        """Returns once the store has held a complete list."""
        await self._synced.wait()

    async def refresh(self) -> None:
        """Returns once the store has a complete list that was started after this call; needs `run` to be running.

        A watch in progress ends for it, and so does a backoff. A list in progress may be older than this call, so
        another is made; the former ends at once unless an earlier call waits for it. A failed list is retried, with the
        usual backoff.
        """
        refreshed = asyncio.Event()
        self._refreshes.append(refreshed)
        self._needs_list = True
        if self._interruption:
            self._interruption.reschedule(asyncio.get_running_loop().time())
        await refreshed.wait()

    async def run(self) -> NoReturn:
        """Until cancelled."""
        while True:
            wait = await self._list_and_watch()
            if wait:
                await self._run_unless_refreshed(self._clock.sleep(wait))

    async def _run_unless_refreshed(self, work: Coroutine[Any, Any, None]) -> None:
        """Until it is done, or until `refresh` is called."""
        try:
            async with asyncio.timeout(None) as self._interruption:
                await work
        except TimeoutError:
            if not self._refreshes:
                raise
        finally:
            self._interruption = None

    async def _list_and_watch(self) -> float:
        """A list if one is needed, then a watch to its end. Returns the delay before the next round."""
        problem: ApiError | None = None
        while self._needs_list:
            refreshes = self._refreshes.copy()
            try:
                await (self._list() if self._refreshes else self._run_unless_refreshed(self._list()))
            except ApiError as error:
                if self._optional and await self._is_absent(error):
                    self._apply_absence(refreshes)
                    return self._timings.absence
                self._note(error)
                return self._backoff.next_delay(at_least=error.retry_after)
        started, from_version = self._clock.monotonic(), self._store.version
        try:
            await self._run_unless_refreshed(self._watch())
        except ApiError as error:
            problem = error
            self._note(error)
        if self._refreshes:
            return 0.0
        return self._compute_delay(
            problem,
            lived=self._clock.monotonic() - started,
            progressed=self._store.version != from_version,
        )

    def _compute_delay(self, problem: ApiError | None, *, lived: float, progressed: bool) -> float:
        expired = isinstance(problem, Gone)
        healthy = lived >= self._timings.healthy
        self._stuck = 0 if progressed else self._stuck + (problem is not None)
        if expired or self._stuck >= _MAX_STUCK:
            self._needs_list, self._stuck = True, 0
        if healthy or (progressed and not expired):
            self._backoff.reset()
        if healthy and problem is None:
            return 0.0
        return self._backoff.next_delay(at_least=problem.retry_after if problem else None)

    def _note(self, error: ApiError) -> None:
        self.counts.failures += 1
        self._on_problem(error)

    # --- list ---------------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        self.counts.lists += 1
        refreshes = self._refreshes.copy()
        relist = self._store.relist()
        after = ""
        while True:
            page = read_page(await self._fetch_page(after))
            if not page.metadata.resource_version:
                raise UnreadableAnswer(f"the list of {self._path} has no resourceVersion")
            relist.begin(page.metadata.resource_version)
            async for document in iter_items(page):
                large = await self._read_large(document) if len(document) >= LARGE else None
                self._add_listed(relist, document, large)
            after = page.metadata.continue_
            if not after:
                break
        relist.end()
        self._retain_unreadable(relist)
        self._pages_expire = False
        self._synced.set()
        self._complete_refreshes(refreshes)

    async def _is_absent(self, error: ApiError) -> bool:
        """A client without the right to list a kind is refused before the server looks whether there is one. Everybody
        may ask for the kinds of a group: if the server does not know the group, the kind is not hidden but absent."""
        if isinstance(error, Forbidden):
            try:
                await self._api.call(Request(Method.GET, self._path.rpartition("/")[0]))
            except ApiError as unknown:
                return isinstance(unknown, NotFound)
        return isinstance(error, NotFound)

    def _apply_absence(self, refreshes: list[asyncio.Event]) -> None:
        relist = self._store.relist()
        relist.begin("")
        relist.end()
        self._forget_unreadable(list(self.unreadable))
        self._synced.set()
        self._complete_refreshes(refreshes)
        self._needs_list = True

    def _complete_refreshes(self, refreshes: list[asyncio.Event]) -> None:
        """Calls during the list need another one: this list may be older than the call."""
        for refreshed in refreshes:
            refreshed.set()
        self._refreshes = self._refreshes[len(refreshes) :]
        self._needs_list = bool(self._refreshes)

    async def _fetch_page(self, after: str) -> bytes:
        query = self._build_selectors()
        if not self._pages_expire:
            query.append(("limit", str(_PAGE_SIZE)))
        if after:
            query.append(("continue", after))
        try:
            return await self._api.call(Request(Method.GET, self._path, query=tuple(query)))
        except Gone:
            self._pages_expire = bool(after)  # the pages took too long: next time in one piece
            raise

    def _add_listed(self, relist: Relist[T], document: bytes, large: T | None) -> None:
        try:
            listed = self._read(document) if large is None else large
            relist.add(listed)
        except Exception as error:
            relist.keep(self._note_unreadable(document, error).key)
        else:
            self._note_readable(listed)

    def _retain_unreadable(self, relist: Relist[T]) -> None:
        self._forget_unreadable([key for key in self.unreadable if not relist.has(key)])

    def _forget_unreadable(self, keys: Iterable[str]) -> None:
        """They are gone."""
        for key in keys:
            del self.unreadable[key]
            if key not in self._store:
                self.on_unreadable_gone(key)

    # --- watch --------------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """To its end. Only complete events reset the limit on silence: single bytes do not."""
        self.counts.watches += 1
        lines = LineSplitter()
        silence = self._timings.silence
        limit = asyncio.timeout(silence)
        loop = asyncio.get_running_loop()
        async with self._api.stream(self._build_watch_request()) as pieces:
            try:
                async with limit:
                    async for piece in pieces:
                        if await self._apply_lines(lines.feed(piece)):
                            limit.reschedule(loop.time() + silence)
            except TimeoutError as error:
                if not limit.expired():
                    raise
                raise DeadlineExceeded(f"the watch of {self._path} was idle for {silence:g} s") from error

    def _build_watch_request(self) -> Request:
        seconds = self._timings.shortest_watch * (1 + self._jitter())
        query = (
            *self._build_selectors(),
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._store.version),
            ("timeoutSeconds", str(int(seconds))),
        )
        return Request(Method.GET, self._path, query=query)

    def _build_selectors(self) -> list[tuple[str, str]]:
        chosen = {"labelSelector": self._selection.labels, "fieldSelector": self._selection.fields}
        return [(name, value) for name, value in chosen.items() if value]

    async def _apply_lines(self, lines: Iterator[bytes]) -> int:
        taken = 0
        for line in lines:
            if line:
                large = await self._read_large(extract_document(line)) if len(line) >= LARGE else None
                self._apply_line(line, large)
                taken += 1
        return taken

    def _apply_line(self, line: bytes, large: T | None) -> None:
        """A line in the usual form of the API server is not parsed as a whole; all others are."""
        document = extract_document(line)
        if document is not None:
            try:
                seen = self._read(document) if large is None else large
            except Exception:
                self._apply_parsed(line)
            else:
                self.counts.events += 1
                self._apply_read(seen, document)
        elif (deleted := extract_deleted(line)) is not None and (head := read_head(deleted)) is not None:
            self.counts.events += 1
            if len(line) >= LARGE:
                free_later(self._store.get(head.key))
            self._apply_deleted(head)
        else:
            self._apply_parsed(line)

    def _apply_parsed(self, line: bytes) -> None:
        event = read_event(line)
        if event.type == MODIFIED or event.type == ADDED:
            self.counts.events += 1
            self._apply_object(bytes(event.object))
        elif event.type == DELETED:
            self.counts.events += 1
            head = read_head(bytes(event.object))
            if head is None:
                raise UnreadableAnswer(f"a watch of {self._path} has a deleted object without a name")
            self._apply_deleted(head)
        elif event.type == BOOKMARK:
            self.counts.bookmarks += 1
            self._apply_bookmark(bytes(event.object))
        elif event.type == ERROR:
            raise build_error(read_status(event.object))
        else:
            raise UnreadableAnswer(f"an event of a watch has the unknown type {event.type!r}")

    def _apply_object(self, document: bytes) -> None:
        try:
            seen = self._read(document)
        except Exception as error:
            self._store.advance_version(self._note_unreadable(document, error).version)
        else:
            self._apply_read(seen, document)

    def _apply_read(self, seen: T, document: bytes) -> None:
        try:
            self._store.apply_event(seen)
        except Exception as error:  # from an index function
            self._store.advance_version(self._note_unreadable(document, error).version)
        else:
            self._note_readable(seen)

    def _apply_deleted(self, head: ObjectHead) -> None:
        self._forget_unreadable([head.key] if head.key in self.unreadable else [])
        self._store.apply_delete_event(head.key, uid=head.metadata.uid, version=head.metadata.resource_version)

    def _apply_bookmark(self, document: bytes) -> None:
        version = read_version(document)
        if is_older(version, self._store.version):
            raise Gone(f"{self._path} is at {version} again, after {self._store.version}: the server was set back")
        self._store.advance_version(version)

    # --- objects ------------------------------------------------------------------------------------------------------

    def _read(self, document: bytes) -> T:
        read = self._store.codec.read(document)
        if not self._store.codec.metadata_of(read).name:
            raise DocumentError("the object has no name", field="metadata.name")
        return read

    async def _read_large(self, document: bytes | None) -> T | None:
        """None for what cannot be read: it is refused in the same way as a small one."""
        try:
            read = None if document is None else await self._store.read(document)
        except Exception:
            return None
        return read if read is not None and self._store.codec.metadata_of(read).name else None

    def _note_readable(self, read: T) -> None:
        if self.unreadable:
            self.unreadable.pop(key_of(self._store.codec.metadata_of(read)), None)

    def _note_unreadable(self, document: bytes, error: Exception) -> UnreadableObject:
        """An object without even a name means that the stream itself is broken."""
        head = read_head(document)
        if head is None:
            raise UnreadableAnswer(f"{self._path} has an object without a name: {error}") from error
        unreadable = UnreadableObject(head.key, head.metadata.resource_version, error)
        self.unreadable[unreadable.key] = unreadable
        self.counts.unreadable += 1
        self._on_problem(unreadable)
        return unreadable
