"""Members lose nothing when their coordinator dies, and a former coordinator cannot write.

``KAFKALITE_SEED`` repeats the moments of an earlier run; ``KAFKALITE_SOAK=1`` (``make soak``) runs the long test, too.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from integration.conftest import AGAINST_KAFKA, SOAK, ClusterFactory
from integration.faults.cluster import create_topic, guardian, is_registered, wait_in_sync
from integration.faults.group_load import GROUP, PARTITIONS, TOPIC, LoadedGroup
from integration.faults.groups import PASSING, GroupClient, find_coordinator
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.znodes import read_znodes

ASIDE = "aside"
COMMITS_EACH = 5
"""Number of acknowledged commits of every member after a coordinator's death."""
OVERRIDES = {
    "zookeeper.session.timeout.ms": "6000" if AGAINST_KAFKA else "2000",
    "auto.leader.rebalance.enable": "false",
    # Real Kafka's offsets topic must outlive the coordinator.
    "offsets.topic.replication.factor": "3",
}
NO_BROKER = 99
"""A broker that does not exist."""
REFUSALS = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
LIBRARIES = ("confluent", "confluent", "java")


def run_kills(make_cluster: ClusterFactory, folder: Path, libraries: Sequence[str], kills: int) -> None:
    """Kill the coordinator ``kills`` times, each at a random moment."""
    seed = int(os.environ.get("KAFKALITE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
    print(f"\nKAFKALITE_SEED={seed}: {kills} kills of the coordinator, members {', '.join(libraries)}", flush=True)
    rng = random.Random(seed)
    cluster = make_cluster(3, OVERRIDES)
    create_topic(cluster, TOPIC, PARTITIONS)
    with LoadedGroup(cluster, folder, libraries) as group:
        group.start()
        before = group.look()
        # In one of five kills the guardian dies, too, so that the session ends by its timeout.
        alone = rng.randrange(5)
        for number in range(kills):
            coordinator = find_coordinator(cluster, GROUP)
            time.sleep(rng.uniform(0.0, 0.3))  # a random moment in the middle of commits and heartbeats
            begun = time.monotonic()
            with_guardian = not AGAINST_KAFKA and number % 5 == alone
            if with_guardian:
                guardian(cluster, coordinator).kill()
            cluster.kill_broker(coordinator)
            group.wait_commits(COMMITS_EACH)
            gap = time.monotonic() - begun
            successor = find_coordinator(cluster, GROUP, but=coordinator)
            after = group.look()
            cluster.start_broker(coordinator)
            wait_in_sync(cluster, TOPIC, PARTITIONS)
            if AGAINST_KAFKA:
                wait_in_sync(cluster, "__consumer_offsets", 1)
            print(
                f"kill {number + 1:2}: broker {coordinator}{' and its guardian' if with_guardian else ''}, "
                f"then {successor}; {COMMITS_EACH} commits of each member within {gap:.2f} s",
                flush=True,
            )
            assert after == before
            group.judge()
        group.stop()
        assert group.look() == before
        commits, looks = sum(c.commits for c in group.committers), group.record.trail.looks
        refused = sum(c.refused for c in group.committers)
    print(
        f"{commits:,} commits acknowledged, {refused} refused, {looks:,} looks, none lost, none went back", flush=True
    )


@pytest.mark.full
def test_members_survive_five_kills_of_their_coordinator(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """Five kills. (Two with real Kafka, whose takeovers are slower.)"""
    run_kills(make_cluster, tmp_path, LIBRARIES, 2 if AGAINST_KAFKA else 5)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
def test_members_of_every_library_survive_twenty_kills(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """The long test of ``make soak``."""
    run_kills(make_cluster, tmp_path, (*LIBRARIES, "kafka-python", "aiokafka", "java"), 20)


@pytest.mark.full
@pytest.mark.kafkalite_only
def test_a_paused_coordinator_that_wakes_up_cannot_write(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """Its session expires during SIGSTOP, and another broker takes over and writes; after SIGCONT it refuses the
    requests that waited in its sockets."""
    cluster = make_cluster(3, OVERRIDES)
    create_topic(cluster, TOPIC, PARTITIONS)
    create_topic(cluster, ASIDE, 1)
    with LoadedGroup(cluster, tmp_path, ("confluent", "confluent")) as group:
        group.start()
        before = group.look()
        member, generation = group.members[0].member_id, group.members[0].generation
        zombie = find_coordinator(cluster, GROUP)
        waiting = [GroupClient(cluster.address(zombie)) for _ in range(3)]
        assert waiting[0].commit(GROUP, ASIDE, {0: 100}, generation, member) == {0: ErrorCode.NONE}
        cluster.pause_broker(zombie)
        try:
            for number, client in enumerate(waiting):
                client.send_commit(GROUP, ASIDE, {0: number}, generation, member)
            wait_for(lambda: not is_registered(cluster, zombie), f"the session of broker {zombie} ends")
            successor = find_coordinator(cluster, GROUP, but=zombie)
            with GroupClient(cluster.address(successor)) as client:
                assert client.offsets(GROUP, ASIDE, [0]) == {0: 100}
                assert client.commit(GROUP, ASIDE, {0: 200}, generation, member) == {0: ErrorCode.NONE}
        finally:
            cluster.resume_broker(zombie)
        answers = [client.committed()[0] for client in waiting]
        print(f"\nbroker {zombie} woke up beside {successor} and answered {[answer.name for answer in answers]}")
        assert set(answers) <= REFUSALS
        assert number_of(cluster, ASIDE) == 200
        wait_for(lambda: is_registered(cluster, zombie), f"broker {zombie} registers again")
        # It knows that it is not the coordinator: it refuses the commit, and shows the other broker's offset.
        assert waiting[0].commit(GROUP, ASIDE, {0: 1}, generation, member) == {0: ErrorCode.NOT_COORDINATOR}
        assert waiting[0].offsets(GROUP, ASIDE, [0], version=0) == {0: 200}
        group.wait_commits(COMMITS_EACH)
        assert group.look() == before
        assert find_coordinator(cluster, GROUP) == successor
        group.stop()
        assert number_of(cluster, ASIDE) == 200


# trap: kafkalite/zk/stores/fenced_write.py: A coordinator commits after another has claimed its group, while its own
# session lives.
@pytest.mark.kafkalite_only
def test_a_coordinator_that_was_overtaken_cannot_write(make_cluster: ClusterFactory) -> None:
    """Its session is alive, but another claim has raised the epoch that its writes check."""
    cluster = make_cluster(3)
    create_topic(cluster, ASIDE, 1)
    with Tree(cluster.zookeeper) as tree:
        for attempt in range(5):
            coordinator = find_coordinator(cluster, GROUP)
            with GroupClient(cluster.address(coordinator)) as client:
                commit_alone(client, 1000 + attempt)
                cluster.pause_broker(coordinator)
                try:
                    client.send_commit(GROUP, ASIDE, {0: attempt})
                    overtake(tree, GROUP, 2000 + attempt)
                finally:
                    cluster.resume_broker(coordinator)
                (answer,) = client.committed().values()
            print(f"broker {coordinator}, overtaken, answered {answer.name}", flush=True)
            assert answer in REFUSALS
            assert number_of(cluster, ASIDE) == 2000 + attempt
            assert is_registered(cluster, coordinator)
            tree.zk.delete(f"/consumers/{GROUP}/coordinator")


def overtake(tree: Tree, group: str, offset: int) -> None:
    """Claim a group and commit by znodes, like another broker, while the claim's holder cannot see that."""
    base = f"/consumers/{group}"
    epoch, stat = tree.zk.get(f"{base}/coordinator_epoch")
    claim = json.dumps({"version": 1, "brokerid": NO_BROKER, "timestamp": "1"}).encode()
    transaction = tree.zk.transaction()
    transaction.delete(f"{base}/coordinator")
    transaction.create(f"{base}/coordinator", claim, ephemeral=True)
    transaction.set_data(f"{base}/coordinator_epoch", b"%d" % (int(epoch) + 1), stat.version)
    transaction.set_data(f"{base}/offsets/{ASIDE}/0", b"%d" % offset)
    results = transaction.commit()
    assert not any(isinstance(result, Exception) for result in results), results


def commit_alone(client: GroupClient, offset: int) -> None:
    """Commit for a group without members, as soon as its coordinator has claimed it."""

    def committed() -> bool:
        (answer,) = client.commit(GROUP, ASIDE, {0: offset}).values()
        if answer in PASSING:
            raise LookupError(answer.name)
        return answer is ErrorCode.NONE

    wait_for(committed, "the coordinator commits")


def number_of(cluster: LocalCluster, topic: str) -> int:
    """The committed offset of partition 0 in ZooKeeper."""
    path = f"/consumers/{GROUP}/offsets/{topic}/0"
    return int(read_znodes(cluster.zookeeper, [path])[path])
