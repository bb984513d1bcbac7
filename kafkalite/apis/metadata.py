"""Metadata 0-12: brokers, topics, and leaders, as seen by the listener that the client came by.

- 1: racks, controller, internal topics; null asks for all topics (KIP-4)
- 2: cluster id (KIP-78)
- 3: throttle time (KIP-124)
- 4: allow auto topic creation
- 5: offline replicas (KIP-112)
- 6: the client throttles itself (KIP-219)
- 7: leader epoch (KIP-320)
- 8: authorized operations (KIP-430)
- 9: flexible (KIP-482)
- 10: topic ids in the answer (KIP-516)
- 11: no authorized operations of the cluster (KIP-700)
- 12: topics asked for by id (KIP-516)

Answers to: ``KafkaApis.handleTopicMetadataRequest`` and ``ZkMetadataCache.getTopicMetadata``. Deterministic.

Encoded answers are kept until the cluster's metadata changes: after a leader change every client asks the
same question.
"""

from __future__ import annotations

import uuid
from collections.abc import Container
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.apis.context import RequestContext
from kafkalite.apis.mutations import Mutations
from kafkalite.apis.registry import serves
from kafkalite.cluster.model import INTERNAL_TOPICS, is_valid_topic
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import NO_LEADER, ZERO_UUID
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import encode_response

if TYPE_CHECKING:
    from kafkalite.cluster.metadata import MetadataCache
    from kafkalite.cluster.model import Broker, LeaderAndIsr

_STILL_NAMED: Final = 2.0
"""Seconds for which a broker that went is still named to clients that would stumble over its absence. It is not named
to a client that connects later: that one might ask a broker that is cut off from the others, and believe its answer.
"""


class _Topic(NamedTuple):
    """A topic of the answer. One without an error exists, and its name is known."""

    name: str | None
    error: ErrorCode = ErrorCode.NONE
    topic_id: uuid.UUID = ZERO_UUID
    is_internal: bool = False


@serves(ApiKey.METADATA, 0, 12)
def handle(context: RequestContext, request: messages.MetadataRequest) -> bytes:
    """Topics by name or (from version 10) by id; all of them for ``None``, and for an empty list in version 0."""
    metadata = context.services.metadata
    version = context.version
    asked = request.topics
    everything = asked is None or (version == 0 and not asked)
    names: list[str] = []
    ids: list[uuid.UUID] = []
    if asked is not None and not everything:
        for topic in asked:
            if topic.topic_id is not None and topic.topic_id != ZERO_UUID:
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
    describable = context.authorized(AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
    missing = [name for name in names if name not in metadata.topics and name in describable]
    departed = metadata.departed(_STILL_NAMED, context.connection.opened) if _gives_up_departed(context) else []
    key = (
        version,
        context.connection.listener,
        everything,
        tuple(names),
        tuple(ids),
        wants_operations,
        *context.view,
    )
    answers = context.services.answers
    kept = not missing and not departed
    if kept:
        encoded = answers.find(key, metadata.version)
        if encoded is not None:
            return encoded
    created = _create_missing(context, missing) if create else {}
    if everything:
        topics, denied = _all_topics(context), False
    else:
        topics, denied = _named_topics(context, names, ids, describable, created)
    response = _response(context, topics, wants_operations)
    _name_departed(context, response, departed)
    encoded = encode_response(ApiKey.METADATA, version, response)
    if kept and not denied:
        answers.keep(key, metadata.version, encoded)
    return encoded


def _gives_up_departed(context: RequestContext) -> bool:
    """Whether the client is librdkafka 2: it takes a broker that is no longer named down at once, and partitions that
    were just about to move from there to their new leader may go down with it, until it asks again a second later.
    """
    connection = context.connection
    return "rdkafka" in connection.software_name or "rdkafka" in connection.software_version


def _name_departed(context: RequestContext, response: messages.MetadataResponse, departed: list[Broker]) -> None:
    kind = messages.MetadataResponse
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


def _create_missing(context: RequestContext, missing: list[str]) -> dict[str, ErrorCode]:
    """Begin to create what is missing, where that is allowed; the error of each meanwhile."""
    services = context.services
    if not missing or not services.api_config.auto_create_topics_enable:
        return {}
    errors = {}
    if not context.may(AclOperation.CREATE, log_denied=False):
        creatable = context.authorized(AclOperation.CREATE, AclResourceType.TOPIC, missing)
        errors = {name: ErrorCode.TOPIC_AUTHORIZATION_FAILED for name in missing if name not in creatable}
    wanted = [name for name in missing if name not in errors and is_valid_topic(name)]
    if not wanted:
        return errors
    # Permissive, as in Kafka: the client did not ask for the topics to be created.
    return errors | services.topics.auto_create(wanted, charge=Mutations(context, None).charge)


def _all_topics(context: RequestContext) -> list[_Topic]:
    metadata = context.services.metadata
    names = metadata.topics
    describable = context.authorized(AclOperation.DESCRIBE, AclResourceType.TOPIC, names, log_denied=False)
    return [_Topic(name) for name in names if name in describable]


def _named_topics(
    context: RequestContext,
    names: list[str],
    ids: list[uuid.UUID],
    describable: Container[str],
    created: dict[str, ErrorCode],
) -> tuple[list[_Topic], bool]:
    """What to say of each topic that is asked for, and whether one of them is denied.

    It is not revealed whether a topic that the client may not describe exists.
    """
    metadata = context.services.metadata
    topics = []
    for name in names:
        if name not in describable:
            topics.append(_Topic(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif name in metadata.topics:
            topics.append(_Topic(name))
        elif name in created and created[name] is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            topics.append(_Topic(name, created[name], is_internal=name in INTERNAL_TOPICS))
        else:
            valid = is_valid_topic(name)
            error = (
                created.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
            )
            topics.append(_Topic(name, error, is_internal=name in INTERNAL_TOPICS))
    known = {topic_id: metadata.topic_name(topic_id) for topic_id in ids}
    describable = context.authorized(
        AclOperation.DESCRIBE, AclResourceType.TOPIC, [name for name in known.values() if name is not None]
    )
    for topic_id, known_name in known.items():
        if known_name is None or known_name not in metadata.topics:
            topics.append(_Topic(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id))
        elif known_name not in describable:
            topics.append(_Topic(None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic_id))
        else:
            topics.append(_Topic(known_name))
    return topics, any(topic.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED for topic in topics)


def _response(
    context: RequestContext, topics: list[_Topic], wants_operations: tuple[bool, bool]
) -> messages.MetadataResponse:
    services, version = context.services, context.version
    metadata = services.metadata
    kind = messages.MetadataResponse
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
    made = []
    for topic in topics:
        answer = _absent(version, topic) if topic.error else _present(version, metadata, topic, alive)
        if wants_operations[0] and topic.name is not None and topic.error is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            answer.authorized_operations = context.authorized_operations(AclResourceType.TOPIC, topic.name)
        made.append(answer)
    response = kind(
        version=version,
        brokers=brokers,
        cluster_id=services.cluster_id,
        controller_id=metadata.controller_id if metadata.controller_id in alive else -1,
        topics=made,
    )
    if wants_operations[1]:
        response.authorized_operations = cluster_operations(context)
    return response


def cluster_operations(context: RequestContext) -> set[int]:
    """What the client may do to the cluster; nothing is told to one that may not describe it."""
    if not context.may(AclOperation.DESCRIBE):
        return set()
    return context.authorized_operations(AclResourceType.CLUSTER)


def _absent(version: int, topic: _Topic) -> messages.MetadataResponse.MetadataResponseTopic:
    name = topic.name
    if name is None and version < 12:
        name = ""
    return messages.MetadataResponse.MetadataResponseTopic(
        version=version, error_code=topic.error, name=name, topic_id=topic.topic_id, is_internal=topic.is_internal
    )


def _present(
    version: int, metadata: MetadataCache, topic: _Topic, alive: set[int]
) -> messages.MetadataResponse.MetadataResponseTopic:
    name = topic.name
    assert name is not None
    return messages.MetadataResponse.MetadataResponseTopic(
        version=version,
        error_code=ErrorCode.NONE,
        name=name,
        topic_id=metadata.topic_id(name),
        is_internal=name in INTERNAL_TOPICS,
        partitions=[
            _partition(version, metadata, state, alive) for _, state in sorted(metadata.partitions(name).items())
        ],
    )


def _partition(
    version: int, metadata: MetadataCache, state: LeaderAndIsr, alive: set[int]
) -> messages.MetadataResponse.MetadataResponseTopic.MetadataResponsePartition:
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
    return messages.MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
        version=version,
        error_code=error,
        partition_index=state.partition,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=shown,
        isr_nodes=shown_isr,
        offline_replicas=[replica for replica in replicas if replica not in alive],
    )
