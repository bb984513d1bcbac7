"""``kafkalite zk verify`` accepts a tree of real Kafka 3.9.1 and the 2.8.2 tools, and finds planted defects."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from integration.harness.java import KAFKA_2_8, KAFKA_3_9, kafka_launcher, run_tool
from integration.harness.wait import wait_for
from kafkalite.cli import main as cli
from kafkalite.embedded.processes import free_ports
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


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
        plain, sasl = free_ports(2)
        config.write_text(
            f"broker.id=1\nzookeeper.connect={connect}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}\n"
            "sasl.enabled.mechanisms=PLAIN\ndelegation.token.secret.key=secret\nsuper.users=User:alice;User:ANONYMOUS\n"
            f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN} user_alice="secret";\n'
            f"log.dirs={tmp_path / 'logs'}\noffsets.topic.replication.factor=1\nbroker.rack=r1\n"
            "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\nallow.everyone.if.no.acl.found=true\n"
        )
        broker = subprocess.Popen(kafka_launcher()(config), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        loop = BlockingLoop()
        client = KazooZkClient(loop.call_from_thread, connect, 6000, create_chroot=True)
        try:
            loop.run(client.start())
            wait_for(lambda: loop.run(client.exists("/controller")), "a controller", 60)
            wait_for(lambda: loop.run(client.exists("/brokers/ids/1")), "a broker", 60)
            use_the_old_tools(connect)
            use_the_new_tools(f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}", tmp_path)
            [token] = loop.run(client.get_children("/delegation_token/tokens"))
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
            security = plant_faults_of_security(token)
            for path, data in security.items():
                work = client.set if loop.run(client.exists(path)) else client.create
                loop.run(work(path, data))
            code, faults = verify(connect, capsys)
            assert code == 1
            assert {fault["path"] for fault in faults} == {
                state,
                "/controller_epochs",
                "/brokers/ids/2",
                f"/brokers/topics/{'x' * 300}",
                "/config/topics/t",
                *security,
            }
            assert "planted" not in json.dumps(faults)
        finally:
            broker.kill()
            broker.wait()
            loop.run(client.close())


def plant_faults_of_security(token: str) -> dict[str, bytes]:
    """Malformed znodes of ACLs, users, quotas and tokens."""
    acl = b'{"principal":"User:a","permissionType":"Allow","operation":"Red","host":"*"}'
    return {
        "/kafka-acl/Topic/t": b'{"version":1,"acls":[%s]}' % acl,
        "/kafka-acl/Topics": b"",
        "/kafka-acl-extended/suffixed": b"",
        "/kafka-acl-extended/prefixed/Topic/p": b'{"version":2,"acls":[]}',
        "/kafka-acl-changes/acl_changes_9999999999": b"TOPICS:t",
        "/config/users/alice": b'{"version":1,"config":{"SCRAM-SHA-256":"salt=planted,stored_key=x,iterations=4096"}}',
        "/config/users/bob/clients/c1": b'{"version":1,"config":{"producer_byte_rate":"fast"}}',
        "/config/ips/10.0.0.1": b'{"version":1,"config":{"connection_creation_rate":"-5"}}',
        f"/delegation_token/tokens/{token}": b'{"version":3,"owner":"User%3Aalice","tokenId":"else"}',
        "/delegation_token/tokens/other": b"",
    }


def use_the_new_tools(bootstrap: str, sasl: str, directory: Path) -> None:
    """Have brokers write ACLs, credentials, quotas and a delegation token, by the tools of 3.9.1."""

    def configs(*what: str) -> None:
        run_tool(KAFKA_3_9, "kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--alter", *what)

    configs("--entity-type", "users", "--entity-name", "ca rol", "--add-config", "SCRAM-SHA-512=[password=secret]")
    configs("--entity-type", "users", "--entity-default", "--add-config", "consumer_byte_rate=1e6")
    configs("--entity-type", "clients", "--entity-name", "c 2", "--add-config", "request_percentage=200")
    configs("--entity-type", "ips", "--entity-name", "10.0.0.1", "--add-config", "connection_creation_rate=50")
    acls = ("kafka.admin.AclCommand", "--bootstrap-server", bootstrap, "--add", "--allow-principal", "User:carol")
    run_tool(KAFKA_3_9, *acls, "--operation", "All", "--topic", "p", "--resource-pattern-type", "prefixed")
    run_tool(KAFKA_3_9, *acls, "--operation", "ClusterAction", "--cluster")
    run_tool(KAFKA_3_9, *acls, "--operation", "CreateTokens", "--user-principal", "User:dora")
    login = directory / "alice.properties"
    jaas = f'{PLAIN} username="alice" password="secret";'
    login.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n")
    token = ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    command = "org.apache.kafka.tools.DelegationTokenCommand"
    run_tool(KAFKA_3_9, command, "--bootstrap-server", sasl, "--command-config", str(login), *token)


def use_the_old_tools(connect: str) -> None:
    """Write topics, configurations, quotas, credentials and ACLs to ZooKeeper with the old tools."""

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
