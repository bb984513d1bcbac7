"""Random scripts of ZooKeeper operations, to which two implementations must give the same answers. Deterministic.

Answers to: nothing in ZooKeeper. A script is made from a seed alone. Its steps are batches of one client's pipelined
operations, expiries of sessions, and closed sessions. A transcript has every answer, error and watch event of every
client in the order in which the client received them, with zxids as ranks and sessions by name, so that transcripts
of different servers can be compared.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kafkalite.common.tasks import deferred
from kafkalite.zk.zk_client import (
    Check,
    Create,
    Delete,
    MultiError,
    Op,
    SetData,
    Watch,
    WatchEvent,
    ZkClient,
    ZnodeStat,
)

CLIENTS = 3
_NAMES = (
    *("a", "a", "a", "a", "b", "b", "c", "a/a", "a/a", "a/b", "b/a", "a/a/a"),
    *("s-0000000000", "s-0000000001", "a/s-0000000000", "a/s-0000000001"),
)
_BAD_NAMES = (
    "",
    "a/",
    "a//b",
    "a/./b",
    "../a",
    "a/\x00",
    "a/\x1f",
    "a/\x7f",
    "a/\ud7ff",
    "a/\ue000",
    "a/\uffff",
    "a/\U0001f600",
)
_OTHER_PATHS = ("relative", "/", "no/such", "//")


@dataclass(frozen=True, slots=True)
class ReadStep:
    """A read; ``watch``: with a watch."""

    kind: str
    path: str
    watch: bool


@dataclass(frozen=True, slots=True)
class WriteStep:
    """A write; ``multi``: as a transaction. ``former``: bound to the client's previous session."""

    ops: tuple[Op, ...]
    multi: bool
    former: bool = False


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Operations that one client sends without waiting."""

    client: int
    works: tuple[ReadStep | WriteStep, ...]


@dataclass(frozen=True, slots=True)
class Expire:
    """The session of a client is expired from outside; the client goes on with another one."""

    client: int


@dataclass(frozen=True, slots=True)
class Close:
    """A client closes its session; another client takes its place."""

    client: int


Step = StepBatch | Expire | Close


@dataclass(frozen=True, slots=True)
class Script:
    """Steps below the znode ``base``. ``shared_watch``: each client has one watch for a path's data and children."""

    base: str
    steps: tuple[Step, ...]
    shared_watch: bool


class Target(Protocol):
    """A ZooKeeper that scripts can run against."""

    def connect(self) -> ZkClient:
        """A client with a session."""

    def run(self, works: Sequence[Awaitable[object]]) -> None:
        """Let time pass until all of ``works`` are done, and every server knows of every write."""

    def expire(self, client: ZkClient) -> None:
        """End the session of ``client`` from outside, and wait until it has another one."""

    def close(self, client: ZkClient) -> None:
        """Close the session of ``client``, and wait until that is done."""


def make_script(seed: int, length: int = 16) -> Script:
    """The script of ``seed``."""
    rng = random.Random(seed)
    base = f"/script-{seed}"
    maker = _Maker(rng, base)
    beginning = [Create(base), *(Create(f"{base}/{name}") for name in ("a", "b", "a/a") if rng.random() < 0.5)]
    steps: list[Step] = [StepBatch(0, tuple(WriteStep((op,), False) for op in beginning))]
    for _ in range(length):
        client = rng.randrange(CLIENTS)
        kind = rng.random()
        if kind < 0.04:
            steps.append(Expire(client))
        elif kind < 0.07:
            steps.append(Close(client))
        else:
            steps.append(StepBatch(client, maker.works(rng.choice((1, 1, 2, 3, 5, 8)))))
    return Script(base, tuple(steps), rng.random() < 0.25)


class _Maker:
    def __init__(self, rng: random.Random, base: str) -> None:
        self._rng = rng
        self._base = base

    def works(self, count: int) -> tuple[ReadStep | WriteStep, ...]:
        """The operations of one batch of a client."""
        works = tuple(self._work() for _ in range(count))
        [first, *others] = works
        if not others and isinstance(first, WriteStep) and self._rng.random() < 0.1:
            # alone, because it fails before anything is sent, and so before the answers to others
            return (replace(first, former=True),)
        return works

    def _work(self) -> ReadStep | WriteStep:
        rng = self._rng
        if rng.random() < 0.45:
            path = self._path()
            # the root of a real server has other children, too
            path = self._base if path == "/" else path
            return ReadStep(rng.choice(("get", "exists", "get_children")), path, rng.random() < 0.6)
        if rng.random() < 0.25:
            return WriteStep(tuple(self._op(True) for _ in range(rng.randint(0, 5))), True)
        return WriteStep((self._op(False),), False)

    def _path(self) -> str:
        rng = self._rng
        kind = rng.random()
        if kind < 0.03:
            return rng.choice(_OTHER_PATHS)
        if kind < 0.1:
            return f"{self._base}/{rng.choice(_BAD_NAMES)}"
        if kind < 0.15:
            return self._base
        return f"{self._base}/{rng.choice(_NAMES)}"

    def _op(self, in_multi: bool) -> Op:
        rng = self._rng
        path = self._path()
        version = rng.choice((-1, -1, -1, 0, 1, 2))
        kind = rng.random()
        if kind < 0.5:
            data = rng.choice((b"", b"1", b"x" * 100))
            if rng.random() < 0.25 and path.strip("/"):
                # a sequence among the children of the root would count those of other scripts
                path = path if path != self._base and rng.random() < 0.2 else f"{path.rstrip('/')}/s-"
                return Create(path, data, rng.random() < 0.3, True)
            return Create(path, data, rng.random() < 0.3)
        if kind < 0.7 and path.strip("/"):
            return SetData(path, rng.choice((b"", b"2", b"y" * 50)), version)
        if kind < 0.9 or not in_multi:
            return Delete(path, version)
        return Check(path, version)


def transcript(script: Script, target: Target) -> list[str]:
    """The answers of ``target`` to ``script``: a line for each answer and event."""
    return _Run(script, target).lines()


@dataclass(frozen=True, slots=True)
class _Note:
    step: int
    client: int
    text: str
    values: tuple[object, ...]


class _Run:
    def __init__(self, script: Script, target: Target) -> None:
        self._script = script
        self._target = target
        self._notes: list[_Note] = []
        self._step = 0
        self._sessions: dict[int, str] = {0: "none"}
        self._former = [-1] * CLIENTS
        self._watches: dict[tuple[int, str, str], Watch] = {}
        self._clients = [target.connect() for _ in range(CLIENTS)]
        for client in range(CLIENTS):
            self._name_session(client)

    def lines(self) -> list[str]:
        for step in self._script.steps:
            self._step += 1
            first = len(self._notes)
            self._take(step)
            self._target.run([client.exists(self._script.base) for client in self._clients])
            if not isinstance(step, StepBatch):
                # In any order the server removes a session's ephemerals, and kazoo reports lost watches.
                self._notes[first:] = sorted(self._notes[first:], key=lambda note: (note.client, note.text))
            else:
                self._notes[first:] = sorted(self._notes[first:], key=lambda note: note.client)
        return self._rendered()

    def _take(self, step: Step) -> None:
        client = self._clients[step.client]
        if isinstance(step, StepBatch):
            self._target.run([self._start(step.client, work) for work in step.works])
            return
        self._former[step.client] = client.session
        if isinstance(step, Expire):
            self._target.expire(client)
        else:
            self._target.close(client)
            self._watches = {key: watch for key, watch in self._watches.items() if key[0] != step.client}
            self._clients[step.client] = self._target.connect()
        self._name_session(step.client)

    def _name_session(self, client: int) -> None:
        self._sessions[self._clients[client].session] = f"client {client} of step {self._step}"

    def _start(self, number: int, work: ReadStep | WriteStep) -> Awaitable[object]:
        answer = deferred(self._send(number, work))
        is_list = isinstance(work, ReadStep) and work.kind == "get_children"
        answer.addCallbacks(
            lambda value: self._note(number, f"{work!r} ->", sorted(value) if is_list else value),
            lambda failure: self._note(number, f"{work!r} ->", failure.value),
        )
        return answer

    def _send(self, number: int, work: ReadStep | WriteStep) -> Awaitable[object]:
        client = self._clients[number]
        if isinstance(work, ReadStep):
            watch = self._watch(number, work) if work.watch else None
            read: Callable[..., Awaitable[object]] = getattr(client, work.kind)
            return read(work.path, watch)
        session = self._former[number] if work.former else None
        if work.multi:
            return client.multi(work.ops, session=session)
        [op] = work.ops
        match op:
            case Create():
                return client.create(op.path, op.data, ephemeral=op.ephemeral, sequence=op.sequence, session=session)
            case SetData():
                return client.set(op.path, op.data, op.version, session=session)
            case Delete():
                return client.delete(op.path, op.version, session=session)
            case Check():
                raise AssertionError("a check stands in a multi only")

    def _watch(self, number: int, read: ReadStep) -> Watch:
        kind = "any" if self._script.shared_watch else "child" if read.kind == "get_children" else "data"
        key = number, read.path, kind
        found = self._watches.get(key)
        if found is None:

            def found(event: WatchEvent) -> None:
                self._note(number, f"{kind} watch on {read.path!r}:", event.type.value, event.path)

            self._watches[key] = found
        return found

    def _note(self, number: int, text: str, *values: object) -> None:
        self._notes.append(_Note(self._step, number, text, values))

    def _rendered(self) -> list[str]:
        zxids = sorted({zxid for note in self._notes for value in note.values for zxid in _zxids(value)})
        ranks = {zxid: rank for rank, zxid in enumerate(zxids)}
        return [
            f"step {note.step}, client {note.client}: {note.text} "
            + " ".join(self._text(value, ranks) for value in note.values)
            for note in self._notes
        ]

    def _text(self, value: object, ranks: dict[int, int]) -> str:
        if isinstance(value, ZnodeStat):
            owner = self._sessions.get(value.ephemeral_owner, "unknown")
            known = f"created {ranks[value.czxid]}, modified {ranks[value.mzxid]}, version {value.version}"
            return f"({known}, children version {value.children_version}, owner {owner})"
        if isinstance(value, tuple | list):
            parts = [self._text(part, ranks) for part in value]
            return f"[{', '.join(parts)}]"
        if isinstance(value, MultiError):
            return f"{value} ({value.cause!r})"
        return repr(value)


def _zxids(value: object) -> list[int]:
    if isinstance(value, ZnodeStat):
        return [value.czxid, value.mzxid]
    if isinstance(value, tuple | list):
        return [zxid for part in value for zxid in _zxids(part)]
    return []
