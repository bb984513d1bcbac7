"""Requests of every API that asks an authorizer, and what each of them needs: the rows of the matrix of ACLs.

The unit tests send them to the handlers, the integration tests to brokers, Apache Kafka's first.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkalite.common.acls import CLUSTER_NAME, AclOperation, AclResourceType
from kafkalite.common.types import ZERO_UUID
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import request_class
from kafkalite.record.records import Record, encode_batch

TOPIC: Final = "acl-topic"
MISSING: Final = "acl-topic-missing"
GROUP: Final = "acl-group"
TRANSACTION: Final = "acl-transaction"
REFUSALS: Final = frozenset({29, 30, 31, 53, 65})
"""The error codes of authorization."""

Need = tuple[AclOperation, AclResourceType]

_O, _T = AclOperation, AclResourceType
READ_TOPIC, WRITE_TOPIC = (_O.READ, _T.TOPIC), (_O.WRITE, _T.TOPIC)
DESCRIBE_TOPIC, DELETE_TOPIC, ALTER_TOPIC = (_O.DESCRIBE, _T.TOPIC), (_O.DELETE, _T.TOPIC), (_O.ALTER, _T.TOPIC)
CREATE_TOPIC = (_O.CREATE, _T.TOPIC)
READ_GROUP, DESCRIBE_GROUP, DELETE_GROUP = (_O.READ, _T.GROUP), (_O.DESCRIBE, _T.GROUP), (_O.DELETE, _T.GROUP)
WRITE_TXN, DESCRIBE_TXN = (_O.WRITE, _T.TRANSACTIONAL_ID), (_O.DESCRIBE, _T.TRANSACTIONAL_ID)
CLUSTER_ACTION, CLUSTER_ALTER = (_O.CLUSTER_ACTION, _T.CLUSTER), (_O.ALTER, _T.CLUSTER)
CLUSTER_DESCRIBE, CLUSTER_CREATE = (_O.DESCRIBE, _T.CLUSTER), (_O.CREATE, _T.CLUSTER)
NAMES: Final = {_T.GROUP: GROUP, _T.TRANSACTIONAL_ID: TRANSACTION, _T.CLUSTER: CLUSTER_NAME}


@dataclass(frozen=True)
class AclCase:
    """A request, and what it needs: all of ``needs``, or all of ``instead``.

    ``hides``: without the permission the answer has no error, and lacks what the client may not see. ``any_name``: a
    permission on any resource of the type will do.
    """

    name: str
    api: ApiKey
    version: int
    fields: Mapping[str, Any]
    needs: tuple[Need, ...]
    instead: tuple[Need, ...] = ()
    hides: bool = False
    any_name: bool = False
    topic: str = TOPIC

    def resource(self, type_: AclResourceType) -> str:
        """The name of the resource of that type which the request is about."""
        return self.topic if type_ is AclResourceType.TOPIC else NAMES[type_]

    def message(self) -> messages.Message:
        """The request."""
        return build(request_class(self.api), self.version, self.fields)


def build(kind: type[messages.Message], version: int, fields: Mapping[str, Any]) -> messages.Message:
    """A message from plain values; structures are mappings."""
    made: dict[str, Any] = {}
    for name, value in fields.items():
        definition = kind.fields[name]
        if definition.is_struct_array() and value is not None:
            value = [build(definition.data_class, version, each) for each in value]
        made[name] = value
    return kind(version=version, **made)


def plain(value: Any) -> Any:
    """A response as plain values that JSON can hold, without what differs from run to run."""
    if hasattr(value, "fields"):
        return {
            name: plain(getattr(value, name))
            for name in value.fields
            if value.fields[name].for_version_q(value.version or 0)
            and name not in ("throttle_time_ms", "tags", "port", "cluster_id")
        }
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(int(each) for each in value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, uuid.UUID):
        return "no id" if value == ZERO_UUID else "id"
    if isinstance(value, str):
        # Kafka shows the innards of the request.
        return (
            "not authorized"
            if re.match(r"Request .* is not authorized|.* lacks [A-Z_]+ on the cluster", value)
            else value
        )
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def error_codes(value: Any) -> Iterator[int]:
    """Every error code in a response as :func:`plain` has it."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name.endswith("error_code") and isinstance(each, int):
                yield each
            else:
                yield from error_codes(each)
    elif isinstance(value, list):
        for each in value:
            yield from error_codes(each)


def _partitions(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": TOPIC, "partitions": [{"partition_index": 0, **fields}]}]


_PRODUCER: Final = {"producer_id": 1, "producer_epoch": 0}
_MEMBER: Final = {"group_id": GROUP, "member_id": "no-such-member", "generation_id": 1}
_COMMIT: Final = _partitions(committed_offset=1, committed_leader_epoch=-1, committed_metadata="")
_EVERY_ACL: Final = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": "User:no-such-user",
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_NEW_ACL: Final = {
    "resource_type": 2,
    "resource_name": "acl-other",
    "resource_pattern_type": 3,
    "principal": "User:no-such-user",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_FETCH: Final = {
    "max_wait_ms": 0,
    "min_bytes": 0,
    "max_bytes": 1000,
    "isolation_level": 0,
    "session_id": 0,
    "session_epoch": -1,
    "topics": [
        {
            "topic": TOPIC,
            "partitions": [
                {
                    "partition": 0,
                    "current_leader_epoch": -1,
                    "fetch_offset": 0,
                    "last_fetched_epoch": -1,
                    "log_start_offset": -1,
                    "partition_max_bytes": 1000,
                }
            ],
        }
    ],
    "forgotten_topics_data": [],
    "rack_id": "",
}
_METADATA: Final = {
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}
_CONFIG: Final = {"name": "retention.ms", "value": "-1"}
_CONTROLLER: Final = {"controller_id": 1, "controller_epoch": 0, "broker_epoch": -1}
_IN_TRANSACTION: Final = encode_batch(
    [Record(0, 1, None, b"x")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
)
_K = ApiKey

CASES: Final[tuple[AclCase, ...]] = (
    AclCase(
        "produce",
        _K.PRODUCE,
        9,
        {
            "transactional_id": None,
            "acks": 1,
            "timeout_ms": 1000,
            "topic_data": [
                {"name": TOPIC, "partition_data": [{"index": 0, "records": encode_batch([Record(0, 1, None, b"x")])}]}
            ],
        },
        (WRITE_TOPIC,),
    ),
    AclCase(
        "produce in a transaction",
        _K.PRODUCE,
        9,
        {
            "transactional_id": TRANSACTION,
            "acks": 1,
            "timeout_ms": 1000,
            "topic_data": [{"name": TOPIC, "partition_data": [{"index": 0, "records": _IN_TRANSACTION}]}],
        },
        (WRITE_TXN, WRITE_TOPIC),
    ),
    AclCase("fetch", _K.FETCH, 12, {"replica_id": -1, **_FETCH}, (READ_TOPIC,)),
    AclCase("fetch as a follower", _K.FETCH, 12, {"replica_id": 7, **_FETCH}, (CLUSTER_ACTION,)),
    AclCase(
        "list offsets",
        _K.LIST_OFFSETS,
        7,
        {"replica_id": -1, "isolation_level": 0, "topics": _partitions(current_leader_epoch=-1, timestamp=-1)},
        (DESCRIBE_TOPIC,),
    ),
    AclCase(
        "the oldest list offsets",
        _K.LIST_OFFSETS,
        0,
        {"replica_id": -1, "topics": _partitions(timestamp=-1, max_num_offsets=1)},
        (DESCRIBE_TOPIC,),
    ),
    AclCase("metadata of a topic", _K.METADATA, 9, {"topics": [{"name": TOPIC}], **_METADATA}, (DESCRIBE_TOPIC,)),
    AclCase(
        "metadata of a missing topic",
        _K.METADATA,
        9,
        {"topics": [{"name": MISSING}], **_METADATA},
        (DESCRIBE_TOPIC,),
        topic=MISSING,
    ),
    AclCase("metadata of all topics", _K.METADATA, 9, {"topics": None, **_METADATA}, (DESCRIBE_TOPIC,), hides=True),
    AclCase(
        "offset commit",
        _K.OFFSET_COMMIT,
        8,
        {
            "group_id": GROUP,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": _COMMIT,
        },
        (READ_GROUP, READ_TOPIC),
    ),
    AclCase(
        "offset fetch",
        _K.OFFSET_FETCH,
        7,
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}], "require_stable": False},
        (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ),
    AclCase(
        "offset fetch in version 1",
        _K.OFFSET_FETCH,
        1,
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]},
        (DESCRIBE_GROUP, DESCRIBE_TOPIC),
        hides=True,
    ),
    AclCase(
        "the oldest offset fetch",
        _K.OFFSET_FETCH,
        0,
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]},
        (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ),
    AclCase(
        "the oldest offset commit",
        _K.OFFSET_COMMIT,
        0,
        {"group_id": GROUP, "topics": _partitions(committed_offset=1, committed_metadata="")},
        (READ_GROUP, READ_TOPIC),
    ),
    AclCase(
        "offset fetch of several groups",
        _K.OFFSET_FETCH,
        8,
        {
            "groups": [{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}],
            "require_stable": False,
        },
        (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ),
    AclCase("the coordinator of a group", _K.FIND_COORDINATOR, 3, {"key": GROUP, "key_type": 0}, (DESCRIBE_GROUP,)),
    AclCase(
        "the coordinators of groups",
        _K.FIND_COORDINATOR,
        4,
        {"key_type": 0, "coordinator_keys": [GROUP]},
        (DESCRIBE_GROUP,),
    ),
    AclCase(
        "the coordinator of a transaction", _K.FIND_COORDINATOR, 3, {"key": TRANSACTION, "key_type": 1}, (DESCRIBE_TXN,)
    ),
    AclCase(
        "the coordinators of transactions",
        _K.FIND_COORDINATOR,
        4,
        {"key_type": 1, "coordinator_keys": [TRANSACTION]},
        (DESCRIBE_TXN,),
    ),
    AclCase(
        "join group",
        _K.JOIN_GROUP,
        7,
        {
            "group_id": GROUP,
            "session_timeout_ms": 1,
            "rebalance_timeout_ms": 1,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        (READ_GROUP,),
    ),
    AclCase("heartbeat", _K.HEARTBEAT, 4, {**_MEMBER, "group_instance_id": None}, (READ_GROUP,)),
    AclCase(
        "leave group",
        _K.LEAVE_GROUP,
        4,
        {"group_id": GROUP, "members": [{"member_id": "no-such-member", "group_instance_id": None}]},
        (READ_GROUP,),
    ),
    AclCase(
        "leave group in version 1", _K.LEAVE_GROUP, 1, {"group_id": GROUP, "member_id": "no-such-member"}, (READ_GROUP,)
    ),
    AclCase(
        "sync group",
        _K.SYNC_GROUP,
        5,
        {
            **_MEMBER,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [],
        },
        (READ_GROUP,),
    ),
    AclCase(
        "describe groups",
        _K.DESCRIBE_GROUPS,
        5,
        {"groups": [GROUP], "include_authorized_operations": False},
        (DESCRIBE_GROUP,),
    ),
    AclCase(
        "list groups", _K.LIST_GROUPS, 4, {"states_filter": []}, (DESCRIBE_GROUP,), (CLUSTER_DESCRIBE,), hides=True
    ),
    AclCase(
        "create topics",
        _K.CREATE_TOPICS,
        5,
        {
            "topics": [{"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}],
            "timeout_ms": 1000,
            "validate_only": True,
        },
        (CREATE_TOPIC,),
        (CLUSTER_CREATE,),
    ),
    AclCase(
        "delete topics",
        _K.DELETE_TOPICS,
        5,
        {"topic_names": [MISSING], "timeout_ms": 1000},
        (DELETE_TOPIC,),
        topic=MISSING,
    ),
    AclCase(
        "delete records", _K.DELETE_RECORDS, 2, {"topics": _partitions(offset=0), "timeout_ms": 1000}, (DELETE_TOPIC,)
    ),
    AclCase(
        "an idempotent producer",
        _K.INIT_PRODUCER_ID,
        4,
        {"transactional_id": None, "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1},
        (WRITE_TOPIC,),
        ((_O.IDEMPOTENT_WRITE, _T.CLUSTER),),
        any_name=True,
    ),
    AclCase(
        "a transactional producer",
        _K.INIT_PRODUCER_ID,
        4,
        {"transactional_id": TRANSACTION, "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1},
        (WRITE_TXN,),
    ),
    AclCase(
        "offsets for leader epochs",
        _K.OFFSET_FOR_LEADER_EPOCH,
        3,
        {
            "replica_id": -1,
            "topics": [
                {"topic": TOPIC, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
            ],
        },
        (DESCRIBE_TOPIC,),
        (CLUSTER_ACTION,),
    ),
    AclCase(
        "partitions of a transaction",
        _K.ADD_PARTITIONS_TO_TXN,
        3,
        {
            "v3_and_below_transactional_id": TRANSACTION,
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
        },
        (WRITE_TXN, WRITE_TOPIC),
    ),
    AclCase(
        "partitions of transactions by a broker",
        _K.ADD_PARTITIONS_TO_TXN,
        4,
        {
            "transactions": [
                {
                    "transactional_id": TRANSACTION,
                    **_PRODUCER,
                    "verify_only": True,
                    "topics": [{"name": TOPIC, "partitions": [0]}],
                }
            ]
        },
        (CLUSTER_ACTION,),
    ),
    AclCase(
        "offsets of a transaction",
        _K.ADD_OFFSETS_TO_TXN,
        3,
        {"transactional_id": TRANSACTION, **_PRODUCER, "group_id": GROUP},
        (WRITE_TXN, READ_GROUP),
    ),
    AclCase(
        "end of a transaction",
        _K.END_TXN,
        3,
        {"transactional_id": TRANSACTION, **_PRODUCER, "committed": True},
        (WRITE_TXN,),
    ),
    AclCase(
        "markers",
        _K.WRITE_TXN_MARKERS,
        1,
        {
            "markers": [
                {
                    **_PRODUCER,
                    "transaction_result": True,
                    "topics": [{"name": MISSING, "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                }
            ]
        },
        (CLUSTER_ACTION,),
        (CLUSTER_ALTER,),
    ),
    AclCase(
        "commit in a transaction",
        _K.TXN_OFFSET_COMMIT,
        3,
        {"transactional_id": TRANSACTION, **_PRODUCER, **_MEMBER, "group_instance_id": None, "topics": _COMMIT},
        (WRITE_TXN, READ_GROUP, READ_TOPIC),
    ),
    AclCase("describe ACLs", _K.DESCRIBE_ACLS, 2, _EVERY_ACL, (CLUSTER_DESCRIBE,)),
    AclCase("create ACLs", _K.CREATE_ACLS, 2, {"creations": [_NEW_ACL]}, (CLUSTER_ALTER,)),
    AclCase(
        "delete ACLs",
        _K.DELETE_ACLS,
        2,
        {"filters": [{**_EVERY_ACL, "principal_filter": "User:absent"}]},
        (CLUSTER_ALTER,),
    ),
    AclCase(
        "a topic's configuration",
        _K.DESCRIBE_CONFIGS,
        4,
        {
            "resources": [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": ["retention.ms"]}],
            "include_synonyms": False,
            "include_documentation": False,
        },
        ((_O.DESCRIBE_CONFIGS, _T.TOPIC),),
    ),
    AclCase(
        "a broker's configuration",
        _K.DESCRIBE_CONFIGS,
        4,
        {
            "resources": [{"resource_type": 4, "resource_name": "1", "configuration_keys": ["num.partitions"]}],
            "include_synonyms": False,
            "include_documentation": False,
        },
        ((_O.DESCRIBE_CONFIGS, _T.CLUSTER),),
    ),
    AclCase(
        "alter a topic's configuration",
        _K.ALTER_CONFIGS,
        2,
        {"resources": [{"resource_type": 2, "resource_name": TOPIC, "configs": [_CONFIG]}], "validate_only": True},
        ((_O.ALTER_CONFIGS, _T.TOPIC),),
    ),
    AclCase(
        "alter a topic's configuration incrementally",
        _K.INCREMENTAL_ALTER_CONFIGS,
        1,
        {
            "resources": [
                {"resource_type": 2, "resource_name": TOPIC, "configs": [{**_CONFIG, "config_operation": 0}]}
            ],
            "validate_only": True,
        },
        ((_O.ALTER_CONFIGS, _T.TOPIC),),
    ),
    AclCase(
        "alter a broker's configuration incrementally",
        _K.INCREMENTAL_ALTER_CONFIGS,
        1,
        {
            "resources": [
                {
                    "resource_type": 4,
                    "resource_name": "1",
                    "configs": [{"name": "log.cleaner.threads", "config_operation": 0, "value": "1"}],
                }
            ],
            "validate_only": True,
        },
        ((_O.ALTER_CONFIGS, _T.CLUSTER),),
    ),
    AclCase(
        "the levels of a broker's loggers",
        _K.DESCRIBE_CONFIGS,
        4,
        {
            "resources": [{"resource_type": 8, "resource_name": "1", "configuration_keys": ["root"]}],
            "include_synonyms": False,
            "include_documentation": False,
        },
        ((_O.DESCRIBE_CONFIGS, _T.CLUSTER),),
    ),
    AclCase(
        "alter the levels of a broker's loggers",
        _K.INCREMENTAL_ALTER_CONFIGS,
        1,
        {
            "resources": [
                {
                    "resource_type": 8,
                    "resource_name": "1",
                    "configs": [{"name": "root", "config_operation": 0, "value": "INFO"}],
                }
            ],
            "validate_only": True,
        },
        ((_O.ALTER_CONFIGS, _T.CLUSTER),),
    ),
    AclCase(
        "alter log directories",
        _K.ALTER_REPLICA_LOG_DIRS,
        2,
        {"dirs": [{"path": "/acl-absent", "topics": [{"name": MISSING, "partitions": [0]}]}]},
        (CLUSTER_ALTER,),
    ),
    AclCase("describe log directories", _K.DESCRIBE_LOG_DIRS, 3, {"topics": []}, (CLUSTER_DESCRIBE,)),
    AclCase(
        "create partitions",
        _K.CREATE_PARTITIONS,
        3,
        {"topics": [{"name": TOPIC, "count": 2, "assignments": None}], "timeout_ms": 1000, "validate_only": True},
        (ALTER_TOPIC,),
    ),
    AclCase("delete groups", _K.DELETE_GROUPS, 2, {"groups_names": [GROUP]}, (DELETE_GROUP,)),
    AclCase(
        "elect leaders",
        _K.ELECT_LEADERS,
        2,
        {"election_type": 0, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout_ms": 1000},
        (CLUSTER_ALTER,),
    ),
    AclCase(
        "alter reassignments",
        _K.ALTER_PARTITION_REASSIGNMENTS,
        0,
        {"timeout_ms": 1000, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": None}]}]},
        (CLUSTER_ALTER,),
    ),
    AclCase(
        "list reassignments",
        _K.LIST_PARTITION_REASSIGNMENTS,
        0,
        {"timeout_ms": 1000, "topics": None},
        (CLUSTER_DESCRIBE,),
    ),
    AclCase(
        "delete offsets",
        _K.OFFSET_DELETE,
        0,
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]},
        (DELETE_GROUP, READ_TOPIC),
    ),
    AclCase(
        "update features",
        _K.UPDATE_FEATURES,
        1,
        {"timeout_ms": 1000, "feature_updates": [], "validate_only": True},
        (CLUSTER_ALTER,),
    ),
    AclCase(
        "describe producers",
        _K.DESCRIBE_PRODUCERS,
        0,
        {"topics": [{"name": TOPIC, "partition_indexes": [0]}]},
        (READ_TOPIC,),
    ),
    AclCase(
        "describe transactions", _K.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [TRANSACTION]}, (DESCRIBE_TXN,)
    ),
    AclCase(
        "list transactions",
        _K.LIST_TRANSACTIONS,
        0,
        {"state_filters": [], "producer_id_filters": []},
        (DESCRIBE_TXN,),
        hides=True,
    ),
    AclCase(
        "leaders and ISRs",
        _K.LEADER_AND_ISR,
        4,
        {**_CONTROLLER, "type": 0, "topic_states": [], "live_leaders": []},
        (CLUSTER_ACTION,),
    ),
    AclCase("stop replicas", _K.STOP_REPLICA, 3, {**_CONTROLLER, "topic_states": []}, (CLUSTER_ACTION,)),
    AclCase(
        "update metadata",
        _K.UPDATE_METADATA,
        6,
        {**_CONTROLLER, "topic_states": [], "live_brokers": []},
        (CLUSTER_ACTION,),
    ),
    AclCase("controlled shutdown", _K.CONTROLLED_SHUTDOWN, 2, {"broker_id": 1, "broker_epoch": 0}, (CLUSTER_ACTION,)),
    AclCase(
        "describe quotas",
        _K.DESCRIBE_CLIENT_QUOTAS,
        1,
        {"components": [{"entity_type": "user", "match_type": 0, "match": "no-such-user"}], "strict": False},
        ((_O.DESCRIBE_CONFIGS, _T.CLUSTER),),
    ),
    AclCase(
        "alter quotas",
        _K.ALTER_CLIENT_QUOTAS,
        1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "no-such-user"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
                }
            ],
            "validate_only": True,
        },
        ((_O.ALTER_CONFIGS, _T.CLUSTER),),
    ),
    AclCase(
        "describe SCRAM credentials",
        _K.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        {"users": [{"name": "no-such-user"}]},
        (CLUSTER_DESCRIBE,),
    ),
    AclCase(
        "alter SCRAM credentials",
        _K.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        {"deletions": [{"name": "no-such-user", "mechanism": 1}], "upsertions": []},
        (CLUSTER_ALTER,),
    ),
)
