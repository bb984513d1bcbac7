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
        "markers",
        f"{MARKER}(brokers=1, overrides={{}}, secure=False): the kafkalite cluster of this test, its broker "
        "properties, and whether it is secured",
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
    """A cluster that all tests share; each test uses its own topics."""
    brokers = _brokers(request)
    with _cluster(tmp_path_factory.mktemp("kafkalite"), kafkalite_zookeeper, brokers, {}) as cluster:
        yield cluster


@pytest.fixture
def kafkalite_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaliteCluster]:
    """A cluster for one test, which may harm it; ``@pytest.mark.kafkalite(brokers=3)`` sets its options."""
    wanted = _options(request, "brokers", "overrides", "secure")
    brokers, overrides = wanted.get("brokers", _brokers(request)), wanted.get("overrides", {})
    secure = wanted.get("secure", False)
    # A secured cluster has a ZooKeeper of its own, with its own authority.
    zookeeper = None if secure else request.getfixturevalue("kafkalite_zookeeper")
    with _cluster(tmp_path / "kafkalite", zookeeper, brokers, overrides, secure) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafkalite_session_container() -> Iterator[KafkaliteContainer]:
    """A broker in a container, and its ZooKeeper in another, that all tests share."""
    from kafkalite.testing.containers import KafkaliteContainer

    with KafkaliteContainer() as container:
        yield container


@pytest.fixture
def kafkalite_container(request: pytest.FixtureRequest) -> Iterator[KafkaliteContainer]:
    """A broker and its ZooKeeper in containers for one test, which may harm them.

    ``@pytest.mark.kafkalite(secure=True)`` secures them.
    """
    from kafkalite.testing.containers import KafkaliteContainer

    wanted = _options(request, "secure")
    with KafkaliteContainer(secure=wanted.get("secure", False)) as container:
        yield container


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last lines of the brokers' output to the report of a failed test."""
    report = yield
    if report.failed:
        for name in ("kafkalite_cluster", "kafkalite_session_cluster"):
            cluster = getattr(item, "funcargs", {}).get(name)
            for log in cluster.log_files if cluster is not None else ():
                lines = log.read_text(errors="replace").splitlines()
                report.sections.append((f"{log.parent.name} of {name}", "\n".join(lines[-LOG_LINES:])))
    return report


def _options(request: pytest.FixtureRequest, *allowed: str) -> dict[str, Any]:
    """What the marker of the test says. Raises ``UsageError`` for other options than those ``allowed``."""
    marker = request.node.get_closest_marker(MARKER)
    options: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
    wrong = sorted(options.keys() - set(allowed))
    if wrong:
        raise pytest.UsageError(
            f"{request.fixturename}: @pytest.mark.{MARKER} takes {', '.join(allowed)}, not {', '.join(wrong)}"
        )
    return options


def _brokers(request: pytest.FixtureRequest) -> int:
    return int(request.config.getini("kafkalite_brokers"))


def _cluster(
    directory: Path, zookeeper: str | None, brokers: int, overrides: dict[str, str], secure: bool = False
) -> KafkaliteCluster:
    from kafkalite.testing.cluster import KafkaliteCluster

    connect = None if zookeeper is None else f"{zookeeper}/cluster-{next(_chroots)}"
    return KafkaliteCluster(directory, brokers, zookeeper=connect, overrides=overrides, secure=secure)
