"""A cache of values read from znodes, each valid until its watch fires.

Answers to: nothing in Kafka, whose brokers read a consumer's offset from ZooKeeper at every request. Reactor shell.

An event only invalidates; the next request reads again and sets the watch again. So a znode that is written a thousand
times and requested twice costs two reads, and a znode that is never requested costs nothing. Everything is invalid once
the connection was lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar, cast

from kafkalite.common.clock import Clock
from kafkalite.common.tasks import SharedOutcome
from kafkalite.zk.zk_client import EventType, SessionState, Watch, WatchEvent, ZkClient

T = TypeVar("T")

MAX_CELLS = 50_000
"""How many znodes are remembered; beyond it the least recently requested scopes are dropped."""

IDLE = 600.0
"""Seconds after which a value that was not requested is dropped."""

BUSY = 1.0
"""Seconds for which a requested value stays even above ``MAX_CELLS``, because an outstanding answer may need it."""

_SWEEP = 60.0


class _Cell:
    """The value of one znode. ``reading``: the outstanding read, if any."""

    __slots__ = ("reading", "valid", "value")

    def __init__(self) -> None:
        self.value: object = None
        self.valid = False
        self.reading: _Reading | None = None


class _Reading(SharedOutcome[object]):
    """One read in flight. ``fresh``: no event came since it began."""

    __slots__ = ("fresh",)

    def __init__(self) -> None:
        super().__init__()
        self.fresh = True


class WatchedReads:
    """Values by the path of their watch, in scopes (``/consumers/<group>``) that are dropped as a whole.

    There is one watch for each path, however often it is read: a scope that is dropped and read again finds the old
    watch in its place.
    """

    def __init__(self, client: ZkClient, clock: Clock, max_cells: int = MAX_CELLS) -> None:
        self._clock = clock
        self._max_cells = max_cells
        self._scopes: dict[str, dict[str, _Cell]] = {}
        self._used: dict[str, float] = {}
        self._count = 0
        self._sweep_at = 0.0
        client.add_listener(self._on_session)

    def __len__(self) -> int:
        """How many znodes are remembered."""
        return self._count

    def has(self, scope: str) -> bool:
        """Whether anything of ``scope`` is remembered."""
        return scope in self._scopes

    def is_valid(self, path: str) -> bool:
        """Whether the value of ``path`` is known."""
        cell = self._find(path)
        return cell is not None and cell.valid

    def all_valid(self, paths: Iterable[str]) -> bool:
        """Whether all values of ``paths`` are known."""
        return all(map(self.is_valid, paths))

    def peek(self, path: str) -> tuple[bool, object]:
        """Whether the value of ``path`` is known, and the value."""
        cell = self._find(path)
        return (True, cell.value) if cell is not None and cell.valid else (False, None)

    def known(self, path: str) -> object:
        """The value last read of ``path``, though it may be old; ``None`` where there is none."""
        cell = self._find(path)
        return None if cell is None else cell.value

    async def get(self, path: str, load: Callable[[Watch], Awaitable[T]]) -> T:
        """The value of ``path``: the known one, or the result of ``load``, which sets the given watch.

        A caller that comes during a read gets the same value, unless an event came in between, which may be of a write
        that the outstanding read has not seen. Raises what ``load`` raises.
        """
        cell = self._cell(path)
        if cell.valid:
            return cast(T, cell.value)
        reading = cell.reading
        if reading is not None and reading.fresh:
            return cast(T, await reading.wait())
        return await self._read(cell, load)

    def forget(self, scope: str) -> None:
        """Drop everything of ``scope``."""
        self._used.pop(scope, None)
        cells = self._scopes.pop(scope, None)
        if cells is not None:
            self._count -= len(cells)

    async def _read(self, cell: _Cell, load: Callable[[Watch], Awaitable[T]]) -> T:
        reading = cell.reading = _Reading()
        try:
            value = await load(self._on_event)
        except BaseException as error:
            if cell.reading is reading:
                cell.reading = None
            reading.fail(error)
            raise
        if cell.reading is reading:
            cell.reading = None
            cell.value = value
            cell.valid = reading.fresh
        reading.succeed(value)
        return value

    def _cell(self, path: str) -> _Cell:
        scope = _scope(path)
        now = self._clock.monotonic()
        # Remove and insert, so that the scopes stay in the order of their last use.
        self._used.pop(scope, None)
        self._used[scope] = now
        cells = self._scopes.setdefault(scope, {})
        cell = cells.get(path)
        if cell is None:
            cell = cells[path] = _Cell()
            self._count += 1
        if now >= self._sweep_at or self._count > self._max_cells:
            self._sweep(now, scope)
        return cell

    def _find(self, path: str) -> _Cell | None:
        cells = self._scopes.get(_scope(path))
        return None if cells is None else cells.get(path)

    def _sweep(self, now: float, current: str) -> None:
        self._sweep_at = now + _SWEEP
        while True:
            scope, used = next(iter(self._used.items()))
            if scope == current or now - used < (IDLE if self._count <= self._max_cells else BUSY):
                return
            self.forget(scope)

    def _on_event(self, event: WatchEvent) -> None:
        cell = self._find(event.path)
        if cell is None:
            return
        _invalidate(cell)
        if event.type is EventType.DELETED and cell.reading is None:
            del self._scopes[_scope(event.path)][event.path]
            self._count -= 1

    def _on_session(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED:
            for cells in self._scopes.values():
                for cell in cells.values():
                    _invalidate(cell)


def _invalidate(cell: _Cell) -> None:
    cell.valid = False
    if cell.reading is not None:
        cell.reading.fresh = False


def _scope(path: str) -> str:
    """The first two names of ``path``."""
    return "/".join(path.split("/", 3)[:3])
