"""Waiting for conditions instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import psutil
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaException
from kafka.errors import KafkaError

T = TypeVar("T")
NOT_YET = (OSError, LookupError, KafkaException, KafkaError, AioKafkaError)
"""What asking a cluster raises while it is not yet as it will be: a broker may hear of a topic after the others."""


class FailedError(AssertionError, LookupError):
    """A command or tool said that it failed: wrong at once, but "not yet" where that is waited for."""


def wait_for(condition: Callable[[], T], what: str, timeout: float = 30.0, interval: float = 0.05) -> T:
    """The first truthy value of ``condition``. :data:`NOT_YET` are the errors that it may raise until then.

    Raises ``AssertionError`` that says ``what`` did not come about within ``timeout`` seconds, and what was seen last.
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
    """Whether a process is gone, or a zombie that its parent has not reaped (in a container, perhaps never).

    A main thread is a zombie before the last of the other threads has ended, and until then files and locks are held.
    """
    try:
        process = psutil.Process(pid)
        return bool(process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1)
    except psutil.NoSuchProcess:
        return True
