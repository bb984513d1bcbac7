"""``kafkalite zk verify`` on a tree that real Kafka 3.9.1 and the 2.8.2 tools wrote, and on one with planted faults."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from integration.harness.java import KAFKA_2_8, kafka_launcher, run_tool
from integration.harness.wait import wait_for
from kafkalite.cli import main as cli
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient


def verify(connect: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, str]]]:
    capsys.readouterr()
    code = cli.main(["zk", "verify", "--zookeeper", connect, "--json"])
    return code, json.loads(capsys.readouterr().out)["faults"]


def test_verify_passes_on_real_kafka_and_finds_planted_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as zookeeper:
        connect = f"{zookeeper.connect_string}/real"
        config = tmp_path / "server.properties"
        config.write_text(
            f"broker.id=1\nzookeeper.connect={connect}\nlisteners=PLAINTEXT://127.0.0.1:0\n"
            f"log.dirs={tmp_path / 'logs'}\noffsets.topic.replication.factor=1\nbroker.rack=r1\n"
            "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\nallow.everyone.if.no.acl.found=true\n"
        )
        broker = subprocess.Popen(kafka_launcher()(config), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        loop = BlockingLoop()
        client = KazooZkClient(loop.call_from_thread, connect, 6000)
        try:
            loop.run(client.start())
            wait_for(lambda: loop.run(client.exists("/controller")), "a controller", 60)
            wait_for(lambda: loop.run(client.exists("/brokers/ids/1")), "a broker", 60)
            use_the_old_tools(connect)
            state = "/brokers/topics/t/partitions/1/state"
            wait_for(lambda: loop.run(client.exists(state)), "a partition state", 30)
            code, faults = verify(connect, capsys)
            assert (code, faults) == (0, []), json.dumps(faults, indent=1)
            assert cli.main(["zk", "tree", "--zookeeper", connect, "--path", "/config/topics/t"]) == 0
            assert "retention.ms" in capsys.readouterr().out

            loop.run(client.set(state, b'{"controller_epoch":1,"leader":"one","version":1,"leader_epoch":0,"isr":[1]}'))
            loop.run(client.create("/controller_epochs"))
            loop.run(client.create("/brokers/ids/2", b"{}"))
            loop.run(client.create(f"/brokers/topics/{'x' * 300}", loop.run(client.get("/brokers/topics/t"))[0]))
            loop.run(client.set("/config/topics/t", b'{"version":1,"config":{"retention.ms":"one day"}}'))
            code, faults = verify(connect, capsys)
            assert code == 1
            assert {fault["path"] for fault in faults} == {
                state,
                "/controller_epochs",
                "/brokers/ids/2",
                f"/brokers/topics/{'x' * 300}",
                "/config/topics/t",
            }
        finally:
            broker.kill()
            broker.wait()
            loop.run(client.close())


def use_the_old_tools(connect: str) -> None:
    """Topics, configurations, quotas, credentials and ACLs through ZooKeeper."""

    def alter(*what: str) -> None:
        run_tool(KAFKA_2_8, "kafka.admin.ConfigCommand", "--zookeeper", connect, "--alter", *what)

    topic = ("--create", "--topic", "t", "--partitions", "2", "--replication-factor", "1")
    run_tool(KAFKA_2_8, "kafka.admin.TopicCommand", "--zookeeper", connect, *topic)
    alter("--entity-type", "topics", "--entity-name", "t", "--add-config", "retention.ms=1000")
    alter("--entity-type", "users", "--entity-name", "alice", "--add-config", "SCRAM-SHA-256=[password=secret]")
    quota = ("--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-name", "c1")
    alter(*quota, "--add-config", "producer_byte_rate=1024")
    acl = ("--authorizer-properties", f"zookeeper.connect={connect}", "--add", "--allow-principal", "User:alice")
    run_tool(KAFKA_2_8, "kafka.admin.AclCommand", *acl, "--operation", "Read", "--topic", "t")
