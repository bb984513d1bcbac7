"""The clients of a history: which kinds there are, and how each is made from its random source.

Answers to: nothing in Kafka. Deterministic.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

from kafkalite.testing.history.events import Isolation
from kafkalite.testing.simulation.clients.fetcher import FetchSettings
from kafkalite.testing.simulation.clients.host import ClientHost
from kafkalite.testing.simulation.clients.producer import Producer, ProducerSettings
from kafkalite.testing.simulation.clients.reader import Reader, ReaderSettings
from kafkalite.testing.simulation.clients.sender import SenderSettings


class Client(Protocol):
    """What every simulated client can do."""

    def run(self) -> Awaitable[None]:
        """Work until told to stop, and end."""

    def stop(self) -> None:
        """End once what is under way is done."""


Make = Callable[[ClientHost, str, random.Random], Client]


class ClientSpec(NamedTuple):
    """One kind of client. ``most``: how many a history has; ``latest``: the second at which the last one begins;
    ``always``: every history has it."""

    make: Make
    most: int
    latest: float = 3.0
    always: bool = False


_CODECS: Final = (0, 0, 0, 1)
"""Mostly uncompressed, because a history looks at the brokers and not at the codecs; sometimes gzip."""


def _idempotent(host: ClientHost, name: str, rng: random.Random) -> Client:
    sender = SenderSettings(in_flight=rng.randint(1, 5), codec=rng.choice(_CODECS), batch_records=rng.randint(1, 12))
    rate = rng.uniform(3, 8)
    return Producer(
        host, ProducerSettings(name, ("orders",), rate=rate, padding=rng.choice((0, 20, 300)), sender=sender)
    )


def _plain(host: ClientHost, name: str, rng: random.Random) -> Client:
    sender = SenderSettings(in_flight=1, batch_records=rng.randint(1, 12), version=rng.choice((3, 8, 9, 11)))
    return Producer(host, ProducerSettings(name, ("orders",), idempotent=False, rate=rng.uniform(1, 4), sender=sender))


def _hasty(host: ClientHost, name: str, rng: random.Random) -> Client:
    sender = SenderSettings(acks=rng.choice((0, 1, 1)), in_flight=rng.randint(1, 5))
    return Producer(host, ProducerSettings(name, ("orders",), idempotent=False, rate=rng.uniform(1, 4), sender=sender))


def _reader(host: ClientHost, name: str, rng: random.Random) -> Client:
    isolation = rng.choice(tuple(Isolation))
    fetch = FetchSettings(isolation, version=rng.choice((4, 8, 12, 13, 17)), max_wait=rng.uniform(0.05, 0.5))
    return Reader(host, ReaderSettings(name, ("orders", "results"), fetch))


CLIENTS: Final[dict[str, ClientSpec]] = {
    "idempotent": ClientSpec(_idempotent, 3, always=True),
    "plain": ClientSpec(_plain, 1),
    "hasty": ClientSpec(_hasty, 1),
    "reader": ClientSpec(_reader, 2, always=True),
}
"""By name; plans name them."""
