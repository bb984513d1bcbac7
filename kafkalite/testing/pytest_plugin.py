"""Fixtures for users' tests: ``kafkalite_cluster`` and ``kafkalite_container``, for one test or shared by all.

Answers to: ``EmbeddedKafka`` of other test kits; pytest finds it by the entry point ``pytest11``. Shell.

Nothing is imported before a test needs it, because the plugin is loaded in every run of pytest.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kafkalite.testing.cluster import KafkaliteCluster
    from kafkalite.testing.containers import KafkaliteContainer

LOG_LINES = 40
MARKER = "kafkalite"
_chroots = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``kafkalite_brokers`` of the configuration file."""
    parser.addini("kafkalite_brokers", "how many brokers a cluster has unless a test says otherwise", default="1")


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line(
        "markers", f"{MARKER}(brokers=1, overrides={{}}): the kafkalite cluster of this test and its broker properties"
    )


@pytest.fixture(scope="session")
def kafkalite_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One real ZooKeeper for all clusters of the run: its connection string."""
    from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
    from kafkalite.testing.properties import ZOOKEEPER_DEFAULTS

    with EmbeddedZooKeeper(tmp_path_factory.mktemp("kafkalite-zookeeper"), properties=ZOOKEEPER_DEFAULTS) as server:
        yield server.connect_string


@pytest.fixture(scope="session")
def kafkalite_session_cluster(
    request: pytest.FixtureRequest, kafkalite_zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaliteCluster]:
    """A cluster that all tests share; each uses topics of its own."""
    brokers = _brokers(request)
    with _cluster(tmp_path_factory.mktemp("kafkalite"), kafkalite_zookeeper, brokers, {}) as cluster:
        yield cluster


@pytest.fixture
def kafkalite_cluster(
    request: pytest.FixtureRequest, kafkalite_zookeeper: str, tmp_path: Path
) -> Iterator[KafkaliteCluster]:
    """A cluster of the test's own, to be harmed at will; ``@pytest.mark.kafkalite(brokers=3)`` says what it is."""
    marker = request.node.get_closest_marker(MARKER)
    wanted: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
    brokers, overrides = wanted.pop("brokers", _brokers(request)), wanted.pop("overrides", {})
    if wanted:
        raise pytest.UsageError(f"@pytest.mark.{MARKER} takes brokers and overrides, not {', '.join(wanted)}")
    with _cluster(tmp_path / "kafkalite", kafkalite_zookeeper, brokers, overrides) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafkalite_session_container() -> Iterator[KafkaliteContainer]:
    """A broker in a container, and its ZooKeeper in another, that all tests share."""
    from kafkalite.testing.containers import KafkaliteContainer

    with KafkaliteContainer() as container:
        yield container


@pytest.fixture
def kafkalite_container() -> Iterator[KafkaliteContainer]:
    """The same for one test alone, to be harmed at will."""
    from kafkalite.testing.containers import KafkaliteContainer

    with KafkaliteContainer() as container:
        yield container


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the last lines that its brokers wrote."""
    report = yield
    if report.failed:
        for name in ("kafkalite_cluster", "kafkalite_session_cluster"):
            cluster = getattr(item, "funcargs", {}).get(name)
            for log in cluster.log_files if cluster is not None else ():
                lines = log.read_text(errors="replace").splitlines()
                report.sections.append((f"{log.parent.name} of {name}", "\n".join(lines[-LOG_LINES:])))
    return report


def _brokers(request: pytest.FixtureRequest) -> int:
    return int(request.config.getini("kafkalite_brokers"))


def _cluster(directory: Path, zookeeper: str, brokers: int, overrides: dict[str, str]) -> KafkaliteCluster:
    from kafkalite.testing.cluster import KafkaliteCluster

    return KafkaliteCluster(directory, brokers, zookeeper=f"{zookeeper}/cluster-{next(_chroots)}", overrides=overrides)
