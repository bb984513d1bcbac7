"""Metadata: brokers, topics, and who leads what, as the listener that the client came by sees it.

Answers to: ``KafkaApis.handleTopicMetadataRequest`` and ``ZkMetadataCache.getTopicMetadata``. Deterministic.

Encoded answers are kept until the cluster's metadata changes: after a leader change every client asks the
same question.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.cluster.topic_names import INTERNAL_TOPICS, is_valid_topic
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import NO_LEADER, ZERO_UUID
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import encode_response, response_class

if TYPE_CHECKING:
    from kafkalite.cluster.metadata import MetadataCache
    from kafkalite.cluster.model import Broker, LeaderAndIsr

CLUSTER_OPERATIONS: Final = frozenset({5, 7, 8, 9, 10, 11, 12})
"""Kafka's codes of what may be done to a cluster: create, alter, describe, cluster action, and configurations."""
TOPIC_OPERATIONS: Final = frozenset({3, 4, 5, 6, 7, 8, 10, 11})
"""The same for a topic: read, write, create, delete, alter, describe, and configurations."""

_STILL_NAMED: Final = 2.0
"""Seconds for which a broker that went is still named to clients that would stumble over its absence."""


def handle(context: RequestContext, request: Any) -> Any:
    """Topics by name or (from version 10) by id; all of them for ``None``, and for an empty list in version 0."""
    metadata = context.services.metadata
    version = context.version
    asked = request.topics
    everything = asked is None or (version == 0 and not asked)
    names: list[str | None] = []
    ids: list[uuid.UUID] = []
    if not everything:
        for topic in asked:
            if topic.topic_id not in (None, ZERO_UUID):
                if version < 12 and topic.name is not None:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "A topic is asked for by name or by id, not by both")
                ids.append(topic.topic_id)
            elif topic.name is None:
                raise ApiError(ErrorCode.INVALID_REQUEST, "A topic is asked for without name and without id")
            else:
                names.append(topic.name)
    create = version < 4 or request.allow_auto_topic_creation
    wants_operations = (
        bool(version >= 8 and request.include_topic_authorized_operations),
        bool(8 <= version <= 10 and request.include_cluster_authorized_operations),
    )
    missing = [name for name in names if name not in metadata.topics]
    departed = metadata.departed(_STILL_NAMED) if _gives_up_departed(context) else []
    key = (
        version,
        context.connection.listener,
        everything,
        tuple(names),
        tuple(ids),
        wants_operations,
    )
    answers = context.services.answers
    kept = not missing and not departed
    if kept:
        encoded = answers.find(key, metadata.version)
        if encoded is not None:
            return encoded
    created = _create_missing(context, missing) if create else {}
    response = _response(context, None if everything else names, ids, wants_operations, created)
    _name_departed(context, response, departed)
    encoded = encode_response(ApiKey.METADATA, version, response)
    if kept:
        answers.keep(key, metadata.version, encoded)
    return encoded


def _gives_up_departed(context: RequestContext) -> bool:
    """Whether the client is librdkafka 2: it takes a broker that is no longer named down at once, and partitions that
    were just about to move from there to their new leader may go down with it, until it asks again a second later.
    """
    connection = context.connection
    return "rdkafka" in connection.software_name or "rdkafka" in connection.software_version


def _name_departed(context: RequestContext, response: Any, departed: list[Broker]) -> None:
    kind = response_class(ApiKey.METADATA)
    for broker in departed:
        endpoint = broker.endpoint(context.connection.listener)
        if endpoint is not None:
            response.brokers.append(
                kind.MetadataResponseBroker(
                    version=context.version,
                    node_id=broker.id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                )
            )


def _create_missing(context: RequestContext, missing: list[str | None]) -> dict[str, ErrorCode]:
    """Begin to create what is missing, where that is allowed; what to say of each meanwhile."""
    services = context.services
    if not missing or not services.config["auto.create.topics.enable"]:
        return {}
    return services.topics.auto_create([name for name in missing if name is not None and is_valid_topic(name)])


def _response(
    context: RequestContext,
    names: list[str | None] | None,
    ids: list[uuid.UUID],
    wants_operations: tuple[bool, bool],
    created: dict[str, ErrorCode],
) -> Any:
    services, version = context.services, context.version
    metadata = services.metadata
    kind = response_class(ApiKey.METADATA)
    listener = context.connection.listener
    alive = set()
    brokers = []
    for broker in metadata.brokers.values():
        endpoint = broker.endpoint(listener)
        if endpoint is not None:
            alive.add(broker.id)
            brokers.append(
                kind.MetadataResponseBroker(
                    version=version, node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    topics = []
    operations = set(TOPIC_OPERATIONS) if wants_operations[0] else None
    for name in metadata.topics if names is None else names:
        assert name is not None
        if name in metadata.topics:
            topics.append(_topic(kind, version, metadata, name, alive, operations))
        else:
            error = (
                created.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                if is_valid_topic(name)
                else ErrorCode.INVALID_TOPIC_EXCEPTION
            )
            topics.append(_absent(kind, version, name, ZERO_UUID, error))
    for topic_id in ids:
        known = metadata.topic_name(topic_id)
        if known is not None and known in metadata.topics:
            topics.append(_topic(kind, version, metadata, known, alive, operations))
        else:
            topics.append(_absent(kind, version, None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
    response = kind(
        version=version,
        brokers=brokers,
        cluster_id=services.cluster_id,
        controller_id=metadata.controller_id if metadata.controller_id in alive else -1,
        topics=topics,
    )
    if wants_operations[1]:
        response.authorized_operations = set(CLUSTER_OPERATIONS)
    return response


def _absent(kind: Any, version: int, name: str | None, topic_id: uuid.UUID, error: ErrorCode) -> Any:
    if name is None and version < 12:
        name = ""
    return kind.MetadataResponseTopic(
        version=version, error_code=error, name=name, topic_id=topic_id, is_internal=name in INTERNAL_TOPICS
    )


def _topic(
    kind: Any,
    version: int,
    metadata: MetadataCache,
    name: str,
    alive: set[int],
    operations: set[int] | None,
) -> Any:
    make = kind.MetadataResponseTopic.MetadataResponsePartition
    topic = kind.MetadataResponseTopic(
        version=version,
        error_code=ErrorCode.NONE,
        name=name,
        topic_id=metadata.topic_id(name),
        is_internal=name in INTERNAL_TOPICS,
        partitions=[
            _partition(make, version, metadata, state, alive) for _, state in sorted(metadata.partitions(name).items())
        ],
    )
    if operations is not None:
        topic.authorized_operations = operations
    return topic


def _partition(make: Any, version: int, metadata: MetadataCache, state: LeaderAndIsr, alive: set[int]) -> Any:
    replicas, isr = list(state.replicas), list(state.isr)
    leader = state.leader
    error = ErrorCode.NONE
    if version == 0:
        # The oldest clients know no offline replicas: they are told of live ones only.
        shown, shown_isr = [r for r in replicas if r in alive], [r for r in isr if r in alive]
        if len(shown) < len(replicas) or len(shown_isr) < len(isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    else:
        shown, shown_isr = replicas, isr
    if leader not in alive:
        unreachable = leader != NO_LEADER and metadata.alive(leader) and version >= 6
        error = ErrorCode.LISTENER_NOT_FOUND if unreachable else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    return make(
        version=version,
        error_code=error,
        partition_index=state.partition,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=shown,
        isr_nodes=shown_isr,
        offline_replicas=[replica for replica in replicas if replica not in alive],
    )
