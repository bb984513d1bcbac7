"""Turns server.properties into the configuration of each room.

Answers to: the accessors of ``kafka.server.KafkaConfig``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkalite.broker.config import BrokerConfig
from kafkalite.controller.controller_config import ControllerConfig
from kafkalite.network.limits import NetworkLimits
from kafkalite.replication.replication_config import ReplicationConfig

DEFAULT_INFLIGHT_BYTES = 512 << 20
"""Bound on requests in memory where ``queued.max.request.bytes`` sets none; Kafka then sets none either."""


def network_limits(config: BrokerConfig) -> NetworkLimits:
    """Limits of the clients' listeners.

    Socket buffers have the system's own sizing unless the configuration names a size, because Kafka's default of
    100 KB slows large transfers down.
    """
    values = config.dynamic.values

    def buffer_size(name: str) -> int:
        return int(values[name]) if name in config.texts else -1

    queued = int(values["queued.max.request.bytes"])
    return NetworkLimits(
        max_request_bytes=values["socket.request.max.bytes"],
        max_connections=values["max.connections"],
        max_connections_per_ip=values["max.connections.per.ip"],
        idle_timeout=values["connections.max.idle.ms"] / 1000,
        max_inflight_bytes=queued if queued > 0 else DEFAULT_INFLIGHT_BYTES,
        backlog=values["socket.listen.backlog.size"],
        send_buffer_bytes=buffer_size("socket.send.buffer.bytes"),
        receive_buffer_bytes=buffer_size("socket.receive.buffer.bytes"),
    )


def replication_config(config: BrokerConfig, broker_id: int) -> ReplicationConfig:
    """The configuration of replication."""
    values = config.values
    return ReplicationConfig(
        broker_id=broker_id,
        inter_broker_listener=config.listening.inter_broker,
        rack=config.rack,
        num_replica_fetchers=values["num.replica.fetchers"],
        replica_lag_time_max_ms=values["replica.lag.time.max.ms"],
        replica_fetch_wait_max_ms=values["replica.fetch.wait.max.ms"],
        replica_fetch_min_bytes=values["replica.fetch.min.bytes"],
        replica_fetch_max_bytes=values["replica.fetch.max.bytes"],
        replica_fetch_response_max_bytes=values["replica.fetch.response.max.bytes"],
        replica_fetch_backoff_ms=values["replica.fetch.backoff.ms"],
        replica_high_watermark_checkpoint_interval_ms=values["replica.high.watermark.checkpoint.interval.ms"],
        replica_selector_class=values["replica.selector.class"] or "",
        replication_quota_window_num=values["replication.quota.window.num"],
        replication_quota_window_size_seconds=values["replication.quota.window.size.seconds"],
        alter_log_dirs_replication_quota_window_num=values["alter.log.dirs.replication.quota.window.num"],
        alter_log_dirs_replication_quota_window_size_seconds=values[
            "alter.log.dirs.replication.quota.window.size.seconds"
        ],
    )


def controller_config(values: Mapping[str, Any]) -> ControllerConfig:
    """The configuration of the controller."""
    return ControllerConfig(
        unclean_leader_election=values["unclean.leader.election.enable"],
        auto_leader_rebalance=values["auto.leader.rebalance.enable"],
        leader_imbalance_check_interval=float(values["leader.imbalance.check.interval.seconds"]),
        leader_imbalance_per_broker_percentage=values["leader.imbalance.per.broker.percentage"],
        delete_topic=values["delete.topic.enable"],
    )
