"""The consumer itself: registration, rebalancing, fetching and commits put together, behind an iterator.

Answers to: ``kafka.consumer.ZookeeperConsumerConnector``. Reactor shell (a thread of its own).
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from kafkalite.common.types import TopicPartition
from kafkalite.consumer.config import ConsumerConfig
from kafkalite.consumer.errors import ConsumerClosedError
from kafkalite.consumer.fetcher import ConsumerFetcher
from kafkalite.consumer.loop import LoopThread
from kafkalite.consumer.rebalancer import Rebalancer
from kafkalite.consumer.registry import Registry
from kafkalite.consumer.security import ConsumerSecurity
from kafkalite.consumer.stream import Record, Stream
from kafkalite.consumer.subscription import Subscription
from kafkalite.zk.kazoo_client import KazooZkClient


class ZooKeeperConsumer:
    """One member, with one stream of records, of a group that is coordinated through ZooKeeper only.

    ``zookeeper``: ``host:port[,host:port…][/chroot]``. ``topics``: names, or a :class:`Subscription` (which may be an
    expression). ``settings``: the fields of :class:`ConsumerConfig`, as ``auto_offset_reset="smallest"``; how brokers
    and ZooKeeper are secured, as ``security={"security.protocol": "SSL", "zookeeper.ssl.client.enable": "true"}``.

    The constructor joins the group and returns once this member has its part of the partitions. Processes in any
    language that use the same znodes may be members of the same group. For more parallelism start more members.

    Raises :class:`~kafkalite.common.errors.StartupError` if ZooKeeper does not answer, ``ConfigError``, and
    :class:`ConsumerRebalanceFailedError`; iterating raises the last one, too, if a later rebalance fails, and
    :class:`ConsumerAuthenticationError` if a broker refuses the login. Iterate,
    :meth:`commit` and :meth:`close` in one thread.
    """

    def __init__(self, zookeeper: str, group: str, topics: Sequence[str] | Subscription, **settings: Any) -> None:
        config = ConsumerConfig(zookeeper_connect=zookeeper, group_id=group, **settings)
        security = ConsumerSecurity.of(config.security, lambda path: Path(path).read_bytes())
        self.config = config
        self.consumer_id = f"{group}_{config.consumer_id or _own_name()}"
        """This member's name, as it stands under ``/consumers/<group>/ids``."""
        self._closed = False
        self._loop = LoopThread(f"consumer-{self.consumer_id}")
        self._client = KazooZkClient(
            self._loop.call_from_thread,
            zookeeper,
            config.zookeeper_session_timeout_ms,
            config.zookeeper_connection_timeout_ms,
            security.zookeeper,
        )
        self._stream = Stream(config.queued_max_message_chunks)
        self._fetcher = ConsumerFetcher(self._stream, config, security)
        subscription = topics if isinstance(topics, Subscription) else Subscription.to_topics(topics)
        registry = Registry(self._client, group, self.consumer_id, security.protocol)
        self._rebalancer = Rebalancer(registry, subscription, self._stream, self._fetcher, self._loop, config)
        try:
            self._loop.run(self._start)
        except BaseException:
            self._stop()
            raise

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member reads now; none during a rebalance."""
        return self._rebalancer.owned

    def poll(self, timeout: float | None = None) -> Record | None:
        """The next record; ``None`` if none comes within ``timeout`` seconds (``None``: wait for ever).

        The previous record counts as read, and is part of the next commit. Raises :class:`ConsumerClosedError`,
        :class:`ConsumerRebalanceFailedError`.
        """
        if self._closed:
            raise ConsumerClosedError(self.consumer_id)
        return self._stream.next(timeout)

    def __iter__(self) -> Iterator[Record]:
        """Records without end, or until none comes for ``consumer.timeout.ms``."""
        wait = self.config.consumer_timeout_ms
        while not self._closed:
            record = self.poll(None if wait < 0 else wait / 1000)
            if record is None:
                return
            yield record

    def commit(self) -> dict[TopicPartition, int]:
        """Write how far this member has read, including the last record handed out, where that is not written yet.

        Returns the written offsets, once ZooKeeper has them. During a rebalance it waits for its end, and then has
        nothing to write: records that were not committed before may be read again. Raises ``ZkError``.
        """
        if self._closed:
            raise ConsumerClosedError(self.consumer_id)
        self._stream.settle()
        return self._loop.run(self._rebalancer.commit)

    def close(self) -> None:
        """Commit (with ``auto.commit.enable``, including the last record), release all partitions, leave the group."""
        if not self._closed:
            self._stream.settle()
            self._stop()

    def __enter__(self) -> ZooKeeperConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close. If the application's work on a record raised an exception, that record does not count as read."""
        if error is None:
            self.close()
        elif not self._closed:
            self._stop()

    # Inside

    async def _start(self) -> None:
        await self._client.start()
        self._client.add_listener(self._rebalancer.on_session)
        await self._rebalancer.start()

    async def _end(self) -> None:
        await self._rebalancer.stop()
        await self._client.close()

    def _stop(self) -> None:
        self._closed = True
        self._stream.close()
        try:
            self._loop.run(self._end)
        finally:
            self._fetcher.close()
            self._loop.stop()


def _own_name() -> str:
    """Host name, time and random digits, as Kafka's consumers name themselves."""
    return f"{socket.gethostname()}-{time.time_ns() // 1_000_000}-{uuid.uuid4().hex[:8]}"
