"""Changes of ISRs: which followers join and leave, the writes to ZooKeeper, and writes with an unknown outcome.

Answers to: ``kafka.server.{ZkAlterPartitionManager,ReplicaManager}``'s ISR shrinking and ``IsrChangePropagator``.
Deterministic.

A partition has at most one outstanding write. ZooKeeper acknowledges it; or refuses it, because the controller wrote
the znode or the session of the write is over; or its outcome is unknown, because the connection was lost. After a
refused write the leader reads the znode. After a write with an unknown outcome it writes the state of before, against
the same version: if that write is accepted, the lost write can never take effect; if it is refused, a read shows what
took effect. (A read alone proves nothing: the lost write may still be on its way, or the ZooKeeper server may lag
behind.) Both are repeated until they succeed, and until then the maximal ISR counts. While the session is suspended no
change begins. The end of the session itself ends this broker's right to lead.

A leader that will be alone in the ISR syncs its log first. Otherwise it would be the only replica that may be elected,
and a loss of power would take acknowledged records from it that the former follower still has. Kafka loses them in this
case (KIP-966 calls it the last replica standing).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.clock import Clock, Timer
from kafkalite.common.events import EventKind, EventRecorder, ignore_event
from kafkalite.common.tasks import Future, gather, sleep, spawn
from kafkalite.common.types import TopicPartition
from kafkalite.log.log import Log
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.delayed_operations import Completed, complete
from kafkalite.replication.high_watermark_stalls import HighWatermarkStalls
from kafkalite.replication.isr import IsrState, IsrStatus
from kafkalite.replication.partition import FollowerState, Partition, Role
from kafkalite.replication.partition_table import PartitionTable
from kafkalite.replication.replication_config import ReplicationConfig
from kafkalite.zk.stores.topics import IsrStore
from kafkalite.zk.zk_client import BadVersionError, ConnectionLostError, NoNodeError, SessionExpiredError, ZkError
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)

_RECHECK_SECONDS = 0.25
_JOINING_SECONDS = 3.0
_REREAD_SECONDS = 0.5


class IsrUpdates:
    """Shrinks and expands the ISRs of the partitions that this broker leads.

    ``flush_to_end`` forces a log to the disk, and says whether it succeeded.
    ``on_newer`` is called with a state in ZooKeeper that has a newer leader epoch than the partition.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        replicas: PartitionTable,
        isr: IsrStore,
        flush_to_end: Callable[[Log], Awaitable[bool]],
        broker_epoch: BrokerEpoch,
        clock: Clock,
        on_newer: Callable[[LeaderAndIsr], object],
        record: EventRecorder = ignore_event,
    ) -> None:
        self._record = record
        self._stalls = HighWatermarkStalls(record)
        self._config = config
        self._replicas = replicas
        self._isr = isr
        self._flush_to_end = flush_to_end
        self._clock = clock
        self._max_lag = config.replica_lag_time_max_ms / 1000
        self._on_newer = on_newer
        self._broker_epoch = broker_epoch
        self.connected = True
        self._candidates: dict[tuple[TopicPartition, int], None] = {}
        self._unknown: dict[Partition, IsrState] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._recheck: Timer | None = None
        self._notify: Timer | None = None
        self._lag_check: Timer | None = None
        self._writes: dict[Future[None], TopicPartition] = {}
        self._lost: set[TopicPartition] = set()
        """Whose writes of this session may still take effect, because the connection was lost before their answer."""
        self._closed = False

    def start(self) -> None:
        """Begin to look for slow followers, twice in each ``replica.lag.time.max.ms``."""
        self._lag_check = self._clock.call_later(self._max_lag / 2, self._check_lag)

    def close(self) -> None:
        """Begin no more changes; :meth:`written` waits for the outstanding writes."""
        self._closed = True
        self.connected = False
        for timer in (self._recheck, self._notify, self._lag_check):
            if timer is not None:
                timer.cancel()

    async def written(self) -> None:
        """Wait until no write is outstanding."""
        await gather(list(self._writes))

    async def settled(self, tp: TopicPartition) -> None:
        """Wait until no write of a stopped partition can take effect any more.

        Only then may its topic be deleted. The znodes of a new topic with the same name have the same versions, so that
        ZooKeeper would take a late write for the former topic.
        """
        await gather([over for over, written in self._writes.items() if written == tp])
        while tp in self._lost and not self._closed:
            try:
                # ZooKeeper decides on it after every write that this session sent on an earlier connection.
                await self._isr.catch_up()
            except ZkError as error:
                log.info("%s: an ISR change may still take effect: %s", tp, error)
                await sleep(self._clock, _REREAD_SECONDS)
            else:
                self._lost.discard(tp)

    # Session

    def suspended(self) -> None:
        """The connection is lost: change nothing until it is back."""
        self.connected = False

    def resumed(self) -> None:
        """The connection is back, in the same session or another: settle the writes with an unknown outcome."""
        if self._closed:
            return
        self.connected = True
        unknown, self._unknown = self._unknown, {}
        for partition, pending in unknown.items():
            spawn(self._settle(partition, pending), f"settling the ISR of {partition.topic_partition}")
        self.look_again()
        self.drop_departed(self._replicas.leaders())

    def expired(self) -> None:
        """The session is over: this broker leads nothing any more, and its earlier changes no longer count."""
        self.connected = False
        self._unknown.clear()
        self._lost.clear()
        self._candidates.clear()
        self._changed.clear()

    # Expanding

    def consider(self, partition: Partition, follower: FollowerState) -> None:
        """Let a follower outside the maximal ISR, which has fetched, join the ISR if it may."""
        replica = follower.broker_id
        if not self._is_eligible(partition, follower):
            if partition.is_in_sync(follower):
                self._look_later(partition, replica)
            return
        caught_up = self._clock.monotonic() - follower.last_caught_up <= min(self._max_lag, _JOINING_SECONDS)
        if self.connected and not partition.isr.is_pending and partition.is_in_sync(follower):
            self._candidates.pop((partition.topic_partition, replica), None)
            self._write(partition, partition.isr.expand(replica))
            return
        partition.set_joining(replica, caught_up and self.connected)
        if replica in partition.joining or partition.is_in_sync(follower):
            self._look_later(partition, replica)

    def _is_eligible(self, partition: Partition, follower: FollowerState) -> bool:
        # KIP-903: only this life of the broker may join; the log of an earlier one may have been lost.
        broker = self._replicas.metadata.broker(follower.broker_id)
        if broker is None or follower.broker_epoch not in (-1, broker.epoch):
            return False
        # A reassignment completes when its whole target is in sync. The leader then learns of the ISR that the
        # controller writes before it learns of the new assignment, so that a removed replica would stay in the ISR.
        assignment, in_sync = partition.state.assignment, partition.isr.committed
        is_removed = follower.broker_id in assignment.removing
        return not is_removed or any(replica not in in_sync for replica in assignment.target)

    def _look_later(self, partition: Partition, replica: int) -> None:
        self._candidates[partition.topic_partition, replica] = None
        if self._recheck is None and not self._closed:
            self._recheck = self._clock.call_later(_RECHECK_SECONDS, self.look_again)

    def look_again(self) -> None:
        """Consider again the followers that could not join when they fetched."""
        if self._recheck is not None:
            self._recheck.cancel()
            self._recheck = None
        candidates, self._candidates = self._candidates, {}
        changes: list[Completed] = []
        for tp, replica in candidates:
            partition = self._replicas.partitions.get(tp)
            if partition is None or partition.role is not Role.LEADER:
                continue
            follower = partition.followers.get(replica)
            if follower is None or replica in partition.isr.maximal:
                continue
            self.consider(partition, follower)
            if replica in partition.joining and not self._is_eligible(partition, follower):
                partition.set_joining(replica, False)
            completed = partition.advance_high_watermark()
            if completed is not None:
                changes.append(completed)
        complete(changes)

    # Shrinking

    def drop_departed(self, partitions: Iterable[Partition]) -> None:
        """Shrink the ISR to the leader alone if no other member is registered any more.

        The controller leaves this to the leader, because only a leader that lives may be the last member of an ISR.
        """
        metadata, me = self._replicas.metadata, self._replicas.broker_id
        if not self.connected or self._closed or not metadata.alive(me):
            return
        for partition in partitions:
            if partition.role is not Role.LEADER or partition.isr.is_pending:
                continue
            out = frozenset(replica for replica in partition.isr.committed if replica != me)
            if out and not any(metadata.alive(replica) for replica in out):
                log.info("%s: leading alone, broker %s is gone", partition.topic_partition, sorted(out))
                self._write(partition, partition.isr.shrink(out))

    def _check_lag(self) -> None:
        self._lag_check = self._clock.call_later(self._max_lag / 2, self._check_lag)
        if not self.connected:
            return
        now = self._clock.monotonic()
        self.drop_departed(self._replicas.leaders())
        self._stalls.look(self._replicas.leaders())
        for partition in self._replicas.leaders():
            out = partition.lagging(now, self._max_lag)
            if out and not partition.isr.is_pending:
                log.info(
                    "%s: shrinking the ISR %s by %s", partition.topic_partition, partition.isr.committed, sorted(out)
                )
                self._write(partition, partition.isr.shrink(out))

    # Writing

    def _write(self, partition: Partition, pending: IsrState) -> None:
        partition.set_isr(pending)
        spawn(self._write_state(partition, pending), f"writing the ISR of {partition.topic_partition}")

    def _unclean_start_epochs(self, partition: Partition, pending: IsrState) -> tuple[tuple[int, int], ...]:
        """Members keep what the state says; one that joins has the epoch of the life in which it caught up.

        Metadata name that life, because :meth:`_is_eligible` has compared its broker epoch with the follower's.
        """
        epochs = dict(partition.state.unclean_start_epochs)
        for replica in pending.proposed:
            if replica not in pending.committed:
                broker = self._replicas.metadata.broker(replica)
                epochs[replica] = -1 if broker is None else broker.unclean_start_epoch
        return tuple((replica, epochs[replica]) for replica in pending.proposed if epochs.get(replica, -1) >= 0)

    async def _write_state(self, partition: Partition, pending: IsrState) -> None:
        leaves_leader_alone = pending.status is IsrStatus.PENDING_SHRINK and len(pending.proposed) == 1
        if leaves_leader_alone and partition.min_in_sync > 1 and not await self._sync(partition, pending):
            return
        state = partition.state.with_(
            isr=pending.proposed,
            zk_version=pending.zk_version,
            unclean_start_epochs=self._unclean_start_epochs(partition, pending),
        )
        try:
            written = await self._update(state)
        except (BadVersionError, NoNodeError):
            self._replicas.isr_stats.failed_updates += 1
            await self._reread(partition, pending)
        except SessionExpiredError as error:
            self._replicas.isr_stats.failed_updates += 1
            # The write was never sent. If this broker has no new session, the end of the old one stops the partition.
            log.warning("%s: an ISR change is not made: %s", partition.topic_partition, error)
            await self._reread(partition, pending)
        except (ZkError, MalformedZnodeError) as error:
            log.info("%s: outcome of an ISR change unknown: %s", partition.topic_partition, error)
            self._replicas.isr_stats.failed_updates += 1
            await self._settle(partition, pending)
        else:
            if partition.isr is pending:
                self._count(pending)
                self._committed(partition, written)
                self._tell(partition.topic_partition)

    async def _sync(self, partition: Partition, pending: IsrState) -> bool:
        """Force what ``partition`` has acknowledged to the disk; whether ``pending`` is to be written then.

        Until ``pending`` is over nothing is acknowledged, because its ISR would have fewer members than
        ``min.insync.replicas``.
        """
        is_synced = await self._flush_to_end(partition.log)
        if partition.isr is not pending or partition.role is not Role.LEADER or self._closed:
            return False
        if not is_synced:
            log.warning(
                "%s: the ISR %s stays, because the log of this broker could not be synced",
                partition.topic_partition,
                pending.committed,
            )
            completed = partition.commit_isr(partition.state)
            if completed is not None:
                complete((completed,))
        return is_synced

    async def _update(self, state: LeaderAndIsr) -> LeaderAndIsr:
        over: Future[None] = Future()
        self._writes[over] = state.topic_partition
        try:
            return await self._isr.update(state, self._broker_epoch.session)
        except ConnectionLostError:
            self._lost.add(state.topic_partition)
            raise
        finally:
            del self._writes[over]
            over.callback(None)

    async def _settle(self, partition: Partition, pending: IsrState) -> None:
        """Find out whether a write with an unknown outcome took effect, and keep it from taking effect later."""
        if partition.isr is not pending or self._closed:
            return
        if not self.connected:
            self._unknown[partition] = pending
            return
        before = partition.state.with_(isr=pending.committed, zk_version=pending.zk_version)
        try:
            written = await self._update(before)
        except (BadVersionError, NoNodeError):
            await self._reread(partition, pending)
        except (ZkError, MalformedZnodeError) as error:
            log.info("%s: outcome of an ISR change still unknown: %s", partition.topic_partition, error)
            self._settle_later(partition, pending)
        else:
            if partition.isr is pending:
                self._committed(partition, written)

    async def _reread(self, partition: Partition, pending: IsrState) -> None:
        if partition.isr is not pending or self._closed:
            return
        try:
            current = await self._isr.read(partition.state)
        except (ZkError, MalformedZnodeError) as error:
            log.info("%s: cannot read its state: %s", partition.topic_partition, error)
            self._settle_later(partition, pending)
            return
        if partition.isr is not pending:
            return
        if current is None:
            # The topic is being deleted, and the controller will stop this partition; or the znode is being restored.
            self._settle_later(partition, pending)
        elif current.leader_epoch == partition.leader_epoch:
            if current.isr == pending.proposed:
                self._count(pending)
            self._committed(partition, current)
            if current.isr == pending.proposed:
                self._tell(partition.topic_partition)
        elif current.leader_epoch > partition.leader_epoch:
            self._on_newer(current)
        else:
            # The controller's request came before this ZooKeeper server had the controller's write.
            self._settle_later(partition, pending)

    def _settle_later(self, partition: Partition, pending: IsrState) -> None:
        if partition.isr is pending and not self._closed:
            self._unknown[partition] = pending
            self._clock.call_later(_REREAD_SECONDS, self._settle_unknown, partition)

    def _settle_unknown(self, partition: Partition) -> None:
        pending = self._unknown.pop(partition, None)
        if pending is not None:
            spawn(self._settle(partition, pending), f"settling the ISR of {partition.topic_partition}")

    def _committed(self, partition: Partition, found: LeaderAndIsr) -> None:
        before = partition.isr.committed
        if set(found.isr) != set(before):
            self._record(
                EventKind.ISR,
                f"{partition.topic_partition}: ISR {_numbers(found.isr)} instead of {_numbers(before)}",
                topic=found.topic,
                partition=found.partition,
                leader_epoch=found.leader_epoch,
                zxid=found.mzxid,
                why="replicas caught up" if len(found.isr) > len(before) else "replicas fell behind or are gone",
            )
        completed = partition.commit_isr(found)
        for replica, follower in partition.followers.items():
            if replica not in partition.isr.maximal and partition.is_in_sync(follower):
                self.consider(partition, follower)
        if completed is not None:
            complete((completed,))
        self.drop_departed((partition,))

    def _count(self, made: IsrState) -> None:
        stats = self._replicas.isr_stats
        if len(made.proposed) > len(made.committed):
            stats.expands += 1
        else:
            stats.shrinks += 1

    def _tell(self, tp: TopicPartition) -> None:
        self._changed[tp] = None
        if self._notify is None and not self._closed:
            self._notify = self._clock.call_later(self._config.isr_notification_delay_ms / 1000, self._send)

    def _send(self) -> None:
        self._notify = None
        changed, self._changed = self._changed, {}
        if changed:
            spawn(self._notify_controller(list(changed)), "telling the controller of ISR changes")

    async def _notify_controller(self, changed: list[TopicPartition]) -> None:
        try:
            await self._isr.notify(changed)
        except SessionExpiredError:
            pass
        except ZkError as error:
            # Retry, because this notification is the controller's only source.
            log.info("telling the controller of %d ISR changes failed: %s", len(changed), error)
            if not self._closed:
                self._clock.call_later(_REREAD_SECONDS, self._tell_again, changed)

    def _tell_again(self, changed: list[TopicPartition]) -> None:
        for tp in changed:
            self._tell(tp)


def _numbers(broker_ids: Iterable[int]) -> str:
    return ", ".join(map(str, broker_ids))
