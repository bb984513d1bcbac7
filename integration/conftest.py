"""Fixtures of the integration tests: clusters of real processes on free ports of 127.0.0.1, shared by all workers.

``KAFKALITE_TEST_BROKER=kafka`` runs the same tests against Apache Kafka 3.9.1 in ZooKeeper mode, which proves them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.harness import schedule, shared
from integration.harness.durations import Durations
from integration.harness.java import kafka_launcher
from integration.harness.schedule import GroupScheduling
from integration.harness.stranger import make_environment
from integration.harness.tree import Tree
from kafkalite.embedded.cluster import Launcher, LocalCluster, kafkalite_launcher
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.zk.blocking import BlockingLoop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

AGAINST_KAFKA = os.environ.get("KAFKALITE_TEST_BROKER") == "kafka"
SOAK = os.environ.get("KAFKALITE_SOAK", "") not in ("", "0")
"""Whether the long forms run, too (``make soak``)."""
ClusterFactory = Callable[..., LocalCluster]
TIERS = pytest.StashKey[list[str]]()
"""Files whose tests are all left to ``make test-all``."""
RUN_FOLDER = "kafkalite_run_folder"
LOG_PATTERNS = ("**/broker.log", "**/zookeeper.log")
LOG_LINES = 40
LEFT_OUT = "left out without Docker: "
"""How the reason of a skipped container test begins."""

# What makes a test cluster quick: Kafka's own defaults are for large, slow machines. Both understand all of it.
TEST_OVERRIDES = {
    "group.initial.rebalance.delay.ms": "0",
    # Members that die are to be missed soon.
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    # A stall of a busy machine is not to cost a session. Brokers that die lose theirs at once, by their guardians.
    "zookeeper.session.timeout.ms": "12000",
    "auto.create.topics.enable": "false",
    # The records of the tests carry timestamps of 2023.
    "log.retention.ms": "-1",
}


def pytest_configure(config: pytest.Config) -> None:
    """Told to end (by a time limit, say), the tests end as by Ctrl-C, so that no broker is left behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if schedule.WORKER:
        config.pluginmanager.register(schedule.Turns(run_folder(config)))
    else:
        config.pluginmanager.register(Durations(config.rootpath))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell each worker where the run keeps what its workers share."""
    node.workerinput[RUN_FOLDER] = str(run_folder(node.config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    """``--dist loadgroup`` by our groups."""
    if config.getoption("dist") != "loadgroup":
        return None
    return GroupScheduling(config, log, run_folder(config))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The end of the shared cluster, when all tests are over and before pytest gives the run's folder away."""
    if not schedule.WORKER:
        shared.end(run_folder(session.config))


def run_folder(config: pytest.Config) -> Path:
    """The temporary folder of the run: the same for all of its workers."""
    if schedule.WORKER:
        return Path(getattr(config, "workerinput")[RUN_FOLDER])  # noqa: B009 (xdist's, unknown to pytest's types)
    factory: pytest.TempPathFactory = getattr(config, "_tmp_path_factory")  # noqa: B009
    return factory.getbasetemp()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Workers get groups of tests. What only kafkalite can do is left out against Kafka."""
    config.stash[TIERS] = schedule.only_full(items)
    if AGAINST_KAFKA:
        for item in items:
            if item.get_closest_marker("kafkalite_only"):
                item.add_marker(pytest.mark.skip(reason="only kafkalite can do this"))
    yield
    if schedule.WORKER:
        schedule.assign(items, run_folder(config))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the last lines of its brokers' and its ZooKeeper's output."""
    report = yield
    if report.failed:
        for log in server_logs(getattr(item, "funcargs", {})):
            lines = log.read_text(errors="replace").splitlines()
            title = f"{log.parent.parent.name}/{log.parent.name}/{log.name}"
            report.sections.append((f"{title}, the last of {len(lines)} lines", "\n".join(lines[-LOG_LINES:])))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The last lines say which tests were left out for want of Docker, and what to do about it."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    left_out = [reason.partition(LEFT_OUT)[2].rstrip("')") for reason in reasons if LEFT_OUT in reason]
    if left_out:
        terminalreporter.section("container tests")
        terminalreporter.write_line(f"{len(left_out)} tests {LEFT_OUT}{left_out[0]}")


def server_logs(fixtures: Mapping[str, object]) -> list[Path]:
    """What the servers of a test's ``fixtures`` wrote: those of its temporary folder, and the shared ones it used."""
    folders = {value for name, value in fixtures.items() if name == "tmp_path" and isinstance(value, Path)}
    folders |= {value.directory for value in fixtures.values() if isinstance(value, LocalCluster)}
    return sorted({log for folder in folders for pattern in LOG_PATTERNS for log in folder.glob(pattern)})


def launcher() -> Launcher:
    """What starts the brokers under test."""
    return kafka_launcher() if AGAINST_KAFKA else kafkalite_launcher


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[ClusterFactory]:
    """``make_cluster(brokers=3, overrides={…})`` → a started cluster, stopped at the end of the test."""
    clusters: list[LocalCluster] = []

    def make(brokers: int = 3, overrides: Mapping[str, str] | None = None, **more: object) -> LocalCluster:
        start = bool(more.pop("start", True))
        directory = tmp_path / f"cluster-{len(clusters)}"
        cluster = LocalCluster(
            directory,
            brokers,
            overrides={**TEST_OVERRIDES, **(overrides or {})},
            launcher=launcher(),
            **more,  # type: ignore[arg-type]
        )
        clusters.append(cluster)
        if start:
            cluster.start()
        return cluster

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture(scope="session")
def shared_cluster(request: pytest.FixtureRequest) -> LocalCluster:
    """Three brokers for all tests of all workers that leave them as they are; each uses topics of its own."""
    return shared.obtain(run_folder(request.config), TEST_OVERRIDES, launcher())


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small Spark session for all tests that need one, with all sources: Spark's own and ours."""
    from integration.harness.spark import new_session  # most runs of single tests need no Spark

    session = new_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper of the module's own, for tests of what talks to it."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def loop() -> BlockingLoop:
    """What drives a client without a reactor."""
    return BlockingLoop()


@pytest.fixture
def tree(cluster: LocalCluster) -> Iterator[Tree]:
    """ZooKeeper as the module's ``cluster`` sees it."""
    with Tree(cluster.zookeeper) as tree:
        yield tree


@pytest.fixture(scope="session", params=["borrowed", pytest.param("installed", marks=pytest.mark.full)])
def stranger_python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has ``kafkalite[testing]`` from the built wheel, and not this checkout.

    What that needs is borrowed from this environment, or installed as the wheel asks for it.
    """
    return make_environment(tmp_path_factory.mktemp("stranger"), "testing", borrow=request.param == "borrowed")
