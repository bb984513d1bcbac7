"""Counts by topic outlive the replicas that they were counted at."""

from __future__ import annotations

from kafkalite.replication.broker_topic_stats import BrokerTopicMetrics, BrokerTopicStats


def test_replicas_of_a_topic_share_its_counts() -> None:
    stats = BrokerTopicStats()
    one, other = stats.enter("t"), stats.enter("t")
    one.bytes_in += 5
    other.bytes_in += 7
    stats.enter("u").messages_in += 1
    assert stats.topics == {"t": BrokerTopicMetrics(bytes_in=12), "u": BrokerTopicMetrics(messages_in=1)}
    assert stats.total() == BrokerTopicMetrics(bytes_in=12, messages_in=1)


def test_the_total_does_not_go_back_when_the_last_replica_of_a_topic_goes() -> None:
    stats = BrokerTopicStats()
    stats.enter("t").bytes_in += 5
    stats.enter("t")
    stats.leave("t")
    assert stats.topics == {"t": BrokerTopicMetrics(bytes_in=5)}
    stats.leave("t")
    assert stats.topics == {}
    stats.enter("t").bytes_in += 2
    assert stats.topics == {"t": BrokerTopicMetrics(bytes_in=2)}
    assert stats.total() == BrokerTopicMetrics(bytes_in=7)
