"""Topics created, deleted and widened: checks, replica assignment, znodes, and the wait for the result.

Answers to: ``kafka.server.ZkAdminManager`` (topics) and ``kafka.server.DelayedCreatePartitions``. Deterministic.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.admin.topic_checks import check_assignments, check_configs, check_new_topic, check_widening
from kafkalite.cluster.assignment import assign_added_partitions, assign_replicas
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import PartitionAssignment
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.purgatory import DelayedOperation, Purgatory
from kafkalite.common.tasks import Future, sleep, spawn
from kafkalite.common.types import NO_LEADER, ZERO_UUID, random_uuid
from kafkalite.zk.stores.admin import AdminStore
from kafkalite.zk.stores.topics import TopicStore
from kafkalite.zk.zk_client import BadVersionError, ConnectionLostError, NoNodeError, SessionExpiredError
from kafkalite.zk.znodes.topics import TopicAssignment

log = logging.getLogger(__name__)

_RETRY_PAUSE = 0.1
_UNEXPECTED = "The server experienced an unexpected error when processing the request."


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 for a number means the broker's default.

    ``assignments`` (partition → replicas) excludes both numbers.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """The result for one topic. ``configs`` are the overrides that it was created with."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: uuid.UUID = ZERO_UUID
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A topic to widen to ``count`` partitions.

    ``assignments`` are the replicas of each new partition, in order; ``None``: this broker chooses them.
    """

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


class _Wait(DelayedOperation):
    """Waits until all topics have reached the expected state, or for the timeout."""

    __slots__ = ("_is_done", "done")

    def __init__(self, timeout: float, is_done: Callable[[], bool]) -> None:
        super().__init__(timeout)
        self._is_done = is_done
        self.done: Future[None] = Future()

    def is_satisfied(self) -> bool:
        return self._is_done()

    def on_complete(self) -> None:
        self.done.callback(None)


class TopicAdmin:
    """Writes the topic changes that clients request. The controller carries them out; the metadata cache shows when.

    The caller that changes the metadata cache calls :meth:`metadata_changed` afterwards.
    """

    def __init__(
        self,
        topics: TopicStore,
        wishes: AdminStore,
        metadata: MetadataCache,
        config: DynamicConfig,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._topics = topics
        self._wishes = wishes
        self._metadata = metadata
        self._config = config
        self._rng = rng
        self._clock = clock
        self._waiting = Purgatory("topic", clock)
        self._creating: set[str] = set()

    def metadata_changed(self, topics: Iterable[str]) -> None:
        """The metadata cache changed for ``topics``: complete the requests that wait for them."""
        if not len(self._waiting):
            return
        for topic in topics:
            self._waiting.check_and_complete(topic)

    def shutdown(self) -> None:
        """Drop the waiting requests."""
        self._waiting.shutdown()

    async def create(
        self, topics: Sequence[NewTopic], timeout_ms: int, *, validate_only: bool = False
    ) -> list[TopicOutcome]:
        """Create ``topics``; returns when all partitions have leaders, or with REQUEST_TIMED_OUT."""
        outcomes = [
            await self._outcome(topic.name, partial(self._create_one, topic, validate_only), timeout_ms)
            for topic in topics
        ]
        if validate_only:
            return outcomes
        return await self._wait_for_leaders(outcomes, timeout_ms)

    async def delete(self, names: Sequence[str], timeout_ms: int) -> list[TopicOutcome]:
        """Request the deletion of ``names``; returns when the metadata lacks all of them, or with REQUEST_TIMED_OUT."""
        outcomes = [await self._outcome(name, partial(self._delete_one, name), timeout_ms) for name in names]
        return await self._wait(outcomes, lambda outcome: outcome.name in self._metadata.topics, timeout_ms)

    async def create_partitions(
        self, widenings: Sequence[MorePartitions], timeout_ms: int, *, validate_only: bool = False
    ) -> list[TopicOutcome]:
        """Widen topics; returns when the new partitions have leaders, or with REQUEST_TIMED_OUT."""
        outcomes = [
            await self._outcome(widening.name, partial(self._widen_one, widening, validate_only), timeout_ms)
            for widening in widenings
        ]
        if validate_only:
            return outcomes
        return await self._wait_for_leaders(outcomes, timeout_ms)

    def auto_create(self, names: Iterable[str]) -> dict[str, ErrorCode]:
        """Begin to create topics that clients asked for; returns the error that the clients are given until then."""
        told = {}
        short = len(self._metadata.brokers) < self._config["default.replication.factor"]
        for name in names:
            if short:
                told[name] = ErrorCode.INVALID_REPLICATION_FACTOR
                continue
            told[name] = ErrorCode.LEADER_NOT_AVAILABLE
            if name not in self._creating:
                self._creating.add(name)
                spawn(self._auto_create_one(name), f"creating the topic {name}")
        return told

    async def _auto_create_one(self, name: str) -> None:
        try:
            (outcome,) = await self.create([NewTopic(name)], 0)
            if outcome.error not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_ALREADY_EXISTS):
                log.warning("The topic %s was not created by itself: %s", name, outcome.message or outcome.error.name)
        finally:
            self._creating.discard(name)

    async def _create_one(self, topic: NewTopic, validate_only: bool) -> TopicOutcome:
        check_new_topic(topic.name, self._metadata.topics)
        if topic.assignments and (topic.partitions != -1 or topic.replication_factor != -1):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time.",
            )
        configs = check_configs(topic.configs, self._config.values)
        if topic.assignments:
            check_assignments(topic.assignments)
            assignment = {index: tuple(replicas) for index, replicas in topic.assignments.items()}
        else:
            partitions = self._config["num.partitions"] if topic.partitions == -1 else topic.partitions
            factor = topic.replication_factor
            factor = self._config["default.replication.factor"] if factor == -1 else factor
            brokers = list(self._metadata.brokers.values())
            assignment = dict(assign_replicas(brokers, partitions, factor, self._rng))
        outcome = TopicOutcome(
            topic.name,
            topic_id=ZERO_UUID if validate_only else _new_topic_id(self._rng),
            partitions=len(assignment),
            replication_factor=len(assignment[0]),
            configs=configs,
        )
        if not validate_only:
            await self._topics.create(
                topic.name,
                TopicAssignment(
                    outcome.topic_id,
                    {index: PartitionAssignment(replicas) for index, replicas in sorted(assignment.items())},
                ),
                configs,
            )
        return outcome

    async def _delete_one(self, name: str) -> TopicOutcome:
        await self._wishes.create_delete_topic(name)
        return TopicOutcome(name)

    async def _widen_one(self, widening: MorePartitions, validate_only: bool) -> TopicOutcome:
        found = await self._topics.assignment(widening.name)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{widening.name}' does not exist.")
        current, version = found
        existing = current.partitions
        if any(partition.is_being_reassigned for partition in existing.values()):
            raise ApiError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic '{widening.name}'.",
            )
        added = check_widening(
            widening.name,
            {index: partition.replicas for index, partition in existing.items()},
            widening.count,
            widening.assignments,
            self._metadata.brokers,
        )
        if added is None:
            added = assign_added_partitions(
                list(self._metadata.brokers.values()),
                {index: partition.replicas for index, partition in existing.items()},
                widening.count - len(existing),
                self._rng,
            )
        if not validate_only:
            partitions = dict(existing)
            partitions.update({index: PartitionAssignment(tuple(replicas)) for index, replicas in added.items()})
            try:
                await self._topics.set_assignment(widening.name, TopicAssignment(current.topic_id, partitions), version)
            except (BadVersionError, NoNodeError):
                raise ApiError(
                    ErrorCode.REQUEST_TIMED_OUT, f"The topic '{widening.name}' was changed meanwhile; try again."
                ) from None
        return TopicOutcome(widening.name, partitions=widening.count)

    async def _outcome(self, name: str, work: Callable[[], Awaitable[TopicOutcome]], timeout_ms: int) -> TopicOutcome:
        """The outcome of ``work``; an error of one topic does not affect the others.

        While ZooKeeper is unavailable the work is retried until the timeout, as Kafka's client of ZooKeeper does.
        """
        deadline = self._clock.monotonic() + timeout_ms / 1000
        while True:
            try:
                return await work()
            except ApiError as error:
                return TopicOutcome(name, error.code, error.message or None)
            except (ConnectionLostError, SessionExpiredError):
                if self._clock.monotonic() >= deadline:
                    return TopicOutcome(name, ErrorCode.REQUEST_TIMED_OUT, "ZooKeeper cannot be reached.")
            except Exception:
                log.exception("A request about the topic %s failed", name)
                return TopicOutcome(name, ErrorCode.UNKNOWN_SERVER_ERROR, _UNEXPECTED)
            await sleep(self._clock, _RETRY_PAUSE)

    async def _wait_for_leaders(self, outcomes: Sequence[TopicOutcome], timeout_ms: int) -> list[TopicOutcome]:
        """:meth:`_wait` until all partitions have leaders."""

        def lacks_leader(outcome: TopicOutcome) -> bool:
            states = self._metadata.partitions(outcome.name)
            return any(index not in states or states[index].leader == NO_LEADER for index in range(outcome.partitions))

        return await self._wait(outcomes, lacks_leader, timeout_ms)

    async def _wait(
        self, outcomes: Sequence[TopicOutcome], is_pending: Callable[[TopicOutcome], bool], timeout_ms: int
    ) -> list[TopicOutcome]:
        """Wait until no outcome without an error is pending; those that still are become REQUEST_TIMED_OUT."""
        waited = [outcome for outcome in outcomes if not outcome.error]
        if timeout_ms > 0 and waited:
            wait = _Wait(timeout_ms / 1000, lambda: not any(map(is_pending, waited)))
            self._waiting.try_complete_else_watch(wait, [outcome.name for outcome in waited])
            await wait.done
        # As in Kafka: without time to wait the outcome is not known to be complete.
        late = {outcome.name for outcome in waited if timeout_ms <= 0 or is_pending(outcome)}
        return [_timed_out(outcome) if outcome.name in late else outcome for outcome in outcomes]


def _new_topic_id(rng: random.Random) -> uuid.UUID:
    """A random id (version 4); never one of Kafka's two reserved ids, nor one whose text begins with a dash."""
    while True:
        topic_id = random_uuid(rng)
        # The text is base64, in which '-' stands for 62: the first six bits.
        if topic_id.bytes[0] >> 2 != 62:
            return topic_id


def _timed_out(outcome: TopicOutcome) -> TopicOutcome:
    return replace(outcome, error=ErrorCode.REQUEST_TIMED_OUT, message="The request timed out.")
