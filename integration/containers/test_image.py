"""The image of a broker: what it is made of, how it starts, says that it serves, and stops."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.containers.daemon import docker
from integration.harness.wait import wait_for

SIZE = 70_000_000
"""Bytes that the image may add to its base."""
LAST = 6000
"""Characters of a broker's output that a failed test shows."""


def inspect(thing: str) -> Any:
    """What Docker says about a container or an image."""
    return json.loads(docker("inspect", thing))[0]


def health(container: str) -> str:
    """``starting``, ``healthy`` or ``unhealthy``."""
    return str(inspect(container)["State"]["Health"]["Status"])


def logs(container: str) -> str:
    """What it wrote to both of its outputs."""
    return docker("logs", container, both=True)


def wait_until_healthy(broker: str) -> None:
    """Wait until the broker says so. Raises ``AssertionError`` with its state and its last lines where it does not."""
    try:
        wait_for(lambda: health(broker) == "healthy", "the broker is healthy", timeout=90)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{inspect(broker)['State']}\n{logs(broker)[-LAST:]}") from None


@pytest.fixture
def zookeeper(zookeeper_image: str, network: str) -> str:
    """A ZooKeeper; its id is its name on the network, too."""
    return docker("run", "--detach", "--network", network, zookeeper_image)[:12]


@pytest.fixture
def broker(broker_image: str, zookeeper: str, network: str) -> str:
    """A broker with the settings of the image, where they do not say otherwise; it is called ``broker``."""
    return docker(
        *("run", "--detach", "--network", network, "--network-alias", "broker", "--hostname", "broker"),
        *("--env", f"KAFKALITE_ZOOKEEPER_CONNECT={zookeeper}:2181/kafka", "--env", "KAFKALITE_BROKER_ID=7"),
        *("--env", "KAFKALITE_LOG_RETENTION_MS=123456", "--health-interval", "1s", broker_image),
    )


def test_it_is_small_and_runs_as_nobody_special(broker_image: str) -> None:
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
    # What builds a wheel, or would install another one, stays behind.
    assert "pip" not in docker("run", "--rm", "--entrypoint", "ls", broker_image, "/opt/kafkalite/bin").split()


def test_words_behind_its_name_are_commands(broker_image: str) -> None:
    assert "--bootstrap-server" in docker("run", "--rm", broker_image, "topics", "--help")


@pytest.mark.full
def test_simulated_histories_are_the_same_as_outside(broker_image: str) -> None:
    """Another Python, another file system, another user: one seed is one history, event for event."""
    histories = ("-m", "kafkalite.testing.simulation", "--seeds", "1..5", "--json")
    inside = docker("run", "--rm", "--entrypoint", "python3", broker_image, *histories)
    outside = subprocess.run([sys.executable, *histories], capture_output=True, text=True, timeout=300, check=True)
    assert traces(inside) == traces(outside.stdout)


def traces(output: str) -> dict[int, str]:
    """The digest of each history's trace, by its seed."""
    outcomes = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert outcomes, output
    return {outcome["seed"]: outcome["digest"] for outcome in outcomes}


def test_healthy_is_serving(broker: str, zookeeper: str) -> None:
    wait_until_healthy(broker)
    checks = inspect(broker)["State"]["Health"]["Log"]
    assert "serving, one of 1 brokers" in checks[-1]["Output"]
    topics = docker("exec", broker, "kafkalite", "topics", "--bootstrap-server", "broker:9092", "--list")
    assert topics == ""
    # Without ZooKeeper it goes on serving, so nobody is to restart it for that.
    docker("kill", zookeeper)
    assert "serving" in docker("exec", broker, "python3", "-I", "-S", "/opt/kafkalite/serving.py")


def test_without_zookeeper_it_is_not_healthy_and_stops_when_told(broker_image: str, network: str) -> None:
    broker = docker(
        *("run", "--detach", "--network", network, "--env", "KAFKALITE_ZOOKEEPER_CONNECT=nowhere:2181"),
        *("--health-interval", "1s", "--health-retries", "2", broker_image),
    )
    wait_for(lambda: health(broker) == "unhealthy", "the broker is unhealthy", timeout=60)
    assert "not serving" in inspect(broker)["State"]["Health"]["Log"][-1]["Output"]
    docker("stop", "--time", 30, broker)
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
        *("run", "--detach", "--network", network, "--env", "KAFKALITE_BROKER_ID=9"),
        *("--volume", f"{mounted}:/etc/kafkalite/server.properties:ro", broker_image),
    )
    wait_for(lambda: "registered as broker 9" in logs(broker), "the broker has registered", timeout=90)
    result = docker("exec", broker, "cat", "/run/kafkalite/server.properties")
    assert result.splitlines()[-1] == "broker.id=9"
    assert "broker.rack=from-the-file" in result


def test_sigterm_is_a_controlled_shutdown(broker: str) -> None:
    wait_until_healthy(broker)
    assert docker("exec", broker, "cat", "/proc/1/comm") == "python3"
    docker("stop", "--time", 60, broker)
    assert inspect(broker)["State"]["ExitCode"] == 0
    assert "broker 7 has stopped" in logs(broker)
    # Nobody has to wait for the session of one that has said goodbye.
    docker("start", broker)
    wait_for(lambda: logs(broker).count("registered as broker 7") == 2, "it has registered again", timeout=90)
    assert "waits" not in logs(broker)
