"""A follower that joins an ISR must have all records that its leader had at the beginning of the leader epoch.

Answers to: nothing in Kafka (KAFKA-7128, KIP-903). Deterministic.

Each join is checked, because a follower that joins too early catches up if its leader lives, so that the end of a
history shows the violation only if the leader dies in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from kafkalite.replication.isr import IsrState
from kafkalite.replication.partition import Partition
from kafkalite.testing.simulation.cluster import SimCluster
from kafkalite.testing.simulation.topology import Topology


@contextmanager
def checked_joining(cluster: SimCluster, topology: Topology, tell: Callable[[str], object]) -> Iterator[None]:
    """Inside the context every follower that a leader adds to an ISR is checked; ``tell`` gets each violation.

    A log that was lost by a power failure counts once the leader knows the new registration of its broker. A leader of
    an epoch that is over in ZooKeeper (it was paused, say, and answers the requests that came meanwhile) adds no
    follower, because ZooKeeper refuses the write.
    """
    set_isr = Partition.set_isr

    def end_of_present_log(partition: Partition, replica: int) -> int | None:
        """The log end offset of ``replica``; ``None`` if the leader cannot know its current process yet."""
        machine, leader = cluster.brokers[replica], cluster.brokers[partition.broker_id]
        if not machine.is_alive or machine.zk is None or leader.services is None:
            return None
        registered = topology.registration(replica, machine.zk.session)
        known = leader.services.metadata.broker(replica)
        if registered is None or known is None or known.epoch != registered.epoch:
            return None
        held = machine.last_partition(partition.topic_partition)
        is_held = held is not None and held.log is not None and held.state.topic_id == partition.state.topic_id
        return held.log.log_end_offset if held is not None and is_held else None

    def checked(self: Partition, isr: IsrState) -> None:
        joining = set(isr.proposed) - set(isr.committed)
        state = topology.state(self.topic_partition) if joining else None
        if state is not None and state.leader_epoch > self.leader_epoch:
            joining.clear()
        needed = max(self.epoch_start_offset, self.log.high_watermark) if joining else 0
        for replica in sorted(joining):
            known, present = self.followers[replica].log_end_offset, end_of_present_log(self, replica)
            for end, where in ((known, "fetched up to"), (present, "has a log that ends at")):
                if end is not None and end < needed:
                    tell(
                        f"{self.topic_partition}: {replica} {where} {end} and joins the ISR {list(isr.committed)} in "
                        f"leader epoch {self.leader_epoch}, for which it needs {needed}"
                    )
        set_isr(self, isr)

    with patch.object(Partition, "set_isr", checked):
        yield
