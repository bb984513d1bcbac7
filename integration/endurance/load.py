"""The steady load: producers, a compacted topic, transactions, consumer groups, topics that are created and deleted.

Every part remembers its acknowledged records, and :meth:`SteadyLoad.stop` compares them with the contents of the logs.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from integration.endurance.member import Member
from integration.faults.cluster import Cluster
from integration.faults.producers import QUICK_RETRIES, LoadProducer
from integration.faults.readers import LiveReader, Onlooker, Verifier
from integration.faults.worker import FLUSH_TIMEOUT, Record, Worker
from integration.harness.admin import ask_controller
from integration.harness.wait import wait_for

STEADY, LATEST, LEDGER = "steady", "latest", "ledger"
PARTITIONS = {STEADY: 6, LATEST: 3, LEDGER: 3}
PRODUCERS = 2
RECORD_SIZE = 200
KEYS = 200
UPDATES_SHARE = 4
"""Records of the steady topic for each update of a key."""
IN_TRANSACTION = 10
TRANSACTION_INTERVAL = 0.5
SEGMENTS = 4
"""Number of segments that a partition keeps."""
GROUPS = {"commits-range": "range", "commits-sticky": "cooperative-sticky"}
TOPIC_INTERVAL = 20.0
PATIENCE = 300.0
"""Seconds to wait for an expected condition; long, because long runs share the machine with other work."""
VISIT = 30.0
"""Seconds for which the visiting member stays in the group, and for which it is away."""
KILLED_GROUP = "commits-killed"


class KeyedUpdates(Worker):
    """Updates ``KEYS`` keys of the compacted topic in turn; ``acknowledged``: key → its last acknowledged value."""

    def __init__(self, bootstrap: str, rate: int) -> None:
        super().__init__("keyed updates")
        self.acknowledged: dict[int, int] = {}
        self.refused: Counter[str] = Counter()
        self._pause = 1 / rate
        self._number = 0
        self._producer = Producer(_producer_settings(bootstrap))

    def step(self) -> None:
        """Send one update."""
        key = self._number % KEYS
        value = f"{self._number}".ljust(RECORD_SIZE // 2, ".")
        partition = key % PARTITIONS[LATEST]
        with contextlib.suppress(BufferError):
            self._producer.produce(LATEST, value, str(key), partition, on_delivery=self._delivered)
            self._number += 1
        self._producer.poll(0)
        self._stopping.wait(self._pause)

    def finish(self) -> None:
        """Wait for all acknowledgements."""
        self._producer.flush(FLUSH_TIMEOUT)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[int(message.key())] = int(message.value().rstrip(b"."))
        else:
            self.refused[error.name()] += 1


class Transactions(Worker):
    """Transactions of ``IN_TRANSACTION`` records; each fifth is aborted. One with an unknown outcome may be either."""

    def __init__(self, bootstrap: str, pause: float) -> None:
        super().__init__("transactions")
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.unknown: set[int] = set()
        self._servers = bootstrap
        self._pause = pause
        self._number = 0
        self._producer: Producer | None = None

    def step(self) -> None:
        """Run one transaction."""
        number = self._number
        self._number += 1
        try:
            producer = self._ready()
            producer.begin_transaction()
            for i in range(IN_TRANSACTION):
                value = f"{number}".ljust(RECORD_SIZE, ".")
                producer.produce(LEDGER, value, partition=(number + i) % PARTITIONS[LEDGER])
            if number % 5 == 4:
                producer.abort_transaction(30)
                self.aborted.add(number)
            else:
                producer.commit_transaction(30)
                self.committed.add(number)
        except KafkaException as error:
            self._recover(number, error)
        self._stopping.wait(self._pause)

    def _ready(self) -> Producer:
        if self._producer is None:
            producer = Producer({**_producer_settings(self._servers), "transactional.id": "endurance"})
            producer.init_transactions(60)
            self._producer = producer
        return self._producer

    def _recover(self, number: int, error: KafkaException) -> None:
        self.unknown.add(number)
        if self._producer is not None and error.args[0].txn_requires_abort():
            try:
                self._producer.abort_transaction(30)
                self.unknown.discard(number)
                self.aborted.add(number)
                return
            except KafkaException:
                pass
        # The next producer's init_transactions aborts the open transaction.
        self._producer = None


class TopicChurn(Worker):
    """Creates a topic, writes a little to it and deletes it, with another name every ``TOPIC_INTERVAL`` seconds."""

    def __init__(self, bootstrap: str, interval: float) -> None:
        super().__init__("topics that come and go")
        self.topics = 0
        self._servers = bootstrap
        self._interval = interval

    def step(self) -> None:
        """Create, write and delete one topic."""
        name = f"passing-{self.topics}"
        new = NewTopic(name, 3, 3)

        def created() -> bool:
            ask_controller(self._servers, lambda admin: admin.create_topics([new]), done=["TOPIC_ALREADY_EXISTS"])
            return True

        # Repeat, because a topic with three replicas is refused while a broker is dead.
        wait_for(created, f"{name} is created", PATIENCE, 0.5)
        producer = Producer({"bootstrap.servers": self._servers, "acks": "all", "log_level": 0})
        for i in range(30):
            producer.produce(name, f"{i}", partition=i % 3)
        producer.flush(30)
        self._stopping.wait(self._interval / 2)

        def deleted() -> bool:
            ask_controller(self._servers, lambda admin: admin.delete_topics([name]), done=["UNKNOWN_TOPIC_OR_PART"])
            return True

        wait_for(deleted, f"{name} is deleted", PATIENCE, 0.5)
        self.topics += 1
        self._stopping.wait(self._interval / 2)


class Visitor(Worker):
    """A member of a group that joins and leaves repeatedly."""

    def __init__(self, bootstrap: str, visit: float) -> None:
        super().__init__("member that comes and goes")
        self.visits = 0
        self._servers = bootstrap
        self._visit = visit

    def step(self) -> None:
        """Join, stay, leave, stay away."""
        [group, *_] = GROUPS
        member = Member(self._servers, group, STEADY, GROUPS[group])
        member.start()
        self._stopping.wait(self._visit)
        member.stop()
        self.visits += 1
        self._stopping.wait(self._visit)


class SteadyLoad:
    """All parts of the load, on a cluster with the topics of :func:`create_topics`."""

    def __init__(self, cluster: Cluster, rate: int, visit: float = VISIT) -> None:
        self._cluster = cluster
        bootstrap = cluster.bootstrap
        count = PARTITIONS[STEADY]
        self.record = Record(PRODUCERS, count)
        self._producers = [
            LoadProducer(
                number, self.record, bootstrap, STEADY, count, rate // PRODUCERS, RECORD_SIZE, 1, QUICK_RETRIES
            )
            for number in range(PRODUCERS)
        ]
        self._updates = KeyedUpdates(bootstrap, rate // UPDATES_SHARE)
        self._transactions = Transactions(bootstrap, TRANSACTION_INTERVAL)
        self._churn = TopicChurn(bootstrap, min(TOPIC_INTERVAL, visit))
        self._visitor = Visitor(bootstrap, visit)
        self._verifier = Verifier(self.record, bootstrap, STEADY, count, "verifier")
        self._live_reader = LiveReader(self._verifier, PATIENCE)
        self._onlooker = Onlooker(self.record, cluster.zookeeper, STEADY, count)
        self.members = [
            Member(bootstrap, group, STEADY, strategy) for group, strategy in GROUPS.items() for _ in range(2)
        ]
        self.members.append(Member(bootstrap, KILLED_GROUP, STEADY))
        self._victim: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start all parts."""
        self.replace_victim()
        for worker in self._workers:
            worker.start()

    @property
    def _workers(self) -> list[Worker]:
        """All workers, in the order in which they end."""
        return [
            self._churn,
            self._visitor,
            self._transactions,
            self._updates,
            *self._producers,
            self._live_reader,
            self._onlooker,
            *self.members,
        ]

    def raise_failure(self) -> None:
        """Raises the exception that ended a worker, or ``AssertionError`` with the violations so far."""
        for worker in self._workers:
            if worker.failure is not None:
                raise AssertionError(f"{worker.name} failed: {worker.failure}") from worker.failure
        with self.record.lock:
            breaches = [*self.record.history.breaches, *self.record.epochs.breaches]
        assert not breaches, "\n".join(breaches)

    def replace_victim(self) -> None:
        """Kill the group member in the separate process by ``kill -9``, and start another one."""
        self._end_victim()
        self._victim = subprocess.Popen(
            [sys.executable, "-m", "integration.endurance.member", self._cluster.bootstrap, KILLED_GROUP, STEADY]
        )

    def close(self) -> None:
        """End the processes that would outlive this one."""
        self._end_victim()

    def stop(self) -> None:
        """End the load and check its history. Raises ``AssertionError`` with all violations."""
        self._end_victim()
        for worker in self._workers:
            if worker not in self.members:
                worker.stop()
        self._verifier.read_to(self._verifier.ends(PATIENCE), PATIENCE)
        with self.record.lock:
            self.record.history.check()
        self.raise_failure()
        self._judge_groups()
        for member in self.members:
            member.stop()
        self._judge_updates()
        self._judge_transactions()

    @property
    def refused(self) -> dict[str, int]:
        """Refused updates of the compacted topic: error → how many."""
        return dict(self._updates.refused)

    def counts(self) -> dict[str, int]:
        """Numbers of operations so far."""
        return {
            "records acknowledged": self.record.history.acknowledged,
            "records read back": self.record.history.reads,
            "keys updated and acknowledged": len(self._updates.acknowledged),
            "transactions committed": len(self._transactions.committed),
            "transactions aborted": len(self._transactions.aborted),
            "transactions without an answer": len(self._transactions.unknown),
            "commits of members": sum(member.commits for member in self.members),
            "visits of a member": self._visitor.visits,
            "topics created and deleted": self._churn.topics,
        }

    def _judge_groups(self) -> None:
        ends = self._verifier.ends(PATIENCE)
        for group in [*GROUPS, KILLED_GROUP]:

            def caught_up(group: str = group) -> bool:
                found = _committed(self._cluster.bootstrap, group)
                if found == ends:
                    return True
                raise LookupError(f"committed {found}, the logs end at {ends}")

            wait_for(caught_up, f"group {group} commits the ends of all partitions", PATIENCE, 0.5)

    def _judge_updates(self) -> None:
        assert not self.refused, f"updates of the compacted topic were refused: {self.refused}"
        found = {int(key): int(value.rstrip(b".")) for _, key, value in _contents(self._cluster.bootstrap, LATEST)}
        wrong = {key: (value, found.get(key)) for key, value in self._updates.acknowledged.items()}
        wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
        assert not wrong, f"the compacted topic lost updates, key → (acknowledged, read): {wrong}"

    def _judge_transactions(self) -> None:
        counts: dict[int, int] = {}
        first: dict[int, int] = {}
        for partition, _, value in _contents(self._cluster.bootstrap, LEDGER):
            number = int(value.rstrip(b"."))
            counts[number] = counts.get(number, 0) + 1
            first.setdefault(partition, number)
        # Every transaction writes to all partitions, so retention may have deleted records of each transaction before
        # the greatest first one.
        cut = max(first.values())
        parts = {number: count for number, count in counts.items() if number > cut and count != IN_TRANSACTION}
        assert not parts, f"transactions are read in part, number → records of {IN_TRANSACTION}: {parts}"
        missing = {number for number in self._transactions.committed if number > cut and number not in counts}
        assert not missing, f"committed transactions are not read: {sorted(missing)[:20]}"
        ghosts = self._transactions.aborted & set(counts)
        assert not ghosts, f"records of aborted transactions are read: {sorted(ghosts)[:20]}"
        assert any(number > cut for number in counts), "no transaction was read whole"

    def _end_victim(self) -> None:
        if self._victim is not None:
            self._victim.kill()
            self._victim.wait()
            self._victim = None


def create_topics(bootstrap: str, rate: int, seconds: int) -> None:
    """Create the load's topics with three replicas; they retain the records of ``seconds`` at ``rate`` a second."""
    bytes_a_second = {
        STEADY: rate * RECORD_SIZE,
        LATEST: rate // UPDATES_SHARE * RECORD_SIZE // 2,
        LEDGER: int(IN_TRANSACTION * RECORD_SIZE / TRANSACTION_INTERVAL),
    }
    new = []
    for name, partitions in PARTITIONS.items():
        kept = bytes_a_second[name] * seconds // partitions
        config = {"segment.bytes": str(kept // SEGMENTS), "min.insync.replicas": "2"}
        if name == LATEST:
            config |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.3"}
        else:
            config["retention.bytes"] = str(kept)
        new.append(NewTopic(name, partitions, 3, config=config))

    def ask(admin: AdminClient) -> dict[str, Any]:
        created: dict[str, Any] = admin.create_topics(new)
        return created

    ask_controller(bootstrap, ask, done=["TOPIC_ALREADY_EXISTS"])


def _producer_settings(bootstrap: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 5,
        # Small batches, because the records that wait for a leader must fit into the small segments of a short run.
        "batch.size": 8192,
        "log_level": 0,
        **QUICK_RETRIES,
    }


def _committed(bootstrap: str, group: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        asked = [TopicPartition(STEADY, partition) for partition in range(PARTITIONS[STEADY])]
        return {each.partition: each.offset for each in consumer.committed(asked, timeout=10)}
    finally:
        consumer.close()


def _contents(bootstrap: str, topic: str) -> list[tuple[int, bytes, bytes]]:
    """Partition, key and value of all committed records of a topic, each partition in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "contents",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    open_partitions = set(range(PARTITIONS[topic]))
    consumer.assign([TopicPartition(topic, partition, -2) for partition in open_partitions])
    found = []
    deadline = time.monotonic() + 120
    try:
        while open_partitions:
            assert time.monotonic() < deadline, f"the ends of {topic}-{sorted(open_partitions)} were not reached"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append((message.partition(), message.key() or b"", message.value()))
            elif error.name() == "_PARTITION_EOF":
                open_partitions.discard(message.partition())
        return found
    finally:
        consumer.close()
