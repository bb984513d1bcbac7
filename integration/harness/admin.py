"""Requests to the controller by librdkafka, asked again while controllers change."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

TIMEOUT = 60.0
ATTEMPT = 10.0
"""Seconds for one client: one that was told of a controller that is dead waits for that one, and asks nobody else."""
PASSING = ("NOT_CONTROLLER", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN")
"""Errors that come and go with a controller."""


@cache
def admin(bootstrap: str) -> AdminClient:
    """An admin client; kept, because its futures fail where it goes first."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def ask_controller(bootstrap: str, ask: Callable[[AdminClient], Mapping[Any, Any]], done: Collection[str] = ()) -> None:
    """Ask and wait for all answers; again with a new client where there is none, or only a passing error.

    ``done``: errors of a request that say, when it is not the first, that an earlier one was carried out. Raises the
    first other error; the last passing one, or ``TimeoutError``, after :data:`TIMEOUT` seconds.
    """
    deadline = time.monotonic() + TIMEOUT
    again = False
    while True:
        try:
            for future in ask(admin(bootstrap)).values():
                future.result(ATTEMPT)
            return
        except KafkaException as error:
            name = error.args[0].name()
            if again and name in done:
                return
            if name not in PASSING or time.monotonic() > deadline:
                raise
        except TimeoutError:
            if time.monotonic() > deadline:
                raise
        again = True
        admin.cache_clear()
        time.sleep(0.1)
