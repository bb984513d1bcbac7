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
from kafkalite.zk.znodes.groups import decode_generation
from kafkalite.zk.znodes.names import decode_name
from kafkalite.zk.znodes.offsets import TxnProducer
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState

_OFFSET: Final = re.compile(r"^/consumers/([^/]+)/offsets/([^/]+)/(\d+)$")
_CLAIM: Final = re.compile(r"^/consumers/([^/]+)/coordinator$")
_NOTICED: Final = 1.5
"""Seconds that timers, and what is under way, may take besides."""
_GIVEN_UP: Final = 0.5
"""Seconds that timers may take besides in a broker that knows that it is cut off."""
_DECIDED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

OpenTransaction = Callable[[TopicPartition, int, int], str]
"""Of a partition, a producer id and an epoch: which replicas that have to know its end do not, as text; or nothing."""


class _Claim(NamedTuple):
    """One claim on a group; a broker that claims it once more has another one."""

    czxid: int
    broker: str


class _Heard(NamedTuple):
    """Under which ids a member was confirmed: now, and before that, all by the coordinator of one claim."""

    czxid: int
    member: str
    former: frozenset[str]


class _Asked(NamedTuple):
    """How a heartbeat found its group: when, what generation was given out under which claim, and the ids."""

    at: float
    given: tuple[int, int]
    heard: _Heard | None


class _Staged(NamedTuple):
    """An offset that an open transaction has staged: the znode of the transaction, and which of its producer it is."""

    path: str
    producer_id: int
    producer_epoch: int
    start_ms: int


class Surroundings(NamedTuple):
    """What promises are held against: the tree of ZooKeeper, the replicas, the time, since when each broker may not
    have noticed that its session is over, how long a session lives without its client, in seconds, and since when a
    broker knows that it is without ZooKeeper."""

    nodes: Mapping[str, Znode]
    still_open: OpenTransaction
    now: Callable[[], float]
    unaware: Mapping[str, float]
    session_timeout: float
    without_zookeeper_since: Callable[[str], float | None] = lambda _: None


class Promises:
    """``tell`` is called with each breach."""

    def __init__(self, around: Surroundings, tell: Callable[[str], object]) -> None:
        self._around = around
        self._nodes = around.nodes
        self._tell = tell
        self._greatest: dict[tuple[str, str], int] = {}
        self._generations: dict[str, int] = {}
        self._ended_before: dict[tuple[str, str, int, int], int] = {}
        """Commit of a member → the newest generation when it was asked first."""
        self._transactions: dict[str, TransactionMetadata] = {}
        self._staged: dict[str, tuple[int, list[tuple[str, TopicPartition, int]]]] = {}
        """Transactional id → the zxid of its decision to commit, and what it then had staged."""
        self._decided: dict[tuple[int, int], int] = {}
        """Producer id and epoch → transactions that were decided to be committed."""
        self._producers: dict[str, tuple[int, int]] = {}
        self._wrote: dict[str, int] = {}
        """Producer → the transaction in which it sent a record last."""
        self._told: dict[tuple[int, int], int] = {}
        self._given: dict[str, tuple[int, int]] = {}
        """Group → the claim under which a generation was last written, and the generation."""
        self._heard: dict[tuple[str, str], _Heard] = {}
        self._asked: dict[str, _Asked] = {}
        self._lost: dict[tuple[str, str], float] = {}
        """Group and broker → when its claim ended."""
        self._holders: dict[str, str] = {}
        self._acknowledged: dict[tuple[str, str, str], _Staged] = {}
        """Group, partition and transactional id → the transaction that last was told to have staged an offset."""
        self._looks: dict[str, tuple[_Claim | None, dict[str, _Staged]]] = {}
        """Onlooker → the claim on the group, and what was staged, when it asked."""
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

    # What ZooKeeper commits

    def committed(self, zxid: int, changes: Iterable[ZnodeChange]) -> None:
        """A transaction of ZooKeeper."""
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
        """A decision counts as carried out: every partition has its marker, and every group its offsets."""
        where = f"transaction {metadata.transactional_id} of producer {metadata.producer_id} ended"
        for tp in sorted(metadata.partitions):
            who = self._around.still_open(tp, metadata.producer_id, metadata.producer_epoch)
            if who:
                self._tell(f"{where}, and in {tp} it is open on {who}")
        zxid, staged = self._staged.pop(path, (0, []))
        for group, tp, offset in staged:
            node = self._nodes.get(consumers.offset_path(group, tp))
            # Offsets of what is deleted go with it.
            is_kept = consumers.group_path(group) in self._nodes and topics.topic_path(tp.topic) in self._nodes
            is_doomed = admin.delete_topic_path(tp.topic) in self._nodes
            if (node is None or node.mzxid <= zxid) and is_kept and not is_doomed:
                self._tell(f"{where}, and its offset {offset} of {tp} is not that of group {group}")

    # What clients are told

    def is_coordinator(self, group: str, broker: str) -> bool:
        """Whether ``broker`` holds the claim on ``group`` now."""
        claim = self._claim(group)
        return claim is not None and claim.broker == broker

    def note(self, event: Event) -> None:
        """What a client did, or was told."""
        take = self._takers.get(type(event))
        if take is not None:
            take(event)

    def _owned(self, event: Owned) -> None:
        """A member was told its assignment."""
        stored = self._generations.get(event.group, 0)
        if stored < event.generation:
            self._tell(
                f"group {event.group}: {event.owner} was told its assignment in generation {event.generation}, "
                f"ZooKeeper has {stored}"
            )

    def _heartbeating(self, event: Heartbeating) -> None:
        given, heard = self._given.get(event.group, (0, 0)), self._heard.get((event.group, event.owner))
        self._asked[event.member] = _Asked(self._around.now(), given, heard)

    def _heartbeat(self, event: Heartbeat) -> None:
        """A coordinator confirmed a member. While it loads a group it confirms all, but not after it wrote a generation
        under the same claim."""
        asked, claim = self._asked.pop(event.member), self._claim(event.group)
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
        """The coordinator notices after two thirds of the session timeout that ZooKeeper is silent, and then gives its
        groups one session timeout more; ZooKeeper ended its claim after one."""
        lost = self._lost.get((event.group, event.broker))
        if lost is None:
            return
        timeout = self._around.session_timeout
        suspended_at = self._around.without_zookeeper_since(event.broker)
        if suspended_at is not None and asked_at - suspended_at > timeout + _GIVEN_UP:
            self._tell(f"{who} was confirmed by {event.broker}, without ZooKeeper for {asked_at - suspended_at:.1f} s")
            return
        since = max(lost, self._around.unaware.get(event.broker, -timeout) + timeout)
        if asked_at - since > timeout * 2 / 3 + _NOTICED:
            self._tell(f"{who} was confirmed by {event.broker}, whose claim had ended {asked_at - lost:.1f} s before")

    def _offset_staged(self, event: OffsetStaged) -> None:
        """A producer was told that its offset is staged; before that, who asks may be shown what was there before."""
        for path, metadata in self._transactions.items():
            if metadata.transactional_id == event.transactional_id and metadata.state is TransactionState.ONGOING:
                self._acknowledged[event.group, event.partition, event.transactional_id] = _staged_in(path, metadata)

    def _fetching(self, event: OffsetFetching) -> None:
        """Any offset that is staged now, in a transaction that stays open, may not be passed over by the answer."""
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
        """A member asks for a commit, perhaps once more."""
        if event.generation >= 0:
            self._ended_before.setdefault(event, self._generations.get(event.group, 0))

    def _offset_committed(self, event: OffsetCommitted) -> None:
        """A member was told that its offset is committed (one of a transaction is staged first, and copied later)."""
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
        """A producer was given an epoch."""
        self._producers[event.producer] = event.producer_id, event.epoch

    def _sent(self, event: Sent) -> None:
        """A producer sends a record."""
        if event.transaction >= 0:
            self._wrote[event.record.producer] = event.transaction

    def _transaction_committed(self, event: Committed) -> None:
        """A producer was told that its transaction is committed; one without records needs no decision."""
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
