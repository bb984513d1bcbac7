"""A group under load: members of any client library, a producer, and onlookers that read the committed offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from integration.conftest import AGAINST_KAFKA
from integration.faults.groups import describe, find_coordinator, generation_of
from integration.faults.members import (
    CommitOnlooker,
    Committer,
    GroupRecord,
    NumberAsker,
    OffsetFetchAsker,
    SteadyProducer,
)
from integration.faults.worker import Worker
from integration.harness.java_consumer import java_host
from integration.harness.members import Member, MemberHost, python_host
from integration.harness.wait import PATIENCE, wait_for
from kafkalite.embedded.cluster import LocalCluster

TOPIC, GROUP = "watched", "failover"
PARTITIONS = 6
RATE = 400
CLIENT = {"reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50}


class LoadedGroup:
    """Members of one group under load, and the history of their commits."""

    def __init__(self, cluster: LocalCluster, folder: Path, libraries: Sequence[str]) -> None:
        self.cluster = cluster
        self.record = GroupRecord()
        self._producer = SteadyProducer(cluster.bootstrap, TOPIC, PARTITIONS, RATE)
        self._hosts: dict[str, MemberHost] = {}
        self.members: list[Member] = []
        for library in libraries:
            if library not in self._hosts:
                self._hosts[library] = self._host(library, folder / f"{library}.log")
            config = {} if library == "aiokafka" else CLIENT
            self.members.append(self._hosts[library].open(cluster.bootstrap, GROUP, [TOPIC], config=config))
        self.committers = [Committer(self.record, member, TOPIC) for member in self.members]
        self.onlookers = self._onlookers()

    def _host(self, library: str, log: Path) -> MemberHost:
        return java_host(log) if library == "java" else python_host(library, log)

    def _onlookers(self) -> list[CommitOnlooker]:
        asks: list[tuple[str, Callable[[], dict[int, int]], bool]] = [
            ("the coordinator", OffsetFetchAsker(self._coordinator, GROUP, TOPIC, PARTITIONS), True)
        ]
        if not AGAINST_KAFKA:
            asks.append(("ZooKeeper", NumberAsker(self.cluster.zookeeper, GROUP, TOPIC, PARTITIONS), True))
            for broker_id in self.cluster.broker_ids:
                address = partial(self.cluster.address, broker_id)
                ask = OffsetFetchAsker(address, GROUP, TOPIC, PARTITIONS, version=0)
                # Not strict, because a broker learns of a commit a moment after the member that made it.
                asks.append((f"broker {broker_id}", ask, False))
        return [CommitOnlooker(name, self.record, ask, strict=strict) for name, ask, strict in asks]

    def _coordinator(self) -> str:
        return self.cluster.address(find_coordinator(self.cluster, GROUP))

    def __enter__(self) -> LoadedGroup:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker._stopping.set()
        for host in self._hosts.values():
            host.kill()

    @property
    def _workers(self) -> list[Worker]:
        return [self._producer, *self.committers, *self.onlookers]

    def start(self) -> None:
        """Start the load; returns when every member owns partitions and has committed."""
        share = PARTITIONS // len(self.members)

        def settled() -> bool:
            return all(len(member.assignment) == share for member in self.members) and (
                len({member.generation for member in self.members}) == 1
            )

        wait_for(settled, "every member has its share", 60)
        for worker in self._workers:
            worker.start()
        self.wait_commits(1)

    def wait_commits(self, count: int, timeout: float = PATIENCE) -> None:
        """Wait until every member's ``count`` next commits are acknowledged."""
        targets = {committer: committer.commits + count for committer in self.committers}

        def done() -> bool:
            self.raise_failure()
            return all(committer.commits >= target for committer, target in targets.items())

        wait_for(done, f"every member is acknowledged {count} commits", timeout, 0.02)

    def raise_failure(self) -> None:
        """Raises the exception that ended a worker, if there is one."""
        for worker in self._workers:
            if worker.failure is not None:
                raise worker.failure

    def look(self) -> tuple[object, ...]:
        """State that a coordinator's death may not change: ids, generations and callbacks of members and brokers."""
        told = describe(self.cluster, GROUP)
        return (
            told.state,
            [member.member_id for member in told.members],
            generation_of(self.cluster, GROUP, self.members[0].member_id),
            [(member.member_id, member.generation, sorted(member.assignment)) for member in self.members],
            [[event.kind for event in member.of("assigned", "revoked", "lost")] for member in self.members],
        )

    def judge(self) -> None:
        """Raises ``AssertionError`` with all violations so far."""
        self.raise_failure()
        with self.record.lock:
            breaches = list(self.record.trail.breaches)
        assert not breaches, "\n".join(breaches)

    def stop(self) -> None:
        """End the load; the last committed offsets are the acknowledged positions of the members."""
        self._producer.stop()
        for committer in self.committers:
            committer.stop()
        for onlooker in self.onlookers:
            onlooker.stop()
        self.judge()
