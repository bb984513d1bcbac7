"""Load on a group's coordinator: members that read and commit, onlookers that read the committed offsets."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from integration.faults.commits import CommitTrail
from integration.faults.groups import FETCH_VERSION, GroupClient, NotYetError
from integration.faults.producers import QUICK_RETRIES
from integration.faults.worker import FLUSH_TIMEOUT, Worker
from integration.harness.logins import login, zookeeper_security
from integration.harness.members import Member, RefusedError
from kafkalite.embedded.znodes import ZnodeReader

COMMIT_PAUSE = 0.02
LOOK_PAUSE = 0.03
AGAIN_PAUSE = 0.1


class GroupRecord:
    """The history of all workers, with the lock that protects it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.trail = CommitTrail()


class SteadyProducer(Worker):
    """Sends ``rate`` records a second to the partitions in turn; a record's value is its number.

    ``keep``: remember in :attr:`kept` the value at each offset.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: int, *, keep: bool = False) -> None:
        super().__init__(f"producer to {topic}")
        self.acknowledged = 0
        self.kept: dict[tuple[int, int], bytes] = {}
        self._keep = keep
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._numbers = itertools.count()
        self._begun = time.monotonic()
        self._due = 0
        self._producer = Producer(
            {
                **login(bootstrap),
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": int(FLUSH_TIMEOUT * 1000),
                "log_level": 0,
                **QUICK_RETRIES,
            }
        )

    def step(self) -> None:
        """Send the due records; records that could not be sent in time are skipped."""
        due = int((time.monotonic() - self._begun) * self._rate)
        for _ in range(min(due - self._due, self._rate // 10 + 1)):
            number = next(self._numbers)
            with contextlib.suppress(BufferError):
                self._producer.produce(
                    self._topic, str(number), partition=number % self._partitions, on_delivery=self._delivered
                )
        self._due = due
        self._producer.poll(0.01)

    def finish(self) -> None:
        """Wait for all acknowledgements."""
        self._producer.flush(FLUSH_TIMEOUT)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            raise AssertionError(f"{self.name}: {error}")
        self.acknowledged += 1
        if self._keep:
            self.kept[message.partition(), message.offset()] = message.value()


class Committer(Worker):
    """Commits the position of one member in a loop, and checks that the member reads without gaps."""

    def __init__(self, record: GroupRecord, member: Member, topic: str) -> None:
        super().__init__(f"committer of {member.name}")
        self.member = member
        self.commits = 0
        """Number of acknowledged commits."""
        self.refused = 0
        self._record = record
        self._topic = topic
        self._taken = 0
        self._position: dict[int, int] = {}
        self._committed: dict[int, int] = {}

    @property
    def position(self) -> dict[int, int]:
        """Partition → the next offset to read."""
        return dict(self._position)

    def step(self) -> None:
        """Commit the position after the records since the last step."""
        events = self.member.events
        while self._taken < len(events):
            event = events[self._taken]
            self._taken += 1
            if event.kind == "records":
                for _, partition, offset, _ in event.body["records"]:
                    self._read(partition, offset)
        due = {p: offset for p, offset in self._position.items() if offset != self._committed.get(p)}
        if not due:
            self._stopping.wait(COMMIT_PAUSE)
            return
        with self._record.lock:
            for partition, offset in due.items():
                self._record.trail.sent(partition, offset)
        try:
            self.member.commit({(self._topic, partition): offset for partition, offset in due.items()})
        except RefusedError:
            self.refused += 1
            self._stopping.wait(AGAIN_PAUSE)
            return
        with self._record.lock:
            for partition, offset in due.items():
                self._record.trail.acknowledged(partition, offset)
        self._committed.update(due)
        self.commits += 1
        self._stopping.wait(COMMIT_PAUSE)

    def _read(self, partition: int, offset: int) -> None:
        expected = self._position.get(partition)
        if expected is not None and offset != expected:
            with self._record.lock:
                self._record.trail.breach(f"{self.member.name} read {offset} of {partition}, not {expected}")
        self._position[partition] = offset + 1


class CommitOnlooker(Worker):
    """Reads the committed offsets in a loop. ``strict``: each read must show all commits acknowledged before it."""

    def __init__(self, name: str, record: GroupRecord, ask: Callable[[], dict[int, int]], *, strict: bool) -> None:
        super().__init__(name)
        self.looks = 0
        self._record = record
        self._ask = ask
        self._strict = strict

    def step(self) -> None:
        """Read the committed offsets once."""
        with self._record.lock:
            floor = self._record.trail.floor() if self._strict else {}
        try:
            found = self._ask()
        except (OSError, LookupError):
            self._stopping.wait(AGAIN_PAUSE)
            return
        with self._record.lock:
            self._record.trail.seen(self.name, found, floor)
        self.looks += 1
        self._stopping.wait(LOOK_PAUSE)


class OffsetFetchAsker:
    """OffsetFetch to the broker at ``address()``, which is looked up for each connection.

    Only the coordinator answers it; ``version`` 0 every broker, from ZooKeeper's offsets.
    """

    def __init__(
        self, address: Callable[[], str], group: str, topic: str, partitions: int, *, version: int = FETCH_VERSION
    ) -> None:
        self._address = address
        self._group = group
        self._topic = topic
        self._partitions = range(partitions)
        self._version = version
        self._client: GroupClient | None = None

    def __call__(self) -> dict[int, int]:
        """The committed offsets. Raises ``OSError`` and ``LookupError`` while the broker does not answer."""
        try:
            if self._client is None:
                self._client = GroupClient(self._address(), 3.0)
            return self._client.offsets(self._group, self._topic, self._partitions, version=self._version)
        except (OSError, NotYetError):
            if self._client is not None:
                self._client.close()
                self._client = None
            raise


class NumberAsker:
    """Reads the offsets in ZooKeeper, for names of groups and topics that need no escapes."""

    def __init__(self, zookeeper: str, group: str, topic: str, partitions: int) -> None:
        self._zookeeper = zookeeper
        self._paths = {p: f"/consumers/{group}/offsets/{topic}/{p}" for p in range(partitions)}
        self._reader: ZnodeReader | None = None

    def __call__(self) -> dict[int, int]:
        """The committed offsets. Raises ``OSError`` while ZooKeeper does not answer."""
        try:
            if self._reader is None:
                self._reader = ZnodeReader(self._zookeeper, zookeeper_security())
            found = {p: self._reader.get(path) for p, path in self._paths.items()}
        except OSError:
            self._reader = None
            raise
        return {p: -1 if data is None else int(data) for p, data in found.items()}
