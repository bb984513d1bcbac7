"""A producer and a consumer of one library that run while the security of their cluster changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

PAUSE = 0.2
"""Seconds between two records of a producer."""


class ClientLogin(NamedTuple):
    """How a client logs in: settings in librdkafka's names and in Java's.

    ``token`` returns a token and its end in seconds of the epoch, if the client needs tokens.
    """

    librdkafka: Mapping[str, str]
    java: Mapping[str, str]
    token: Callable[[], tuple[str, float]] | None = None


@dataclass
class RunningPair:
    """What one pair has done: numbers from 0 on go into one partition, and are read from its beginning."""

    name: str
    topic: str
    partition: int
    login: ClientLogin
    sent: int = 0
    acknowledged: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Records that the library has given up."""
    errors: list[str] = field(default_factory=list)
    """Other errors that the library has told the application."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set: the producer is to end."""
    closing: threading.Event = field(default_factory=threading.Event)
    """Set: the consumer is to end."""
    threads: list[threading.Thread] = field(default_factory=list)
    """Where the clients run, if that is in this process."""
    password: str | None = None
    """A new password for a client that can take one while it runs."""

    def is_refused(self) -> bool:
        """Whether the library has told its application that it cannot log in, or has waited for 30 acknowledgements."""
        return bool(self.failures or self.errors or self.sent - len(self.acknowledged) > 30)

    def join(self, timeout: float) -> None:
        """Wait until the clients have ended, at most that many seconds for each thread."""
        for thread in self.threads:
            thread.join(timeout)

    def check(self) -> None:
        """Every acknowledged record has been read once, in order."""
        read = list(self.read)
        assert read == sorted(set(read)), self.name
        lost = set(self.acknowledged) - set(read)
        assert not {number for number in lost if number < read[-1]}, self.name

    def __str__(self) -> str:
        return (
            f"{self.name}: sent {self.sent}, acknowledged {len(self.acknowledged)}, read {len(self.read)}, "
            f"failures {self.failures[-3:]}, errors {self.errors[-3:]}"
        )
