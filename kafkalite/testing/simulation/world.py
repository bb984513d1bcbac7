"""Virtual time: one queue of events, machines, and the lives of the processes on them. Deterministic.

Answers to: the scheduler of FoundationDB's simulator. This module knows no broker.

One seed determines a run. Each purpose has its own random stream (:meth:`World.rng`), so that the removal of one fault
does not change other random values. Events of one instant happen in the order of their planning. A digest of all events
(:meth:`World.digest`) is the trace: two runs of one seed have equal digests.

All work of a process is events of its :class:`Life`. Events of a paused life are held back; events of a dead one never
happen, and its objects are kept in a graveyard, because a killed process runs no finalizer and no ``finally``.
"""

from __future__ import annotations

import gc
import hashlib
import heapq
import logging
import random
import struct
from collections.abc import Callable
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, cast

from twisted.logger import globalLogPublisher

from kafkalite.common.clock import Clock

EPOCH_MS = 1_700_000_000_000
"""Time of day at the beginning of every world."""
_CATCH_UP = 0.0001
"""Seconds between the first and the last of the held events after a resume."""
_STEP = struct.Struct("<dI")

log = logging.getLogger(__name__)


class ScheduledCall:
    """A planned call, with the methods of Twisted's delayed calls that the network uses."""

    __slots__ = ("args", "at", "call", "life")

    def __init__(self, at: float, call: Callable[..., object], args: tuple[object, ...], life: Life | None) -> None:
        self.at = at
        self.call: Callable[..., object] | None = call
        self.args = args
        self.life = life

    def cancel(self) -> None:
        """Cancel the call; does nothing if it was made or cancelled already."""
        self.call = None
        self.args = ()

    def active(self) -> bool:
        """Whether the call is pending."""
        return self.call is not None

    def getTime(self) -> float:  # noqa: N802
        """The time of the call in virtual seconds."""
        return self.at


class CapturedLine(NamedTuple):
    """One line of a node's log, or of the world's story (level 0)."""

    at: float
    node: str
    level: int
    logger: str
    text: str
    failure: BaseException | None = None

    def __str__(self) -> str:
        name = logging.getLevelName(self.level) if self.level else "*"
        return f"{self.at:10.6f} {self.node:>12} {name:<8} {self.text}" + (f" ({self.logger})" if self.logger else "")


class World:
    """The event loop. Use it as a context manager: inside, log lines are captured instead of written, and the garbage
    collector is off.

    ``lines`` are the log lines of all nodes and the world's own notes, in order; ``failures`` those with an exception,
    which are violations. ``trace`` is called with time, node and name of each event.
    """

    def __init__(self, seed: int, trace: Callable[[float, str, str], None] | None = None) -> None:
        self.seed = seed
        self.now = 0.0
        self.events = 0
        self.nodes: dict[str, Node] = {}
        self.lines: list[CapturedLine] = []
        self.failures: list[CapturedLine] = []
        self.graveyard: list[object] = []
        self.current: Life | None = None
        self._trace = trace
        self._heap: list[tuple[float, int, ScheduledCall]] = []
        self._order = 0
        self._lives = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._streams: dict[str, random.Random] = {}
        self._capture = _Capture(self)
        self._log_state: tuple[int, bool] = (logging.NOTSET, True)
        self._collects = False
        self.clock: Clock = WorldClock(self)

    # Time and chance

    def monotonic(self) -> float:
        """Virtual seconds since the world began."""
        return self.now

    def time_ms(self) -> int:
        """Virtual time of day in milliseconds."""
        return EPOCH_MS + int(self.now * 1000)

    def call_later(self, delay: float, call: Callable[..., object], *args: object) -> ScheduledCall:
        """Call ``call(*args)`` after ``delay`` seconds, as an event of the environment, not of a process."""
        return self.plan(self.now + delay if delay > 0 else self.now, call, args, None)

    def plan(
        self, at: float, call: Callable[..., object], args: tuple[object, ...], life: Life | None
    ) -> ScheduledCall:
        """Call ``call(*args)`` at the time ``at``, as an event of ``life``."""
        timer = ScheduledCall(at, call, args, life)
        self._order += 1
        heapq.heappush(self._heap, (at, self._order, timer))
        return timer

    def plan_again(self, timer: ScheduledCall, at: float) -> None:
        """Make the held-back call of ``timer`` at the time ``at``."""
        timer.at = at
        self._order += 1
        heapq.heappush(self._heap, (at, self._order, timer))

    def rng(self, purpose: str) -> random.Random:
        """The random stream for ``purpose``: one object for each purpose, independent of the others."""
        stream = self._streams.get(purpose)
        if stream is None:
            key = hashlib.blake2b(f"{self.seed}/{purpose}".encode(), digest_size=16).digest()
            stream = self._streams[purpose] = random.Random(int.from_bytes(key, "big"))
        return stream

    # Running

    def run_until(self, until: float | Callable[[], bool], limit: float | None = None) -> bool:
        """Run events up to the time ``until``, or until the condition ``until`` holds; give up at the time ``limit``.

        Returns whether the time was reached, or the condition holds. Then the world's time is the given time, or the
        time of the event after which the condition held.
        """
        if callable(until):
            end, condition = float("inf") if limit is None else limit, until
            if condition():
                return True
        else:
            end, condition = until, None
        heap = self._heap
        while heap:
            at, _, timer = heap[0]
            if at > end:
                break
            heapq.heappop(heap)
            call = timer.call
            if call is None:
                continue
            self.now = at
            life = timer.life
            if life is None:
                number, args = 0, timer.args
                timer.call = None
            elif life.state is LifeState.RUNNING:
                number, args = life.number, timer.args
                timer.call = None
            else:
                life.hold(timer)
                continue
            self.events += 1
            self._digest.update(_STEP.pack(at, number))
            if self._trace is not None:
                self._trace(at, life.name if life is not None else "", _name(call))
            self.current = life
            try:
                call(*args)
            except Exception:
                log.exception("%s failed", _name(call))
            self.current = None
            if condition is not None and condition():
                return True
        if condition is not None:
            if limit is not None:
                self.now = max(self.now, limit)
            return condition()
        self.now = max(self.now, end)
        return True

    def mix(self, data: bytes) -> None:
        """Add ``data`` to the digest: received bytes, random values."""
        self._digest.update(data)

    def digest(self) -> str:
        """A digest of all events so far."""
        return self._digest.hexdigest()

    @property
    def is_past_death(self) -> bool:
        """Whether the process of the current event was killed during it: its code still runs, without any effect."""
        return self.current is not None and not self.current.alive

    # The story

    def note(self, text: str, node: str = "") -> None:
        """Add a line about the environment to the story."""
        self.lines.append(CapturedLine(self.now, node, 0, "", text))

    def log_line(self, level: int, logger: str, text: str, failure: BaseException | None) -> None:
        """A node, or the world itself, wrote to its log. A line with an exception is a failure.

        Lines of a process that was killed during the current event are dropped.
        """
        if self.is_past_death:
            return
        line = CapturedLine(
            self.now, self.current.name if self.current is not None else "", level, logger, text, failure
        )
        self.lines.append(line)
        if failure is not None:
            self.failures.append(line)

    # Machines

    def node(self, name: str) -> Node:
        """The machine of that name; makes it if it does not exist."""
        found = self.nodes.get(name)
        if found is None:
            found = self.nodes[name] = Node(self, name)
        return found

    def next_life(self) -> int:
        """A new number for a process."""
        self._lives += 1
        return self._lives

    def __enter__(self) -> World:
        house = logging.getLogger("kafkalite")
        self._log_state = (house.level, house.propagate)
        house.setLevel(logging.INFO)
        house.propagate = False
        house.addHandler(self._capture)
        globalLogPublisher.addObserver(cast(Any, self._capture.twisted_event))
        # Off, because the seed does not determine when a collection runs finalizers.
        self._collects = gc.isenabled()
        gc.disable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        globalLogPublisher.removeObserver(cast(Any, self._capture.twisted_event))
        house = logging.getLogger("kafkalite")
        house.removeHandler(self._capture)
        level, house.propagate = self._log_state
        house.setLevel(level)
        if self._collects:
            gc.enable()


class WorldClock:
    """The environment's :class:`kafkalite.common.clock.Clock`."""

    def __init__(self, world: World) -> None:
        self.monotonic = world.monotonic
        self.time_ms = world.time_ms
        self.call_later = world.call_later


class Node:
    """One machine. ``clock_offset_ms`` is the difference of its time of day to the world's."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.clock_offset_ms = 0
        self.life: Life | None = None

    def start(self) -> Life:
        """Start a process; the machine's former one must have ended."""
        assert self.life is None or self.life.state is LifeState.DEAD, f"{self.name} has a process already"
        self.life = Life(self.world, self)
        return self.life


class LifeState(Enum):
    """The state of a process."""

    RUNNING = "running"
    HUNG = "hung"
    PAUSED = "paused"
    DEAD = "dead"


class Life:
    """One process from its start to its death, which owns its events.

    ``threads`` is the life of its other threads, whose events happen also while the reactor hangs. The environment
    calls ``at_death`` when the process is killed (not when its machine loses power), and ``at_end`` in both cases.
    ``keep`` holds the objects that must not be finalized.
    """

    def __init__(self, world: World, node: Node, reactor: Life | None = None) -> None:
        self.world = world
        self.node = node
        self.name = node.name
        self.number = world.next_life()
        self.threads = Life(world, node, self) if reactor is None else self
        self.state = LifeState.RUNNING
        self.clock = LifeClock(self)
        self.at_death: list[Callable[[], object]] = []
        self.at_end: list[Callable[[], object]] = []
        self.keep: list[object] = []
        self._held: list[ScheduledCall] = []

    @property
    def alive(self) -> bool:
        """Whether the process has not ended; a paused process is alive."""
        return self.state is not LifeState.DEAD

    def call_later(self, delay: float, call: Callable[..., object], *args: object) -> ScheduledCall:
        """Call ``call(*args)`` after ``delay`` seconds, if the process is alive by then."""
        world = self.world
        return world.plan(world.now + delay if delay > 0 else world.now, call, args, self)

    def run(self, call: Callable[..., object], *args: object) -> None:
        """Call ``call(*args)`` now as this process; after the resume if it is paused, never if it is dead.

        Exceptions go to the process's log.
        """
        if self.state is not LifeState.RUNNING:
            self.hold(ScheduledCall(self.world.now, call, args, self))
            return
        world = self.world
        before, world.current = world.current, self
        try:
            call(*args)
        except Exception:
            log.exception("%s failed", _name(call))
        finally:
            world.current = before

    def hold(self, timer: ScheduledCall) -> None:
        """Hold back a due event, because the process does not run, until :meth:`resume`."""
        if self.state is LifeState.DEAD:
            self.world.graveyard.append((timer.call, timer.args))
        else:
            self._held.append(timer)

    def pause(self) -> None:
        """Pause the process like SIGSTOP: its due events wait."""
        if self.state in (LifeState.RUNNING, LifeState.HUNG):
            self.state = self.threads.state = LifeState.PAUSED
            self.world.note("paused", self.name)

    def hang(self) -> None:
        """Make the reactor hang: its events wait, while the other threads run."""
        if self.state is LifeState.RUNNING:
            self.state = LifeState.HUNG
            self.world.note("reactor hangs", self.name)

    def resume(self) -> None:
        """Resume the process like SIGCONT, or end the hang: the held events happen now, in order."""
        if self.state in (LifeState.PAUSED, LifeState.HUNG):
            self.world.note("resumed", self.name)
            self.threads.catch_up()
            self.catch_up()

    def catch_up(self) -> None:
        """Run again; the held events happen now."""
        self.state = LifeState.RUNNING
        world = self.world
        held, self._held = self._held, []
        for index, timer in enumerate(held):
            if timer.call is not None:
                # The same object, so that its owner can still cancel it.
                world.plan_again(timer, world.now + _CATCH_UP * index / len(held))

    def kill(self, how: str = "killed") -> None:
        """Kill the process like SIGKILL: no further event happens in it; the machine and its files stay."""
        self._end(self.at_death + self.at_end, how)

    def lose_power(self) -> None:
        """The machine loses power, and its process ends; its peers get no reset."""
        self._end(self.at_end, "lost power")

    def end_world(self) -> None:
        """The simulation is over: no further event happens, and no callback is made."""
        self.state = self.threads.state = LifeState.DEAD

    def _end(self, calls: list[Callable[[], object]], how: str) -> None:
        if self.state is LifeState.DEAD:
            return
        self.state = self.threads.state = LifeState.DEAD
        self.world.note(how, self.name)
        self.world.graveyard.append(self)
        before, self.world.current = self.world.current, None
        for call in calls:
            call()
        self.world.current = before


class LifeClock:
    """The :class:`kafkalite.common.clock.Clock` of a process."""

    def __init__(self, life: Life) -> None:
        self._node = life.node
        self.monotonic = life.world.monotonic
        self.call_later = life.call_later

    def time_ms(self) -> int:
        """The machine's time of day."""
        return self._node.world.time_ms() + self._node.clock_offset_ms


class _Capture(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        failure = record.exc_info[1] if record.exc_info else None
        self._world.log_line(record.levelno, record.name.removeprefix("kafkalite."), record.getMessage(), failure)

    def twisted_event(self, event: dict[str, Any]) -> None:
        """A failure that Twisted logs: one of a Deferred without an error handler."""
        failure = event.get("log_failure")
        if failure is not None:
            self._world.log_line(logging.ERROR, "twisted", str(failure.value), failure.value)


def _name(call: Callable[..., object]) -> str:
    if isinstance(call, partial):
        call = call.func
    return getattr(call, "__qualname__", type(call).__name__)
