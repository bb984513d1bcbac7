"""The replicas that must keep acknowledged records, checked while a history runs.

Answers to: nothing in Kafka. Pure: it reads the brokers' state and changes nothing.

A record that is acknowledged with acks=all, or that is below the leader's high watermark, is in the logs of the
leader and of every member of the ISR: this follows from Kafka's rules for the high watermark, for joining an ISR, and
for elections. The rule is checked throughout, because the end of a history shows a violation only if the wrong replica
is elected later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.types import TopicPartition
from kafkalite.replication.partition import Partition, Role
from kafkalite.testing.history.events import Acked
from kafkalite.testing.simulation.cluster import SimCluster


class Keepers:
    """Compares the last acknowledged offset and the high watermark of each partition with the logs of its ISR.

    ``power_losses``: number of power losses of each machine. A member whose machine lost power is exempt until it has
    left the ISR, because the controller learns of the loss later; meanwhile it must not lead. The same holds for a
    member that joined by a fetch from before the power loss. ``tell`` is called with each violation.
    """

    def __init__(self, cluster: SimCluster, power_losses: Mapping[int, int], tell: Callable[[str], object]) -> None:
        self._cluster = cluster
        self._power_losses = power_losses
        self._tell = tell
        self._states: Mapping[TopicPartition, LeaderAndIsr] = {}
        self._last: dict[TopicPartition, int] = {}
        self._outside: dict[tuple[TopicPartition, int], int] = {}
        self._losses_before: dict[tuple[int, int], int] = {}
        """Broker and unclean start epoch → power losses of its machine when an ISR first contained that epoch."""

    def acked(self, event: Acked) -> None:
        """A client got the acknowledgement of a record."""
        topic, _, number = event.partition.rpartition("-")
        tp = TopicPartition(topic, int(number))
        if event.offset > self._last.get(tp, -1):
            self._last[tp] = event.offset
            self._look_at(tp)

    def states_changed(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> None:
        """``states`` are the new states in ZooKeeper."""
        self._states = states
        for tp, state in states.items():
            for broker in state.replicas:
                if broker not in state.isr:
                    self._outside[tp, broker] = self._power_losses.get(broker, 0)
            for member in state.unclean_start_epochs:
                self._losses_before.setdefault(member, self._power_losses.get(member[0], 0))
        self.look()

    def look(self) -> None:
        """Check every partition."""
        for tp in self._last:
            self._look_at(tp)
        for tp, state in self._states.items():
            self._look_at_high_watermark(tp, state)

    def _look_at_high_watermark(self, tp: TopicPartition, state: LeaderAndIsr) -> None:
        machine = self._cluster.brokers.get(state.leader)
        leader = machine.last_partition(tp) if machine is not None and machine.is_alive else None
        if leader is None or leader.log is None or leader.role is not Role.LEADER:
            return
        if leader.leader_epoch != state.leader_epoch or leader.state.topic_id != state.topic_id:
            return
        high = leader.log.high_watermark
        for broker in state.isr:
            machine = self._cluster.brokers[broker]
            member = machine.last_partition(tp) if machine.is_alive else None
            if member is None or member.log is None or member.state.topic_id != state.topic_id:
                continue
            if member.log.log_end_offset < high and self._is_blamed(state, broker):
                self._tell(
                    f"{tp}: the high watermark of the leader {state.leader} is {high}, but the log of {broker} of "
                    f"the ISR {list(state.isr)} ends at {member.log.log_end_offset}"
                )

    def _is_blamed(self, state: LeaderAndIsr, broker: int) -> bool:
        losses = self._power_losses.get(broker, 0)
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

    def _members(self, tp: TopicPartition) -> Iterator[tuple[str, Partition]]:
        """The replicas that must have the acknowledged records, each with its name for messages."""
        state = self._states.get(tp)
        for broker in () if state is None else state.isr:
            assert state is not None
            machine = self._cluster.brokers[broker]
            partition = machine.last_partition(tp) if machine.is_alive else None
            if partition is None:
                continue
            leads = partition.role is Role.LEADER and partition.leader_epoch == state.leader_epoch
            if leads or self._is_blamed(state, broker):
                yield f"the leader {broker}" if leads else f"{broker} of the ISR {list(state.isr)}", partition
