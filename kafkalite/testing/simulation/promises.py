"""The answers of the coordinators of groups and transactions, compared with ZooKeeper and the logs at that moment.

Answers to: nothing in Kafka. Pure: a fold over the committed changes of znodes and the events of clients.

A coordinator answers once the offset, generation, decision or marker of the answer is durable. A premature answer
shows to clients only if the coordinator dies in the moment between; here it shows at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafkalite.common.types import TopicPartition
from kafkalite.testing.history.events import (
    Committed,
    Event,
    Heartbeat,
    Heartbeating,
    Initialized,
    OffsetCommitted,
    OffsetCommitting,
    OffsetFetched,
    OffsetFetching,
    OffsetStaged,
    Owned,
    Sent,
)
from kafkalite.testing.simulation.invariants import GENERATION_PATH, TRANSACTION_PATH, Kind, ZnodeChange
from kafkalite.testing.znodes import Znode
from kafkalite.zk.znodes import admin, claims, consumers, offsets, topics, transactions
from kafkalite.zk.znodes.codec import decode_name
from kafkalite.zk.znodes.groups import decode_generation
from kafkalite.zk.znodes.offsets import TxnProducer
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState

_OFFSET: Final = re.compile(r"^/consumers/([^/]+)/offsets/([^/]+)/(\d+)$")
_CLAIM: Final = re.compile(r"^/consumers/([^/]+)/coordinator$")
_NOTICED: Final = 1.5
"""Seconds that timers and outstanding requests may take in addition."""
_GIVEN_UP: Final = 0.5
"""Seconds that timers may take in addition in a broker that knows that it is cut off."""
_DECIDED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

OpenTransaction = Callable[[TopicPartition, int, int], str]
"""Partition, producer id, epoch → the replicas in whose logs the transaction is wrongly open, as text; or empty."""


class _Claim(NamedTuple):
    """One claim on a group; each claim of a broker is a separate one."""

    czxid: int
    broker: str


class _Heard(NamedTuple):
    """Ids under which a coordinator has confirmed a member under one claim: the current one, and the earlier ones."""

    czxid: int
    member: str
    former: frozenset[str]


class _Asked(NamedTuple):
    """State of a group when a heartbeat was sent: time, last generation with its claim, and member ids."""

    at: float
    given: tuple[int, int]
    heard: _Heard | None


class _Staged(NamedTuple):
    """An offset that an open transaction has staged: the znode of the transaction, and its number at its producer."""

    path: str
    producer_id: int
    producer_epoch: int
    start_ms: int


class Surroundings(NamedTuple):
    """The state with which promises are compared: ZooKeeper's tree, the replicas, the time, the time since which each
    broker may hold an ended session, the session timeout in seconds, and the time since which a broker knows that it
    has no connection to ZooKeeper."""

    nodes: Mapping[str, Znode]
    still_open: OpenTransaction
    now: Callable[[], float]
    unaware: Mapping[str, float]
    session_timeout: float
    without_zookeeper_since: Callable[[str], float | None] = lambda _: None


class Promises:
    """Checks the answers of coordinators; ``tell`` is called with each violation."""

    def __init__(self, around: Surroundings, tell: Callable[[str], object]) -> None:
        self._around = around
        self._nodes = around.nodes
        self._tell = tell
        self._greatest: dict[tuple[str, str], int] = {}
        self._generations: dict[str, int] = {}
        self._reached: dict[str, int] = {}
        """Group → the highest generation that ZooKeeper has ever had of it, also before the group was removed."""
        self._ended_before: dict[tuple[str, str, int, int], int] = {}
        """Commit of a member → the newest generation at its first request."""
        self._transactions: dict[str, TransactionMetadata] = {}
        self._staged: dict[str, tuple[int, list[tuple[str, TopicPartition, int]]]] = {}
        """Transactional id → the zxid of its decision to commit, and its staged offsets at that time."""
        self._decided: dict[tuple[int, int], int] = {}
        """Producer id and epoch → number of transactions with a decision to commit."""
        self._producers: dict[str, tuple[int, int]] = {}
        self._wrote: dict[str, int] = {}
        """Producer → the last transaction in which it sent a record."""
        self._told: dict[tuple[int, int], int] = {}
        self._given: dict[str, tuple[int, int]] = {}
        """Group → the claim under which its last generation was written, and the generation."""
        self._heard: dict[tuple[str, str], _Heard] = {}
        self._asked: dict[tuple[str, int], _Asked] = {}
        """Member id and generation of a heartbeat without an answer → the state of the group when it was sent."""
        self._lost: dict[tuple[str, str], float] = {}
        """Group and broker → time at which the broker's claim ended."""
        self._holders: dict[str, str] = {}
        self._acknowledged: dict[tuple[str, str, str], _Staged] = {}
        """Group, partition and transactional id → the last transaction with an acknowledged staged offset."""
        self._looks: dict[str, tuple[_Claim | None, dict[str, _Staged]]] = {}
        """Onlooker → the claim on the group, and the staged offsets, at its request."""
        self._takers: dict[type, Callable[[Any], None]] = {
            Owned: self._owned,
            Heartbeating: self._heartbeating,
            Heartbeat: self._heartbeat,
            OffsetStaged: self._offset_staged,
            OffsetFetching: self._fetching,
            OffsetFetched: self._fetched,
            OffsetCommitting: self._offset_committing,
            OffsetCommitted: self._offset_committed,
            Initialized: self._initialized,
            Sent: self._sent,
            Committed: self._transaction_committed,
        }

    # Transactions of ZooKeeper

    def committed(self, zxid: int, changes: Iterable[ZnodeChange]) -> None:
        """ZooKeeper has committed a transaction."""
        for change in changes:
            path = change.path
            if path.startswith("/consumers/"):
                self._group_changed(path, change)
            elif match := TRANSACTION_PATH.match(path):
                self._transaction_changed(zxid, path, match[1], change)

    def _group_changed(self, path: str, change: ZnodeChange) -> None:
        if match := _OFFSET.match(path):
            key = decode_name(match[1]), f"{decode_name(match[2])}-{match[3]}"
            if change.kind is Kind.DELETED:
                self._greatest.pop(key, None)
            else:
                offset = consumers.decode_offset(path, change.data)
                self._greatest[key] = max(offset, self._greatest.get(key, -1))
        elif match := _CLAIM.match(path):
            self._claimed(match[1], path, change)
        elif match := GENERATION_PATH.match(path):
            self._generation_changed(decode_name(match[1]), path, change)

    def _generation_changed(self, group: str, path: str, change: ZnodeChange) -> None:
        if change.kind is Kind.DELETED:
            self._generations.pop(group, None)
            self._given.pop(group, None)
            self._ended_before = {key: newest for key, newest in self._ended_before.items() if key[0] != group}
            return
        number = self._generations[group] = decode_generation(path, change.data).number
        self._reached[group] = max(number, self._reached.get(group, 0))
        claim = self._claim(group)
        if claim is not None:
            self._given[group] = claim.czxid, number

    def _claimed(self, name: str, path: str, change: ZnodeChange) -> None:
        group = decode_name(name)
        if change.kind is Kind.DELETED:
            self._lost[group, self._holders.pop(group, "")] = self._around.now()
        else:
            broker = self._holders[group] = _host(claims.decode_claim(path, change.data))
            self._lost.pop((group, broker), None)

    def _claim(self, group: str) -> _Claim | None:
        path = claims.COORDINATOR_CLAIM.claim_path(consumers.group_path(group))
        node = self._nodes.get(path)
        return None if node is None else _Claim(node.czxid, _host(claims.decode_claim(path, node.data)))

    def _transaction_changed(self, zxid: int, path: str, name: str, change: ZnodeChange) -> None:
        before = self._transactions.pop(path, None)
        if change.kind is Kind.DELETED or not change.data:
            return
        now = self._transactions[path] = transactions.decode_transaction(path, change.data, decode_name(name))
        was = None if before is None else before.state
        if now.state is TransactionState.PREPARE_COMMIT and was is not now.state:
            producer = now.producer_id, now.producer_epoch
            self._decided[producer] = self._decided.get(producer, 0) + 1
            self._staged[path] = zxid, self._staged_by(now)
        if before is not None and was in _DECIDED and now.state not in _DECIDED:
            self._ended(path, before)

    def _staged_by(self, metadata: TransactionMetadata) -> list[tuple[str, TopicPartition, int]]:
        found = []
        for group in sorted(metadata.groups):
            above = offsets.staged_path(group)
            node = self._nodes.get(above)
            for name in () if node is None else node.children:
                staged = offsets.decode_staged(f"{above}/{name}", self._nodes[f"{above}/{name}"].data)
                producer = staged.producer
                if (producer.producer_id, producer.producer_epoch) == (metadata.producer_id, metadata.producer_epoch):
                    found += [(group, tp, value.offset) for tp, value in staged.offsets.items()]
        return found

    def _ended(self, path: str, metadata: TransactionMetadata) -> None:
        """A transaction is complete: every partition must have its marker, and every group its offsets."""
        where = f"transaction {metadata.transactional_id} of producer {metadata.producer_id} ended"
        for tp in sorted(metadata.partitions):
            who = self._around.still_open(tp, metadata.producer_id, metadata.producer_epoch)
            if who:
                self._tell(f"{where}, and in {tp} it is open on {who}")
        zxid, staged = self._staged.pop(path, (0, []))
        for group, tp, offset in staged:
            node = self._nodes.get(consumers.offset_path(group, tp))
            # Offsets of deleted groups and topics do not count.
            is_kept = consumers.group_path(group) in self._nodes and topics.topic_path(tp.topic) in self._nodes
            is_doomed = admin.delete_topic_path(tp.topic) in self._nodes
            if (node is None or node.mzxid <= zxid) and is_kept and not is_doomed:
                self._tell(f"{where}, and its offset {offset} of {tp} is not that of group {group}")

    # Answers to clients

    def is_coordinator(self, group: str, broker: str) -> bool:
        """Whether ``broker`` holds the claim on ``group`` now."""
        claim = self._claim(group)
        return claim is not None and claim.broker == broker

    def note(self, event: Event) -> None:
        """Handle an event of a client."""
        take = self._takers.get(type(event))
        if take is not None:
            take(event)

    def _owned(self, event: Owned) -> None:
        """A member got its assignment, perhaps late: it may have slept until its group was empty and removed."""
        reached = self._reached.get(event.group, 0)
        if reached < event.generation:
            self._tell(
                f"group {event.group}: {event.owner} was told its assignment in generation {event.generation}, "
                f"ZooKeeper has had {reached} at most"
            )

    def _heartbeating(self, event: Heartbeating) -> None:
        given, heard = self._given.get(event.group, (0, 0)), self._heard.get((event.group, event.owner))
        self._asked[event.member, event.generation] = _Asked(self._around.now(), given, heard)

    def _heartbeat(self, event: Heartbeat) -> None:
        """A coordinator confirmed a member. It may confirm any member while it loads the group, but not after it wrote
        a generation under the same claim."""
        asked, claim = self._asked.pop((event.member, event.generation)), self._claim(event.group)
        who = f"group {event.group}: {event.owner} ({event.member}) in generation {event.generation}"
        if claim is None or claim.broker != event.broker:
            self._confirmed_without_claim(event, asked.at, who)
            return
        czxid, generation = asked.given
        if czxid == claim.czxid and event.generation < generation:
            self._tell(f"{who} was confirmed by {event.broker}, which had begun generation {generation}")
        key, heard = (event.group, event.owner), asked.heard
        former: frozenset[str] = frozenset()
        if heard is not None and heard.czxid == claim.czxid:
            if event.member in heard.former:
                self._tell(f"{who} was confirmed by {event.broker}, which had confirmed {heard.member} instead of it")
            former = self._heard[key].former
            if heard.member != event.member and heard.member == self._heard[key].member:
                former |= {heard.member}
        self._heard[key] = _Heard(claim.czxid, event.member, former)

    def _confirmed_without_claim(self, event: Heartbeat, asked_at: float, who: str) -> None:
        """A coordinator may confirm members for a time after ZooKeeper has ended its claim: it notices a silent
        ZooKeeper after two thirds of the session timeout, and gives up its groups one session timeout later. Until then
        it also confirms members of groups that it would have to load first."""
        lost = self._lost.get((event.group, event.broker))
        if lost is None:
            return
        timeout = self._around.session_timeout
        suspended_at = self._around.without_zookeeper_since(event.broker)
        if suspended_at is not None:
            silent = asked_at - suspended_at
            if silent > timeout + _GIVEN_UP:
                self._tell(f"{who} was confirmed by {event.broker}, without ZooKeeper for {silent:.1f} s")
            return
        since = max(lost, self._around.unaware.get(event.broker, -timeout) + timeout)
        if asked_at - since > timeout * 2 / 3 + _NOTICED:
            self._tell(f"{who} was confirmed by {event.broker}, whose claim had ended {asked_at - lost:.1f} s before")

    def _offset_staged(self, event: OffsetStaged) -> None:
        """A producer got the acknowledgement of a staged offset; readers before it may get the older offset."""
        for path, metadata in self._transactions.items():
            if metadata.transactional_id == event.transactional_id and metadata.state is TransactionState.ONGOING:
                self._acknowledged[event.group, event.partition, event.transactional_id] = _staged_in(path, metadata)

    def _fetching(self, event: OffsetFetching) -> None:
        """An onlooker requests offsets; the answer must regard all offsets that are staged now, if their transactions
        stay open."""
        found: dict[str, _Staged] = {}
        above = offsets.staged_path(event.group)
        node = self._nodes.get(above)
        for name in () if node is None else node.children:
            staged = offsets.decode_staged(f"{above}/{name}", self._nodes[f"{above}/{name}"].data)
            for path, metadata in self._transactions.items():
                if _identity(metadata) == staged.producer and metadata.state is TransactionState.ONGOING:
                    mark = _staged_in(path, metadata)
                    for tp in map(str, staged.offsets):
                        if self._acknowledged.get((event.group, tp, metadata.transactional_id)) == mark:
                            found[tp] = mark
        self._looks[event.onlooker] = self._claim(event.group), found

    def _fetched(self, event: OffsetFetched) -> None:
        claim, staged = self._looks.get(event.onlooker, (None, {}))
        mark = staged.get(event.partition)
        if mark is None or claim is None or claim.broker != event.broker or claim != self._claim(event.group):
            return
        now = self._transactions.get(mark.path)
        if now is None or now.state is not TransactionState.ONGOING:
            return
        if mark == _staged_in(mark.path, now):
            self._tell(
                f"group {event.group} in {event.partition}: offset {event.offset} was shown to {event.onlooker}, while "
                f"the transaction {now.transactional_id} was open, which had staged another"
            )

    def _offset_committing(self, event: OffsetCommitting) -> None:
        """A member requests a commit, perhaps repeatedly."""
        if event.generation >= 0:
            self._ended_before.setdefault(event, self._generations.get(event.group, 0))

    def _offset_committed(self, event: OffsetCommitted) -> None:
        """A member got the acknowledgement of a commit (a transaction's offset is staged first, and copied later)."""
        newest = self._ended_before.pop(event, -1)
        if newest > event.generation >= 0:
            self._tell(
                f"group {event.group} in {event.partition}: the commit of offset {event.offset} in generation "
                f"{event.generation} was acknowledged, which had ended: ZooKeeper had generation {newest}"
            )
        stored = self._greatest.get((event.group, event.partition), -1)
        if event.generation >= 0 and stored < event.offset:
            self._tell(
                f"group {event.group} in {event.partition}: the commit of offset {event.offset} was acknowledged, "
                f"ZooKeeper has had {stored} at most"
            )

    def _initialized(self, event: Initialized) -> None:
        """A producer got its id and epoch."""
        self._producers[event.producer] = event.producer_id, event.epoch

    def _sent(self, event: Sent) -> None:
        """A producer sends a record."""
        if event.transaction >= 0:
            self._wrote[event.record.producer] = event.transaction

    def _transaction_committed(self, event: Committed) -> None:
        """A producer got the acknowledgement of its commit; a transaction without records needs no decision."""
        producer = self._producers.get(event.producer)
        if producer is None or self._wrote.get(event.producer) != event.transaction:
            return
        told = self._told[producer] = self._told.get(producer, 0) + 1
        if self._decided.get(producer, 0) < told:
            self._tell(
                f"transaction {event.transaction} of {event.producer} was answered as committed, "
                f"ZooKeeper has {self._decided.get(producer, 0)} decisions of producer {producer}, not {told}"
            )


def _host(broker: int) -> str:
    return f"broker-{broker}"


def _identity(metadata: TransactionMetadata) -> TxnProducer:
    return TxnProducer(metadata.transactional_id, metadata.producer_id, metadata.producer_epoch)


def _staged_in(path: str, metadata: TransactionMetadata) -> _Staged:
    return _Staged(path, metadata.producer_id, metadata.producer_epoch, metadata.start_ms)
