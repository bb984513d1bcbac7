"""What is wrong with records that a log refuses, as far as it is counted.

Answers to: ``LogValidator.MetricsRecorder``. Pure.
"""

from __future__ import annotations

from enum import Enum, auto

from kafkalite.common.errors import ApiError, ErrorCode


class RecordFault(Enum):
    """The faults that Kafka has meters for."""

    MAGIC_NUMBER = auto()
    """Batches of different formats in one append, or messages in a wrapper of another format."""
    MESSAGE_CRC = auto()
    OFFSET_OR_SEQUENCE = auto()
    """Offsets that do not fit the number of records, control records of a client, or a negative sequence."""
    NO_KEY = auto()
    """Records without a key, on a compacted topic."""


class InvalidRecordsError(ApiError):
    """Records are refused. ``fault`` is ``None`` for what is not counted; ``count`` of them have it."""

    def __init__(self, code: ErrorCode, message: str, fault: RecordFault | None = None, count: int = 1) -> None:
        super().__init__(code, message)
        self.fault = fault
        self.count = count
