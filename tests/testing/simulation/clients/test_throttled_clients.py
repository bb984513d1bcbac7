"""Quotas on whole simulated brokers, whose clocks are virtual."""

from __future__ import annotations

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.testing.history import events
from kafkalite.testing.simulation.clients.producer import Producer, ProducerSettings
from kafkalite.testing.simulation.clients.sender import SenderSettings
from kafkalite.zk.stores.config import ConfigStore

from .test_whole_brokers import stage

RECORD = 1000
RATE = 5000
SECONDS = 10


def produced(rate: int | None) -> list[events.Event]:
    """Ten seconds of a producer that has more to send than a quota of ``rate`` bytes a second allows."""
    with stage(3) as (found, admin):
        assert found.do(lambda: admin.create_topic("t", 3, 3, {})) is ErrorCode.NONE
        if rate is not None:
            zk = found.cluster.brokers[1].zk
            assert zk is not None
            store = ConfigStore(zk, lambda: 0)
            deferred(store.set_entity("clients", "<default>", {"producer_byte_rate": str(rate)}))
            found.run(1.0)
        sender = SenderSettings(in_flight=1, batch_records=4)
        found.start(Producer, ProducerSettings("greedy", ("t",), rate=30.0, padding=RECORD, sender=sender))
        found.run(SECONDS)
        assert not found.world.failures, found.world.failures
        assert found.violations == []
        return found.events


def acked(history: list[events.Event]) -> int:
    """Bytes of acknowledged records."""
    return sum(RECORD for event in history if isinstance(event, events.Acked))


def test_a_producer_keeps_its_rate_at_each_of_three_brokers() -> None:
    # Each broker lets what the windows hold through at once, and then the rate.
    at_once = 10 * RATE
    throttled = acked(produced(RATE))
    assert 3 * at_once * 0.7 < throttled < 3 * (at_once + RATE * SECONDS)
    assert acked(produced(None)) > 3 * throttled


def test_the_history_of_a_throttled_producer_is_the_same_each_time() -> None:
    assert produced(RATE) == produced(RATE)
