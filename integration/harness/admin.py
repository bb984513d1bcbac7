"""Requests to the controller by librdkafka, repeated while the controller changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from integration.harness.logins import login
from kafkalite.embedded.security import ADMIN

TIMEOUT = 60.0
ATTEMPT = 10.0
"""Seconds for one client, because a client that knows a dead controller waits for it and asks no other broker."""
PASSING = ("NOT_CONTROLLER", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN")
"""Errors that end when the next controller is elected."""


@cache
def admin(bootstrap: str) -> AdminClient:
    """An admin client. It is cached, because its futures fail when the client is garbage-collected before them."""
    return AdminClient({**login(bootstrap, ADMIN), "log_level": 0})


def ask_controller(bootstrap: str, ask: Callable[[AdminClient], Mapping[Any, Any]], done: Collection[str] = ()) -> None:
    """Send a request and wait for all answers; repeat it with a new client after a timeout or a passing error.

    ``done``: errors of a repeated request which show that an earlier attempt took effect. Raises the first error that
    is not in :data:`PASSING`, and after :data:`TIMEOUT` seconds the last passing error or ``TimeoutError``.
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
