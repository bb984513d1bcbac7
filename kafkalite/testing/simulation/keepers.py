"""The replicas that must keep acknowledged records, checked while a history runs.

Answers to: nothing in Kafka. Pure: it reads the brokers' state and changes nothing.

A record that is acknowledged with acks=all, or that is below the leader's high watermark, is in the logs of the
leader and of every member of the ISR: this follows from Kafka's rules for the high watermark, for joining an ISR, and
for elections. The rule is checked throughout, because the end of a history shows a violation only if the wrong replica
is elected later.

A leader that takes the last follower out of the ISR has synced the acknowledged records before ZooKeeper has that ISR:
else one loss of power would take records that the follower still has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.types import TopicPartition
from kafkalite.log.log import Log
from kafkalite.replication.partition import Partition, Role
from kafkalite.testing.history.events import Acked
from kafkalite.testing.simulation.cluster import SimCluster
from kafkalite.testing.simulation.disk import SimDisk


class Keepers:
    """Compares the last acknowledged offset and the high watermark of each partition with the logs of its ISR.

    ``losses`` tells how often a machine has lost unsynced data, by a power loss or after an fsync that failed. A member
    whose machine lost data is exempt until it has left the ISR, because the controller learns of the loss later;
    meanwhile it must not lead. The same holds for a member that joined by a fetch from before the loss. ``synced_end``
    tells the offset below which a log is on its disk. ``tell`` is called with each violation.
    """

    def __init__(
        self,
        cluster: SimCluster,
        losses: Callable[[int], int],
        synced_end: Callable[[SimDisk, Log], int],
        tell: Callable[[str], object],
    ) -> None:
        self._cluster = cluster
        self._losses = losses
        self._synced_end = synced_end
        self._tell = tell
        self._states: Mapping[TopicPartition, LeaderAndIsr] = {}
        self._last: dict[TopicPartition, int] = {}
        self._outside: dict[tuple[TopicPartition, int], int] = {}
        self._losses_before: dict[tuple[int, int], int] = {}
        """Broker and unclean start epoch → losses of its machine when ZooKeeper first had that epoch."""
        self._left_alone: set[TopicPartition] = set()
        """Partitions whose leader has taken the last follower out of the ISR."""

    def acked(self, event: Acked) -> None:
        """A client got the acknowledgement of a record."""
        topic, _, number = event.partition.rpartition("-")
        tp = TopicPartition(topic, int(number))
        if event.offset > self._last.get(tp, -1):
            self._last[tp] = event.offset
            self._look_at(tp)

    def registered(self, broker: Broker) -> None:
        """``broker`` is in ZooKeeper. An ISR that has its unclean start epoch may be written after its loss."""
        life = broker.id, broker.unclean_start_epoch
        self._losses_before.setdefault(life, self._losses(broker.id))

    def states_changed(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> None:
        """``states`` are the new states in ZooKeeper."""
        self._left_alone = {tp for tp, state in states.items() if self._is_left_alone(state)}
        self._states = states
        for tp, state in states.items():
            for broker in state.replicas:
                if broker not in state.isr:
                    self._outside[tp, broker] = self._losses(broker)
            for member in state.unclean_start_epochs:
                self._losses_before.setdefault(member, self._losses(member[0]))
        self.look()

    def look(self) -> None:
        """Check every partition."""
        for tp in self._last:
            self._look_at(tp)
        for tp, state in self._states.items():
            self._look_at_high_watermark(tp, state)

    def _is_left_alone(self, state: LeaderAndIsr) -> bool:
        before = self._states.get(state.topic_partition)
        if before is None or len(state.isr) > 1:
            return False
        # The controller, which raises the leader epoch, leaves one member only where the others lack records.
        by_leader = len(before.isr) > 1 and before.leader_epoch == state.leader_epoch
        return by_leader or state.topic_partition in self._left_alone

    def _look_at_disk(self, tp: TopicPartition) -> None:
        if tp not in self._left_alone:
            return
        leader = self._states[tp].leader
        partition = self._replica(leader, tp)
        if partition is None or partition.log is None:
            return
        synced = self._synced_end(self._cluster.brokers[leader].disk, partition.log)
        if synced <= self._last[tp]:
            self._tell(
                f"{tp}: acknowledged up to offset {self._last[tp]}, but the disk of broker {leader}, which took the "
                f"last follower out of the ISR, has only what is below {synced}"
            )

    def _look_at_high_watermark(self, tp: TopicPartition, state: LeaderAndIsr) -> None:
        leader = self._replica(state.leader, tp)
        if leader is None or leader.log is None or leader.role is not Role.LEADER:
            return
        if leader.leader_epoch != state.leader_epoch or leader.state.topic_id != state.topic_id:
            return
        high = leader.log.high_watermark
        for broker in state.isr:
            member = self._replica(broker, tp)
            if member is None or member.log is None or member.state.topic_id != state.topic_id:
                continue
            if member.log.log_end_offset < high and self._is_blamed(state, broker):
                self._tell(
                    f"{tp}: the high watermark of the leader {state.leader} is {high}, but the log of {broker} of "
                    f"the ISR {list(state.isr)} ends at {member.log.log_end_offset}"
                )

    def _is_blamed(self, state: LeaderAndIsr, broker: int) -> bool:
        losses = self._losses(broker)
        lives = [self._losses_before[member] for member in state.unclean_start_epochs if member[0] == broker]
        return losses <= min(lives, default=losses) and losses <= self._outside.get((state.topic_partition, broker), 0)

    def where_open(self, tp: TopicPartition, producer_id: int, producer_epoch: int) -> str:
        """The replicas in whose logs the producer's transaction is still open, as text; empty if there is none."""
        for who, partition in self._members(tp):
            entry = partition.log.producer_state.entries.get(producer_id)
            # A transaction of a later producer epoch is another one.
            if entry is not None and entry.current_txn_first_offset >= 0 and entry.producer_epoch <= producer_epoch:
                return f"{who} from offset {entry.current_txn_first_offset} on"
        return ""

    def _look_at(self, tp: TopicPartition) -> None:
        for who, partition in self._members(tp):
            if partition.log is not None and partition.log.log_end_offset <= self._last[tp]:
                self._tell(
                    f"{tp}: acknowledged up to offset {self._last[tp]}, but the log of {who} ends at "
                    f"{partition.log.log_end_offset} in leader epoch {partition.leader_epoch}"
                )
        self._look_at_disk(tp)

    def _replica(self, broker: int, tp: TopicPartition) -> Partition | None:
        """The replica that the process of ``broker`` holds; ``None`` while no process lives."""
        machine = self._cluster.brokers.get(broker)
        return machine.last_partition(tp) if machine is not None and machine.is_alive else None

    def _members(self, tp: TopicPartition) -> Iterator[tuple[str, Partition]]:
        """The replicas that must have the acknowledged records, each with its name for messages."""
        state = self._states.get(tp)
        for broker in () if state is None else state.isr:
            assert state is not None
            partition = self._replica(broker, tp)
            if partition is None:
                continue
            leads = partition.role is Role.LEADER and partition.leader_epoch == state.leader_epoch
            if leads or self._is_blamed(state, broker):
                yield f"the leader {broker}" if leads else f"{broker} of the ISR {list(state.isr)}", partition
