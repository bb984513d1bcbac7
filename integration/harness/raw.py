"""Single requests with any field values: batches with any producer state, fetches with any limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from integration.harness.wait import wait_for
from integration.harness.wire import FETCH, LIST_OFFSETS, PRODUCE, Wire, leaders
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.protocol import messages
from kafkalite.protocol.codec import decode_response, encode_request, request_class
from kafkalite.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ForgottenPartition,
    decode_fetch_response,
    encode_fetch_request,
)
from kafkalite.protocol.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    decode_produce_response,
    encode_produce,
)
from kafkalite.record.records import Record, encode_batch

# The last versions before the flexible ones.
PRODUCE_VERSION, FETCH_VERSION, LIST_OFFSETS_VERSION = 8, 11, 5
INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION = 22, 1
DELETE_RECORDS, DELETE_RECORDS_VERSION = 21, 1
NO_SESSION = -1
NEVER = 1 << 30


def batch(
    count: int = 1,
    *,
    timestamp: int = -1,
    size: int = 10,
    codec: int = 0,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """A batch of ``count`` records of ``size`` bytes by ``producer`` (id, epoch), the first with ``sequence``."""
    records = [Record(offset, timestamp, None, b"%0*d" % (size, max(sequence, 0) + offset)) for offset in range(count)]
    return encode_batch(
        records,
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=transactional,
    )


def ask_partition(topic: str, offset: int, partition: int = 0, max_bytes: int = NEVER) -> FetchPartition:
    """One partition of a fetch."""
    return FetchPartition(topic, ZERO_UUID, partition, fetch_offset=offset, max_bytes=max_bytes)


class RawClient(Wire):
    """One connection to one broker, and its requests as values."""

    def produce(
        self, topic: str, records: bytes, partition: int = 0, acks: int = -1, transactional_id: str | None = None
    ) -> ProducePartitionResponse:
        """The answer to one batch."""
        request = ProduceRequest(
            transactional_id, acks, 10000, [(TopicPartition(topic, partition), memoryview(records))]
        )
        body = b"".join(encode_produce(PRODUCE_VERSION, request))
        (answer,) = decode_produce_response(PRODUCE_VERSION, self.call(PRODUCE, PRODUCE_VERSION, body))
        return answer

    def fetch(
        self,
        partitions: Sequence[FetchPartition],
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = NEVER,
        session: tuple[int, int] = (0, NO_SESSION),
        forgotten: Sequence[ForgottenPartition] = (),
        rack: str = "",
        version: int = FETCH_VERSION,
    ) -> FetchResponse:
        """The answer to a fetch; ``session`` is (id, epoch)."""
        request = FetchRequest(
            -1, -1, max_wait_ms, min_bytes, max_bytes, 0, *session, list(partitions), list(forgotten), rack
        )
        answer = self.call(FETCH, version, encode_fetch_request(version, request))
        return decode_fetch_response(version, answer)

    def init_producer_id(self) -> tuple[int, int]:
        """A producer id and its epoch; repeats the request, as clients do, while the broker has no block of ids."""

        def ask() -> Any:
            answer = self.ask(
                INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, transactional_id=None, transaction_timeout_ms=1000
            )
            if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                raise LookupError(str(answer))
            assert answer.error_code == ErrorCode.NONE, answer
            return answer

        answer = wait_for(ask, "a producer id")
        return answer.producer_id, answer.producer_epoch

    def list_offset(self, topic: str, timestamp: int, partition: int = 0, isolation: int = 0) -> tuple[int, int, int]:
        """Error, timestamp and offset for ``timestamp``: -1 is the end for readers of ``isolation``, -2 the start."""
        kind = messages.ListOffsetsRequest.ListOffsetsTopic
        asked = kind.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=timestamp)
        answer = self.ask(
            LIST_OFFSETS,
            LIST_OFFSETS_VERSION,
            replica_id=-1,
            isolation_level=isolation,
            topics=[kind(name=topic, partitions=[asked])],
        )
        found = answer.topics[0].partitions[0]
        return found.error_code, found.timestamp, found.offset

    def delete_records(self, topic: str, offset: int, partition: int = 0) -> tuple[int, int]:
        """Error and low watermark."""
        kind = messages.DeleteRecordsRequest.DeleteRecordsTopic
        asked = kind.DeleteRecordsPartition(partition_index=partition, offset=offset)
        answer = self.ask(
            DELETE_RECORDS,
            DELETE_RECORDS_VERSION,
            topics=[kind(name=topic, partitions=[asked])],
            timeout_ms=10000,
        )
        found = answer.topics[0].partitions[0]
        return found.error_code, found.low_watermark

    def leads(self, topic: str, broker_id: int, partition: int = 0) -> bool:
        """Whether ``broker_id`` leads the partition in this broker's metadata."""
        return leaders(self, topic).get(partition) == broker_id

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """The answer to any request that kafka-python has a class for, in any version."""
        body = encode_request(api_key, version, request_class(api_key)(version=version, **fields))
        return decode_response(api_key, version, self.call(api_key, version, body))
