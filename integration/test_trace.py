"""``kafkalite trace produce``: the way of one record, and the follower that is slow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from integration.conftest import TEST_OVERRIDES, launcher
from integration.faults.relay import Relay
from integration.harness.clients import fresh_topic
from integration.harness.commands import command
from integration.harness.documented import desk
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports

SLOW = 3
DELAY = 0.2
pytestmark = pytest.mark.kafkalite_only


def _slow(first: bytes) -> float:
    """The delay of a connection to the leader that began with these bytes: its requests name the client."""
    return DELAY if b"broker-%d-fetcher" % SLOW in first else 0.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers. Followers reach broker 1 through a relay, which delays what the fetchers of broker 3 send."""
    made = LocalCluster(tmp_path_factory.mktemp("trace"), overrides=TEST_OVERRIDES, launcher=launcher(), metrics=True)
    ports = dict(zip(made.broker_ids, free_ports(3), strict=True))
    with ExitStack() as stack:
        relay = stack.enter_context(Relay(f"127.0.0.1:{ports[1]}", _slow))
        stack.enter_context(closing(made))
        for broker, port in ports.items():
            inside = relay.address if broker == 1 else f"127.0.0.1:{port}"
            made.override_broker(
                broker,
                {
                    "listeners": f"PLAINTEXT://{made.address(broker)},BROKERS://127.0.0.1:{port}",
                    "advertised.listeners": f"PLAINTEXT://{made.address(broker)},BROKERS://{inside}",
                    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
                    "inter.broker.listener.name": "BROKERS",
                },
            )
        made.start()
        yield made


def led_by_broker_1(cluster: LocalCluster, replicas: str) -> str:
    topic = fresh_topic("traced")
    create = ("topics", "--bootstrap-server", cluster.bootstrap, "--create", "--topic", topic)
    assert command(*create, "--replica-assignment", replicas).code == 0
    return topic


def traced(cluster: LocalCluster, topic: str, *flags: str) -> dict[str, Any]:
    done = command("trace", "produce", "--bootstrap-server", cluster.bootstrap, "--topic", topic, "--json", *flags)
    assert done.code == 0, done.err
    story: dict[str, Any] = json.loads(done.out)
    return story


def test_the_delay_of_a_follower_is_put_at_that_follower(cluster: LocalCluster) -> None:
    topic = led_by_broker_1(cluster, "1:2:3")
    # The first records meet fetch sessions that begin, and so wait for more than one exchange.
    traced(cluster, topic)
    traced(cluster, topic)
    story = traced(cluster, topic)
    when = {(step["broker"], step["kind"], step["follower"]): step["ms"] for step in story["steps"]}
    assert story["leader"] == 1
    assert story["longest"]["broker"] == SLOW
    assert story["longest"]["ms"] >= DELAY * 1000
    # By the clock of the leader alone, and then with that of the follower.
    assert when[1, "acknowledged", SLOW] - when[1, "sent", SLOW] >= DELAY * 1000
    exact = story["uncertainty_ms"][str(SLOW)]
    assert when[1, "acknowledged", SLOW] - when[SLOW, "asked", SLOW] >= DELAY * 1000 - exact
    others = sum(leg["ms"] for leg in story["legs"] if leg["broker"] != SLOW)
    assert others < story["longest"]["ms"]
    assert when[1, "acknowledged", 2] < when[1, "acknowledged", SLOW] <= when[1, "high-watermark", -1]


def test_the_record_is_followed_to_its_consumer(cluster: LocalCluster) -> None:
    topic = led_by_broker_1(cluster, "1:2")
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": topic, "client.id": "the-reader"}
    with closing(Consumer({**settings, "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([topic])
        traced(cluster, topic)
        wait_for(lambda: consumer.poll(1.0) is not None, "the consumer reads", timeout=60)
        story = traced(cluster, topic, "--wait-consumer")
    (read,) = (step for step in story["steps"] if step["kind"] == "consumed")
    (advanced,) = (step for step in story["steps"] if step["kind"] == "high-watermark")
    assert "consumer the-reader" in read["text"]
    assert read["ms"] >= advanced["ms"]
    assert [step["follower"] for step in story["steps"] if step["kind"] == "acknowledged"] == [2]


def test_the_way_of_a_record_is_the_documented_one(cluster: LocalCluster, tmp_path: Path) -> None:
    create = ("topics", "--bootstrap-server", cluster.bootstrap, "--create", "--topic", "t")
    command(*create, "--replica-assignment", "1:2:3")
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "documented", "auto.offset.reset": "earliest"}
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe(["t"])
        # The first records meet fetch sessions that begin, and a consumer that has no partition yet.
        for _ in range(3):
            traced(cluster, "t")
            wait_for(lambda: consumer.poll(1.0) is not None, "the consumer reads", timeout=60)
        with desk(tmp_path, cluster.bootstrap) as reader:
            reader.compare("docs/deploy.md", __file__)
