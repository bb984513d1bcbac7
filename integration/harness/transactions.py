"""Transactions by single requests, in any version: a producer that a test controls step by step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from integration.faults.groups import TRANSACTION, find_coordinator
from integration.harness.raw import RawClient, batch
from integration.harness.wait import wait_for
from integration.harness.wire import leaders
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

PASSING = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors after which every client repeats its request."""
END = -1
"""The timestamp of ListOffsets for the end of a log."""
COMMITTED = 1
"""Isolation level ``read_committed``."""


class Session(NamedTuple):
    """Producer id and epoch under which a producer writes."""

    producer_id: int
    epoch: int


class RawProducer:
    """A transactional producer. Requests go to the current coordinator or leader and are repeated after passing errors.

    ``again=False`` returns the first answer, also if it is a passing error.
    """

    def __init__(self, cluster: LocalCluster, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.session = Session(-1, -1)
        self.at = 0
        self._sequences: dict[tuple[str, int], int] = {}

    def coordinator(self) -> int:
        """The current coordinator: ``at`` if the test has set it, otherwise the answer of FindCoordinator."""
        return self.at or find_coordinator(self.cluster, self.transactional_id, TRANSACTION)

    def _ask(self, api_key: ApiKey, version: int, error: Any, again: bool, **fields: Any) -> tuple[ErrorCode, Any]:
        def asked() -> tuple[ErrorCode, Any]:
            with RawClient(self.cluster.address(self.coordinator())) as client:
                answer = client.ask(api_key, version, **fields)
            code = ErrorCode(error(answer))
            if again and code in PASSING:
                raise LookupError(code.name)
            return code, answer

        return wait_for(asked, f"an answer to {api_key.name}")

    def _mine(self, version: int, api_key: ApiKey) -> dict[str, Any]:
        old = api_key is ApiKey.ADD_PARTITIONS_TO_TXN
        prefix = "v3_and_below_" if old else ""
        values = (self.transactional_id, *self.session)
        assert not old or version < 4
        return {f"{prefix}{name}": value for name, value in zip(_NAMES, values, strict=True)}

    def init(self, version: int = 4, expected: Session | None = None, again: bool = True) -> ErrorCode:
        """InitProducerId; keeps the producer id and epoch of the answer as the session."""
        expected = expected or Session(-1, -1)
        more = {"producer_id": expected.producer_id, "producer_epoch": expected.epoch} if version >= 3 else {}
        error, answer = self._ask(
            ApiKey.INIT_PRODUCER_ID,
            version,
            lambda told: told.error_code,
            again,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            **more,
        )
        if error is ErrorCode.NONE:
            self.session = Session(answer.producer_id, answer.producer_epoch)
            self._sequences.clear()
        return error

    def add(self, topic: str, *partitions: int, version: int = 3, again: bool = True) -> ErrorCode:
        """AddPartitionsToTxn: the error of the first partition."""
        kind = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        topics = [kind(name=topic, partitions=list(partitions or (0,)))]
        return self._ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            lambda told: told.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            again,
            v3_and_below_topics=topics,
            **self._mine(version, ApiKey.ADD_PARTITIONS_TO_TXN),
        )[0]

    def offsets(self, group: str, version: int = 3, again: bool = True) -> ErrorCode:
        """AddOffsetsToTxn."""
        key = ApiKey.ADD_OFFSETS_TO_TXN
        mine = self._mine(version, key)
        return self._ask(key, version, lambda told: told.error_code, again, group_id=group, **mine)[0]

    def end(self, commit: bool = True, version: int = 3, again: bool = True) -> ErrorCode:
        """EndTxn."""
        key = ApiKey.END_TXN
        return self._ask(
            key, version, lambda told: told.error_code, again, committed=commit, **self._mine(version, key)
        )[0]

    def send(
        self,
        topic: str,
        count: int = 1,
        partition: int = 0,
        *,
        transactional: bool = True,
        sequence: int | None = None,
        again: bool = True,
    ) -> ErrorCode:
        """Send a batch to the partition's leader."""
        where = topic, partition
        first = self._sequences.get(where, 0) if sequence is None else sequence
        records = batch(
            count,
            producer=self.session,
            sequence=first,
            transactional=transactional,
            timestamp=int(time.time() * 1000),
        )

        def sent() -> tuple[ErrorCode]:
            with RawClient(self.cluster.address(leader_of(self.cluster, topic, partition))) as client:
                answer = client.produce(topic, records, partition, transactional_id=self.transactional_id)
            error = ErrorCode(answer.error)
            if again and error in PASSING:
                raise LookupError(error.name)
            return (error,)

        (error,) = wait_for(sent, f"{topic} takes a batch")
        if error is ErrorCode.NONE:
            self._sequences[where] = first + count
        return error

    def transaction(self, topic: str, count: int, commit: bool, partitions: Sequence[int] = (0,)) -> None:
        """A whole transaction of ``count`` records in each partition, without an error."""
        assert self.add(topic, *partitions) is ErrorCode.NONE
        for partition in partitions:
            assert self.send(topic, count, partition) is ErrorCode.NONE
        assert self.end(commit) is ErrorCode.NONE


_NAMES = ("transactional_id", "producer_id", "producer_epoch")


def leader_of(cluster: LocalCluster, topic: str, partition: int = 0) -> int:
    """The leader of a partition in a living broker's metadata, once a living broker leads it."""

    def found() -> int:
        for broker_id in cluster.broker_ids:
            if cluster.is_alive(broker_id):
                with RawClient(cluster.address(broker_id)) as client:
                    leader = leaders(client, topic).get(partition, -1)
                if leader in cluster.broker_ids and cluster.is_alive(leader):
                    return leader
        raise LookupError("nobody leads")

    return wait_for(found, f"{topic}-{partition} has a leader")


def ask_leader(cluster: LocalCluster, topic: str, partition: int = 0) -> RawClient:
    """A connection to the leader of a partition."""
    return RawClient(cluster.address(leader_of(cluster, topic, partition)))


def stable_end(cluster: LocalCluster, topic: str, partition: int = 0, isolation: int = COMMITTED) -> int:
    """The last stable offset in the leader's answer; with ``isolation`` 0 the high watermark."""
    with ask_leader(cluster, topic, partition) as client:
        error, _, offset = client.list_offset(topic, END, partition, isolation)
    if error:
        raise LookupError(ErrorCode(error).name)
    return offset
