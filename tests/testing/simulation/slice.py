"""A minimal workload: one topic, producers that wait for all replicas, a leader killed, everything read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.network.client import BrokerConnection, ConnectionLost
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request
from kafkalite.protocol.fetch import CONSUMER_REPLICA_ID, FetchPartition, FetchRequest, encode_fetch_request
from kafkalite.protocol.fetch_response import decode_fetch_response
from kafkalite.protocol.produce import ProduceRequest, decode_produce_response, encode_produce
from kafkalite.record.batch import iter_headers
from kafkalite.record.records import Record, encode_batch, iter_records
from kafkalite.testing.history import events
from kafkalite.testing.history.breaches import Breach
from kafkalite.testing.history.checker import check
from kafkalite.testing.simulation.cluster import PORT, ClientNode, SimCluster
from kafkalite.testing.simulation.world import World

TOPIC = "t"


class Workload:
    """Clients of a cluster, and what they note."""

    def __init__(self, cluster: SimCluster, partitions: int = 3) -> None:
        self.cluster = cluster
        self.partitions = partitions
        self.events: list[events.Event] = []
        self.acked = 0
        self.running = True
        self.configs: dict[str, str] = {}
        self.keys = 0
        self.done = 0

    def leader(self, tp: TopicPartition) -> int:
        """The leader in the view of a living broker; -1: none."""
        for broker in self.cluster.brokers.values():
            services = broker.services
            state = services.metadata.state(tp) if services is not None else None
            if state is not None:
                return state.leader
        return -1

    async def create_topic(self, node: ClientNode) -> None:
        """Returns once a controller has made it."""
        make = messages.CreateTopicsRequest
        configs = [make.CreatableTopic.CreatableTopicConfig(name=key, value=text) for key, text in self.configs.items()]
        topic = make.CreatableTopic(name=TOPIC, num_partitions=self.partitions, replication_factor=3, configs=configs)
        request = make(topics=[topic], timeout_ms=3000, validate_only=False)
        while True:
            for host, port in self.cluster.bootstrap:
                answer = await ask(node, node.connect(host, port, "admin"), ApiKey.CREATE_TOPICS, 5, request)
                if answer is not None and answer.topics[0].error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                    return
            await sleep(node, 0.1)

    async def produce(self, node: ClientNode, name: str, pause: float) -> None:
        """Send record after record, each as often as it takes, until told to stop."""
        self.events.append(events.Started(name, events.ProducerKind.PLAIN))
        number = 0
        while self.running:
            number += 1
            record = events.RecordId(name, number)
            tp = TopicPartition(TOPIC, node.rng.randrange(self.partitions))
            self.events.append(events.Sent(record, str(tp)))
            offset = await self._send(node, name, tp, record)
            self.acked += 1
            self.events.append(events.Acked(record, str(tp), offset))
            await sleep(node, pause * node.rng.random())
        self.done += 1

    async def _send(self, node: ClientNode, name: str, tp: TopicPartition, record: events.RecordId) -> int:
        value = f"{record.producer}/{record.number}".encode()
        key = b"%d" % (record.number % self.keys) if self.keys else None
        data = encode_batch([Record(-1, node.clock.time_ms(), key, value, (), -1)])
        while True:
            leader = self.leader(tp)
            link = node.connect(f"broker-{leader}", PORT, name) if leader > 0 else None
            try:
                if link is not None:
                    await link.connect(1.0)
                    request = ProduceRequest(None, -1, 3000, [(tp, memoryview(bytearray(data)))])
                    answer = await link.send(ApiKey.PRODUCE, 9, [*encode_produce(9, request)], 4.0)
                    result = decode_produce_response(9, answer)[0]
                    if not result.error:
                        return result.base_offset
            except ConnectionLost:
                pass
            finally:
                if link is not None:
                    link.close()
            await sleep(node, 0.05)

    async def read(self, node: ClientNode, name: str) -> None:
        """Read every partition from its beginning to its end."""
        for partition in range(self.partitions):
            await self._read_partition(node, name, TopicPartition(TOPIC, partition))
        self.done += 1

    async def _read_partition(self, node: ClientNode, name: str, tp: TopicPartition) -> None:
        isolation = events.Isolation.READ_UNCOMMITTED
        self.events.append(events.Positioned(name, str(tp), 0))
        offset = 0
        while True:
            wanted = FetchPartition(tp.topic, ZERO_UUID, tp.partition, fetch_offset=offset)
            fetch = FetchRequest(CONSUMER_REPLICA_ID, -1, 100, 1, 1 << 20, 0, 0, -1, [wanted], [])
            link = node.connect(f"broker-{self.leader(tp)}", PORT, name)
            try:
                await link.connect(1.0)
                body = await link.send(ApiKey.FETCH, 12, encode_fetch_request(12, fetch), 4.0)
            except ConnectionLost:
                await sleep(node, 0.05)
                continue
            finally:
                link.close()
            found = decode_fetch_response(12, body).partitions[0]
            if found.error:
                await sleep(node, 0.05)
                continue
            assert isinstance(found.records, memoryview)
            for position, header in iter_headers(found.records, allow_partial_tail=True):
                for record in iter_records(found.records, header, position):
                    producer, _, number = (record.value or b"").decode().partition("/")
                    identity = events.RecordId(producer, int(number))
                    self.events.append(events.Read(name, isolation, str(tp), record.offset, identity))
                    offset = record.offset + 1
            if offset >= found.high_watermark:
                self.events.append(events.Reached(name, isolation, str(tp), offset))
                return


async def ask(node: ClientNode, link: BrokerConnection, key: ApiKey, version: int, request: Any) -> Any:
    """Send one request on a new connection; ``None`` if the connection was lost."""
    try:
        await link.connect(1.0)
        return decode_response(key, version, await link.send(key, version, encode_request(key, version, request), 5.0))
    except ConnectionLost:
        await sleep(node, 0.05)
        return None
    finally:
        link.close()


async def sleep(node: ClientNode, seconds: float) -> None:
    """Return ``seconds`` later."""
    future: Future[None] = Future()
    node.clock.call_later(seconds, future.callback, None)
    await future


class SliceResult:
    """The results of a history."""

    def __init__(self, world: World, workload: Workload, breaches: list[Breach]) -> None:
        self.digest = world.digest()
        self.events = world.events
        self.acked = workload.acked
        self.breaches = breaches
        self.failures = [str(line) for line in world.failures]
        self.lines = [str(line) for line in world.lines]


def run_slice(seed: int, disturb: Callable[[SimCluster, Workload], None] | None = None) -> SliceResult:
    """Run one history; by default the leader of the first partition is killed and restarted."""
    with World(seed) as world, SimCluster(world) as cluster:
        workload = Workload(cluster)
        cluster.start_all()
        admin = cluster.client_node("admin")
        admin.spawn(lambda: workload.create_topic(admin), "creating the topic")
        tp = TopicPartition(TOPIC, 0)
        assert world.run_until(lambda: workload.leader(tp) > 0, 10.0)
        for index in range(2):
            name = f"producer-{index}"
            node = cluster.client_node(name)
            node.spawn(lambda node=node, name=name: workload.produce(node, name, 0.1), name)  # type: ignore[misc]
        world.run_until(world.now + 1.0)
        (disturb or kill_leader)(cluster, workload)
        workload.running = False
        assert world.run_until(lambda: workload.done == 2, world.now + 20.0), "\n".join(map(str, world.lines))
        reader = cluster.client_node("reader")
        reader.spawn(lambda: workload.read(reader, "reader"), "reading")
        assert world.run_until(lambda: workload.done == 3, world.now + 10.0)
        return SliceResult(world, workload, check(workload.events))


def kill_leader(cluster: SimCluster, workload: Workload) -> None:
    """The leader of the first partition is killed, and comes back 2 s later."""
    world = cluster.world
    leader = workload.leader(TopicPartition(TOPIC, 0))
    cluster.kill(leader)
    world.run_until(world.now + 2.0)
    cluster.start(leader)
    world.run_until(world.now + 3.0)
