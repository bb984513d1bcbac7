"""The clients of a history: their kinds, and their construction from a random source.

Answers to: nothing in Kafka. Deterministic.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from kafkalite.common.tasks import gather
from kafkalite.testing.history.events import Acked, Isolation
from kafkalite.testing.simulation.clients.administrator import WEIGHTS, Administrator, AdministratorSettings
from kafkalite.testing.simulation.clients.consumer_coordinator import MembershipSettings
from kafkalite.testing.simulation.clients.consumer_protocol import STICKY
from kafkalite.testing.simulation.clients.fetcher import FetchSettings
from kafkalite.testing.simulation.clients.host import ClientHost
from kafkalite.testing.simulation.clients.member import Member, MemberSettings
from kafkalite.testing.simulation.clients.onlooker import Onlooker, OnlookerSettings
from kafkalite.testing.simulation.clients.producer import Producer, ProducerSettings
from kafkalite.testing.simulation.clients.reader import Reader, ReaderSettings
from kafkalite.testing.simulation.clients.sender import SenderSettings
from kafkalite.testing.simulation.clients.transactional_producer import TransactionalProducer, TransactionalSettings
from kafkalite.testing.simulation.clients.transformer import Transformer, TransformerSettings


class Client(Protocol):
    """The methods of every simulated client."""

    def run(self) -> Awaitable[None]:
        """Work until :meth:`stop`, and end."""

    def stop(self) -> None:
        """End after the outstanding requests."""


class Mortal(Client, Protocol):
    """A client whose process may be killed."""

    def kill(self) -> None:
        """End at once."""


class Passing:
    """A client that stops after some seconds, or is ``killed``."""

    def __init__(self, host: ClientHost, client: Mortal, seconds: float, killed: bool) -> None:
        self._host = host
        self._client = client
        self._seconds = seconds
        self._killed = killed

    async def run(self) -> None:
        """See :class:`Client`."""
        self._host.clock.call_later(self._seconds, self._client.kill if self._killed else self._client.stop)
        await self._client.run()

    def stop(self) -> None:
        """See :class:`Client`."""
        self._client.stop()


class Twins:
    """Two processes with one transactional id, or one group instance id: the second one starts ``seconds`` after the
    first, and fences it."""

    def __init__(self, host: ClientHost, first: Client, second: Client, seconds: float) -> None:
        self._host = host
        self._first = first
        self._second = second
        self._seconds = seconds
        self._stopped = False

    async def run(self) -> None:
        """See :class:`Client`."""
        await gather([self._first.run(), self._run_second()])

    async def _run_second(self) -> None:
        await self._host.sleep(self._seconds)
        if not self._stopped:
            await self._second.run()

    def stop(self) -> None:
        """See :class:`Client`."""
        self._stopped = True
        self._first.stop()
        self._second.stop()


Make = Callable[[ClientHost, str, random.Random], Client]


class ClientSpec(NamedTuple):
    """One kind of client. ``most``: greatest number in a history; ``latest``: second of the latest start; ``always``:
    whether every history has it."""

    make: Make
    most: int
    latest: float = 3.0
    always: bool = False


_CODECS: Final = (0, 0, 0, 1)
"""Mostly uncompressed, because a history tests the brokers and not the codecs; sometimes gzip."""


def _idempotent(host: ClientHost, name: str, rng: random.Random) -> Client:
    sender = SenderSettings(in_flight=rng.randint(1, 5), codec=rng.choice(_CODECS), batch_records=rng.randint(1, 12))
    rate = rng.uniform(1.5, 4)
    return Producer(
        host, ProducerSettings(name, ("orders",), rate=rate, padding=rng.choice((0, 20, 200)), sender=sender)
    )


def _plain(host: ClientHost, name: str, rng: random.Random) -> Client:
    sender = SenderSettings(in_flight=1, batch_records=rng.randint(1, 12), version=rng.choice((3, 8, 9, 11)))
    return Producer(host, ProducerSettings(name, ("orders",), idempotent=False, rate=rng.uniform(1, 4), sender=sender))


def _hasty(host: ClientHost, name: str, rng: random.Random) -> Client:
    sender = SenderSettings(acks=rng.choice((0, 1, 1)), in_flight=rng.randint(1, 5))
    return Producer(host, ProducerSettings(name, ("orders",), idempotent=False, rate=rng.uniform(1, 4), sender=sender))


def _reader(host: ClientHost, name: str, rng: random.Random) -> Client:
    isolation = rng.choice(tuple(Isolation))
    fetch = FetchSettings(isolation, version=rng.choice((4, 8, 12, 13, 17)), max_wait=rng.uniform(0.1, 0.5))
    return Reader(host, ReaderSettings(name, ("orders", "results"), fetch))


def _transactional(host: ClientHost, name: str, rng: random.Random) -> Client:
    settings = TransactionalSettings(
        name,
        f"{name}-id",
        ("orders", "results"),
        rate=rng.uniform(1, 4),
        bunch=rng.randint(1, 10),
        aborted=rng.choice((0.0, 0.2, 0.5)),
        pause=rng.uniform(0.01, 0.3),
        timeout_ms=rng.choice((2_000, 10_000)),
        sender=SenderSettings(in_flight=rng.randint(1, 5)),
    )
    first = TransactionalProducer(host, settings)
    if rng.random() < 0.6:
        return first
    second = TransactionalProducer(host, replace(settings, name=f"{name}-twin"))
    return Twins(host, first, second, rng.uniform(1, 9))


def _member(host: ClientHost, name: str, rng: random.Random) -> Client:
    is_static = rng.random() < 0.4
    membership = MembershipSettings(
        "readers",
        ("orders",),
        instance=name if is_static else None,
        # Longer for static members, so that they come back after rebalances during their pauses.
        session_timeout=rng.uniform(5, 8) if is_static else rng.uniform(2, 6),
        rebalance_timeout=rng.uniform(0.5, 3),
        heartbeat=rng.uniform(0.1, 0.6),
    )
    settings = _member_settings(name, membership, rng)
    settings = replace(settings, fetch=FetchSettings(rng.choice(tuple(Isolation))))
    member = Member(host, settings)
    if is_static and rng.random() < 0.4:
        return Twins(host, member, Member(host, replace(settings, name=f"{name}-twin")), rng.uniform(1, 8))
    return _perhaps_passing(host, member, rng)


def _sticky_member(host: ClientHost, name: str, rng: random.Random) -> Client:
    membership = MembershipSettings(
        "sticky-readers",
        ("orders", "results"),
        protocol=STICKY,
        session_timeout=rng.uniform(2, 6),
        rebalance_timeout=rng.uniform(0.5, 3),
        heartbeat=rng.uniform(0.1, 0.6),
    )
    return _perhaps_passing(host, Member(host, _member_settings(name, membership, rng)), rng)


def _member_settings(name: str, membership: MembershipSettings, rng: random.Random) -> MemberSettings:
    return MemberSettings(
        name,
        membership,
        commit=rng.uniform(0.05, 0.8),
        commits_first=rng.random() < 0.5,
        in_flight=rng.choice((1, 5)),
        dawdle=rng.choice((0.0, 2.0, 6.0)),
    )


def _perhaps_passing(host: ClientHost, member: Member, rng: random.Random) -> Client:
    return member if rng.random() < 0.5 else Passing(host, member, rng.uniform(2, 9), killed=rng.random() < 0.5)


def _transformer(host: ClientHost, name: str, rng: random.Random) -> Client:
    membership = MembershipSettings("pipeline", ("orders",), session_timeout=rng.uniform(2, 6))
    settings = TransformerSettings(
        name,
        f"{name}-id",
        membership,
        "results",
        batch=rng.randint(2, 20),
        aborted=rng.choice((0.0, 0.1)),
        dwell=rng.choice((0.0, 0.5, 1.0)),
        timeout_ms=rng.choice((2_000, 10_000)),
    )
    transformer = Transformer(host, settings)
    return (
        transformer if rng.random() < 0.6 else Passing(host, transformer, rng.uniform(3, 9), killed=rng.random() < 0.7)
    )


def _onlooker(host: ClientHost, name: str, rng: random.Random) -> Client:
    groups = (
        MembershipSettings("readers", ("orders",)),
        MembershipSettings("sticky-readers", ("orders", "results")),
        MembershipSettings("pipeline", ("orders",)),
    )
    return Onlooker(host, OnlookerSettings(name, groups, pause=rng.uniform(0.2, 1)))


def _keyed(host: ClientHost, name: str, rng: random.Random) -> Client:
    settings = ProducerSettings(
        name,
        ("balances",),
        rate=rng.uniform(1.5, 4),
        bunch=8,
        keys=rng.randint(2, 12),
        padding=rng.choice((20, 150)),
        tombstones=rng.choice((0.0, 0.1, 0.4)),
        sender=SenderSettings(in_flight=rng.randint(1, 5), batch_records=8),
    )
    return Producer(host, settings)


def _keyed_transactional(host: ClientHost, name: str, rng: random.Random) -> Client:
    settings = TransactionalSettings(
        name,
        f"{name}-id",
        ("balances",),
        rate=rng.uniform(1, 4),
        bunch=rng.randint(1, 10),
        aborted=rng.choice((0.2, 0.5)),
        pause=rng.uniform(0.01, 0.3),
        timeout_ms=rng.choice((2_000, 10_000)),
        padding=rng.choice((20, 150)),
        keys=rng.randint(2, 12),
        tombstones=rng.choice((0.0, 0.3)),
    )
    return TransactionalProducer(host, settings)


def _compacted_reader(host: ClientHost, name: str, rng: random.Random) -> Client:
    fetch = FetchSettings(rng.choice(tuple(Isolation)), max_wait=rng.uniform(0.1, 0.5))
    return Reader(host, ReaderSettings(name, ("balances",), fetch))


_SPARE: Final = ("spare-1", "spare-2")
"""Topics that an administrator makes, trims and deletes."""


def _to_spare_topics(host: ClientHost, name: str, rng: random.Random) -> Client:
    # Acknowledgements are not recorded, because acknowledged records are deleted with their topic. The records that the
    # producer gave up are: without sequence numbers they may be written after later ones.
    quiet = replace(host, note=lambda event: None if isinstance(event, Acked) else host.note(event))
    sender = SenderSettings(acks=rng.choice((1, -1)), in_flight=1, delivery_timeout=5.0)
    return Producer(quiet, ProducerSettings(name, _SPARE, idempotent=False, rate=rng.uniform(1, 4), sender=sender))


def _administrator(host: ClientHost, name: str, rng: random.Random) -> Client:
    # Swarm weights: a history with few kinds of actions goes deeper than one with a little of each.
    weights = {action: weight * rng.random() ** 2 for action, weight in WEIGHTS.items() if rng.random() < 0.6}
    settings = AdministratorSettings(
        name,
        ("orders", "results", "balances"),
        trimmed=_SPARE,
        spare=_SPARE,
        rate=rng.uniform(0.3, 1.5),
        brokers=tuple(range(1, len(host.bootstrap) + 1)),
        replication=(2, 3, 3),
        weights=weights or WEIGHTS,
    )
    return Administrator(host, settings)


def _spare_administrator(host: ClientHost, name: str, rng: random.Random) -> Client:
    # A client of its own, because an administrator with all actions deletes a topic in one history of fifteen, and
    # deletions go wrong only where they meet a fault.
    settings = AdministratorSettings(
        name, spare=_SPARE, rate=rng.uniform(0.5, 2.0), replication=(2, 3, 3), weights={"make": 1, "delete": 1}
    )
    return Administrator(host, settings)


CLIENTS: Final[dict[str, ClientSpec]] = {
    "idempotent": ClientSpec(_idempotent, 3, always=True),
    "plain": ClientSpec(_plain, 1),
    "hasty": ClientSpec(_hasty, 1),
    "reader": ClientSpec(_reader, 2, always=True),
    "transactional": ClientSpec(_transactional, 2),
    "member": ClientSpec(_member, 3, latest=8.0),
    "sticky-member": ClientSpec(_sticky_member, 2, latest=8.0),
    "transformer": ClientSpec(_transformer, 2, latest=5.0),
    "onlooker": ClientSpec(_onlooker, 1),
    "keyed": ClientSpec(_keyed, 2),
    "compacted-reader": ClientSpec(_compacted_reader, 1),
    "keyed-transactional": ClientSpec(_keyed_transactional, 1),
    "administrator": ClientSpec(_administrator, 1),
    "to-spare-topics": ClientSpec(_to_spare_topics, 1),
    "spare-administrator": ClientSpec(_spare_administrator, 1),
}
"""By name; plans name them."""
