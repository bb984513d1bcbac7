"""Waits for conditions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import psutil
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaException
from kafka.errors import KafkaError

T = TypeVar("T")
PATIENCE = 120.0
"""Seconds that a busy machine may need for work of a few; only a failing test waits for so long."""
NOT_YET = (OSError, LookupError, KafkaException, KafkaError, AioKafkaError)
"""Errors that end when the cluster has converged; for example, a broker may learn of a topic after the others."""


class FailedError(AssertionError, LookupError):
    """A command or tool failed. The test fails, unless it waits for success: then this is one of :data:`NOT_YET`."""


def wait_for(condition: Callable[[], T], what: str, timeout: float = PATIENCE, interval: float = 0.05) -> T:
    """The first truthy value of ``condition``, which may raise the errors of :data:`NOT_YET` before.

    Raises ``AssertionError`` with ``what`` and the last value or error, if there is no such value within ``timeout``
    seconds.
    """
    deadline = time.monotonic() + timeout
    last: object = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = value
        except NOT_YET as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:.0f} s: {what} (last seen: {last!r})")
        time.sleep(interval)


def has_ended(pid: int) -> bool:
    """Whether a process has ended; it may be a zombie that its parent has not reaped (in a container perhaps never).

    A zombie with several threads has not ended, because it holds its files and locks until the last thread has ended.
    """
    try:
        process = psutil.Process(pid)
        return bool(process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1)
    except psutil.NoSuchProcess:
        return True
