"""What each API asks the authorizer for: one table, held to the handlers by a test.

Answers to: ``kafka.server.KafkaApis``, where the questions stand in the handlers, as they do here. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.protocol.api_keys import ApiKey


class Permission(NamedTuple):
    """An operation on a type of resource; ``note`` says when it is asked for, if not always."""

    operation: AclOperation
    type: AclResourceType
    note: str = ""


_READ, _WRITE, _CREATE, _DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
_ALTER, _DESCRIBE, _ACTION = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
_ALTER_CONFIGS, _DESCRIBE_CONFIGS = AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS
_TOPIC, _GROUP, _CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
_TXN, _TOKEN, _USER = AclResourceType.TRANSACTIONAL_ID, AclResourceType.DELEGATION_TOKEN, AclResourceType.USER

_CLUSTER_ACTION: Final = (Permission(_ACTION, _CLUSTER),)
_CLUSTER_ALTER: Final = (Permission(_ALTER, _CLUSTER),)
_CLUSTER_DESCRIBE: Final = (Permission(_DESCRIBE, _CLUSTER),)
_READ_GROUP: Final = (Permission(_READ, _GROUP),)
_CHANGE_CONFIGS: Final = (
    Permission(_ALTER_CONFIGS, _TOPIC, "a topic's configuration"),
    Permission(_ALTER_CONFIGS, _CLUSTER, "a broker's configuration"),
)

PERMISSIONS: Final[Mapping[ApiKey, tuple[Permission, ...]]] = {
    ApiKey.PRODUCE: (Permission(_WRITE, _TOPIC), Permission(_WRITE, _TXN, "records of a transaction")),
    ApiKey.FETCH: (Permission(_READ, _TOPIC, "a consumer"), Permission(_ACTION, _CLUSTER, "a follower")),
    ApiKey.LIST_OFFSETS: (Permission(_DESCRIBE, _TOPIC),),
    ApiKey.METADATA: (
        Permission(_DESCRIBE, _TOPIC),
        Permission(_CREATE, _CLUSTER, "automatic creation of a topic"),
        Permission(_CREATE, _TOPIC, "automatic creation, without Create on the cluster"),
        Permission(_DESCRIBE, _CLUSTER, "the cluster's authorized operations"),
    ),
    ApiKey.LEADER_AND_ISR: _CLUSTER_ACTION,
    ApiKey.STOP_REPLICA: _CLUSTER_ACTION,
    ApiKey.UPDATE_METADATA: _CLUSTER_ACTION,
    ApiKey.CONTROLLED_SHUTDOWN: _CLUSTER_ACTION,
    ApiKey.OFFSET_COMMIT: (*_READ_GROUP, Permission(_READ, _TOPIC)),
    ApiKey.OFFSET_FETCH: (Permission(_DESCRIBE, _GROUP), Permission(_DESCRIBE, _TOPIC)),
    ApiKey.FIND_COORDINATOR: (
        Permission(_DESCRIBE, _GROUP, "the coordinator of a group"),
        Permission(_DESCRIBE, _TXN, "the coordinator of a transactional id"),
    ),
    ApiKey.JOIN_GROUP: _READ_GROUP,
    ApiKey.HEARTBEAT: _READ_GROUP,
    ApiKey.LEAVE_GROUP: _READ_GROUP,
    ApiKey.SYNC_GROUP: _READ_GROUP,
    ApiKey.DESCRIBE_GROUPS: (Permission(_DESCRIBE, _GROUP),),
    ApiKey.LIST_GROUPS: (
        Permission(_DESCRIBE, _CLUSTER, "all groups"),
        Permission(_DESCRIBE, _GROUP, "this group, without Describe on the cluster"),
    ),
    ApiKey.SASL_HANDSHAKE: (),
    ApiKey.API_VERSIONS: (),
    ApiKey.CREATE_TOPICS: (
        Permission(_CREATE, _CLUSTER),
        Permission(_CREATE, _TOPIC, "without Create on the cluster"),
        Permission(_DESCRIBE_CONFIGS, _TOPIC, "the topic's configuration in the answer"),
    ),
    ApiKey.DELETE_TOPICS: (Permission(_DELETE, _TOPIC), Permission(_DESCRIBE, _TOPIC, "a topic by its id")),
    ApiKey.DELETE_RECORDS: (Permission(_DELETE, _TOPIC),),
    ApiKey.INIT_PRODUCER_ID: (
        Permission(_WRITE, _TXN, "with a transactional id"),
        Permission(AclOperation.IDEMPOTENT_WRITE, _CLUSTER, "without one"),
        Permission(_WRITE, _TOPIC, "any topic, without IdempotentWrite on the cluster"),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        Permission(_ACTION, _CLUSTER),
        Permission(_DESCRIBE, _TOPIC, "without ClusterAction on the cluster"),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        Permission(_WRITE, _TXN, "a client (up to version 3)"),
        Permission(_WRITE, _TOPIC, "a client (up to version 3)"),
        Permission(_ACTION, _CLUSTER, "a broker (from version 4 on)"),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (Permission(_WRITE, _TXN), *_READ_GROUP),
    ApiKey.END_TXN: (Permission(_WRITE, _TXN),),
    ApiKey.WRITE_TXN_MARKERS: (
        Permission(_ALTER, _CLUSTER),
        Permission(_ACTION, _CLUSTER, "without Alter on the cluster"),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (Permission(_WRITE, _TXN), *_READ_GROUP, Permission(_READ, _TOPIC)),
    ApiKey.DESCRIBE_ACLS: _CLUSTER_DESCRIBE,
    ApiKey.CREATE_ACLS: _CLUSTER_ALTER,
    ApiKey.DELETE_ACLS: _CLUSTER_ALTER,
    ApiKey.DESCRIBE_CONFIGS: (
        Permission(_DESCRIBE_CONFIGS, _TOPIC, "a topic's configuration"),
        Permission(_DESCRIBE_CONFIGS, _CLUSTER, "a broker's configuration"),
    ),
    ApiKey.ALTER_CONFIGS: _CHANGE_CONFIGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _CLUSTER_ALTER,
    ApiKey.DESCRIBE_LOG_DIRS: _CLUSTER_DESCRIBE,
    ApiKey.SASL_AUTHENTICATE: (),
    ApiKey.CREATE_PARTITIONS: (Permission(_ALTER, _TOPIC),),
    ApiKey.CREATE_DELEGATION_TOKEN: (Permission(AclOperation.CREATE_TOKENS, _USER, "a token of another user"),),
    ApiKey.RENEW_DELEGATION_TOKEN: (),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (
        Permission(_DESCRIBE, _TOKEN, "a token of another user"),
        Permission(AclOperation.DESCRIBE_TOKENS, _USER, "a token of another user, without Describe on it"),
    ),
    ApiKey.DELETE_GROUPS: (Permission(_DELETE, _GROUP),),
    ApiKey.ELECT_LEADERS: _CLUSTER_ALTER,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _CHANGE_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _CLUSTER_ALTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _CLUSTER_DESCRIBE,
    ApiKey.OFFSET_DELETE: (Permission(_DELETE, _GROUP), Permission(_READ, _TOPIC)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (Permission(_DESCRIBE_CONFIGS, _CLUSTER),),
    ApiKey.ALTER_CLIENT_QUOTAS: (Permission(_ALTER_CONFIGS, _CLUSTER),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _CLUSTER_DESCRIBE,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _CLUSTER_ALTER,
    ApiKey.UPDATE_FEATURES: _CLUSTER_ALTER,
    ApiKey.DESCRIBE_CLUSTER: (Permission(_DESCRIBE, _CLUSTER, "the cluster's authorized operations"),),
    ApiKey.DESCRIBE_PRODUCERS: (Permission(_READ, _TOPIC),),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        Permission(_DESCRIBE, _TXN),
        Permission(_DESCRIBE, _TOPIC, "the topics of the transaction"),
    ),
    ApiKey.LIST_TRANSACTIONS: (Permission(_DESCRIBE, _TXN),),
}
"""API → every question that its handler may ask. Operations for ``authorized operations`` are not named."""
