"""Each fault that is planted in a snapshot of a healthy cluster is found, with the place and the mend."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafkalite.broker.properties import load_properties
from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.doctor.checks import CHECKS, examine
from kafkalite.doctor.finding import Severity
from kafkalite.doctor.snapshot import (
    GroupLag,
    HangingTransaction,
    LogDirUsage,
    Snapshot,
    ZooKeeperServer,
    ZooKeeperView,
)
from kafkalite.zk.verify import Fault
from tests.doctor.fixtures import (
    CONFIGS,
    GIB,
    TP,
    endpoints,
    healthy,
    state,
    with_broker,
    with_config,
    with_endpoint,
    with_process,
    with_topic,
    without_broker,
)

WARNING, ERROR = Severity.WARNING, Severity.ERROR
OK = healthy()
Planted = tuple[str, Snapshot, Severity, str, str]
"""Check, snapshot, severity, where, a part of the mend."""


def zookeeper(**changes: object) -> Snapshot:
    return replace(OK, zookeeper=replace(OK.zookeeper, **changes))  # type: ignore[arg-type]


def servers(*states: tuple[bool, bool], error: str = "no server serves") -> Snapshot:
    """Three servers: whether each accepts connections, and serves."""
    listed = tuple(ZooKeeperServer(f"zk{i}:2181", accepts, serves) for i, (accepts, serves) in enumerate(states, 1))
    return replace(OK, zookeeper=ZooKeeperView(listed, error=error))


def fault(path: str, problem: str) -> Snapshot:
    return replace(OK, znode_faults=(Fault(path, problem),))


def states(*changed: LeaderAndIsr) -> Snapshot:
    return replace(OK, states=changed)


def disk(before: int, after: int, usable: int = 50 * GIB, error: str = "") -> Snapshot:
    """Sizes of the logs of broker 2 in both samples, ten seconds apart."""
    return replace(
        OK,
        log_dirs_before={**OK.log_dirs, 2: (LogDirUsage("/data", "", 100 * GIB, usable, before),)},
        log_dirs={**OK.log_dirs, 2: (LogDirUsage("/data", error, 100 * GIB, usable, after),)},
    )


PLANTED: list[Planted] = [
    (
        "zookeeper-unreachable",
        servers((False, True), (False, True), (False, True)),
        ERROR,
        "zk1:2181",
        "zookeeper start",
    ),
    (
        "zookeeper-no-quorum",
        servers((True, False), (False, True), (False, True)),
        ERROR,
        "zk1:2181",
        "ssh zk2 bin/zkServer",
    ),
    (
        "zookeeper-server-down",
        servers((True, True), (False, True), (True, True), error=""),
        WARNING,
        "zk2:2181",
        "ssh zk2",
    ),
    (
        "zookeeper-not-one-ensemble",
        zookeeper(servers=(ZooKeeperServer("zk1:2181", mode="standalone"), ZooKeeperServer("zk2:2181", mode="leader"))),
        ERROR,
        "zk1:2181",
        "ssh zk1 'bin/zkServer.sh stop'",
    ),
    ("zookeeper-slow", zookeeper(latency_ms=700.0), WARNING, "ZooKeeper zk1", "mntr"),
    ("zookeeper-slow", zookeeper(latency_ms=4000.0), ERROR, "ZooKeeper zk1", "mntr"),
    (
        "session-timeout-limits",
        with_config(OK, 2, "zookeeper.session.timeout.ms", 90000),
        WARNING,
        "broker 2",
        "zookeeper.session.timeout.ms=40000",
    ),
    (
        "zookeeper-connect-differs",
        with_config(OK, 3, "zookeeper.connect", "zk1:2181/kafka"),
        WARNING,
        "broker 3",
        "zookeeper.connect=zk1:2181,zk2:2181,zk3:2181/kafka",
    ),
    ("znode-schema", fault("/stray", "no such znode in the classic tree"), ERROR, "/stray", "zk delete"),
    (
        "znode-schema",
        fault("/config/topics/t", "Invalid value x for configuration retention.ms: allowed is a number"),
        ERROR,
        "/config/topics/t",
        "configs --bootstrap-server host1:9092 --alter --entity-type topics --entity-name t --delete-config retention",
    ),
    ("znode-schema", fault("/config/topics/t", "not JSON: x"), ERROR, "/config/topics/t", "zk delete"),
    ("znode-schema", fault("/brokers/ids/2", "port: x"), ERROR, "/brokers/ids/2", "kill -TERM 102;"),
    ("znode-schema", fault("/brokers/ids/9", "is persistent, should be ephemeral"), ERROR, "ids/9", "zk delete"),
    ("znode-schema", fault("/controller", "brokerid: x"), ERROR, "/controller", "--path /controller"),
    (
        "znode-schema",
        fault("/brokers/topics/t/partitions/0/state", "isr: x"),
        ERROR,
        "partitions/0/state",
        "zk delete --zookeeper zk1:2181,zk2:2181,zk3:2181/kafka --path /controller",
    ),
    ("znode-schema", fault("/brokers/topics/t", "partitions: x"), ERROR, "/brokers/topics/t", "log-dirs"),
    ("no-controller", replace(OK, controller=9), ERROR, "/controller", "--path /controller"),
    ("no-controller", replace(OK, controller=-1), ERROR, "/controller", "kill -TERM 101"),
    ("no-broker", replace(OK, brokers={}, states=(), controller=-1), ERROR, "the cluster", "broker start"),
    ("broker-down", without_broker(OK, 3), ERROR, "broker 3", "server.properties of broker 3"),
    (
        "broker-down",
        with_process(with_broker(OK, 3, registered=None), 3, is_stopped=True),
        ERROR,
        "broker 3",
        "kill -CONT 103",
    ),
    ("broker-down", with_broker(OK, 3, registered=None), ERROR, "broker 3", "kill -TERM 103"),
    (
        "broker-silent",
        with_process(with_broker(OK, 2, error="timed out"), 2, is_stopped=True),
        ERROR,
        "broker 2",
        "kill -CONT 102",
    ),
    ("broker-silent", with_broker(OK, 2, error="timed out"), ERROR, "broker 2", "kill -TERM 102"),
    ("clocks-differ", with_broker(OK, 2, registered_ms=1_700_000_003_000), WARNING, "broker 2", "chronyc makestep"),
    ("clocks-differ", with_broker(OK, 1, registered_ms=1_699_999_000_000), WARNING, "broker 1", "kill -TERM 101"),
    (
        "listener-missing",
        with_broker(OK, 3, registered=Broker(3, endpoints(3)[:1])),
        ERROR,
        "broker 3",
        "listeners=<all of INSIDE, OUTSIDE>",
    ),
    ("listener-missing", with_broker(OK, 3, registered=Broker(3, ())), ERROR, "broker 3", "listeners="),
    ("listener-duplicate", with_endpoint(OK, 2, host="host1"), ERROR, "host1:9092", "of broker 2"),
    ("listener-duplicate", with_endpoint(OK, 2, port=9091), ERROR, "host2:9091", "advertised.listeners"),
    ("listener-host", with_endpoint(OK, 2, host="0.0.0.0"), ERROR, "broker 2", "advertised.listeners"),
    ("listener-host", with_endpoint(OK, 2, host="localhost"), ERROR, "broker 2", "advertised.listeners"),
    (
        "versions-differ",
        with_config(OK, 2, "inter.broker.protocol.version", "2.8"),
        WARNING,
        "broker 2",
        "inter.broker.protocol.version=3.9",
    ),
    ("versions-differ", with_broker(OK, 3, api_versions={0: (0, 9), 1: (0, 17)}), WARNING, "broker 3", "pip install"),
    ("open-files", with_process(OK, 1, max_open_files=150), WARNING, "broker 1", "prlimit --pid 101 --nofile=65536:"),
    ("open-files", with_process(OK, 1, max_open_files=92), ERROR, "broker 1", "prlimit"),
    ("memory-maps", with_process(OK, 1, memory_maps=50_000), WARNING, "broker 1", "vm.max_map_count=262144"),
    ("memory-maps", with_process(OK, 1, memory_maps=65_000), ERROR, "broker 1", "sysctl"),
    ("partition-offline", states(state(0, 1, 2, leader=-1, isr=(9,))), ERROR, "t-0", "of broker 9"),
    ("partition-offline", states(state(0, 1, 2, leader=9, isr=(1, 2))), ERROR, "t-0", "--path /controller"),
    ("under-min-isr", states(state(0, 1, 2, 3, isr=(1,))), ERROR, "t-0", "kill -TERM 102"),
    ("under-replicated", states(state(0, 1, 2, 3, isr=(1, 2))), WARNING, "broker 3", "kill -TERM 103"),
    ("under-replicated", without_broker(OK, 3), WARNING, "broker 3", "of broker 3"),
    (
        "leaders-unbalanced",
        states(state(0, 1, 2, 3, leader=2)),
        WARNING,
        "broker 1",
        "elect --bootstrap-server host1:9092 --election-type preferred --all-topic-partitions",
    ),
    (
        "one-replica",
        replace(states(state(0, 2)), topic_configs={}),
        WARNING,
        "topic t",
        '"replicas":[2,3,1]',
    ),
    ("min-isr-above-replicas", with_topic(OK, "min.insync.replicas", 4), ERROR, "topic t", "min.insync.replicas=2"),
    (
        "default-min-isr",
        with_config(OK, 1, "min.insync.replicas", 2),
        WARNING,
        "broker 1",
        "default.replication.factor=3",
    ),
    ("retention-below-segment-time", with_topic(OK, "retention.ms", 60000), WARNING, "topic t", "segment.ms=60000"),
    ("retention-below-segment-size", with_topic(OK, "retention.bytes", 4096), WARNING, "topic t", "segment.bytes=4096"),
    (
        "follower-wait-above-lag",
        with_config(OK, 1, "replica.fetch.wait.max.ms", 30000),
        ERROR,
        "broker 1",
        "replica.fetch.wait.max.ms=500",
    ),
    (
        "group-session-limits",
        with_config(OK, 1, "group.min.session.timeout.ms", 1_900_000),
        ERROR,
        "broker 1",
        "session\\.timeout\\.ms",
    ),
    ("group-abandoned", replace(OK, groups=(GroupLag("g", 0, 5, 95),)), WARNING, "group g", "--delete --group g"),
    (
        "transaction-hangs",
        replace(OK, hanging=(HangingTransaction(TP, 7, 42, 1_200_000),)),
        ERROR,
        "partition t-0",
        "abort --topic t --partition 0 --start-offset 42",
    ),
    ("log-directory-offline", disk(0, 0, error="KAFKA_STORAGE_ERROR"), ERROR, "broker 2, /data", "dmesg"),
    ("disk-full", disk(0, 0, usable=1 << 20), ERROR, "broker 2 /data", "retention.bytes"),
    ("disk-fills", disk(GIB, GIB + 10 * (2 << 20)), WARNING, "broker 2 /data", "du -s /data"),
    ("disk-fills", disk(GIB, 2 * GIB), ERROR, "broker 2 /data", "retention.bytes"),
    ("not-examined", replace(OK, unread=(("groups", "timed out"),)), WARNING, "groups", "kafkalite doctor"),
]


def test_a_healthy_cluster_has_no_finding() -> None:
    assert examine(OK) == []


@pytest.mark.parametrize("planted", PLANTED, ids=[f"{number}-{each[0]}" for number, each in enumerate(PLANTED)])
def test_a_planted_fault_is_found_with_place_and_mend(planted: Planted) -> None:
    name, snapshot, severity, where, mend = planted
    found = [finding for finding in examine(snapshot) if finding.check == name]
    assert found[0].severity is severity
    assert where in found[0].where
    assert mend in "\n".join(found[0].mend)
    assert found[0].what.endswith(".") and found[0].why.endswith(".")


def test_every_check_has_a_planted_fault() -> None:
    assert {check.name for check in CHECKS} == {each[0] for each in PLANTED}


def test_a_check_reports_under_its_own_name_and_severity() -> None:
    for check in CHECKS:
        for _, snapshot, *_ in PLANTED:
            for finding in check.find(snapshot):
                assert finding.check == check.name
                assert finding.severity.name.lower() in check.severity


@pytest.mark.parametrize(
    ("change", "absent"),
    [
        (lambda: disk(GIB, GIB + 1000), "disk-fills"),
        (lambda: replace(OK, groups=(GroupLag("g", 1, 5, 95),)), "group-abandoned"),
        (lambda: with_topic(OK, "cleanup.policy", "compact"), "retention-below-segment-time"),
        (lambda: with_broker(OK, 2, registered_ms=-1), "clocks-differ"),
        (lambda: servers((True, False), (False, True), (False, True)), "zookeeper-unreachable"),
        (lambda: servers((True, False), (False, True), (False, True)), "zookeeper-server-down"),
        (lambda: servers((True, False), (False, True), (False, True)), "no-controller"),
        (lambda: replace(OK, zookeeper=ZooKeeperView(), controller=-1), "no-controller"),
        (
            lambda: with_config(OK, 2, "zookeeper.connect", "zk3:2181,zk2:2181,zk1:2181/kafka"),
            "zookeeper-connect-differs",
        ),
    ],
)
def test_what_only_looks_like_a_fault_is_no_finding(change: Callable[[], Snapshot], absent: str) -> None:
    assert absent not in {finding.check for finding in examine(change())}


def test_a_replica_that_is_being_added_is_not_missed() -> None:
    moving = replace(state(0, 1, 2, 3).assignment, adding=(3,))
    found = examine(states(state(0, 1, 2, 3, isr=(1, 2), assignment=moving)))
    assert found == []


def test_partitions_with_one_cause_are_one_finding() -> None:
    many = states(*(state(number, 1, 2, 3, isr=(1, 2)) for number in range(40)))
    [finding] = examine(many)
    assert "40 partitions" in finding.what and "and 35 more" in finding.what


def test_errors_come_first() -> None:
    found = examine(replace(without_broker(OK, 3), groups=(GroupLag("g", 0, 1, 2),)))
    assert [finding.severity for finding in found] == sorted((f.severity for f in found), reverse=True)


def test_mends_carry_the_files_of_a_secured_cluster() -> None:
    commands = replace(OK.commands, command_config="admin.properties", zookeeper_config="zk.properties")
    assert "--admin.config admin.properties" in commands.elect_preferred()
    assert "--command-config admin.properties" in commands.set_topic("t", "a=b")
    abandoned = replace(OK, commands=commands, groups=(GroupLag("g", 0, 5, 95),))
    [consume, _] = next(each.mend for each in examine(abandoned) if each.check == "group-abandoned")
    assert consume.startswith("kafkalite consume --bootstrap-server host1:9092 --consumer.config admin.properties ")
    assert "--zk-tls-config-file zk.properties" in commands.zk("delete", "--path", "/x")


def test_a_broker_of_another_machine_is_restarted_by_its_operator() -> None:
    [found] = examine(with_broker(OK, 2, process=None, configs={**CONFIGS, "zookeeper.session.timeout.ms": "1"}))
    assert "kill -TERM <pid of broker 2>" in found.mend


def test_a_broker_of_this_machine_is_mended_in_its_own_file_and_goes_on_in_its_own_log() -> None:
    here = with_process(
        with_config(OK, 2, "zookeeper.session.timeout.ms", 1), 2, config="/etc/b 2.properties", log="/var/b.log"
    )
    [found] = examine(with_broker(here, 2, config="/etc/b 2.properties"))
    edit, restart = found.mend
    assert edit == (
        r"sed -i -e '$ a zookeeper.session.timeout.ms=4000' "
        r"-e '/^\s*zookeeper\.session\.timeout\.ms\s*[=:]/d' '/etc/b 2.properties'"
    )
    assert restart == (
        "kill -TERM 102; tail --pid=102 -f /dev/null; "
        "setsid kafkalite broker start --config b2.properties >> /var/b.log 2>&1 &"
    )


@pytest.mark.parametrize("former", ["a=1", "a=1\n", "a.b = 2\nc=1", "c=1\n  a.b:2\n", "a.b=7"])
def test_the_edit_replaces_what_stands_in_the_file_or_adds_it(former: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(former)
    edit, _ = OK.commands.set_properties(replace(OK.brokers[1], config=str(file)), {"a.b": "x://y:1|z", "d": 4})
    subprocess.run(["bash", "-e", "-c", edit], check=True)
    found = load_properties(file)
    assert {**found, "a": "1", "c": "1"} == {"a": "1", "c": "1", "a.b": "x://y:1|z", "d": "4"}
    assert file.read_text().count("a.b") == 1
    edit, _ = OK.commands.remove_properties(replace(OK.brokers[1], config=str(file)), "a.b", "d")
    subprocess.run(["bash", "-e", "-c", edit], check=True)
    assert not {"a.b", "d"} & load_properties(file).keys()
