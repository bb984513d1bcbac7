"""Fixtures of the container tests: the daemon, the images, a network for the test."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from integration.conftest import AGAINST_KAFKA, LEFT_OUT
from integration.containers import images
from integration.containers.daemon import REQUIRED, Daemon, NoDaemonError, docker

# The tests remove their containers, because testcontainers' own clean-up needs an image from a registry.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"


@pytest.fixture(scope="session", autouse=True)
def docker_daemon() -> Iterator[Daemon]:
    """A Docker daemon that answers. Without one each test here is skipped, or fails if a daemon is required."""
    if AGAINST_KAFKA:
        pytest.skip("the images are kafkalite's")
    try:
        daemon = Daemon()
    except NoDaemonError as error:
        missing = str(error)
    else:
        yield daemon
        daemon.close()
        return
    if REQUIRED:
        pytest.fail(f"KAFKALITE_DOCKER=required, but {missing}", pytrace=False)
    pytest.skip(f"{LEFT_OUT}{missing}")


@pytest.fixture(scope="session")
def broker_image() -> str:
    """Name of the broker's image, built from the current sources."""
    return images.broker()


@pytest.fixture(scope="session")
def zookeeper_image() -> str:
    """Name of ZooKeeper's image: the official one, or its replacement from ``docker/stand-ins``."""
    return images.zookeeper()


@pytest.fixture
def network() -> Iterator[str]:
    """Name of a new network, which is removed after the test together with its remaining containers."""
    name = f"kafkalite-{secrets.token_hex(4)}"
    docker("network", "create", "--label", "kafkalite-test", name)
    yield name
    left = docker("ps", "--all", "--quiet", "--filter", f"network={name}").split()
    if left:
        docker("rm", "--force", "--volumes", *left)
    docker("network", "rm", name)
