"""What a lab works with: the cluster, its tree and files, clients for its set-up, and notes kept between commands.

Answers to: nothing in Kafka. Blocking shell (processes, client library).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypedDict

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalite.common.errors import StartupError
from kafkalite.common.types import TopicPartition as Partition
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.security import ADMIN, USERS
from kafkalite.embedded.whole_files import write_whole
from kafkalite.learn.lab_tree import LabTree
from kafkalite.learn.partition_files import PartitionFiles
from kafkalite.zk.session_security import OPEN
from kafkalite.zk.znodes.config import TOPICS, config_path, decode_config
from kafkalite.zk.znodes.consumers import decode_offset, offset_path

TIMEOUT: Final = 60.0
_INTERVAL: Final = 0.05
Pair = tuple[str | None, str]
"""Key and value of a record."""


class LabPartitionState(TypedDict):
    """The znode ``/brokers/topics/<topic>/partitions/<n>/state``."""

    controller_epoch: int
    leader: int
    version: int
    leader_epoch: int
    isr: list[int]


class Workspace:
    """A started ``cluster``, and ``notes.json`` in ``directory``. ``answer`` is what the student gave to the check."""

    def __init__(self, cluster: LocalCluster, directory: Path, answer: str = "") -> None:
        self.cluster = cluster
        self.tree = LabTree(
            cluster.zookeeper, OPEN if cluster.security is None else cluster.security.zookeeper_security()
        )
        self.answer = answer
        self._notes_file = directory / "notes.json"

    # What the set-up tells the check and the text

    def notes(self) -> dict[str, str]:
        """What :meth:`note` has kept."""
        try:
            notes: dict[str, str] = json.loads(self._notes_file.read_text())
        except FileNotFoundError:
            return {}
        return notes

    def note(self, **values: object) -> None:
        """Keep values as text, for the check and as ``$name`` in the lab's text."""
        notes = {**self.notes(), **{name: str(value) for name, value in values.items()}}
        write_whole(self._notes_file, json.dumps(notes, indent=2) + "\n")

    def values(self) -> dict[str, str]:
        """What the lab's text may name: ``$bootstrap``, ``$zookeeper``, ``$directory``, ``$python``, and the notes.

        On a secured cluster ``$admin`` and ``$client`` are the users' files of client properties, and
        ``$zookeeper_tls`` is the file for ``--zk-tls-config-file``.
        """
        return {
            "bootstrap": self.cluster.bootstrap,
            "zookeeper": self.cluster.zookeeper,
            "directory": str(self.cluster.directory),
            "python": sys.executable,
            **self._property_files(),
            **self.notes(),
        }

    def login(self, user: str = ADMIN) -> dict[str, str]:
        """The client properties by which ``user`` reaches the brokers; on an open cluster there are no users."""
        security = self.cluster.security
        return {
            "bootstrap.servers": self.cluster.bootstrap,
            **({} if security is None else security.login_properties(user)),
        }

    def _property_files(self) -> dict[str, str]:
        security = self.cluster.security
        if security is None:
            return {}
        files = {**{user: user for user in USERS}, "zookeeper_tls": "zookeeper"}
        return {name: str(security.properties_file(of)) for name, of in files.items()}

    # Set-up

    def create_topic(
        self, name: str, partitions: int = 1, replicas: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and wait until each partition has a leader."""
        admin = AdminClient(self.login())
        topic = NewTopic(name, partitions, replicas, config=dict(config or {}))
        admin.create_topics([topic])[name].result(TIMEOUT)
        for partition in range(partitions):
            self.wait(partial(self.has_leader, name, partition), f"{name}-{partition} to be led")

    def has_leader(self, topic: str, partition: int = 0) -> bool:
        """Whether ZooKeeper names a leader of the partition."""
        state = self.state(topic, partition)
        return state is not None and state["leader"] >= 0

    def produce(
        self,
        topic: str,
        records: Sequence[Pair],
        *,
        partition: int = -1,
        timestamp: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Produce records, and return one text a record: its error, empty if it was acknowledged.

        ``timestamp`` is that of all records in milliseconds; 0 means now.
        """
        producer = Producer({**self.login(), "message.timeout.ms": "20000", **(settings or {})})
        errors: list[str] = []

        def told(error: object, _: Message) -> None:
            errors.append("" if error is None else str(error))

        for key, value in records:
            producer.produce(topic, value, key, partition, on_delivery=told, timestamp=timestamp)
        if producer.flush(TIMEOUT):
            raise StartupError(f"records to {topic} got no answer within {TIMEOUT:.0f} s")
        return errors

    def commit(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        """Commit an offset for a group that has no members."""
        consumer = Consumer({**self.login(), "group.id": group})
        try:
            consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        finally:
            consumer.close()

    def wait(self, condition: Callable[[], bool], what: str, timeout: float = TIMEOUT) -> None:
        """Wait for a condition. Raises :class:`StartupError` with ``what`` after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise StartupError(f"waited {timeout:.0f} s for {what}")
            time.sleep(_INTERVAL)

    # The real state

    def state(self, topic: str, partition: int = 0) -> LabPartitionState | None:
        """A partition's state in ZooKeeper; ``None`` if the controller has not written it."""
        data = self.tree.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if data is None:
            return None
        state: LabPartitionState = json.loads(data)
        return state

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has; 0 if it does not exist."""
        return len(self.tree.children(f"/brokers/topics/{topic}/partitions"))

    def files(self, topic: str, partition: int = 0, broker: int | None = None) -> PartitionFiles:
        """The files of the replica on ``broker``, or of the leader."""
        if broker is None:
            state = self.state(topic, partition)
            broker = state["leader"] if state is not None and state["leader"] >= 0 else self.cluster.broker_ids[0]
        return PartitionFiles(self.cluster.broker_dir(broker) / "data" / f"{topic}-{partition}")

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Log start offset and high watermark. Raises :class:`StartupError` if no leader answers."""
        consumer = Consumer({**self.login(), "group.id": "kafkalite-learn"})
        try:
            found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT)
        except KafkaException as error:
            raise StartupError(f"no offsets of {topic}-{partition}: {error}") from None
        finally:
            consumer.close()
        if found is None:
            raise StartupError(f"no offsets of {topic}-{partition} within {TIMEOUT:.0f} s")
        low, high = found
        return int(low), int(high)

    def config(self, topic: str) -> dict[str, str]:
        """The topic's own configuration in ZooKeeper, without defaults."""
        path = config_path(TOPICS, topic)
        return decode_config(path, self.tree.get(path) or b"")

    def read_committed(self, topic: str, partition: int = 0) -> list[str]:
        """The values that a reader of committed records is shown. Raises :class:`StartupError` if no leader answers."""
        consumer = Consumer(
            {
                **self.login(),
                "group.id": "kafkalite-learn",
                "enable.auto.commit": "false",
                "enable.partition.eof": "true",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": "10",
            }
        )
        values: list[str] = []
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while (message := consumer.poll(TIMEOUT)) is not None:
                error = message.error()
                if error is None:
                    values.append((message.value() or b"").decode(errors="replace"))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return values
                else:
                    raise StartupError(f"{topic}-{partition} cannot be read: {error}")
        finally:
            consumer.close()
        raise StartupError(f"no records of {topic}-{partition} within {TIMEOUT:.0f} s")

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        """The offset in ZooKeeper from which a group reads on; ``None`` without one."""
        path = offset_path(group, Partition(topic, partition))
        data = self.tree.get(path)
        return None if data is None else decode_offset(path, data)

    def live_brokers(self) -> list[int]:
        """Ids of the registered brokers."""
        return sorted(int(name) for name in self.tree.children("/brokers/ids"))

    def controller(self) -> int:
        """Broker id of the controller; -1 if there is none."""
        data = self.tree.get("/controller")
        return -1 if data is None else int(json.loads(data)["brokerid"])

    def controller_epoch(self) -> int:
        """The value of ``/controller_epoch``."""
        return int(self.tree.get("/controller_epoch") or b"0")
