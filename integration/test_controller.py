"""The controller's work on a real cluster, as ZooKeeper and clients show it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from integration.conftest import TEST_OVERRIDES, ClusterFactory, launcher
from integration.harness.clients import fresh_topic
from integration.harness.records import assert_same, make_items
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.cli import main as cli
from kafkalite.embedded.cluster import LocalCluster

REASSIGN = "/admin/reassign_partitions"
RACKS = {1: "east", 2: "east", 3: "west"}
client = Confluent()
Assignment = dict[int, list[int]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers in two racks, without automatic leader balancing."""
    overrides = {**TEST_OVERRIDES, "auto.leader.rebalance.enable": "false", "replica.lag.time.max.ms": "10000"}
    cluster = LocalCluster(tmp_path_factory.mktemp("controller"), 3, overrides=overrides, launcher=launcher())
    for broker_id, rack in RACKS.items():
        cluster.override_broker(broker_id, {"broker.rack": rack})
    cluster.start()
    yield cluster
    cluster.close()


@pytest.fixture
def topic() -> str:
    return fresh_topic("c")


@pytest.fixture(autouse=True)
def whole(cluster: LocalCluster) -> Iterator[None]:
    """Start the dead brokers after each test, and wait until all brokers are ready."""
    yield
    for broker_id in cluster.broker_ids:
        if not cluster.is_alive(broker_id):
            cluster.start_broker(broker_id, wait=False)
    cluster.wait_ready()


def assign(tree: Tree, topic: str, partitions: Assignment, config: dict[str, str] | None = None) -> None:
    """Create a topic with this assignment like the tools before 2.8: in ZooKeeper, without a topic id."""
    if config:
        tree.write(f"/config/topics/{topic}", {"version": 1, "config": config})
    listed = {str(partition): replicas for partition, replicas in partitions.items()}
    tree.write(f"/brokers/topics/{topic}", {"version": 1, "partitions": listed})
    for partition, replicas in partitions.items():
        tree.wait_state(topic, partition, isr=replicas)


def has_files(cluster: LocalCluster, broker_id: int, topic: str) -> bool:
    """Whether a broker has logs of a topic; logs that are marked for deletion do not count."""
    names = [path.name for path in (cluster.broker_dir(broker_id) / "data").iterdir()]
    return any(name.startswith(topic) and not name.endswith("-delete") for name in names)


def test_replicas_are_spread_over_racks(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    client.create_topic(cluster.bootstrap, topic, 6, 2, {})
    assignment = wait_for(lambda: tree.assignment(topic), "the topic")
    assert assignment["version"] == 3 and assignment["topic_id"]
    for replicas in assignment["partitions"].values():
        assert {RACKS[replica] for replica in replicas} == {"east", "west"}
    leaders = [tree.wait_state(topic, int(partition))["leader"] for partition in assignment["partitions"]]
    assert leaders == [assignment["partitions"][str(partition)][0] for partition in range(6)]
    with pytest.raises(KafkaException) as refused:
        client.create_topic(cluster.bootstrap, fresh_topic("many"), 1, 4, {})
    assert refused.value.args[0].name() == "INVALID_REPLICATION_FACTOR"


def test_topic_without_an_id_gets_one(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    assign(tree, topic, {0: [2, 3], 1: [3, 1]})
    assignment = tree.assignment(topic)
    assert assignment["topic_id"] and assignment["version"] == 3
    wait_for(lambda: client.topics(cluster.bootstrap).get(topic) == 2, "clients see it")
    items = make_items(3, 100, 2)
    client.produce(cluster.bootstrap, topic, items)
    # The old tools write assignments without the topic id; the controller adds it again, with the new partition.
    listed = {**assignment["partitions"], "2": [1, 2]}
    tree.write(f"/brokers/topics/{topic}", {"version": 1, "partitions": listed})
    tree.wait_state(topic, 2, isr=[1, 2], leader=1)
    wait_for(lambda: tree.assignment(topic).get("topic_id") == assignment["topic_id"], "the same id again")
    wait_for(lambda: client.topics(cluster.bootstrap).get(topic) == 3, "clients see three partitions")
    assert_same(items, client.consume(cluster.bootstrap, topic, {0: 0, 1: 0}, len(items)))


def test_new_partitions_get_leaders(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    client.create_topic(cluster.bootstrap, topic, 1, 3, {})
    tree.wait_state(topic, isr=[1, 2, 3])
    client.add_partitions(cluster.bootstrap, topic, 4)
    for partition in range(4):
        tree.wait_state(topic, partition, isr=[1, 2, 3])
    wait_for(lambda: client.topics(cluster.bootstrap).get(topic) == 4, "clients see four partitions")


def test_a_deleted_topic_leaves_no_znodes_and_no_logs(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    client.create_topic(cluster.bootstrap, topic, 3, 3, {"retention.ms": "1000000"})
    client.produce(cluster.bootstrap, topic, make_items(4, 50, 3))
    offsets = f"/consumers/old-group/offsets/{topic}"
    tree.write(f"{offsets}/0", 7)
    tree.write("/consumers/old-group/offsets/other/0", 7)
    client.delete_topic(cluster.bootstrap, topic)
    for path in (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}", offsets):
        wait_for(lambda path=path: not tree.exists(path), f"{path} to go")  # type: ignore[misc]
    assert tree.exists("/consumers/old-group/offsets/other/0")
    for broker_id in cluster.broker_ids:
        wait_for(lambda b=broker_id: not has_files(cluster, b, topic), "its files to go")  # type: ignore[misc]


def test_deletion_waits_for_a_broker_that_is_down(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    client.create_topic(cluster.bootstrap, topic, 2, 3, {})
    for partition in range(2):
        tree.wait_state(topic, partition, isr=[1, 2, 3])
    wait_for(lambda: has_files(cluster, 3, topic), "the third broker's files")
    cluster.kill_broker(3)
    wait_for(lambda: 3 not in tree.live(), "broker 3 to be gone")
    alive = f"{cluster.address(1)},{cluster.address(2)}"
    client.delete_topic(alive, topic)
    wait_for(lambda: topic not in client.topics(alive), "clients see it no more")
    wait_for(lambda: not has_files(cluster, 1, topic) and not has_files(cluster, 2, topic), "two brokers' files to go")
    assert tree.exists(f"/brokers/topics/{topic}") and has_files(cluster, 3, topic)
    # A new controller reads the pending deletion, too.
    controller = tree.controller()
    cluster.kill_broker(controller)
    cluster.start_broker(controller)
    assert tree.exists(f"/brokers/topics/{topic}")
    cluster.start_broker(3)
    wait_for(lambda: not tree.exists(f"/brokers/topics/{topic}"), "the topic to go")
    wait_for(lambda: not tree.exists(f"/admin/delete_topics/{topic}"), "the wish to go")
    wait_for(lambda: not has_files(cluster, 3, topic), "the third broker's files to go")


def test_another_broker_becomes_controller(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    old, epoch = tree.controller(), tree.controller_epoch()
    others = [broker_id for broker_id in cluster.broker_ids if broker_id != old]
    assign(tree, topic, {0: [old, *others], 1: [others[0], old]})
    cluster.kill_broker(old)
    state = tree.wait_state(topic, isr=others)
    assert state["leader"] == others[0] and state["leader_epoch"] >= 1 and state["controller_epoch"] == epoch + 1
    assert tree.controller() in others and tree.controller_epoch() == epoch + 1
    tree.wait_state(topic, 1, isr=[others[0]], leader=others[0])
    items = make_items(5, 100, 2)
    client.produce(",".join(map(cluster.address, others)), topic, items)
    cluster.start_broker(old)
    tree.wait_state(topic, isr=cluster.broker_ids, leader=others[0])
    assert tree.controller() in others
    assert_same(items, client.consume(cluster.bootstrap, topic, {0: 0, 1: 0}, len(items)))


def test_deletion_of_the_controller_znode_starts_a_new_term(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    """Operators delete ``/controller`` by hand; the next controller continues the work."""
    epoch = tree.controller_epoch()
    tree.zk.delete("/controller")
    wait_for(lambda: tree.controller() > 0, "a controller")
    assert tree.controller_epoch() > epoch
    client.create_topic(cluster.bootstrap, topic, 2, 3, {})
    state = tree.wait_state(topic, isr=[1, 2, 3])
    assert state["controller_epoch"] == tree.controller_epoch()


def test_the_preferred_replica_is_elected(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    assign(tree, topic, {0: [1, 2]})
    cluster.restart_broker(1)
    tree.wait_state(topic, isr=[1, 2], leader=2)
    elect = ["elect", "--bootstrap-server", cluster.bootstrap, "--election-type", "preferred", "--topic", topic]
    assert cli.main([*elect, "--partition", "0"]) == 0
    tree.wait_state(topic, leader=1)
    cluster.restart_broker(1)
    tree.wait_state(topic, isr=[1, 2], leader=2)
    wish = "/admin/preferred_replica_election"
    tree.write(wish, {"version": 1, "partitions": [{"topic": topic, "partition": 0}]})
    tree.wait_state(topic, leader=1)
    wait_for(lambda: not tree.exists(wish), "the wish to go")


def move(topic: str, replicas: list[int]) -> dict[str, object]:
    """The tools' JSON for a reassignment of partition 0 of ``topic`` to ``replicas``."""
    return {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}


@pytest.mark.parametrize("through", ["api", "znode"])
def test_a_reassignment_moves_the_replicas(
    through: str, cluster: LocalCluster, tree: Tree, topic: str, tmp_path: Path
) -> None:
    assign(tree, topic, {0: [1, 2]})
    items = make_items(6, 500, 1)
    client.produce(cluster.bootstrap, topic, items)
    if through == "znode":
        tree.write(REASSIGN, move(topic, [3, 2]))
    else:
        file = tmp_path / "move.json"
        file.write_text(json.dumps(move(topic, [3, 2])))
        reassign = ["reassign", "--bootstrap-server", cluster.bootstrap, "--execute"]
        assert cli.main([*reassign, "--reassignment-json-file", str(file)]) == 0
    tree.wait_state(topic, isr=[3, 2], leader=3)
    wait_for(lambda: tree.assignment(topic)["partitions"] == {"0": [3, 2]}, "the new assignment")
    assignment = wait_for(
        lambda: tree.assignment(topic) if not tree.assignment(topic)["adding_replicas"] else None, "the end of it"
    )
    assert assignment is not None and not assignment["removing_replicas"]
    wait_for(lambda: not tree.exists(REASSIGN), "the wish to go")
    wait_for(lambda: not has_files(cluster, 1, topic), "the files of the former replica to go")
    assert_same(items, client.consume(cluster.address(3), topic, {0: 0}, len(items)))


def test_reassignment_outlives_the_controller(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    """The next controller continues a reassignment that cannot end because its target is stopped."""
    if tree.controller() == 3:
        cluster.restart_broker(3)
    controller = wait_for(tree.controller, "a controller")
    assign(tree, topic, {0: [1, 2]})
    client.produce(cluster.bootstrap, topic, make_items(7, 50, 1))
    cluster.pause_broker(3)
    tree.write(REASSIGN, move(topic, [3, 1]))
    wait_for(lambda: tree.assignment(topic).get("adding_replicas"), "the reassignment to begin")
    cluster.kill_broker(controller)
    wait_for(lambda: tree.controller() not in (-1, controller), "another controller")
    cluster.resume_broker(3)
    cluster.start_broker(controller)
    assert tree.wait_state(topic, isr=[3, 1])["leader"] in (1, 3)
    wait_for(lambda: tree.assignment(topic)["partitions"] == {"0": [3, 1]}, "the new assignment")


def test_unclean_election_happens_only_where_configured(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    careful, careless = f"{topic}-careful", f"{topic}-careless"
    assign(tree, careful, {0: [1, 2]})
    assign(tree, careless, {0: [1, 2]}, {"unclean.leader.election.enable": "true"})
    cluster.kill_broker(2)
    for name in (careful, careless):
        tree.wait_state(name, isr=[1], leader=1)
        client.produce(cluster.address(1), name, make_items(8, 20, 1))
    cluster.kill_broker(1)
    for name in (careful, careless):
        tree.wait_state(name, leader=-1, isr=[1])
    cluster.start_broker(2)
    assert tree.wait_state(careless, leader=2)["isr"] == [2]
    assert tree.state(careful)["leader"] == -1
    cluster.start_broker(1)
    tree.wait_state(careful, leader=1, isr=[1, 2])
    tree.wait_state(careless, leader=2, isr=[1, 2])
    assert client.end_offset(cluster.bootstrap, careful, 0) == 20
    assert client.end_offset(cluster.bootstrap, careless, 0) == 0


def leave_without_leader(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    """Kill broker 1, the only replica in the ISR, while broker 2, the other replica, lives."""
    assign(tree, topic, {0: [1, 2]})
    cluster.kill_broker(2)
    tree.wait_state(topic, isr=[1])
    cluster.kill_broker(1)
    tree.wait_state(topic, leader=-1)
    cluster.start_broker(2)


def test_unclean_election_happens_on_request(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    leave_without_leader(cluster, tree, topic)
    assert tree.state(topic)["leader"] == -1
    elect = ["elect", "--bootstrap-server", cluster.address(2), "--election-type", "unclean", "--topic", topic]
    assert cli.main([*elect, "--partition", "0"]) == 0
    tree.wait_state(topic, leader=2, isr=[2])


def test_unclean_election_happens_once_it_is_allowed(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    """The configuration is changed while the partition has no leader."""
    leave_without_leader(cluster, tree, topic)
    client.set_topic_config(cluster.address(2), topic, "unclean.leader.election.enable", "true")
    tree.wait_state(topic, leader=2, isr=[2])


def test_controlled_shutdown_moves_the_leaders(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    assign(tree, topic, {0: [1, 2, 3], 1: [2, 1, 3], 2: [1]})
    assert cluster.stop_broker(1)
    assert tree.state(topic, 0)["isr"] == [2, 3] and tree.state(topic, 0)["leader"] == 2
    assert tree.state(topic, 1)["isr"] == [2, 3] and tree.state(topic, 1)["leader"] == 2
    tree.wait_state(topic, 2, leader=-1, isr=[1])
    assert (cluster.broker_dir(1) / "data" / ".kafka_cleanshutdown").exists()
    cluster.start_broker(1)
    tree.wait_state(topic, 2, leader=1)
    tree.wait_state(topic, 0, leader=2, isr=[1, 2, 3])


def test_leaders_are_balanced_automatically(make_cluster: ClusterFactory, topic: str) -> None:
    cluster = make_cluster(2, {"leader.imbalance.check.interval.seconds": "1"})
    with Tree(cluster.zookeeper) as tree:
        assign(tree, topic, {0: [1, 2], 1: [2, 1]})
        cluster.restart_broker(1)
        state = tree.wait_state(topic, isr=[1, 2], leader=1)
        assert state["leader_epoch"] >= 2


def test_other_brokers_lead_the_partitions_of_a_failed_log_directory(make_cluster: ClusterFactory, topic: str) -> None:
    """The broker keeps serving its other directory."""
    cluster = make_cluster(2, start=False)
    first, second = cluster.broker_dir(1) / "one", cluster.broker_dir(1) / "two"
    cluster.override_broker(1, {"log.dirs": f"{first},{second}"})
    cluster.start()
    with Tree(cluster.zookeeper) as tree:
        assign(tree, topic, {0: [1, 2], 1: [1, 2]}, {"segment.bytes": "100000"})
        client.produce(cluster.bootstrap, topic, make_items(9, 20, 2))
        places = {0: first, 1: second} if (first / f"{topic}-0").exists() else {0: second, 1: first}
        assert all((place / f"{topic}-{partition}").exists() for partition, place in places.items())
        # Rename the folder, so that the broker can create no file in it.
        places[0].rename(places[0].with_name("away"))
        places[0].touch()
        items = make_items(10, 1500, 1)
        client.produce(cluster.bootstrap, topic, items)
        tree.wait_state(topic, 0, leader=2, isr=[2])
        tree.wait_state(topic, 1, leader=1, isr=[1, 2])
        wait_for(lambda: not tree.names("/log_dir_event_notification"), "the notification to be taken")
        assert cluster.is_alive(1)
        # The broker restarts with the repaired directory.
        places[0].unlink()
        places[0].with_name("away").rename(places[0])
        cluster.restart_broker(1)
        tree.wait_state(topic, 0, isr=[1, 2])


def test_the_tree_conforms_to_the_schemas(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    """``kafkalite zk verify`` after all other tests finds no defect."""
    client.create_topic(cluster.bootstrap, topic, 2, 3, {"retention.ms": "1000000"})
    client.set_topic_config(cluster.bootstrap, topic, "segment.ms", "1000000")
    tree.wait_state(topic, isr=[1, 2, 3])
    client.produce(cluster.bootstrap, topic, make_items(11, 20, 2))
    assert cli.main(["zk", "verify", "--zookeeper", cluster.zookeeper]) == 0
