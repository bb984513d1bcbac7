"""What the handlers of requests work with: one immutable set of services, built by the composition root.

Answers to: the constructor of ``kafka.server.KafkaApis``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.admin.configs import ConfigAdmin
    from kafkalite.admin.dynamic import DynamicConfig
    from kafkalite.admin.producer_ids import ProducerIdManager
    from kafkalite.admin.topics import TopicAdmin
    from kafkalite.cluster.metadata import MetadataCache
    from kafkalite.common.clock import Clock
    from kafkalite.controller.controller import Controller
    from kafkalite.replication.manager import ReplicaManager


@dataclass(frozen=True, slots=True)
class BrokerServices:
    """Everything that an API may ask of this broker.

    ``config`` gives the values in force (``config["message.max.bytes"]``), dynamic overrides included.
    """

    broker_id: int
    cluster_id: str
    config: DynamicConfig
    metadata: MetadataCache
    replicas: ReplicaManager
    controller: Controller
    topics: TopicAdmin
    configs: ConfigAdmin
    producer_ids: ProducerIdManager
    clock: Clock
