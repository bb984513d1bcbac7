"""Members of consumer groups, of any client library, in separate processes with one interface for all libraries.

A host program (``python_consumer.py`` for the Python libraries, ``java_src/GroupMembers.java`` for Java's) runs any
number of members, takes commands as JSON lines and reports the events of its members as JSON lines. The members run in
a separate process, because ``kill -9`` of that process ends them without a LeaveGroup.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from integration.harness.wait import wait_for

Partition = tuple[str, int]
BEGINNING, END = -2, -1
"""Positions for :meth:`Member.seek` besides offsets."""
START_TIMEOUT = 60.0
ANSWER_TIMEOUT = 60.0


class Event(NamedTuple):
    """A report of a member, and when (``time.monotonic()``) it was received.

    Kinds: ``assigned``, ``revoked`` and ``lost`` are the callbacks, with their partitions; ``assignment`` has all
    partitions that the member owns, after each change; ``group`` its member id and generation, after each change;
    ``records`` the records of one poll; ``answer`` the answer to a command; ``error``; ``closed``.
    """

    kind: str
    at: float
    body: Mapping[str, Any]

    @property
    def partitions(self) -> set[Partition]:
        """The partitions of a callback or an assignment."""
        return {(topic, partition) for topic, partition in self.body["partitions"]}


class Record(NamedTuple):
    """A record that a member read."""

    topic: str
    partition: int
    offset: int
    value: str


class Committed(NamedTuple):
    """A committed offset that a member read, with its metadata."""

    offset: int
    metadata: str


class RefusedError(LookupError):
    """A member's library refused a command; the text is its error."""


class Member:
    """One member of a group, made by :meth:`MemberHost.open`."""

    def __init__(self, host: MemberHost, name: str, bootstrap: str, group: str) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.group = group
        self.events: list[Event] = []
        self._host = host

    # Reports so far

    def of(self, *kinds: str) -> list[Event]:
        """The events of these kinds, in order."""
        return [event for event in list(self.events) if event.kind in kinds]

    @property
    def assignment(self) -> set[Partition]:
        """The partitions that the member owns now."""
        seen = self.of("assignment")
        return seen[-1].partitions if seen else set()

    @property
    def member_id(self) -> str:
        """Its id in the group; empty before it has one."""
        seen = self.of("group")
        return str(seen[-1].body["id"]) if seen else ""

    @property
    def generation(self) -> int:
        """The generation that the member joined last; -1 before the first."""
        seen = self.of("group")
        return int(seen[-1].body["generation"]) if seen else -1

    @property
    def polls(self) -> list[list[Record]]:
        """The records of each poll that returned records."""
        return [[Record(*fields) for fields in event.body["records"]] for event in self.of("records")]

    @property
    def records(self) -> list[Record]:
        """All records, in the order in which it read them."""
        return [record for poll in self.polls for record in poll]

    @property
    def errors(self) -> list[str]:
        """The errors that its library reported."""
        return [str(event.body["text"]) for event in self.of("error")]

    # Commands

    def commit(self, offsets: Mapping[Partition, int | tuple[int, str]] | None = None) -> None:
        """Commit ``offsets`` (with or without metadata), or the member's positions, and wait for the answer."""
        words = None
        if offsets is not None:
            words = [
                [*partition, *(value if isinstance(value, tuple) else (value, ""))]
                for partition, value in offsets.items()
            ]
        self._host.ask(self, "commit", offsets=words)

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, Committed]:
        """The group's committed offsets for ``partitions``, without the partitions that have none."""
        answer = self._host.ask(self, "committed", partitions=[list(partition) for partition in partitions])
        return {(topic, partition): Committed(offset, text) for topic, partition, offset, text in answer}

    def seek(self, partition: Partition, offset: int) -> None:
        """Read on from ``offset``, :data:`BEGINNING` or :data:`END`."""
        self._host.ask(self, "seek", topic=partition[0], partition=partition[1], offset=offset)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Replace the subscription."""
        self._host.ask(self, "subscribe", topics=list(topics))

    def close(self) -> None:
        """Close the member by its library's ``close``: static members stay in the group, other members leave it."""
        self._host.ask(self, "close")


class MemberHost:
    """A process that runs members. ``command`` starts it; its first line is ``{"event": "ready"}``."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        self._lock = threading.Lock()
        self._members: dict[str, Member] = {}
        self._answers: dict[int, Mapping[str, Any]] = {}
        self._number = 0
        self._ready = threading.Event()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._reader = threading.Thread(target=self._read, name="members", daemon=True)
        self._reader.start()

    def __enter__(self) -> MemberHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def open(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        *,
        assignor: str = "range",
        config: Mapping[str, str | int | bool] | None = None,
    ) -> Member:
        """A new member that subscribes to ``topics`` and polls from now on.

        ``assignor``: range, roundrobin, sticky or cooperative-sticky. ``config``: the client's properties, by Java's
        names. The defaults are: read from the earliest offset, commit by command only, a session of half a minute.
        """
        if not self._ready.wait(START_TIMEOUT) or self._process.poll() is not None:
            raise AssertionError(f"the members' host has not started: {self.log.read_text(errors='replace')[-3000:]}")
        with self._lock:
            self._number += 1
            member = Member(self, f"member-{self._number}", bootstrap, group)
            self._members[member.name] = member
        settings: dict[str, str | int | bool] = {
            "session.timeout.ms": 30000,
            "heartbeat.interval.ms": 300,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **(config or {}),
        }
        where = {"bootstrap": bootstrap, "group": group, "topics": list(topics), "assignor": assignor}
        self.ask(member, "open", config=settings, **where)
        return member

    def ask(self, member: Member, command: str, **words: object) -> Any:
        """Send a command to a member and wait for the answer. Raises :class:`RefusedError`."""
        with self._lock:
            self._number += 1
            number = self._number
            assert self._process.stdin is not None
            line = json.dumps({"id": number, "member": member.name, "do": command, **words})
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        answered = lambda: number in self._answers or self._process.poll() is not None  # noqa: E731
        wait_for(answered, f"{member.name} answers {line}; its log is {self.log}", ANSWER_TIMEOUT, 0.01)
        if number not in self._answers:
            raise RefusedError(f"the host has ended: {self.log.read_text(errors='replace')[-3000:]}")
        answer = self._answers.pop(number)
        if answer.get("error"):
            raise RefusedError(str(answer["error"]))
        return answer.get("value")

    def kill(self) -> None:
        """``kill -9``: no member leaves, none commits."""
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                body = json.loads(line)
            except ValueError:
                continue  # a line that the library printed
            kind = body["event"]
            if kind == "ready":
                self._ready.set()
            elif kind == "answer":
                self._answers[body["id"]] = body
            else:
                self._members[body["member"]].events.append(Event(kind, time.monotonic(), body))
        self._ready.set()


def python_host(library: str, log: Path) -> MemberHost:
    """A process for members of ``confluent``, ``kafka-python`` or ``aiokafka``; its errors go to the file ``log``."""
    return MemberHost([sys.executable, "-m", "integration.harness.python_consumer", library], log)
