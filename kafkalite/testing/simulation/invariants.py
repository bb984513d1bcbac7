"""The rules for every transaction that ZooKeeper commits, checked while a history runs.

Answers to: nothing in Kafka. Pure: a fold over the committed changes of znodes.

Each rule follows from the fencing of writers in ZooKeeper mode: a lowered epoch, a leader outside its ISR or a claim
without a higher epoch would show that a fenced broker still writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, NamedTuple

from kafkalite.cluster.model import PartitionAssignment
from kafkalite.common.types import NO_LEADER, TopicPartition
from kafkalite.zk.zk_client import Create, Delete, SetData, ZnodeStat
from kafkalite.zk.znodes import brokers, claims, cluster, topics, transactions
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.groups import decode_generation
from kafkalite.zk.znodes.topics import TopicAssignment

STATE_PATH: Final = re.compile(r"^/brokers/topics/([^/]+)/partitions/(\d+)/state$")
TOPIC_PATH: Final = re.compile(r"^/brokers/topics/([^/]+)$")
_BROKER: Final = re.compile(r"^/brokers/ids/(\d+)$")
TRANSACTION_PATH: Final = re.compile(r"^/transactions/\d+/ids/([^/]+)$")
GENERATION_PATH: Final = re.compile(r"^/consumers/([^/]+)/generation$")
_CLAIM: Final = "/coordinator"
_CLAIM_EPOCH: Final = "/coordinator_epoch"


class Kind(Enum):
    """The change of a znode."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


class ZnodeChange(NamedTuple):
    """One znode after a committed transaction; ``data`` is empty if the znode was deleted."""

    kind: Kind
    path: str
    data: bytes = b""


def znode_change(op: Create | SetData | Delete) -> ZnodeChange:
    """The change of a committed operation."""
    if isinstance(op, Delete):
        return ZnodeChange(Kind.DELETED, op.path)
    return ZnodeChange(Kind.CREATED if isinstance(op, Create) else Kind.CHANGED, op.path, op.data)


def is_state(path: str) -> bool:
    """Whether ``path`` is the path of a partition's state."""
    return STATE_PATH.match(path) is not None


class _Led(NamedTuple):
    leader: int
    leader_epoch: int
    controller_epoch: int


class ZnodeInvariants:
    """Keeps the parts of the tree that the rules need; :meth:`committed` returns the violations of a transaction.

    ``shortened``: the brokers that have lost power since they registered, with their sessions; a broker is removed when
    it registers in another session.
    """

    def __init__(self, shortened: dict[int, int] | None = None) -> None:
        self._shortened = {} if shortened is None else shortened
        self._assignments: dict[str, TopicAssignment] = {}
        self._states: dict[str, _Led] = {}
        self._dropped: dict[TopicPartition, set[int]] = {}
        """The replicas that another target dropped since the leader epoch last rose: the leader may not know it yet."""
        self._in_sync: dict[TopicPartition, tuple[int, ...]] = {}
        """The target of a running reassignment, once all of its replicas have been in the ISR."""
        self._numbers: dict[str, int] = {}
        self._producers: dict[str, tuple[int, int]] = {}
        self._found: list[str] = []
        self._session = 0
        """The session of the checked transaction."""
        self._takers: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], ZnodeChange], None]], ...] = (
            (TOPIC_PATH, self._topic),
            (STATE_PATH, self._state),
            (TRANSACTION_PATH, self._transaction),
            (GENERATION_PATH, self._generation),
            (_BROKER, self._broker),
        )

    def committed(self, zxid: int, session: int, changes: Iterable[ZnodeChange]) -> list[str]:
        """The violations in the transaction ``zxid`` of ``session``, a line each; empty if all rules hold."""
        self._found = []
        self._session = session
        changed = list(changes)
        paths = {change.path for change in changed if change.kind is not Kind.DELETED}
        for change in changed:
            try:
                self._take(change, paths)
            except MalformedZnodeError as error:
                self._found.append(f"malformed: {error}")
        return [f"zxid {zxid:#x}: {line}" for line in self._found]

    def _take(self, change: ZnodeChange, paths: set[str]) -> None:
        path = change.path
        if path == claims.CONTROLLER_EPOCH:
            # Equal is allowed without a claim, because a controller writes its epoch again after a lost connection.
            self._ascends(change, may_stay=claims.CONTROLLER not in paths)
        elif path.endswith(_CLAIM_EPOCH):
            self._ascends(change)
        elif path == cluster.LATEST_BLOCK:
            self._block(change)
        elif change.kind is Kind.CREATED and path == claims.CONTROLLER:
            self._claims(path, claims.CONTROLLER_EPOCH, paths)
        elif change.kind is Kind.CREATED and path.endswith(_CLAIM):
            self._claims(path, path.removesuffix(_CLAIM) + _CLAIM_EPOCH, paths)
        else:
            for pattern, take in self._takers:
                match = pattern.match(path)
                if match is not None:
                    take(match, change)

    def _broker(self, match: re.Match[str], change: ZnodeChange) -> None:
        number = int(match[1])
        if change.kind is Kind.DELETED or self._shortened.get(number, self._session) == self._session:
            # In the same session the registration was sent before the power loss and committed after it.
            return
        del self._shortened[number]
        before = brokers.decode_broker(number, change.data, _UNKNOWN_EPOCH).unclean_start_epoch
        if before != _UNKNOWN_EPOCH:
            self._found.append(
                f"broker {number} lost power and registered with its unclean start epoch of before, {before}"
            )

    def _claims(self, path: str, epoch_path: str, paths: set[str]) -> None:
        if epoch_path not in paths:
            self._found.append(f"{path} was claimed in a transaction that does not raise {epoch_path}")

    def _ascends(self, change: ZnodeChange, *, may_stay: bool = False) -> None:
        path = change.path
        if change.kind is Kind.DELETED:
            self._numbers.pop(path, None)
            return
        try:
            number = int(change.data)
        except ValueError:
            raise MalformedZnodeError(f"{path}: not a number: {change.data!r}") from None
        before = self._numbers.get(path)
        if before is not None and number <= before - may_stay:
            self._found.append(f"{path} went from {before} to {number}")
        self._numbers[path] = number

    def _generation(self, match: re.Match[str], change: ZnodeChange) -> None:
        path = match[0]
        if change.kind is Kind.DELETED:
            self._numbers.pop(path, None)
            return
        number = decode_generation(path, change.data).number
        before = self._numbers.get(path, 0)
        if number < before:
            self._found.append(f"{path}: the generation went from {before} to {number}")
        self._numbers[path] = number

    def _block(self, change: ZnodeChange) -> None:
        if change.kind is Kind.DELETED or not change.data:
            return
        block = cluster.decode_block(change.data)
        before = self._numbers.get(change.path, -1)
        if block.start <= before:
            self._found.append(f"{change.path}: the block {block.start}..{block.end} begins below {before + 1}")
        self._numbers[change.path] = block.end

    def _topic(self, match: re.Match[str], change: ZnodeChange) -> None:
        topic = match[1]
        if change.kind is Kind.DELETED:
            gone = self._assignments.pop(topic, None)
            for partition in () if gone is None else gone.partitions:
                self._in_sync.pop(TopicPartition(topic, partition), None)
                self._dropped.pop(TopicPartition(topic, partition), None)
            return
        assignment = topics.decode_topic(topic, change.data)
        before = self._assignments.get(topic)
        for partition, was in () if before is None else before.partitions.items():
            now = assignment.partitions.get(partition)
            if now is not None and was.is_being_reassigned and now != was:
                self._reassigned(TopicPartition(topic, partition), was, now)
        if before is not None and before.topic_id is not None and assignment.topic_id != before.topic_id:
            self._found.append(f"topic {topic}: the topic id changed from {before.topic_id} to {assignment.topic_id}")
        self._assignments[topic] = assignment

    def _reassigned(self, tp: TopicPartition, was: PartitionAssignment, now: PartitionAssignment) -> None:
        in_sync = self._in_sync.pop(tp, ())
        if now.replicas != was.target:
            self._dropped.setdefault(tp, set()).update(set(was.replicas) - set(now.replicas))
        is_complete = not now.is_being_reassigned and now.replicas == was.target != was.origin
        if is_complete and set(in_sync) != set(was.target):
            self._found.append(
                f"{tp}: the reassignment to {list(was.target)} completed, never were all of them in sync"
            )

    def _state(self, match: re.Match[str], change: ZnodeChange) -> None:
        tp = TopicPartition(match[1], int(match[2]))
        if change.kind is Kind.DELETED:
            self._states.pop(change.path, None)
            return
        state = topics.decode_state(tp, change.data, _NO_STAT)
        if not state.isr:
            self._found.append(f"{tp}: the ISR is empty")
        if len(set(state.isr)) != len(state.isr):
            self._found.append(f"{tp}: the ISR {list(state.isr)} names a broker twice")
        if state.leader != NO_LEADER and state.leader not in state.isr:
            self._found.append(f"{tp}: the leader {state.leader} is not in the ISR {list(state.isr)}")
        assignment = self._assignments.get(tp.topic)
        replicas = assignment.partitions.get(tp.partition) if assignment is not None else None
        led = _Led(state.leader, state.leader_epoch, state.controller_epoch)
        before = self._states.get(change.path)
        if before is not None and led.leader_epoch > before.leader_epoch:
            self._dropped.pop(tp, None)
        if replicas is not None and not set(state.isr) <= {*replicas.replicas, *self._dropped.get(tp, ())}:
            self._found.append(f"{tp}: the ISR {list(state.isr)} is not within the replicas {list(replicas.replicas)}")
        if replicas is not None and replicas.is_being_reassigned and set(replicas.target) <= set(state.isr):
            self._in_sync[tp] = replicas.target
        self._states[change.path] = led
        if before is None:
            return
        if led.leader_epoch < before.leader_epoch:
            self._found.append(f"{tp}: the leader epoch went from {before.leader_epoch} to {led.leader_epoch}")
        if led.controller_epoch < before.controller_epoch:
            self._found.append(
                f"{tp}: the controller epoch went from {before.controller_epoch} to {led.controller_epoch}"
            )
        if led.leader_epoch == before.leader_epoch and led.leader not in (before.leader, NO_LEADER):
            self._found.append(
                f"{tp}: brokers {before.leader} and {led.leader} both lead in leader epoch {led.leader_epoch}"
            )

    def _transaction(self, match: re.Match[str], change: ZnodeChange) -> None:
        path = match[0]
        if change.kind is Kind.DELETED:
            self._producers.pop(path, None)
            return
        if not change.data:
            return  # created for a producer whose InitProducerId is in progress
        metadata = transactions.decode_transaction(path, change.data, match[1])
        producer = metadata.producer_id, metadata.producer_epoch
        before = self._producers.get(path)
        if before is not None and before[0] == producer[0] and producer[1] < before[1]:
            self._found.append(f"{path}: the epoch of producer {producer[0]} went from {before[1]} to {producer[1]}")
        self._producers[path] = producer


_UNKNOWN_EPOCH: Final = -1
_NO_STAT: Final = ZnodeStat(0, 0, 0)
