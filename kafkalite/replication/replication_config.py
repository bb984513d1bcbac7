"""The settings of replication, from ``server.properties``.

Answers to: the replication part of ``kafka.server.KafkaConfig``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@dataclass(frozen=True, slots=True)
class ReplicationConfig:
    """Kafka's broker keys with ``_`` for ``.``; ``_ms`` are milliseconds, ``_bytes`` bytes."""

    broker_id: int
    rack: str | None = None
    num_replica_fetchers: int = 1
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1 << 20
    replica_fetch_response_max_bytes: int = 10 << 20
    replica_fetch_backoff_ms: int = 1_000
    replica_selector_class: str = ""
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    replication_quota_window_num: int = 11
    replication_quota_window_size_seconds: int = 1
    alter_log_dirs_replication_quota_window_num: int = 11
    alter_log_dirs_replication_quota_window_size_seconds: int = 1
    isr_notification_delay_ms: int = 50
    """How long ISR changes are gathered before one znode notifies the controller of them (ours, not Kafka's)."""
