"""The one table of what is served: API key → versions and handler. ApiVersions answers from it.

Answers to: the ``match`` of ``kafka.server.KafkaApis.handle`` and ``kafka.server.ApiVersionManager``. Pure.

An entry's handler is the function ``handle(context, request)`` of the module named here, imported when
its first request comes; it returns the response (kafka-python's class, or encoded bytes) or something to be
awaited that does. Produce and Fetch are handled apart, without any of this (``dispatch.py``). Keys that
Kafka serves and this table lacks are not advertised; a request for one closes the connection, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey, VersionRange

Handler = Callable[[RequestContext, Any], "Any | Awaitable[Any]"]

_MODULES: Final[dict[ApiKey, str]] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.OFFSET_COMMIT: "offset_commit",
    ApiKey.OFFSET_FETCH: "offset_fetch",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "join_group",
    ApiKey.SYNC_GROUP: "sync_group",
    ApiKey.HEARTBEAT: "heartbeat",
    ApiKey.LEAVE_GROUP: "leave_group",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.LIST_GROUPS: "list_groups",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.SASL_HANDSHAKE: "sasl_handshake",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.ELECT_LEADERS: "elect_leaders",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets_to_txn",
    ApiKey.END_TXN: "end_txn",
    ApiKey.WRITE_TXN_MARKERS: "write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "txn_offset_commit",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "list_transactions",
    ApiKey.UPDATE_FEATURES: "update_features",
    # No authorizer and no authentication yet: answered with the errors that Kafka has for it.
    ApiKey.DESCRIBE_ACLS: "acls",
    ApiKey.CREATE_ACLS: "acls",
    ApiKey.DELETE_ACLS: "acls",
    ApiKey.CREATE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.RENEW_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "delegation_tokens",
}
_SEVERAL_KEYS: Final = ("acls", "delegation_tokens")
"""Modules that serve several keys, with a handler for each."""

SERVED: Final[dict[ApiKey, VersionRange]] = {key: SUPPORTED[key] for key in sorted(_MODULES)}
"""What ApiVersions advertises, by rising key."""


def load_handler(api_key: int) -> Handler:
    """The handler of a served key; its module is imported now if it was not before."""
    key = ApiKey(api_key)
    module = import_module(f"kafkalite.apis.{_MODULES[key]}")
    handler: Handler = module.handler(key) if _MODULES[key] in _SEVERAL_KEYS else module.handle
    return handler


def module_of(api_key: ApiKey) -> str:
    """The module in this room that serves ``api_key``."""
    return _MODULES[api_key]
