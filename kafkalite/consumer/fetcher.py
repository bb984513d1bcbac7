"""Fetching: one thread that puts the records of this member's partitions into the stream.

Answers to: ``kafka.consumer.{ConsumerFetcherManager,ConsumerFetcherThread}``. Reactor shell (a thread, kafka-python).

kafka-python finds the leaders of partitions and handles their changes; it is used with manually assigned partitions and
without a group. An offset that the log no longer has is handled here, because the stream, and with it the next commit,
must know the new position.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkalite.common.types import TopicPartition
from kafkalite.consumer.config import SMALLEST, ConsumerConfig
from kafkalite.consumer.errors import ConsumerAuthenticationError
from kafkalite.consumer.login_check import check_login
from kafkalite.consumer.security import ConsumerSecurity
from kafkalite.consumer.stream import Record, Stream

if TYPE_CHECKING:
    from kafka import KafkaConsumer
    from kafka.consumer.fetcher import ConsumerRecord
    from kafka.structs import OffsetAndMetadata

log = logging.getLogger(__name__)
POLL_MS = 100
"""Timeout of one poll, which is also the longest time until a new plan takes effect."""
RETRY_SECONDS = 0.2
REQUEST_TIMEOUT_MS = 10_000
RESET_TIMEOUT_MS = 3_000
LOGIN_TIMEOUT = 5.0
"""Seconds for each step of a connection that only logs in."""


class _Plan:
    """The partitions to fetch: ``offsets`` is the next one of each partition, and advances with what was fetched."""

    def __init__(self, generation: int, starts: Mapping[TopicPartition, int | None]) -> None:
        self.generation = generation
        self.offsets = dict(starts)


class ConsumerFetcher:
    """Implements :class:`kafkalite.consumer.rebalancer.Fetching`; its methods return at once."""

    def __init__(self, stream: Stream, config: ConsumerConfig, security: ConsumerSecurity | None = None) -> None:
        self._stream = stream
        self._config = config
        self._security = security or ConsumerSecurity()
        self._changed = threading.Condition()
        self._brokers: list[str] = []
        self._plan = _Plan(0, {})
        self._closed = False
        self._client: KafkaConsumer = None
        self._client_brokers: list[str] = []
        self._thread = threading.Thread(target=self._run, name="consumer-fetcher", daemon=True)
        self._thread.start()

    def set_brokers(self, brokers: list[str]) -> None:
        with self._changed:
            self._brokers = brokers
            self._changed.notify_all()

    def fetch(self, generation: int, starts: Mapping[TopicPartition, int | None]) -> None:
        with self._changed:
            self._plan = _Plan(generation, starts)
            self._changed.notify_all()

    def close(self) -> None:
        """Stop, and wait for the thread to end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(10)

    # The thread

    def _run(self) -> None:
        from kafka.errors import KafkaError

        # kafka-python warns of every reconnect; what matters of it is raised, and logged here.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        try:
            while (plan := self._next_plan()) is not None:
                try:
                    self._fetch(plan)
                except (KafkaError, OSError) as error:
                    log.warning("fetching failed, and is tried again: %s: %s", type(error).__name__, error)
                    self._drop_client()  # its metadata may be old
                    self._rest(plan)
        except ConsumerAuthenticationError as error:
            self._stream.fail(error)
        except Exception as error:
            log.exception("the fetcher failed")
            self._stream.fail(error)
        finally:
            self._drop_client()

    def _next_plan(self) -> _Plan | None:
        """The plan, once it has partitions and there are brokers to fetch from; ``None`` after :meth:`close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or (self._plan.offsets and self._brokers))
            return None if self._closed else self._plan

    def _is_current(self, plan: _Plan) -> bool:
        return plan is self._plan and not self._closed

    def _rest(self, plan: _Plan) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_current(plan), RETRY_SECONDS)

    def _fetch(self, plan: _Plan) -> None:
        """Fetch by ``plan`` for as long as it is current. Raises the library's exceptions."""
        from kafka import TopicPartition as LibraryPartition
        from kafka.errors import LogTruncationError, OffsetOutOfRangeError

        client = self._connected()
        client.assign([LibraryPartition(*tp) for tp in plan.offsets])
        self._reset(plan, client, [tp for tp, offset in plan.offsets.items() if offset is None])
        for tp, offset in plan.offsets.items():
            client.seek(LibraryPartition(*tp), offset)
        while self._is_current(plan):
            if not self._stream.wait_for_room(POLL_MS / 1000):
                continue
            try:
                found = client.poll(POLL_MS)
            except OffsetOutOfRangeError as error:
                self._reset(plan, client, [TopicPartition(*tp) for tp in error.args[0]])
                continue
            except LogTruncationError as error:
                self._truncate(plan, client, error.divergent_offsets)
                continue
            for tp, batch in found.items():
                if not self._stream.put(plan.generation, TopicPartition(*tp), [_record(entry) for entry in batch]):
                    return
                plan.offsets[TopicPartition(*tp)] = batch[-1].offset + 1

    def _reset(self, plan: _Plan, client: KafkaConsumer, partitions: Sequence[TopicPartition]) -> None:
        """Move ``partitions`` to the offset that ``auto.offset.reset`` says."""
        from kafka import TopicPartition as LibraryPartition
        from kafka.errors import LeaderNotAvailableError

        if not partitions:
            return
        ask = client.beginning_offsets if self._config.auto_offset_reset == SMALLEST else client.end_offsets
        try:
            found = ask([LibraryPartition(*tp) for tp in partitions], timeout_ms=RESET_TIMEOUT_MS)
        except KeyError as error:  # as the library has it where its broker does not know a partition yet
            raise LeaderNotAvailableError(f"{error} is not known yet") from None
        for tp in partitions:
            offset = found[LibraryPartition(*tp)]
            log.info("%s: reset to the %s offset, %d", tp, self._config.auto_offset_reset, offset)
            self._move(plan, client, tp, offset)

    def _truncate(
        self, plan: _Plan, client: KafkaConsumer, ends: Mapping[tuple[str, int], OffsetAndMetadata | None]
    ) -> None:
        """Begin again where the log diverged, if an unclean election changed records that were read already."""
        for tp, end in ends.items():
            if end is None:
                self._reset(plan, client, [TopicPartition(*tp)])
            else:
                log.warning("%s: the log was truncated to offset %d", TopicPartition(*tp), end.offset)
                self._move(plan, client, TopicPartition(*tp), end.offset)

    def _move(self, plan: _Plan, client: KafkaConsumer, tp: TopicPartition, offset: int) -> None:
        from kafka import TopicPartition as LibraryPartition

        client.seek(LibraryPartition(*tp), offset)
        plan.offsets[tp] = offset
        self._stream.move(plan.generation, tp, offset)

    def _connected(self) -> KafkaConsumer:
        """The library's client; a new one if none of the brokers that the old one was given is alive."""
        from kafka import KafkaConsumer

        brokers = self._brokers
        if self._client is not None and not set(brokers) & set(self._client_brokers):
            self._drop_client()
        if self._client is None:
            self._check_login(brokers)
            config = self._config
            self._client = KafkaConsumer(
                bootstrap_servers=brokers,
                client_id=config.client_id or config.group_id,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                max_partition_fetch_bytes=config.fetch_message_max_bytes,
                fetch_min_bytes=config.fetch_min_bytes,
                fetch_max_wait_ms=config.fetch_wait_max_ms,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                reconnect_backoff_max_ms=1000,
                bootstrap_timeout_ms=REQUEST_TIMEOUT_MS,
                metrics_enabled=False,
                **self._security.library_settings(),
            )
            self._client_brokers = brokers
        return self._client

    def _check_login(self, brokers: Sequence[str]) -> None:
        """Log in at the first of ``brokers`` that answers. Raises :class:`ConsumerAuthenticationError`.

        As in Java's clients a refusal is final: another try with the same password would look like a guess of it.
        """
        if self._security.protocol == "PLAINTEXT":
            return
        for broker in brokers:
            try:
                check_login(broker, self._security, LOGIN_TIMEOUT)
                return
            except OSError as error:
                log.info("no login at %s: %s", broker, error)

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _record(entry: ConsumerRecord) -> Record:
    return Record(
        entry.topic, entry.partition, entry.offset, entry.timestamp, entry.key, entry.value, tuple(entry.headers)
    )
