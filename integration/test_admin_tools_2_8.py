"""The cluster obeys the tools of 2.8.2, the last that write to ZooKeeper directly (``--zookeeper``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from integration.faults.cluster import states
from integration.harness.clients import fresh_topic
from integration.harness.java import KAFKA_2_8, run_tool
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.znodes import ZnodeReader

TOPICS = "kafka.admin.TopicCommand"
REASSIGN = "kafka.admin.ReassignPartitionsCommand"
PREFERRED = "kafka.admin.PreferredReplicaLeaderElectionCommand"
CONFIGS = "kafka.admin.ConfigCommand"


def tool(cluster: LocalCluster, main: str, *arguments: str, check: bool = True) -> str:
    """Run a 2.8.2 tool on the cluster's ZooKeeper; returns its output."""
    result = run_tool(KAFKA_2_8, main, "--zookeeper", cluster.zookeeper, *arguments, check=check)
    return result.out + result.err


def test_the_topic_tool_of_2_8_works(shared_cluster: LocalCluster) -> None:
    """Create, produce, alter, describe, delete."""
    topic = fresh_topic("zk")
    bootstrap = shared_cluster.bootstrap
    said = tool(shared_cluster, TOPICS, "--create", "--topic", topic, "--partitions", "2", "--replication-factor", "3")
    assert f"Created topic {topic}." in said
    wait_for(lambda: Confluent().topics(bootstrap).get(topic) == 2, "clients see it")
    wait_for(lambda: len(states(shared_cluster, topic, 2)) == 2, "it has leaders")

    def topic_id() -> Any:
        with ZnodeReader(shared_cluster.zookeeper) as reader:
            return json.loads(reader.get(f"/brokers/topics/{topic}") or b"{}").get("topic_id")

    assert wait_for(topic_id, "the controller has given it an id")
    said = tool(shared_cluster, TOPICS, "--describe", "--topic", topic)
    assert "PartitionCount: 2" in said and "ReplicationFactor: 3" in said
    tool(shared_cluster, TOPICS, "--alter", "--topic", topic, "--partitions", "4")
    wait_for(lambda: Confluent().topics(bootstrap).get(topic) == 4, "clients see more partitions")
    wait_for(lambda: len(states(shared_cluster, topic, 4)) == 4, "they have leaders")
    tool(
        shared_cluster,
        CONFIGS,
        "--entity-type",
        "topics",
        "--entity-name",
        topic,
        "--alter",
        "--add-config",
        "retention.ms=77000",
    )
    wait_for(
        lambda: Confluent().topic_config(bootstrap, topic)["retention.ms"] == "77000", "the configuration is obeyed"
    )
    tool(shared_cluster, TOPICS, "--delete", "--topic", topic)
    wait_for(lambda: topic not in Confluent().topics(bootstrap), "clients see it no more")
    wait_for(lambda: not zk_exists(shared_cluster, f"/brokers/topics/{topic}"), "its znode has gone")
    wait_for(lambda: not zk_exists(shared_cluster, f"/admin/delete_topics/{topic}"), "the request has gone")
    wait_for(
        lambda: (
            not any(
                (shared_cluster.broker_dir(broker_id) / "data" / f"{topic}-0").exists()
                for broker_id in shared_cluster.broker_ids
            )
        ),
        "its files have gone",
    )


def zk_exists(cluster: LocalCluster, path: str) -> bool:
    """Whether a znode exists."""
    with ZnodeReader(cluster.zookeeper) as reader:
        return reader.get(path) is not None


def test_reassignment_and_preferred_election_by_znodes_are_carried_out(
    shared_cluster: LocalCluster, tmp_path: Path
) -> None:
    """``/admin/reassign_partitions`` and ``/admin/preferred_replica_election``."""
    topic = fresh_topic("zkmove")
    tool(shared_cluster, TOPICS, "--create", "--topic", topic, "--replica-assignment", "1:2")
    wait_for(lambda: states(shared_cluster, topic, 1)[0]["leader"] == 1, "broker 1 leads")
    file = tmp_path / "move.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [2, 3]}]}))
    said = tool(shared_cluster, REASSIGN, "--execute", "--reassignment-json-file", str(file))
    assert "Successfully started partition reassignment" in said
    wait_for(
        lambda: sorted(states(shared_cluster, topic, 1)[0]["isr"]) == [2, 3], "the replicas are 2 and 3", timeout=60
    )
    wait_for(lambda: not zk_exists(shared_cluster, "/admin/reassign_partitions"), "the request has gone")
    assert "is complete" in tool(shared_cluster, REASSIGN, "--verify", "--reassignment-json-file", str(file))

    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [3, 2]}]}))
    tool(shared_cluster, REASSIGN, "--execute", "--reassignment-json-file", str(file))
    wait_for(lambda: not zk_exists(shared_cluster, "/admin/reassign_partitions"), "the order has changed")
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0}]}))
    tool(shared_cluster, PREFERRED, "--path-to-json-file", str(file))
    wait_for(lambda: states(shared_cluster, topic, 1)[0]["leader"] == 3, "the preferred leader leads")
    wait_for(lambda: not zk_exists(shared_cluster, "/admin/preferred_replica_election"), "the request has gone")
