"""Turns server.properties into the configuration of each room.

Answers to: the accessors of ``kafka.server.KafkaConfig``. Pure.
"""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from kafkalite.admin.topic_admin import TopicDefaults
from kafkalite.apis.services import ApiConfig
from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.config_keys import LIMITS_OF_LISTENERS
from kafkalite.common.config import ConfigValues, integer
from kafkalite.common.quota_rates import QuotaWindows
from kafkalite.controller.active_controller import ControllerConfig
from kafkalite.coordinator.group.group_metadata import GroupConfig
from kafkalite.coordinator.offsets.offset_manager import OffsetConfig
from kafkalite.coordinator.transaction.values import TransactionConfig
from kafkalite.network.limits import ListenerLimits, NetworkLimits
from kafkalite.replication.replication_config import ReplicationConfig
from kafkalite.replication.replication_quotas import ReplicationRates
from kafkalite.security.client_quotas import ClientQuotas
from kafkalite.security.token_manager import TokenSettings

log = logging.getLogger(__name__)

DEFAULT_INFLIGHT_BYTES = 512 << 20
"""Bound on requests in memory where ``queued.max.request.bytes`` sets none; Kafka then sets none either."""


def network_limits(config: BrokerConfig) -> NetworkLimits:
    """Limits of the clients' listeners.

    Socket buffers have the system's own sizing unless the configuration names a size, because Kafka's default of
    100 KB slows large transfers down.
    """
    values, listening = config.dynamic, config.listening

    def buffer_size(name: str) -> int:
        return values[name] if name in config.texts else -1

    queued = values["queued.max.request.bytes"]
    return NetworkLimits(
        max_request_bytes=values["socket.request.max.bytes"],
        max_connections=values["max.connections"],
        max_connections_per_ip=values["max.connections.per.ip"],
        max_connections_per_ip_overrides=_numbers_by_address(str(values.values["max.connections.per.ip.overrides"])),
        max_connection_rate=values["max.connection.creation.rate"],
        rate_windows=QuotaWindows(values["quota.window.num"], values["quota.window.size.seconds"] * 1000),
        listeners={name: _listener_limits(config, name) for name in _listener_names(config)},
        brokers_listeners=frozenset({listening.inter_broker, listening.control_plane or listening.inter_broker}),
        idle_timeout=values["connections.max.idle.ms"] / 1000,
        max_inflight_bytes=queued if queued > 0 else DEFAULT_INFLIGHT_BYTES,
        backlog=values["socket.listen.backlog.size"],
        send_buffer_bytes=buffer_size("socket.send.buffer.bytes"),
        receive_buffer_bytes=buffer_size("socket.receive.buffer.bytes"),
        failed_authentication_delay=config.values["connection.failed.authentication.delay.ms"] / 1000,
    )


def _listener_names(config: BrokerConfig) -> list[str]:
    """Names of the listeners in force."""
    listeners = str(config.dynamic.values["listeners"]).split(",")
    return [each.partition("://")[0].strip().upper() for each in listeners if each.strip()]


def _listener_limits(config: BrokerConfig, name: str) -> ListenerLimits:
    values = config.dynamic.of_listener(name)
    return ListenerLimits(*(integer(values, key) for key in LIMITS_OF_LISTENERS))


def _numbers_by_address(text: str) -> dict[str, int]:
    """``address:number[,…]`` as a mapping; the last colon counts, because addresses of IPv6 have others."""
    found = {}
    for part in text.split(","):
        address, _, number = part.strip().rpartition(":")
        if number.isdigit():
            found[address.strip("[]")] = int(number)
        elif part.strip():
            log.warning("max.connections.per.ip.overrides: %r is not address:number; it has no effect", part)
    return found


def replication_config(config: BrokerConfig, broker_id: int) -> ReplicationConfig:
    """The configuration of replication."""
    values = config.values
    return ReplicationConfig(
        broker_id=broker_id,
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


def replication_rates(values: ConfigValues) -> ReplicationRates:
    """The bandwidth limits of replication."""
    return ReplicationRates(
        leader=values["leader.replication.throttled.rate"],
        follower=values["follower.replication.throttled.rate"],
        alter_log_dirs=values["replica.alter.log.dirs.io.max.bytes.per.second"],
    )


def api_config(values: ConfigValues) -> ApiConfig:
    """The configuration of the APIs."""
    return ApiConfig(
        auto_create_topics_enable=values["auto.create.topics.enable"],
        delete_topic_enable=values["delete.topic.enable"],
        fetch_max_bytes=values["fetch.max.bytes"],
        max_incremental_fetch_session_cache_slots=values["max.incremental.fetch.session.cache.slots"],
        request_timeout_ms=values["request.timeout.ms"],
    )


def topic_defaults(values: ConfigValues) -> TopicDefaults:
    """The number of partitions and replicas of new topics."""
    return TopicDefaults(values["num.partitions"], values["default.replication.factor"])


def group_config(values: ConfigValues) -> GroupConfig:
    """The limits of groups."""
    return GroupConfig(
        min_session_timeout_ms=values["group.min.session.timeout.ms"],
        max_session_timeout_ms=values["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=values["group.initial.rebalance.delay.ms"],
        max_size=values["group.max.size"],
    )


def offset_config(values: ConfigValues) -> OffsetConfig:
    """The limits of committed offsets."""
    return OffsetConfig(
        max_metadata_size=values["offset.metadata.max.bytes"],
        retention_ms=values["offsets.retention.minutes"] * 60_000,
        retention_check_interval_ms=values["offsets.retention.check.interval.ms"],
    )


def transaction_config(values: ConfigValues) -> TransactionConfig:
    """The configuration of the transaction coordinator."""
    return TransactionConfig(
        transaction_max_timeout_ms=values["transaction.max.timeout.ms"],
        transactional_id_expiration_ms=values["transactional.id.expiration.ms"],
        abort_timed_out_transactions_interval_ms=values["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        remove_expired_transactional_ids_interval_ms=values[
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ],
        two_phase_commit_enable=values["transaction.two.phase.commit.enable"],
    )


def client_quotas(values: ConfigValues) -> ClientQuotas:
    """The quotas of clients, none yet."""
    return ClientQuotas(
        QuotaWindows(values["quota.window.num"], values["quota.window.size.seconds"] * 1000),
        QuotaWindows(values["controller.quota.window.num"], values["controller.quota.window.size.seconds"] * 1000),
    )


def token_settings(values: ConfigValues) -> TokenSettings:
    """The settings of delegation tokens; the older name of the key holds if the newer one is not set."""
    return TokenSettings(
        values["delegation.token.secret.key"] or values["delegation.token.master.key"] or "",
        values["delegation.token.max.lifetime.ms"],
        values["delegation.token.expiry.time.ms"],
    )


def controller_config(values: ConfigValues) -> ControllerConfig:
    """The configuration of the controller."""
    return ControllerConfig(
        unclean_leader_election=values["unclean.leader.election.enable"],
        auto_leader_rebalance=values["auto.leader.rebalance.enable"],
        leader_imbalance_check_interval=float(values["leader.imbalance.check.interval.seconds"]),
        leader_imbalance_per_broker_percentage=values["leader.imbalance.per.broker.percentage"],
        delete_topic=values["delete.topic.enable"],
    )


def announced_events(config: BrokerConfig) -> str:
    """The address of the page with the broker's events that its registration names; empty if it has none.

    A listener on every address is announced with the host of the listener between brokers. A listener with port 0 is
    not announced, because its port is not known at the registration.
    """
    address = urlsplit(config.values["metrics.listener"] or "")
    if not address.port:
        return ""
    host = address.hostname or ""
    if host in ("0.0.0.0", "::"):
        inner = config.listening.inter_broker
        host = next((each.host for each in config.listening.advertised if each.listener == inner), host)
    return f"{address.scheme}://{f'[{host}]' if ':' in host else host}:{address.port}/events"
