"""A batch's rows into topics, each once for readers with ``read_committed``: the tasks write in open transactions, the
driver decides which of them count.

Answers to: nothing in Spark, whose Kafka sink writes at least once. Blocking shell around
:mod:`kafkalite.spark.decision`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.spark.attempts import (
    Attempt,
    AttemptDecision,
    State,
    committer_of,
    from_chunks,
    group_of,
    parse_attempt,
    prefix_of,
    state_of,
    to_chunks,
)
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.errors import KafkaClientError
from kafkalite.spark.client.transactions import InitializedProducer, TransactionClient
from kafkalite.spark.decision import (
    BatchDone,
    Describe,
    End,
    Known,
    Look,
    RecordDecision,
    Step,
    Sweep,
    is_settled,
    next_step,
)
from kafkalite.spark.errors import KafkaWriteError
from kafkalite.spark.housekeeping import freeze_objects
from kafkalite.spark.reading import worker_cluster
from kafkalite.spark.row_writer import RowWriter
from kafkalite.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)
COMMIT_TIMEOUT_MS = 60_000
"""Timeout in milliseconds of the transaction that records a decision."""


class AttemptMessage(WriterCommitMessage):  # type: ignore[misc]
    """The report of a task attempt to the driver. ``attempt`` is ``None`` if the task had no rows, or if it ``skipped``
    them because the batch was decided."""

    def __init__(
        self, query: str, batch_id: int, attempt: Attempt | None, topics: list[str], rows: int, *, skipped: bool = False
    ) -> None:
        super().__init__()
        self.query = query
        self.batch_id = batch_id
        self.attempt = attempt
        self.topics = topics
        self.rows = rows
        self.skipped = skipped


def write_attempt(
    options: SinkOptions, query: str, batch_id: int, nonce: str, batches: Iterator[pa.RecordBatch]
) -> AttemptMessage:
    """Write the rows of a task attempt in a transaction of its own, which stays open. Raises ``KafkaWriteError``."""
    context = TaskContext.get()
    task, number = (context.partitionId(), context.taskAttemptId()) if context is not None else (0, 0)
    cluster = worker_cluster(options.client)
    opened = OpenedAttempt(options, cluster, query, Attempt(batch_id, nonce, task, number))
    writer = RowWriter(options, cluster, opened.begin)
    try:
        for batch in batches:
            if batch.num_rows and opened.is_settled():
                log.info("query %s, batch %d is decided: task %d writes nothing", query, batch_id, task)
                return AttemptMessage(query, batch_id, None, [], 0, skipped=True)
            writer.write(batch)
        writer.flush()
        freeze_objects()
    except BaseException as error:
        opened.give_up()
        if isinstance(error, KafkaClientError):
            raise KafkaWriteError(str(error)) from None
        raise
    finally:
        writer.close()
    return AttemptMessage(query, batch_id, opened.attempt, writer.topics, writer.rows)


class OpenedAttempt:
    """The transaction of a task attempt. It is opened by the first row."""

    def __init__(self, options: SinkOptions, cluster: ClusterConnections, query: str, attempt: Attempt) -> None:
        self._options = options
        self._transactions = TransactionClient(cluster)
        self._query = query
        self._named = attempt
        self._looked = False
        self._producer: InitializedProducer | None = None
        self.attempt: Attempt | None = None
        """The attempt with its producer; ``None`` before the first row."""

    def is_settled(self) -> bool:
        """Whether the batch was decided for other attempts already. Looked up once, before the first row."""
        if self._looked:
            return False
        self._looked = True
        return self._is_settled()

    def begin(self, partitions: Collection[TopicPartition]) -> InitializedProducer:
        """Add ``partitions`` to the transaction."""
        first = self._producer is None
        if self._producer is None:
            producer = self._transactions.init_producer(
                self._named.name(self._query), self._options.transaction_timeout_ms
            )
            self._producer = producer
            self.attempt = self._named._replace(
                producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
            )
        self._transactions.add_partitions(self._producer, partitions)
        # The commit of the batch sweeps all open attempts once. An attempt that opens its transaction after that sweep
        # would stay open, so it looks for the decision itself, after it was opened.
        if first and self._is_settled():
            raise KafkaWriteError(f"query {self._query}: batch {self._named.batch_id} was decided without this attempt")
        return self._producer

    def give_up(self) -> None:
        """Abort the transaction. If that fails, the commit or abort of the batch will do it."""
        if self._producer is not None:
            try:
                self._transactions.end((self._producer,), commit=False)
            except KafkaClientError as error:
                log.warning("%s stays open for now: %s", self._producer.transactional_id, error)

    def _is_settled(self) -> bool:
        batch_id = self._named.batch_id
        decision = from_chunks(self._transactions.fetch_offsets(group_of(self._query)).values())
        if decision is None or decision.batch_id < batch_id:
            return False
        states = {}
        if decision.batch_id == batch_id:
            states = _describe(self._transactions, self._query, decision.winners)
        return is_settled(decision, batch_id, states)


def commit(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Decide the batch of ``messages``, unless an earlier commit has, and carry the decision out."""
    freeze_objects()
    given = [message for message in messages if isinstance(message, AttemptMessage)]
    if not given:
        return
    attempts = tuple(message.attempt for message in given if message.attempt is not None)
    known = Known(
        given[0].batch_id,
        attempts,
        skipped=any(message.skipped for message in given),
        accept_loss=not options.fail_on_data_loss,
    )
    with ClusterConnections(options.client) as cluster:
        topics = {topic for message in given for topic in message.topics}
        Committer(cluster, given[0].query, topics).run(known)


def abort(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], query: str | None, batch_id: int
) -> None:
    """Abort all attempts of a batch, unless it was decided: then the next run of the batch completes it."""
    given = [message for message in messages if isinstance(message, AttemptMessage)]
    if query is None:
        if not given:
            log.warning(
                "batch %d: no task came to its end; its transactions are aborted when it is run again", batch_id
            )
            return
        query = given[0].query
    with ClusterConnections(options.client) as cluster:
        Committer(cluster, query, ()).abort(batch_id)


class Committer:
    """Carries out the steps of :mod:`kafkalite.spark.decision`. ``topics``: those that the batch was written to."""

    def __init__(self, cluster: ClusterConnections, query: str, topics: Collection[str]) -> None:
        self._cluster = cluster
        self._transactions = TransactionClient(cluster)
        self._query = query
        self._topics = topics
        self._committer: InitializedProducer | None = None

    def run(self, known: Known) -> Known:
        """Perform all steps, and return what is known then. Raises ``DecisionError`` and ``KafkaClientError``."""
        while not isinstance(step := next_step(known), BatchDone):
            known = self.perform(step, known)
        if step.lost:
            log.error(
                "batch %d of query %s: rows of %d transactions are lost", known.batch_id, self._query, len(step.lost)
            )
        return known

    def abort(self, batch_id: int) -> None:
        """Sweep a batch that is not decided. :class:`Look` has fenced any commit that could still decide it."""
        known = self.perform(Look(), Known(batch_id))
        if known.recorded is None or known.recorded.batch_id < batch_id:
            self.perform(Sweep(batch_id), known)

    def perform(self, step: Step, known: Known) -> Known:
        """Perform one step, and return what is known after it."""
        transactions, query = self._transactions, self._query
        if isinstance(step, Look):
            self._committer = transactions.init_producer(committer_of(query), COMMIT_TIMEOUT_MS)
            recorded = from_chunks(transactions.fetch_offsets(group_of(query)).values())
            return replace(known, looked=True, recorded=recorded)
        if isinstance(step, Describe):
            return known.after(_describe(transactions, query, step.attempts))
        if isinstance(step, RecordDecision):
            self._record(step.decision)
            return replace(known, recorded=step.decision)
        if isinstance(step, End):
            codes = transactions.end([each.producer(query) for each in step.attempts], commit=step.commit)
            ended = State.COMMITTED if step.commit else State.LOST
            states = {each: ended for each in step.attempts if not codes[each.producer(query)]}
            others = [each for each in step.attempts if each not in states]
            return known.after(states | _describe(transactions, query, others))
        assert isinstance(step, Sweep)
        names = transactions.open_transactions(prefix_of(query))
        kept = {each.name(query) for each in step.keep}
        parsed = {name: parse_attempt(query, name) for name in names if name not in kept}
        found = [name for name, attempt in parsed.items() if attempt is not None and attempt.batch_id <= step.batch_id]
        if found:
            log.info("query %s, batch %d: aborting %d attempts", query, step.batch_id, len(found))
            transactions.fence(found)
        return replace(known, swept=True)

    def _record(self, decision: AttemptDecision) -> None:
        assert self._committer is not None
        chunks = to_chunks(decision)
        home = min(self._topics)
        partitions = self._cluster.retry("Metadata", lambda: self._partitions(home))
        if len(chunks) > len(partitions):
            raise KafkaClientError(
                f"batch {decision.batch_id}: {len(decision.winners)} tasks are too many to be remembered beside "
                f"the offsets of {len(partitions)} partitions of topic {home}; coalesce() to fewer"
            )
        self._transactions.commit_offsets(
            self._committer, group_of(self._query), dict(zip(partitions, chunks, strict=False))
        )

    def _partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions of ``topic``. Raises ``ApiError`` where the broker has not heard of the topic yet."""
        state = self._cluster.refresh((topic,))[topic]
        if state.error:
            raise ApiError(ErrorCode(state.error), f"topic {topic}")
        return [TopicPartition(topic, number) for number in sorted(state.leaders)]


def _describe(transactions: TransactionClient, query: str, attempts: Collection[Attempt]) -> dict[Attempt, State]:
    if not attempts:
        return {}
    found = transactions.describe([each.name(query) for each in attempts])
    return {each: state_of(each, found[each.name(query)]) for each in attempts}
