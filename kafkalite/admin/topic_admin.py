"""Topics created, deleted and widened: checks, replica assignment, znodes, and the wait for the result.

Answers to: ``kafka.server.ZkAdminManager`` (topics), ``kafka.server.DelayedCreatePartitions`` and
``kafka.zk.AdminZkClient`` (``validateTopicCreate``, ``validateReplicaAssignment``). Deterministic.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.cluster.assignment import assign_added_partitions, assign_replicas
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import PartitionAssignment, check_topic, colliding_topic
from kafkalite.common.clock import Clock
from kafkalite.common.config import ConfigValue
from kafkalite.common.errors import ApiError, ConfigError, ErrorCode
from kafkalite.common.purgatory import DelayedOperation, Purgatory
from kafkalite.common.tasks import Future, sleep, spawn
from kafkalite.common.types import NO_LEADER, ZERO_UUID, random_uuid
from kafkalite.log.log_config import TOPIC_CONFIGS, log_config
from kafkalite.zk.stores.controller import AdminStore
from kafkalite.zk.stores.topics import TopicStore
from kafkalite.zk.zk_client import BadVersionError, ConnectionLostError, NoNodeError, SessionExpiredError
from kafkalite.zk.znodes.topics import TopicAssignment

log = logging.getLogger(__name__)

Charge = Callable[[int], object]
"""Takes the number of partitions that a request creates or deletes. Raises :class:`ApiError` where it may not."""

_RETRY_PAUSE = 0.1
_UNEXPECTED = "The server experienced an unexpected error when processing the request."


def check_new_topic(name: str, existing: Collection[str]) -> None:
    """Raises :class:`ApiError` INVALID_TOPIC_EXCEPTION or TOPIC_ALREADY_EXISTS."""
    if name in existing:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    check_topic(name)
    other = colliding_topic(name, existing)
    if other is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topics: {other}")


def check_configs(configs: Mapping[str, str | None], broker_values: Mapping[str, ConfigValue]) -> dict[str, str]:
    """The overrides of a topic. Raises :class:`ApiError` INVALID_CONFIG naming key, value and what is allowed."""
    texts = {name: value for name, value in configs.items() if value is not None}
    nulls = [name for name, value in configs.items() if value is None]
    if nulls:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    unknown = TOPIC_CONFIGS.unknown(texts)
    if unknown:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {unknown[0]}")
    try:
        config = log_config(broker_values, texts)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
    if config.remote_storage_enable:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
    return texts


def check_assignments(assignments: Mapping[int, Sequence[int]]) -> None:
    """The replicas of a new topic's partitions. Raises :class:`ApiError` INVALID_REPLICA_ASSIGNMENT."""
    if sorted(assignments) != list(range(len(assignments))):
        raise _bad_assignment("Partitions should be a consecutive 0-based integer sequence")
    sizes = {len(replicas) for replicas in assignments.values()}
    if 0 in sizes:
        raise _bad_assignment("Every partition needs at least one replica")
    if len(sizes) > 1:
        raise _bad_assignment("All partitions should have the same number of replicas")
    for index, replicas in assignments.items():
        if len(set(replicas)) != len(replicas):
            raise _bad_assignment(f"Duplicate replica assignment found: partition {index} on {_listed(replicas)}")
        if min(replicas) < 0:
            raise _bad_assignment(f"Invalid broker id in the replicas of partition {index}: {_listed(replicas)}")


def check_widening(
    name: str,
    existing: Mapping[int, Sequence[int]],
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    brokers: Collection[int],
) -> dict[int, tuple[int, ...]] | None:
    """The replicas of the partitions to add, if they were given.

    Raises :class:`ApiError` INVALID_PARTITIONS or INVALID_REPLICA_ASSIGNMENT.
    """
    added = count - len(existing)
    if added < 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {len(existing)} partitions, which is higher than the requested {count}.",
        )
    if added == 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {len(existing)} partitions.")
    if assignments is None:
        return None
    unknown = sorted({replica for replicas in assignments for replica in replicas} - set(brokers))
    if unknown:
        raise _bad_assignment(f"Unknown broker(s) in replica assignment: {_listed(unknown)}.")
    if len(assignments) != added:
        raise _bad_assignment(
            f"Increasing the number of partitions by {added} but {len(assignments)} assignments provided."
        )
    factor = len(existing[0]) if 0 in existing else len(assignments[0])
    chosen = {}
    for index, replicas in enumerate(assignments, len(existing)):
        if not replicas:
            raise _bad_assignment(f"Cannot have replication factor of 0 for partition id {index}.")
        if len(set(replicas)) != len(replicas):
            raise _bad_assignment(
                f"Duplicate brokers not allowed in replica assignment: {_listed(replicas)} for partition id {index}."
            )
        if len(replicas) != factor:
            raise _bad_assignment(
                f"Inconsistent replication factor between partitions, partition 0 of {name} has {factor} "
                f"while partition {index} has replication factor {len(replicas)}."
            )
        chosen[index] = tuple(replicas)
    return chosen


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


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


def _free(partitions: int) -> None:
    """The charge of a request without a quota."""


def _once(charge: Charge) -> Charge:
    """``charge`` for one topic: its work may be repeated, but is paid once."""
    paid = False

    def call(partitions: int) -> None:
        nonlocal paid
        if not paid:
            charge(partitions)
            paid = True

    return call


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


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """What a new topic gets where its creator names no number."""

    partitions: int
    replication_factor: int


class TopicAdmin:
    """Writes the topic changes that clients request. The controller carries them out; the metadata cache shows when.

    The caller that changes the metadata cache calls :meth:`metadata_changed` afterwards. ``charge`` is called with the
    partitions of each topic before it is written. ``config``: the broker's values, which are the defaults of topics.
    """

    def __init__(
        self,
        topics: TopicStore,
        admin_store: AdminStore,
        metadata: MetadataCache,
        config: DynamicConfig,
        defaults: TopicDefaults,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._topics = topics
        self._admin_store = admin_store
        self._metadata = metadata
        self._config = config
        self._defaults = defaults
        self._rng = rng
        self._clock = clock
        self.waiting = Purgatory("topic", clock)
        self._creating: set[str] = set()

    def metadata_changed(self, topics: Iterable[str]) -> None:
        """The metadata cache changed for ``topics``: complete the requests that wait for them."""
        if not len(self.waiting):
            return
        for topic in topics:
            self.waiting.check_and_complete(topic)

    def shutdown(self) -> None:
        """Drop the waiting requests."""
        self.waiting.shutdown()

    async def create(
        self,
        topics: Sequence[NewTopic],
        timeout_ms: int,
        *,
        validate_only: bool = False,
        charge: Charge = _free,
    ) -> list[TopicOutcome]:
        """Create ``topics``; returns when all partitions have leaders, or with REQUEST_TIMED_OUT."""
        outcomes = [
            await self._outcome(topic.name, partial(self._create_one, topic, validate_only, _once(charge)), timeout_ms)
            for topic in topics
        ]
        if validate_only:
            return outcomes
        return await self._wait_for_leaders(outcomes, timeout_ms)

    async def delete(self, names: Sequence[str], timeout_ms: int, *, charge: Charge = _free) -> list[TopicOutcome]:
        """Request the deletion of ``names``; returns when the metadata lacks all of them, or with REQUEST_TIMED_OUT."""
        outcomes = [
            await self._outcome(name, partial(self._delete_one, name, _once(charge)), timeout_ms) for name in names
        ]
        return await self._wait(outcomes, lambda outcome: outcome.name in self._metadata.topics, timeout_ms)

    async def create_partitions(
        self,
        widenings: Sequence[MorePartitions],
        timeout_ms: int,
        *,
        validate_only: bool = False,
        charge: Charge = _free,
    ) -> list[TopicOutcome]:
        """Widen topics; returns when the new partitions have leaders, or with REQUEST_TIMED_OUT."""
        outcomes = [
            await self._outcome(
                widening.name, partial(self._widen_one, widening, validate_only, _once(charge)), timeout_ms
            )
            for widening in widenings
        ]
        if validate_only:
            return outcomes
        return await self._wait_for_leaders(outcomes, timeout_ms)

    def auto_create(self, names: Iterable[str], *, charge: Charge = _free) -> dict[str, ErrorCode]:
        """Begin to create topics that clients asked for; returns the error that the clients are given until then."""
        errors = {}
        short = len(self._metadata.brokers) < self._defaults.replication_factor
        for name in names:
            if short:
                errors[name] = ErrorCode.INVALID_REPLICATION_FACTOR
                continue
            errors[name] = ErrorCode.LEADER_NOT_AVAILABLE
            if name not in self._creating:
                self._creating.add(name)
                spawn(self._auto_create_one(name, charge), f"creating the topic {name}")
        return errors

    async def _auto_create_one(self, name: str, charge: Charge) -> None:
        try:
            (outcome,) = await self.create([NewTopic(name)], 0, charge=charge)
            if outcome.error not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_ALREADY_EXISTS):
                log.warning("The topic %s was not created by itself: %s", name, outcome.message or outcome.error.name)
        finally:
            self._creating.discard(name)

    async def _create_one(self, topic: NewTopic, validate_only: bool, charge: Charge) -> TopicOutcome:
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
            partitions = self._defaults.partitions if topic.partitions == -1 else topic.partitions
            factor = topic.replication_factor
            factor = self._defaults.replication_factor if factor == -1 else factor
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
            charge(len(assignment))
            await self._topics.create(
                topic.name,
                TopicAssignment(
                    outcome.topic_id,
                    {index: PartitionAssignment(replicas) for index, replicas in sorted(assignment.items())},
                ),
                configs,
            )
        return outcome

    async def _delete_one(self, name: str, charge: Charge) -> TopicOutcome:
        charge(len(self._metadata.partitions(name)))
        await self._admin_store.create_delete_topic(name)
        return TopicOutcome(name)

    async def _widen_one(self, widening: MorePartitions, validate_only: bool, charge: Charge) -> TopicOutcome:
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
            charge(len(added))
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
            self.waiting.try_complete_else_watch(wait, [outcome.name for outcome in waited])
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
