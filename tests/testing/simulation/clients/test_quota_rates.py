"""The rates that brokers hold: whole simulated brokers on virtual time, where no stall of a machine moves a window.

Every client is greedy: it sends a request as soon as the one before is answered, so that only its quota holds it back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.common.types import ZERO_UUID, Part, TopicPartition
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request, request_class
from kafkalite.protocol.fetch import FetchPartition, FetchRequest, decode_fetch_response, encode_fetch_request
from kafkalite.protocol.produce import ProduceRequest, encode_produce
from kafkalite.record.records import Record, encode_batch
from kafkalite.testing.history.events import Event
from kafkalite.testing.simulation.clients.admin import Admin
from kafkalite.testing.simulation.clients.host import ClientHost, Link
from kafkalite.testing.simulation.cluster import SimCluster
from kafkalite.testing.simulation.world import World
from kafkalite.zk.stores.config import ConfigStore

WARM_UP = 44
"""Seconds before the measurement: four times Kafka's eleven windows, because the first of them allow more."""
SECONDS = 33
"""Three times the windows, because a client that was held back sends what they allow at the beginning of each round."""
RATE = 20_000
RECORD = 4_000
LONG = 60.0
"""Seconds for which a client waits for an answer; a muted connection answers late."""
TP = TopicPartition("t", 0)


class Field:
    """One broker, the topic ``t``, and a greedy client whose name has a quota."""

    def __init__(self, world: World, cluster: SimCluster) -> None:
        self.world = world
        self.cluster = cluster
        self.events: list[Event] = []
        self.violations: list[str] = []
        self.used: list[tuple[float, float]] = []
        """When the client used what its quota counts, and how much."""

    def host(self, name: str) -> ClientHost:
        node = self.cluster.client_node(name)
        return ClientHost(
            node.clock, node.rng, node.connect, self.events.append, self.violations.append, self.cluster.bootstrap
        )

    def limit(self, quota: str, value: float) -> None:
        """Give the client ``greedy`` a quota, and wait until the broker obeys it."""
        zk = self.cluster.brokers[1].zk
        assert zk is not None
        deferred(ConfigStore(zk, lambda: 0).set_entity("clients", "greedy", {quota: str(value)}))
        broker = self.cluster.brokers[1].services
        assert broker is not None
        assert self.world.run_until(lambda: broker.quotas.is_active, self.world.now + 10.0)

    def measure(self, ask: Callable[[Link], Awaitable[float]]) -> float:
        """What ``ask`` returned (what was used), a second of the measured time."""
        host = self.host("greedy")

        async def run() -> None:
            link = host.connect(*self.cluster.bootstrap[0], "greedy")
            await link.connect()
            while True:
                used = await ask(link)
                self.used.append((self.world.now, used))

        begun = self.world.now
        self.cluster.client_node("greedy").spawn(run, "the greedy client")
        self.world.run_until(begun + WARM_UP + SECONDS)
        assert not self.world.failures, self.world.failures
        assert not self.violations, self.violations
        return sum(used for at, used in self.used if at >= begun + WARM_UP) / SECONDS


@contextmanager
def field() -> Iterator[Field]:
    with World(7) as world, SimCluster(world, 1) as cluster:
        cluster.start_all()
        found = Field(world, cluster)
        admin = Admin(found.host("admin"), "admin")
        created = deferred(admin.create_topic("t", 1, 1, {}))
        assert world.run_until(lambda: created.called, world.now + 30.0)
        yield found


async def produce(link: Link) -> float:
    """The bytes of the request's records; the rest of it is little."""
    records = encode_batch([Record(0, -1, None, bytes(RECORD))])
    body: list[Part] = [*encode_produce(8, ProduceRequest(None, 1, 10_000, [(TP, memoryview(records))]))]
    await link.send(int(ApiKey.PRODUCE), 8, body, LONG)
    return len(records)


async def fetch(link: Link) -> float:
    """The bytes of the answer's records; none if the fetch is throttled."""
    asked = FetchPartition("t", ZERO_UUID, 0, fetch_offset=0, max_bytes=RECORD + 200)
    request = FetchRequest(-1, -1, 0, 1, RECORD + 200, 0, 0, -1, [asked], [], "")
    answer = decode_fetch_response(11, await link.send(int(ApiKey.FETCH), 11, encode_fetch_request(11, request), LONG))
    return sum(len(each.records) for each in answer.partitions if isinstance(each.records, memoryview))


def test_a_greedy_producer_keeps_its_rate() -> None:
    with field() as found:
        found.limit("producer_byte_rate", RATE)
        assert found.measure(produce) == pytest.approx(RATE, rel=0.1)


def test_a_greedy_consumer_keeps_its_rate() -> None:
    with field() as found:
        found.cluster.client_node("writer").spawn(lambda: write(found), "the writer")
        found.world.run_until(found.world.now + 1.0)
        found.limit("consumer_byte_rate", RATE)
        assert found.measure(fetch) == pytest.approx(RATE, rel=0.1)


async def write(found: Field) -> None:
    """One record for the consumer."""
    link = found.host("writer").connect(*found.cluster.bootstrap[0], "writer")
    await link.connect()
    await produce(link)


@pytest.mark.parametrize("version", [6, 5])
def test_a_greedy_creator_of_topics_keeps_its_rate_of_partitions(version: int) -> None:
    """Version 6 knows the error of a strict quota; clients of version 5 are throttled only."""
    with field() as found:
        found.limit("controller_mutation_rate", 2)
        names = iter(range(1000))

        async def create(link: Link) -> float:
            topic = messages.CreateTopicsRequest.CreatableTopic(
                version=version,
                name=f"mutated-{next(names)}",
                num_partitions=2,
                replication_factor=1,
                assignments=[],
                configs=[],
            )
            fields = {"topics": [topic], "timeout_ms": 5000, "validate_only": False}
            body = encode_request(
                ApiKey.CREATE_TOPICS, version, request_class(ApiKey.CREATE_TOPICS)(version=version, **fields)
            )
            found_answer = await link.send(int(ApiKey.CREATE_TOPICS), version, body, LONG)
            (result,) = decode_response(ApiKey.CREATE_TOPICS, version, found_answer).topics
            assert result.error_code in (ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            return 0.0 if result.error_code else 2.0

        assert found.measure(create) == pytest.approx(2, rel=0.1)
