"""The controller's settings.

Answers to: the controller's keys of ``kafka.server.KafkaConfig``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """The controller's settings; times in seconds.

    ``unclean_leader_election`` is the broker's default (``unclean.leader.election.enable``), which a topic may
    override; the others are Kafka's ``auto.leader.rebalance.enable``, ``leader.imbalance.check.interval.seconds``,
    ``leader.imbalance.per.broker.percentage``, ``delete.topic.enable`` and ``controlled.shutdown.enable``'s
    counterpart. ``retry_backoff`` is the pause before a request to a live broker is sent again.
    """

    unclean_leader_election: bool = False
    auto_leader_rebalance: bool = True
    leader_imbalance_check_interval: float = 300.0
    leader_imbalance_per_broker_percentage: int = 10
    delete_topic: bool = True
    retry_backoff: float = 0.1
