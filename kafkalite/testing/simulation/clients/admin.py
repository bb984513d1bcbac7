"""Administration: every request goes to the broker that must answer it, and is repeated until its answer is final.

Answers to: ``org.apache.kafka.clients.admin.KafkaAdminClient``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import ZERO_UUID, TopicPartition, numbers_by_topic
from kafkalite.network.client import ConnectionLost
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.testing.history.events import ENDLESS, Compacted, Deleting
from kafkalite.testing.simulation.clients.cluster import METADATA_VERSION, ClusterClient, Patience
from kafkalite.testing.simulation.clients.coordinator_lookup import GROUP, CoordinatorLookup
from kafkalite.testing.simulation.clients.errors import COORDINATOR_MOVED, RETRIABLE
from kafkalite.testing.simulation.clients.host import ClientHost

E = ErrorCode
TOPIC, BROKER = 2, 4
"""Types of resources in the requests about configurations."""
_SET, _DELETE = 0, 1
_LATEST = -1
_NOT_YET = frozenset((E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID, E.REQUEST_TIMED_OUT))
"""Errors that other clients retry, but that are final answers here."""
_ReassignableTopic: TypeAlias = messages.AlterPartitionReassignmentsRequest.ReassignableTopic


class PartitionView(NamedTuple):
    """One partition as a broker describes it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Admin:
    """The requests of an administrator. Each call returns an error code (of the first refused item). After
    REQUEST_TIMED_OUT, the end of ``patience``, the request may have taken effect, or may do so later."""

    def __init__(self, host: ClientHost, name: str, limit: float = 15.0, patience: Patience | None = None) -> None:
        self.cluster = ClusterClient(host, name, patience)
        self.lost = False
        """Whether an attempt of the last call was lost, so that its error may be due to the effect of that attempt."""
        self._host = host
        self._limit = limit
        self._closed = False

    def close(self) -> None:
        """Close all connections; outstanding calls return."""
        self._closed = True
        self.cluster.close()

    # Topics

    async def create_topic(
        self,
        topic: str,
        partitions: int,
        replication: int = 3,
        configs: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] = (),
    ) -> ErrorCode:
        """Create a topic; with ``cleanup.policy=compact`` the history records that it is compacted."""
        settings = dict(configs or {})
        if "compact" in settings.get("cleanup.policy", ""):
            self._host.note(Compacted(topic))
        kind, version = messages.CreateTopicsRequest.CreatableTopic, 7
        wanted = kind(
            version=version,
            name=topic,
            num_partitions=-1 if assignment else partitions,
            replication_factor=-1 if assignment else replication,
            assignments=[
                kind.CreatableReplicaAssignment(version=version, partition_index=number, broker_ids=list(replicas))
                for number, replicas in enumerate(assignment)
            ],
            configs=[
                kind.CreatableTopicConfig(version=version, name=name, value=value) for name, value in settings.items()
            ],
        )

        async def attempt() -> list[int]:
            fields = {"topics": [wanted], "timeout_ms": 3000, "validate_only": False}
            answer = await self._ask_controller(ApiKey.CREATE_TOPICS, version, **fields)
            return [result.error_code for result in answer.topics]

        return await self._persist(attempt)

    async def delete_topic(self, topic: str, partitions: int) -> ErrorCode:
        """Delete a topic; the history then expects no more records of its first ``partitions`` partitions."""
        for number in range(partitions):
            self._host.note(Deleting(f"{topic}-{number}", ENDLESS))
        version = 6
        state = messages.DeleteTopicsRequest.DeleteTopicState(version=version, name=topic, topic_id=ZERO_UUID)

        async def attempt() -> list[int]:
            answer = await self._ask_controller(ApiKey.DELETE_TOPICS, version, topics=[state], timeout_ms=3000)
            return [result.error_code for result in answer.responses]

        return await self._persist(attempt)

    async def create_partitions(self, topic: str, count: int) -> ErrorCode:
        """Raise the number of a topic's partitions to ``count``."""
        version = 3
        kind = messages.CreatePartitionsRequest.CreatePartitionsTopic
        wanted = kind(version=version, name=topic, count=count, assignments=None)

        async def attempt() -> list[int]:
            fields = {"topics": [wanted], "timeout_ms": 3000, "validate_only": False}
            answer = await self._ask_controller(ApiKey.CREATE_PARTITIONS, version, **fields)
            return [result.error_code for result in answer.results]

        return await self._persist(attempt)

    async def describe(self, node: int, topics: Iterable[str]) -> dict[str, dict[int, PartitionView]] | None:
        """The topics in one broker's metadata, without unknown ones. ``None``: the broker does not answer."""
        kind = messages.MetadataRequest.MetadataRequestTopic
        try:
            answer = await self.cluster.ask_node(
                node,
                ApiKey.METADATA,
                METADATA_VERSION,
                topics=[kind(version=METADATA_VERSION, topic_id=ZERO_UUID, name=topic) for topic in topics],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
        except ConnectionLost:
            return None
        return {
            topic.name: {
                entry.partition_index: PartitionView(
                    entry.leader_id, entry.leader_epoch, tuple(entry.replica_nodes), tuple(entry.isr_nodes)
                )
                for entry in topic.partitions
            }
            for topic in answer.topics
            if not topic.error_code
        }

    # Replicas and leaders

    async def reassign(self, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> ErrorCode:
        """Reassign partitions; ``None`` cancels a reassignment."""
        kind, version = _ReassignableTopic, 0
        topics: dict[str, list[_ReassignableTopic.ReassignablePartition]] = {}
        for (topic, number), replicas in sorted(wanted.items()):
            topics.setdefault(topic, []).append(
                kind.ReassignablePartition(
                    version=version,
                    partition_index=number,
                    replicas=None if replicas is None else list(replicas),
                )
            )

        async def attempt() -> list[int]:
            answer = await self._ask_controller(
                ApiKey.ALTER_PARTITION_REASSIGNMENTS,
                version,
                timeout_ms=3000,
                topics=[kind(version=version, name=name, partitions=found) for name, found in topics.items()],
            )
            found = [entry.error_code for topic in answer.responses for entry in topic.partitions]
            return [answer.error_code, *found]

        return await self._persist(attempt)

    async def reassignments(self) -> dict[TopicPartition, tuple[int, ...]] | None:
        """The partitions with a running reassignment, and their current replicas; ``None``: unknown."""
        found: dict[TopicPartition, tuple[int, ...]] = {}

        async def attempt() -> list[int]:
            answer = await self._ask_controller(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, timeout_ms=3000, topics=None)
            found.clear()
            for topic in answer.topics:
                for entry in topic.partitions:
                    found[TopicPartition(topic.name, entry.partition_index)] = tuple(entry.replicas)
            return [answer.error_code]

        return None if await self._persist(attempt) else found

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None = None, *, unclean: bool = False
    ) -> ErrorCode:
        """Elect the preferred leaders (``None``: of all partitions), or any replica that is alive."""
        version = 2
        kind = messages.ElectLeadersRequest.TopicPartitions
        wanted = (
            None
            if partitions is None
            else [
                kind(version=version, topic=name, partitions=numbers)
                for name, numbers in numbers_by_topic(partitions).items()
            ]
        )

        async def attempt() -> list[int]:
            answer = await self._ask_controller(
                ApiKey.ELECT_LEADERS, version, election_type=int(unclean), topic_partitions=wanted, timeout_ms=3000
            )
            results = [
                entry.error_code for topic in answer.replica_election_results for entry in topic.partition_result
            ]
            return [answer.error_code, *results]

        return await self._persist(attempt)

    # Records, configurations, groups

    async def end_offset(self, partition: TopicPartition) -> int:
        """The high watermark; -1 if the leader does not answer."""
        kind, version = messages.ListOffsetsRequest.ListOffsetsTopic, 7
        asked = kind.ListOffsetsPartition(
            version=version, partition_index=partition.partition, current_leader_epoch=-1, timestamp=_LATEST
        )
        fields = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [kind(version=version, name=partition.topic, partitions=[asked])],
        }
        found = -1

        async def attempt() -> list[int]:
            nonlocal found
            answer = await self.cluster.ask_node(self._leader(partition), ApiKey.LIST_OFFSETS, version, **fields)
            (entry,) = answer.topics[0].partitions
            found = entry.offset
            return [entry.error_code]

        return -1 if await self._persist(attempt) else found

    async def delete_records(self, partition: TopicPartition, offset: int) -> ErrorCode:
        """Delete the records of a partition below ``offset``."""
        self._host.note(Deleting(str(partition), offset))
        kind, version = messages.DeleteRecordsRequest.DeleteRecordsTopic, 2
        asked = kind.DeleteRecordsPartition(version=version, partition_index=partition.partition, offset=offset)
        topics = [kind(version=version, name=partition.topic, partitions=[asked])]

        async def attempt() -> list[int]:
            answer = await self.cluster.ask_node(
                self._leader(partition), ApiKey.DELETE_RECORDS, version, topics=topics, timeout_ms=2000
            )
            return [entry.error_code for topic in answer.topics for entry in topic.partitions]

        return await self._persist(attempt)

    async def alter_configs(self, kind: int, name: str, values: Mapping[str, str | None]) -> ErrorCode:
        """Set configurations of a topic (:data:`TOPIC`) or a broker (:data:`BROKER`, ``""``: of all); ``None`` deletes
        an override."""
        make, version = messages.IncrementalAlterConfigsRequest.AlterConfigsResource, 1
        resource = make(
            version=version,
            resource_type=kind,
            resource_name=name,
            configs=[
                make.AlterableConfig(
                    version=version, name=key, config_operation=_DELETE if value is None else _SET, value=value
                )
                for key, value in values.items()
            ],
        )

        async def attempt() -> list[int]:
            fields = {"resources": [resource], "validate_only": False}
            if kind == BROKER and name:
                # A broker's own configuration is checked by that broker.
                answer = await self.cluster.ask_node(int(name), ApiKey.INCREMENTAL_ALTER_CONFIGS, version, **fields)
            else:
                answer = await self._ask_controller(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, **fields)
            return [response.error_code for response in answer.responses]

        return await self._persist(attempt)

    async def delete_group(self, group: str) -> ErrorCode:
        """Delete a group that has no members."""
        coordinator = CoordinatorLookup(self.cluster, GROUP, group)

        async def attempt() -> list[int]:
            answer = await coordinator.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[group])
            codes = [result.error_code for result in answer.results]
            if any(code in COORDINATOR_MOVED for code in codes):
                coordinator.forget()
            return codes

        try:
            return await self._persist(attempt)
        finally:
            coordinator.close()

    async def list_groups(self) -> dict[str, str] | None:
        """All groups with their states, from every known broker; ``None`` if one does not answer."""
        found: dict[str, str] = {}

        async def attempt() -> list[int]:
            codes = []
            for node in list(self.cluster.nodes):
                answer = await self.cluster.ask_node(node, ApiKey.LIST_GROUPS, 4, states_filter=[])
                codes.append(answer.error_code)
                found.update((group.group_id, group.group_state) for group in answer.groups)
            return codes or [E.BROKER_NOT_AVAILABLE]

        return None if await self._persist(attempt) else found

    # Requests

    def _leader(self, partition: TopicPartition) -> int:
        self.cluster.want((partition.topic,))
        node = self.cluster.leader(partition).node
        if node < 0:
            raise ApiError(E.LEADER_NOT_AVAILABLE)
        return node

    async def _ask_controller(self, key: ApiKey, version: int, /, **fields: object) -> Any:
        if self.cluster.controller not in self.cluster.nodes:
            raise ApiError(E.NOT_CONTROLLER)
        # The controller waits for the replicas before it answers.
        timeout = self.cluster.patience.request + 3.0
        return await self.cluster.ask_node(self.cluster.controller, key, version, timeout, **fields)

    async def _persist(self, attempt: Callable[[], Awaitable[Sequence[int]]]) -> ErrorCode:
        host, patience = self._host, self.cluster.patience
        deadline = host.clock.monotonic() + self._limit
        pause = patience.retry
        self.lost = False
        while host.clock.monotonic() < deadline and not self._closed:
            try:
                codes = [ErrorCode(code) for code in await attempt()]
            except ConnectionLost:
                self.lost = True
            except ApiError:
                pass
            else:
                refused = next((code for code in codes if code), E.NONE)
                if refused not in RETRIABLE or refused in _NOT_YET:
                    return refused
            self.cluster.request_update()
            await host.sleep(pause * (0.8 + 0.4 * host.rng.random()))
            pause = min(pause * 2, patience.retry_max)
        return E.REQUEST_TIMED_OUT
