"""Control requests and responses as Kafka's messages: LeaderAndIsr, UpdateMetadata, StopReplica, ControlledShutdown.

Answers to: ``org.apache.kafka.common.requests.{LeaderAndIsrRequest,UpdateMetadataRequest,StopReplicaRequest}`` (their
builders and readers) and ``ControlledShutdownRequest``. Pure.

Brokers of kafkalite tell each other more than Kafka's fields hold. The rest travels in tagged fields with numbers from
10000 up, which Kafka skips; a request without them, as Kafka sends it, is read with what they default to.

- ``PartitionExtras`` of LeaderAndIsr and UpdateMetadata: for each partition state, in their order, as 64-bit numbers:
  mzxid; how many unclean start epochs, adding and removing replicas follow; broker and epoch of each unclean start
  epoch; the adding replicas; the removing replicas.
- ``BrokerEpochs`` of UpdateMetadata: for each live broker, in their order, broker epoch and unclean start epoch;
- ``BrokersVersion`` of UpdateMetadata: how old the list of live brokers is.
- ``TopicIds`` of StopReplica: the id of each topic, in their order.

Each of these is one field of the whole request and not one of each partition, because the codec library copies the
rest of the message for every structure that has tagged fields. The two requests that are about many partitions are
written without the library, ten times as fast: a controller that takes over writes them for every broker.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from kafkalite.cluster.control import (
    ControlledShutdownRequest,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.model import SECURITY_PROTOCOLS, Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.wire import INT16, INT32, write_count, write_string, write_tags

T = TypeVar("T")

_EXTRAS_HEAD: Final = 4
_FIRST_TAG: Final = 10_000
_NO_TAGS: Final = b"\0"
_STATE: Final = struct.Struct(">iiii")
_EPOCHS: Final = struct.Struct(">iq")
_PartitionExtras: TypeAlias = tuple[int, tuple[tuple[int, int], ...], tuple[int, ...], tuple[int, ...]]
"""mzxid, unclean start epochs, adding and removing replicas."""


class ControlVersions(NamedTuple):
    """The versions in which a broker sends control requests."""

    leader_and_isr: int = 7
    update_metadata: int = 8
    stop_replica: int = 4
    controlled_shutdown: int = 3


def control_versions(protocol_version: str) -> ControlVersions:
    """The versions that Kafka chooses for this ``inter.broker.protocol.version``. Raises ``ValueError``.

    For one below 2.8 they are those of 2.8, because earlier versions carry no topic ids.
    """
    major, minor = (int(part) for part in protocol_version.partition("-")[0].split(".")[:2])
    since = (major, minor)
    return ControlVersions(
        leader_and_isr=7 if since >= (3, 4) else 6 if since >= (3, 2) else 5,
        update_metadata=8 if since >= (3, 4) else 7,
        stop_replica=4 if since >= (3, 4) else 3,
    )


# What a broker sends


def encode_control_request(
    request: ControlRequest, versions: ControlVersions, listener: str
) -> tuple[ApiKey, int, bytes]:
    """API key, version and body. ``listener`` is the one on which brokers fetch from each other."""
    if isinstance(request, LeaderAndIsrRequest):
        key, version = ApiKey.LEADER_AND_ISR, versions.leader_and_isr
        return key, version, _leader_and_isr(request, version, listener)
    if isinstance(request, UpdateMetadataRequest):
        key, version = ApiKey.UPDATE_METADATA, versions.update_metadata
        return key, version, _update_metadata(request, version)
    if isinstance(request, StopReplicaRequest):
        key, version = ApiKey.STOP_REPLICA, versions.stop_replica
        message: messages.Message = _stop_replica(request, version)
    else:
        key, version = ApiKey.CONTROLLED_SHUTDOWN, versions.controlled_shutdown
        message = messages.ControlledShutdownRequest(
            version=version, broker_id=request.broker_id, broker_epoch=request.broker_epoch
        )
    return key, version, encode_request(key, version, message)


def _leader_and_isr(request: LeaderAndIsrRequest, version: int, listener: str) -> bytes:
    topics = _by_topic_id((state.topic, state.topic_id, state) for state in request.states)
    leaders = {state.leader for state in request.states}
    live = [(broker.id, broker.endpoint(listener)) for broker in request.brokers if broker.id in leaders]
    reachable = [(broker_id, endpoint) for broker_id, endpoint in live if endpoint is not None]
    last = b"\0\0" if version >= 6 else b"\0"  # the leader's recovery state, and no tagged fields

    def rest(state: LeaderAndIsr) -> bytes:
        is_new = b"\1" if state.leader_epoch == 0 and state.zk_version <= 0 else b"\0"
        return _ids(state.assignment.adding) + _ids(state.assignment.removing) + is_new + last

    parts = [_head(request, version >= 7), b"\0"]  # and the type: whether these are all topics is unknown
    parts += _topic_states(topics, rest)
    parts.append(write_count(len(reachable), True))
    for broker_id, endpoint in reachable:
        parts += (INT32.pack(broker_id), write_string(endpoint.host, True), INT32.pack(endpoint.port), _NO_TAGS)
    parts.append(_tagged(_partition_extras(topics.values())))
    return b"".join(parts)


def _update_metadata(request: UpdateMetadataRequest, version: int) -> bytes:
    topics = _by_topic_id((state.topic, state.topic_id, state) for state in request.states)
    live = {broker.id for broker in request.brokers}

    def rest(state: LeaderAndIsr) -> bytes:
        offline = tuple([each for each in state.assignment.replicas if each not in live])
        return _ids(offline) + _NO_TAGS

    parts = [_head(request, version >= 8), *_topic_states(topics, rest), write_count(len(request.brokers), True)]
    for broker in request.brokers:
        endpoints = [each for each in broker.endpoints if each.security_protocol in SECURITY_PROTOCOLS]
        parts += (INT32.pack(broker.id), write_count(len(endpoints), True))
        for endpoint in endpoints:
            parts += (
                INT32.pack(endpoint.port),
                write_string(endpoint.host, True),
                write_string(endpoint.listener, True),
                INT16.pack(SECURITY_PROTOCOLS.index(endpoint.security_protocol)),
                _NO_TAGS,
            )
        parts += (write_string(broker.rack, True), _NO_TAGS)
    epochs = _numbers([n for broker in request.brokers for n in (broker.epoch, broker.unclean_start_epoch)])
    parts.append(_tagged(_partition_extras(topics.values()), epochs, _numbers([request.brokers_version])))
    return b"".join(parts)


def _head(request: LeaderAndIsrRequest | UpdateMetadataRequest, names_kind: bool) -> bytes:
    """Who sends, and for whom. ``names_kind``: the version says whether the controller is one of KRaft."""
    kind = b"\0" if names_kind else b""
    return INT32.pack(request.controller_id) + kind + _EPOCHS.pack(request.controller_epoch, request.broker_epoch)


def _topic_states(
    topics: Mapping[tuple[str, uuid.UUID], Sequence[LeaderAndIsr]], rest: Callable[[LeaderAndIsr], bytes]
) -> list[bytes]:
    """The partition states by topic; ``rest`` writes the fields of one that the two requests do not share."""
    parts = [write_count(len(topics), True)]
    for (topic, topic_id), states in topics.items():
        parts += (write_string(topic, True), topic_id.bytes, write_count(len(states), True))
        for state in states:
            parts += (
                _STATE.pack(state.partition, state.controller_epoch, state.leader, state.leader_epoch),
                _ids(state.isr),
                INT32.pack(state.zk_version),
                _ids(state.assignment.replicas),
                rest(state),
            )
        parts.append(_NO_TAGS)
    return parts


@lru_cache(maxsize=1 << 12)
def _ids(broker_ids: tuple[int, ...]) -> bytes:
    """An array of broker ids; most partitions share one of few."""
    return write_count(len(broker_ids), True) + struct.pack(f">{len(broker_ids)}i", *broker_ids)


def _tagged(*fields: bytes) -> bytes:
    """Tagged fields from :data:`_FIRST_TAG` up, without those that are empty."""
    return write_tags(
        {tag: write_count(len(field), True) + field for tag, field in enumerate(fields, _FIRST_TAG) if field}
    )


def _stop_replica(request: StopReplicaRequest, version: int) -> messages.StopReplicaRequest:
    kind = messages.StopReplicaRequest
    make_topic = kind.StopReplicaTopicState
    make = make_topic.StopReplicaPartitionState
    topics = _by_topic_id((stop.topic_partition.topic, stop.topic_id, stop) for stop in request.partitions)
    return kind(
        version=version,
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            make_topic(
                version=version,
                topic_name=topic,
                partition_states=[
                    make(
                        version=version,
                        partition_index=stop.topic_partition.partition,
                        leader_epoch=stop.leader_epoch,
                        delete_partition=stop.delete,
                    )
                    for stop in stops
                ],
            )
            for (topic, _), stops in topics.items()
        ],
        topic_ids=b"".join(topic_id.bytes for _, topic_id in topics),
    )


def _by_topic_id(values: Iterable[tuple[str, uuid.UUID, T]]) -> dict[tuple[str, uuid.UUID], list[T]]:
    grouped: dict[tuple[str, uuid.UUID], list[T]] = {}
    for topic, topic_id, value in values:
        grouped.setdefault((topic, topic_id), []).append(value)
    return grouped


def _partition_extras(topics: Iterable[Iterable[LeaderAndIsr]]) -> bytes:
    numbers: list[int] = []
    for states in topics:
        for state in states:
            started, assignment = state.unclean_start_epochs, state.assignment
            numbers += (state.mzxid, len(started), len(assignment.adding), len(assignment.removing))
            for pair in started:
                numbers += pair
            numbers += assignment.adding
            numbers += assignment.removing
    return _numbers(numbers)


def _numbers(numbers: Sequence[int]) -> bytes:
    return struct.pack(f">{len(numbers)}q", *numbers)


# What a broker reads of requests


class _PartitionState(Protocol):
    """What LeaderAndIsr and UpdateMetadata both say of a partition."""

    topic_name: str
    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: list[int]
    replicas: list[int]


S = TypeVar("S", bound=_PartitionState)


class _TopicState(Protocol[S]):
    topic_name: str
    topic_id: uuid.UUID | None
    partition_states: list[S]


def read_leader_and_isr(request: messages.LeaderAndIsrRequest, listener: str) -> LeaderAndIsrRequest:
    """The request in ``request``; the addresses of the leaders are those of ``listener``. Raises :class:`ApiError`."""
    _refuse_kraft(request.is_k_raft_controller)
    rest = _Extras(request.partition_extras)
    states = [
        _read_state(
            topic,
            topic_id,
            state,
            state.partition_epoch,
            rest.of_next_partition(state.adding_replicas, state.removing_replicas),
        )
        for topic, topic_id, state in _each_state(request.ungrouped_partition_states, request.topic_states)
    ]
    rest.check()
    brokers = tuple(
        Broker(leader.broker_id, (Endpoint(listener, "", leader.host_name, leader.port),))
        for leader in request.live_leaders
    )
    return LeaderAndIsrRequest(
        request.controller_id, request.controller_epoch, request.broker_epoch, tuple(states), brokers
    )


def read_update_metadata(request: messages.UpdateMetadataRequest, version: int) -> UpdateMetadataRequest:
    """The request in ``request``. Raises :class:`ApiError`."""
    _refuse_kraft(request.is_k_raft_controller)
    rest = _Extras(request.partition_extras)
    states = [
        _read_state(topic, topic_id, state, state.zk_version, rest.of_next_partition())
        for topic, topic_id, state in _each_state(request.ungrouped_partition_states, request.topic_states)
    ]
    rest.check()
    epochs = _Extras(request.broker_epochs)
    brokers = []
    for broker in request.live_brokers:
        epoch, unclean_start_epoch = epochs.take(2, -1)
        brokers.append(Broker(broker.id, _endpoints(broker, version), broker.rack, epoch, unclean_start_epoch))
    epochs.check()
    versions = _Extras(request.brokers_version)
    [brokers_version] = versions.take(1, -1)
    versions.check()
    return UpdateMetadataRequest(
        request.controller_id,
        request.controller_epoch,
        request.broker_epoch,
        tuple(states),
        tuple(brokers),
        brokers_version,
    )


def _each_state(ungrouped: Iterable[S], topics: Iterable[_TopicState[S]]) -> Iterator[tuple[str, uuid.UUID, S]]:
    """Each state with its topic; a request has states of its own, or in later versions those of topics."""
    for state in ungrouped:
        yield state.topic_name, ZERO_UUID, state
    for topic in topics:
        topic_id = topic.topic_id or ZERO_UUID
        for state in topic.partition_states:
            yield topic.topic_name, topic_id, state


def _read_state(
    topic: str, topic_id: uuid.UUID, state: _PartitionState, zk_version: int, extras: _PartitionExtras
) -> LeaderAndIsr:
    mzxid, started, adding, removing = extras
    return LeaderAndIsr(
        topic,
        state.partition_index,
        topic_id,
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        state.controller_epoch,
        zk_version,
        mzxid,
        PartitionAssignment(tuple(state.replicas), adding, removing),
        started,
    )


def _endpoints(broker: messages.UpdateMetadataRequest.UpdateMetadataBroker, version: int) -> tuple[Endpoint, ...]:
    if version == 0:
        return (Endpoint("PLAINTEXT", "PLAINTEXT", broker.v0_host, broker.v0_port),)
    found = []
    for endpoint in broker.endpoints:
        if not 0 <= endpoint.security_protocol < len(SECURITY_PROTOCOLS):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no security protocol {endpoint.security_protocol}")
        protocol = SECURITY_PROTOCOLS[endpoint.security_protocol]
        found.append(Endpoint(endpoint.listener if version >= 3 else protocol, protocol, endpoint.host, endpoint.port))
    return tuple(found)


def read_stop_replica(request: messages.StopReplicaRequest, version: int) -> StopReplicaRequest:
    """The request in ``request``. Raises :class:`ApiError`."""
    _refuse_kraft(request.is_k_raft_controller)
    stops = []
    if version == 0:
        for each in request.ungrouped_partitions:
            tp = TopicPartition(each.topic_name, each.partition_index)
            stops.append(StopReplicaPartitionState(tp, -1, request.delete_partitions))
    elif version < 3:
        for topic in request.topics:
            for index in topic.partition_indexes:
                tp = TopicPartition(topic.name, index)
                stops.append(StopReplicaPartitionState(tp, -1, request.delete_partitions))
    else:
        ids = request.topic_ids or b""
        if ids and len(ids) != 16 * len(request.topic_states):
            raise _malformed()
        for number, entry in enumerate(request.topic_states):
            topic_id = uuid.UUID(bytes=bytes(ids[16 * number : 16 * number + 16])) if ids else ZERO_UUID
            for state in entry.partition_states:
                tp = TopicPartition(entry.topic_name, state.partition_index)
                stops.append(StopReplicaPartitionState(tp, state.leader_epoch, state.delete_partition, topic_id))
    return StopReplicaRequest(request.controller_id, request.controller_epoch, request.broker_epoch, tuple(stops))


class _Extras:
    """The numbers of a tagged field, taken one after the other; defaults where the request has no such field."""

    def __init__(self, data: bytes | None) -> None:
        self._given = bool(data)
        data = data or b""
        if len(data) % 8:
            raise _malformed()
        self._numbers = struct.unpack(f">{len(data) // 8}q", data)
        self._next = 0

    def take(self, count: int, default: int) -> tuple[int, ...]:
        """The next ``count`` numbers."""
        if not self._given:
            return (default,) * count
        start, self._next = self._next, self._next + count
        if count < 0 or self._next > len(self._numbers):
            raise _malformed()
        return self._numbers[start : self._next]

    def of_next_partition(self, adding: Iterable[int] = (), removing: Iterable[int] = ()) -> _PartitionExtras:
        """The next partition's; without the tagged field with the replicas that the request has in its own fields."""
        if not self._given:
            return -1, (), tuple(adding), tuple(removing)
        mzxid, started, count_adding, count_removing = self.take(_EXTRAS_HEAD, -1)
        pairs = self.take(2 * started, -1) if started else ()
        epochs = tuple(zip(pairs[::2], pairs[1::2], strict=True)) if pairs else ()
        if not (count_adding or count_removing):
            return mzxid, epochs, (), ()
        return mzxid, epochs, self.take(count_adding, -1), self.take(count_removing, -1)

    def check(self) -> None:
        """Raise :class:`ApiError` if numbers are left."""
        if self._next != len(self._numbers):
            raise _malformed()


def _refuse_kraft(is_kraft_controller: bool) -> None:
    if is_kraft_controller:
        raise ApiError(ErrorCode.INVALID_REQUEST, "brokers of kafkalite take no part in a migration to KRaft (KIP-866)")


def _malformed() -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, "a tagged field of kafkalite does not fit the request")


# Responses


def leader_and_isr_response(
    request: LeaderAndIsrRequest, response: ControlResponse, version: int
) -> messages.LeaderAndIsrResponse:
    """``response`` to ``request``; partitions are named by topic id from version 5 on."""
    kind = messages.LeaderAndIsrResponse
    errors = response.partitions
    if response.error is not ErrorCode.NONE and not errors:
        errors = tuple((state.topic_partition, response.error) for state in request.states)
    if version < 5:
        make_old = kind.LeaderAndIsrPartitionError
        return kind(
            version=version,
            error_code=response.error,
            partition_errors=[
                make_old(version=version, topic_name=tp.topic, partition_index=tp.partition, error_code=error)
                for tp, error in errors
            ],
        )
    make_topic = kind.LeaderAndIsrTopicError
    make = make_topic.LeaderAndIsrPartitionError
    ids = {state.topic: state.topic_id for state in request.states}
    topics: dict[uuid.UUID, list[messages.LeaderAndIsrResponse.LeaderAndIsrPartitionError]] = {}
    for tp, error in errors:
        entry = make(version=version, partition_index=tp.partition, error_code=error)
        topics.setdefault(ids[tp.topic], []).append(entry)
    return kind(
        version=version,
        error_code=response.error,
        topics=[
            make_topic(version=version, topic_id=topic_id, partition_errors=entries)
            for topic_id, entries in topics.items()
        ],
    )


def stop_replica_response(
    request: StopReplicaRequest, response: ControlResponse, version: int
) -> messages.StopReplicaResponse:
    """``response`` to ``request``."""
    kind = messages.StopReplicaResponse
    make = kind.StopReplicaPartitionError
    errors = response.partitions
    if response.error is not ErrorCode.NONE and not errors:
        errors = tuple((stop.topic_partition, response.error) for stop in request.partitions)
    return kind(
        version=version,
        error_code=response.error,
        partition_errors=[
            make(version=version, topic_name=tp.topic, partition_index=tp.partition, error_code=error)
            for tp, error in errors
        ],
    )


def controlled_shutdown_response(response: ControlResponse, version: int) -> messages.ControlledShutdownResponse:
    """``response`` with the partitions that the broker still leads."""
    kind = messages.ControlledShutdownResponse
    make = kind.RemainingPartition
    return kind(
        version=version,
        error_code=response.error,
        remaining_partitions=[
            make(version=version, topic_name=tp.topic, partition_index=tp.partition) for tp, _ in response.partitions
        ],
    )


def decode_control_response(request: ControlRequest, key: ApiKey, version: int, body: memoryview) -> ControlResponse:
    """The response to ``request``, which was sent under ``key`` in ``version``. Raises :class:`ProtocolError`."""
    message = decode_response(key, version, body)
    try:
        error = ErrorCode(message.error_code)
        if isinstance(request, UpdateMetadataRequest):
            return ControlResponse(error)
        if isinstance(request, ControlledShutdownRequest):
            left = [(each.topic_name, each.partition_index, ErrorCode.NONE) for each in message.remaining_partitions]
        elif isinstance(request, StopReplicaRequest):
            left = [(e.topic_name, e.partition_index, ErrorCode(e.error_code)) for e in message.partition_errors]
        else:
            names = {state.topic_id: state.topic for state in request.states}
            left = [
                (names[topic.topic_id or ZERO_UUID], each.partition_index, ErrorCode(each.error_code))
                for topic in message.topics
                for each in topic.partition_errors
            ]
    except (ValueError, KeyError) as unknown:
        raise ProtocolError(f"the response to {type(request).__name__} names {unknown}") from None
    return ControlResponse(error, tuple((TopicPartition(topic, partition), code) for topic, partition, code in left))
