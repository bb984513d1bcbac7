"""Encodes rows as record batches, without a Python object for each row.

Answers to: ``org.apache.kafka.common.record.{MemoryRecordsBuilder,DefaultRecordBatch}`` and
``clients.producer.internals.ProducerBatch``. Pure.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from kafkalite.record.batch import (
    CRC_POSITION,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_MASK,
    crc32c,
)
from kafkalite.record.compression import compress
from kafkalite.spark import encode_kernels as kernels
from kafkalite.spark.columns import Columns
from kafkalite.spark.compiled import Longs, Octets

_CRC = struct.Struct(">I")
_MAGIC = 2


class Stamp(NamedTuple):
    """The producer's fields in the header of a batch."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE
    transactional: bool = False


class EncodeError(Exception):
    """A row that cannot be a record; ``row`` is its number in the columns."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


class OpenBatch:
    """Records of one partition that were not sent yet: up to ``limit`` bytes, or one larger record."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._room: Octets = np.empty(0, np.uint8)
        self._state = np.zeros(kernels.FILL_STATES, np.int64)
        self._reset()

    @property
    def count(self) -> int:
        """Number of records."""
        return int(self._state[kernels.COUNT])

    @property
    def size(self) -> int:
        """Size in bytes, before compression."""
        return int(self._state[kernels.POSITION])

    def append(self, columns: Columns, order: Longs, first: int, last: int) -> int:
        """Append rows ``order[first:last]``. Returns the index in ``order`` at which the batch is full, or ``last``.

        Raises :class:`EncodeError`.
        """
        while True:
            place = int(
                kernels.fill(
                    order,
                    first,
                    last,
                    self._limit,
                    columns.times,
                    columns.key.ends,
                    columns.key.data,
                    columns.key.valid,
                    columns.value.ends,
                    columns.value.data,
                    columns.value.valid,
                    columns.list_ends,
                    columns.list_valid,
                    columns.names.ends,
                    columns.names.data,
                    columns.names.valid,
                    columns.contents.ends,
                    columns.contents.data,
                    columns.contents.valid,
                    self._room,
                    self._state,
                )
            )
            needed = int(self._state[kernels.NEEDED])
            if place == kernels.NULL_NAME:
                raise EncodeError("Null header keys are not permitted", int(order[needed]))
            if not needed:
                return place
            # The array grows with its use, because most partitions of a topic get few rows.
            used = self.size
            room = np.empty(max(used + needed, min(self._limit, 4 * len(self._room)), 1 << 14), np.uint8)
            room[: min(used, len(self._room))] = self._room[:used]
            self._room = room
            first = place

    def seal(self, codec: int, stamp: Stamp) -> memoryview:
        """Finish the record batch, in memory of its own, and begin an empty one."""
        state = self._state
        size = int(state[kernels.POSITION])
        count = int(state[kernels.COUNT])
        if codec:
            body = compress(codec, self._room.data[HEADER_SIZE:size])
            batch = memoryview(bytearray(HEADER_SIZE + len(body)))
            batch[HEADER_SIZE:] = body
        else:
            batch = self._room.data[:size]
            self._room = np.empty(len(self._room), np.uint8)
        HEADER.pack_into(
            batch,
            0,
            0,
            len(batch) - LOG_OVERHEAD,
            NO_LEADER_EPOCH,
            _MAGIC,
            0,
            codec | (TRANSACTIONAL_MASK if stamp.transactional else 0),
            count - 1,
            int(state[kernels.BASE_TIME]),
            int(state[kernels.MAX_TIME]),
            stamp.producer_id,
            stamp.producer_epoch,
            stamp.base_sequence,
            count,
        )
        _CRC.pack_into(batch, CRC_POSITION, crc32c(batch[CRC_START:]))
        self._reset()
        return batch

    def _reset(self) -> None:
        self._state[:] = 0
        self._state[kernels.POSITION] = HEADER_SIZE
