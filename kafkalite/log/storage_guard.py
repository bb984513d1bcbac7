"""What a log does when its disk refuses an operation.

Answers to: ``kafka.log.LocalLog.maybeHandleIOException`` and ``LogDirFailureChannel``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import PASSING, LogDirFailure
from kafkalite.record.batch import CorruptRecordError

P = ParamSpec("P")
T = TypeVar("T")


class StorageGuard:
    """Makes calls that touch the files of one log, and turns their failures into Kafka's errors.

    A full disk refuses an operation that changes nothing when it fails. Every other ``OSError`` takes the log directory
    offline, and ``on_failure`` is called with it. Once ``broken``, every call is refused.
    """

    __slots__ = ("_on_failure", "broken", "log_dir", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, log_dir: str, on_failure: Callable[[OSError], None]) -> None:
        self.topic_partition = topic_partition
        self.log_dir = log_dir
        self.broken = False
        """Whether the directory has failed, or the log was deleted or closed."""
        self._on_failure = on_failure

    def call(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make ``call``; an ``OSError`` of it ends the directory. Raises ``ApiError``."""
        if self.broken:
            raise self.closed_error()
        try:
            return call(*args, **kwargs)
        except OSError as error:
            raise self.fail(error) from error
        except CorruptRecordError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition}: {error}") from error

    def attempt(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """:meth:`call` for what changes nothing when it fails: a full disk does not end the directory."""
        if self.broken:
            raise self.closed_error()
        try:
            return call(*args, **kwargs)
        except OSError as error:
            raise self.refused(error) from error
        except CorruptRecordError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition}: {error}") from error

    def refused(self, error: OSError) -> ApiError:
        """What to answer where a failed call changed nothing: only a full disk leaves the directory online."""
        if error.errno in PASSING:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.log_dir}: {error.strerror}")
        return self.fail(error)

    def fail(self, error: OSError) -> ApiError:
        """Give the directory up; returns what to answer."""
        self._on_failure(error)
        return LogDirFailure(self.log_dir, error)

    def closed_error(self) -> ApiError:
        """What to answer once :attr:`broken`."""
        # Not a LogDirFailure: a log that was deleted or closed says nothing about its directory.
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self.topic_partition} in {self.log_dir} is closed")
