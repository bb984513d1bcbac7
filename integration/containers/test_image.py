"""The broker's image: its content, its start, its health check and its stop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.containers.daemon import docker
from integration.harness.wait import wait_for
from kafkalite.embedded.security import ClusterSecurity
from kafkalite.embedded.users import register_users
from kafkalite.embedded.zookeeper import four_letter_word
from kafkalite.testing.containers import variable

SIZE = 80_000_000
"""Bytes that the image may add to its base."""
BROKER_USER = 1001
"""User and group in the image."""
READY = 180.0
"""Seconds for a start on a busy machine."""
ZOOKEEPER = {
    "JVMFLAGS": "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "ZOO_4LW_COMMANDS_WHITELIST": "srvr",
    "ZOO_ADMINSERVER_ENABLED": "false",
    # No syncs, because on a busy disk they delay the answer to the first client.
    "ZOO_CFG_EXTRA": "forceSync=no",
}
"""Environment variables of a ZooKeeper that starts soon."""
PATIENT = ("--env", f"KAFKALITE_ZOOKEEPER_CONNECTION_TIMEOUT_MS={int(READY * 1000)}")
"""A broker that waits for a ZooKeeper which starts slowly."""
CHECKED = ("--health-interval", "1s", "--health-timeout", "30s")
"""Health checks that come often, and that a busy machine does not cut short."""
LAST = 6000
"""Characters of a broker's output that a failed test shows."""


def inspect(thing: str) -> Any:
    """Docker's description of a container or an image."""
    return json.loads(docker("inspect", thing))[0]


def health(container: str) -> str:
    """``starting``, ``healthy`` or ``unhealthy``."""
    return str(inspect(container)["State"]["Health"]["Status"])


def address(container: str, network: str) -> str:
    """The container's address on the ``network``."""
    return str(inspect(container)["NetworkSettings"]["Networks"][network]["IPAddress"])


def logs(container: str) -> str:
    """Standard output and standard error of a container."""
    return docker("logs", container, both=True)


def wait_until_healthy(broker: str) -> None:
    """Wait until the broker is healthy. Raises ``AssertionError`` with its state and its last lines otherwise."""
    try:
        wait_for(lambda: health(broker) == "healthy", "the broker is healthy", timeout=READY)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{inspect(broker)['State']}\n{logs(broker)[-LAST:]}") from None


@pytest.fixture
def zookeeper(zookeeper_image: str, network: str) -> str:
    """A ZooKeeper container that serves; its id is also its name on the network."""
    environment = [word for name, value in ZOOKEEPER.items() for word in ("--env", f"{name}={value}")]
    container = docker("run", "--detach", "--network", network, *environment, zookeeper_image)[:12]
    host = address(container, network)
    wait_for(lambda: b"Mode:" in four_letter_word(host, 2181, b"srvr"), "ZooKeeper serves", timeout=READY)
    return container


@pytest.fixture
def broker(broker_image: str, zookeeper: str, network: str) -> str:
    """A broker with the default settings of the image; its name on the network is ``broker``."""
    return docker(
        *("run", "--detach", "--network", network, "--network-alias", "broker", "--hostname", "broker"),
        *("--env", f"KAFKALITE_ZOOKEEPER_CONNECT={zookeeper}:2181/kafka", "--env", "KAFKALITE_BROKER_ID=7"),
        *("--env", "KAFKALITE_LOG_RETENTION_MS=123456", *PATIENT, *CHECKED, broker_image),
    )


def test_the_image_is_small_and_runs_as_an_unprivileged_user(broker_image: str) -> None:
    image = inspect(broker_image)
    layers = docker(
        "history", "--no-trunc", "--human=false", "--format", "{{.Size}} {{.CreatedBy}}", broker_image
    ).splitlines()
    first = next(number for number, layer in enumerate(layers) if "useradd" in layer)
    own = sum(int(layer.split()[0]) for layer in layers[: first + 1])
    print(f"image of a broker: {own / 1e6:.0f} MB, {image['Size'] / 1e6:.0f} MB with its base")
    assert image["Config"]["User"] == "kafkalite"
    assert own < SIZE
    assert docker("run", "--rm", "--entrypoint", "id", broker_image, "-u") == "1001"
    # The image has no tools that build or install wheels.
    assert "pip" not in docker("run", "--rm", "--entrypoint", "ls", broker_image, "/opt/kafkalite/bin").split()


def test_arguments_of_docker_run_are_kafkalite_commands(broker_image: str) -> None:
    assert "--bootstrap-server" in docker("run", "--rm", broker_image, "topics", "--help")


@pytest.mark.full
def test_a_simulated_history_in_the_container_equals_the_one_outside(broker_image: str) -> None:
    """A seed gives the same history, event for event, with another Python, file system and user."""
    histories = ("-m", "kafkalite.testing.simulation", "--seeds", "1..5", "--json")
    inside = docker("run", "--rm", "--entrypoint", "python3", broker_image, *histories)
    outside = subprocess.run([sys.executable, *histories], capture_output=True, text=True, timeout=300, check=True)
    assert traces(inside) == traces(outside.stdout)


def traces(output: str) -> dict[int, str]:
    """The digest of each history's trace, by its seed."""
    outcomes = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert outcomes, output
    return {outcome["seed"]: outcome["digest"] for outcome in outcomes}


def test_a_serving_broker_is_healthy(broker: str, zookeeper: str) -> None:
    wait_until_healthy(broker)
    checks = inspect(broker)["State"]["Health"]["Log"]
    assert any("serving, one of 1 brokers" in check["Output"] for check in checks), checks
    topics = docker("exec", broker, "kafkalite", "topics", "--bootstrap-server", "broker:9092", "--list")
    assert topics == ""
    # The broker stays healthy, because it serves without ZooKeeper and a restart would end that.
    docker("kill", zookeeper)
    assert "serving" in docker("exec", broker, "python3", "-I", "-S", "/opt/kafkalite/serving.py")


def test_a_broker_that_finds_no_zookeeper_is_not_healthy_and_stops_on_sigterm(broker_image: str, network: str) -> None:
    broker = docker(
        *("run", "--detach", "--network", network, "--env", "KAFKALITE_ZOOKEEPER_CONNECT=nowhere:2181", *PATIENT),
        *(*CHECKED, "--health-retries", "2", broker_image),
    )
    wait_for(lambda: health(broker) == "unhealthy", "the broker is unhealthy", timeout=READY)
    checks = inspect(broker)["State"]["Health"]["Log"]
    assert all("not serving" in check["Output"] for check in checks), checks
    docker("stop", "--time", 60, broker)
    assert inspect(broker)["State"]["ExitCode"] != 137


def test_settings_come_from_the_environment(broker: str) -> None:
    wait_until_healthy(broker)
    assert "registered as broker 7" in logs(broker)
    described = docker(
        *("exec", broker, "kafkalite", "configs", "--bootstrap-server", "broker:9092", "--describe", "--all"),
        *("--entity-type", "brokers", "--entity-name", 7),
    )
    assert "log.retention.ms=123456" in described
    assert "log.dirs=/var/lib/kafkalite" in described


@pytest.mark.full
def test_settings_may_be_mounted(broker_image: str, zookeeper: str, network: str, tmp_path: Path) -> None:
    mounted = tmp_path / "server.properties"
    mounted.write_text(f"zookeeper.connect={zookeeper}:2181/kafka\nbroker.id=8\nbroker.rack=from-the-file\n")
    broker = docker(
        *("run", "--detach", "--network", network, "--env", "KAFKALITE_BROKER_ID=9", *PATIENT),
        *("--volume", f"{mounted}:/etc/kafkalite/server.properties:ro", broker_image),
    )
    wait_for(lambda: "registered as broker 9" in logs(broker), "the broker has registered", timeout=READY)
    lines = docker("exec", broker, "cat", "/run/kafkalite/server.properties").splitlines()
    assert "broker.rack=from-the-file" in lines
    assert lines.index("broker.id=9") > lines.index("broker.id=8"), "the variable comes last, and so counts"


@pytest.mark.full
def test_sigterm_is_a_controlled_shutdown(broker: str) -> None:
    wait_until_healthy(broker)
    assert docker("exec", broker, "cat", "/proc/1/comm") == "python3"
    docker("stop", "--time", 60, broker)
    assert inspect(broker)["State"]["ExitCode"] == 0
    assert "broker 7 has stopped" in logs(broker)
    # The broker registers at once, because a controlled shutdown has ended its old session.
    docker("start", broker)
    wait_for(lambda: logs(broker).count("registered as broker 7") == 2, "it has registered again", timeout=READY)
    assert "waits" not in logs(broker)


def test_a_secured_broker_is_healthy_and_admits_its_users(
    broker_image: str, zookeeper: str, network: str, tmp_path: Path
) -> None:
    """TLS, SCRAM and ACLs by variables and mounted keys; ZooKeeper is open here."""
    security = ClusterSecurity.create(tmp_path)
    properties = {
        name: value
        for name, value in security.broker_properties(1, ("broker", "localhost")).items()
        if not name.startswith("zookeeper.")
    }
    properties |= {
        "zookeeper.connect": f"{zookeeper}:2181/kafka",
        "listeners": "CLIENTS://broker:9092,BROKERS://broker:9094",
        "zookeeper.connection.timeout.ms": str(int(READY * 1000)),
        "broker.id": "1",
    }
    for path in (security.folder, *security.folder.iterdir()):
        os.chown(path, BROKER_USER, BROKER_USER)
    register_users(f"{address(zookeeper, network)}:2181/kafka", security.credentials())
    broker = docker(
        *("run", "--detach", "--network", network, "--network-alias", "broker", "--hostname", "broker"),
        *(word for name, value in properties.items() for word in ("--env", f"{variable(name)}={value}")),
        *("--volume", f"{security.folder}:{security.folder}:ro", *CHECKED, broker_image),
    )
    wait_until_healthy(broker)
    topics = ("kafkalite", "topics", "--bootstrap-server", "broker:9092", "--command-config")
    admin = docker("exec", broker, *topics, security.properties_file("admin"), "--create", "--topic", "t")
    assert "t" in admin
    assert docker("exec", broker, *topics, security.properties_file("client"), "--list") == ""
