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

from integration.harness import schedule, shared, spark_archive
from integration.harness.durations import Durations
from integration.harness.java import kafka_launcher
from integration.harness.schedule import GroupScheduling
from integration.harness.stranger import build_wheel, make_environment
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
"""Whether the long tests run, too (``make soak``)."""
ClusterFactory = Callable[..., LocalCluster]
TIERS = pytest.StashKey[list[str]]()
"""Files with tests of ``make test-all`` only."""
UNREPLACED = pytest.StashKey[list[str]]()
"""Tests that ``make test-all`` leaves out and does not replace."""
RUN_FOLDER = "kafkalite_run_folder"
LOG_PATTERNS = ("**/broker.log", "**/zookeeper.log")
LOG_LINES = 40
LEFT_OUT = "left out without Docker: "
"""Beginning of the reason of a skipped container test."""

# Settings for quick tests, because Kafka's defaults are for large clusters. Both brokers know all of them.
TEST_OVERRIDES = {
    "group.initial.rebalance.delay.ms": "0",
    # Short, so that dead members are removed soon.
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    # Long, so that no session expires on a busy machine. Guardians end the sessions of dead brokers at once.
    "zookeeper.session.timeout.ms": "12000",
    # Longer than a session, which is its default, because a broker ends that finds no ZooKeeper for so long.
    "zookeeper.connection.timeout.ms": "60000",
    "auto.create.topics.enable": "false",
    # The records of the tests carry timestamps of 2023.
    "log.retention.ms": "-1",
}


def pytest_configure(config: pytest.Config) -> None:
    """Make SIGTERM (by a time limit, for example) end the tests like Ctrl-C, so that no broker is left behind.

    Drivers of Spark start fast.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ[spark_archive.SUBMIT_OPTIONS] = spark_archive.submit_options()
    if schedule.WORKER:
        config.pluginmanager.register(schedule.Turns(run_folder(config)))
    else:
        config.pluginmanager.register(Durations(config.rootpath))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Pass the folder with the shared files of the run to each worker."""
    node.workerinput[RUN_FOLDER] = str(run_folder(node.config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    """The scheduler for ``--dist loadgroup`` with the groups of :mod:`integration.harness.schedule`."""
    if config.getoption("dist") != "loadgroup":
        return None
    return GroupScheduling(config, log, run_folder(config))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the shared cluster after all tests, before pytest may delete the run's folder."""
    if not schedule.WORKER:
        shared.end(run_folder(session.config))


def run_folder(config: pytest.Config) -> Path:
    """The temporary folder of the run, which all workers share."""
    if schedule.WORKER:
        return Path(getattr(config, "workerinput")[RUN_FOLDER])  # noqa: B009 (xdist's, unknown to pytest's types)
    factory: pytest.TempPathFactory = getattr(config, "_tmp_path_factory")  # noqa: B009
    return factory.getbasetemp()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Sort the tests by groups. Tests marked ``kafkalite_only`` are left out against Kafka."""
    config.stash[TIERS] = schedule.only_full(items)
    config.stash[UNREPLACED] = schedule.short_alone(items)
    if AGAINST_KAFKA:
        for item in items:
            if item.get_closest_marker("kafkalite_only"):
                item.add_marker(pytest.mark.skip(reason="only kafkalite can do this"))
    yield
    if schedule.WORKER:
        schedule.assign(items, run_folder(config))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last lines of the brokers' and ZooKeeper's output to the report of a failed test."""
    report = yield
    if report.failed:
        for log in server_logs(getattr(item, "funcargs", {})):
            lines = log.read_text(errors="replace").splitlines()
            title = f"{log.parent.parent.name}/{log.parent.name}/{log.name}"
            report.sections.append((f"{title}, the last of {len(lines)} lines", "\n".join(lines[-LOG_LINES:])))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the tests that were skipped without Docker, and what to install for them."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    left_out = [reason.partition(LEFT_OUT)[2].rstrip("')") for reason in reasons if LEFT_OUT in reason]
    if left_out:
        terminalreporter.section("container tests")
        terminalreporter.write_line(f"{len(left_out)} tests {LEFT_OUT}{left_out[0]}")


def server_logs(fixtures: Mapping[str, object]) -> list[Path]:
    """The output files of a test's servers: those in its temporary folder, and those of the shared ones it used."""
    folders = {value for name, value in fixtures.items() if name == "tmp_path" and isinstance(value, Path)}
    folders |= {value.directory for value in fixtures.values() if isinstance(value, LocalCluster)}
    return sorted({log for folder in folders for pattern in LOG_PATTERNS for log in folder.glob(pattern)})


def launcher() -> Launcher:
    """The launcher of the brokers under test."""
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
    """Three brokers for all tests that do not change them, in all workers; each test uses its own topics."""
    return shared.obtain(run_folder(request.config), TEST_OVERRIDES, launcher())


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small Spark session for all tests that need one, with Spark's own Kafka source and kafkalite's."""
    from integration.harness.spark import new_session  # here, because most runs of single tests need no Spark

    session = new_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper for the tests of one module."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def loop() -> BlockingLoop:
    """The loop that runs a client without a reactor."""
    return BlockingLoop()


@pytest.fixture
def tree(cluster: LocalCluster) -> Iterator[Tree]:
    """The ZooKeeper tree of the module's ``cluster``, below its chroot."""
    with Tree(cluster.zookeeper) as tree:
        yield tree


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kafkalite's wheel, built from this checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(
    scope="session",
    params=[pytest.param("borrowed", marks=pytest.mark.short), pytest.param("installed", marks=pytest.mark.full)],
)
def stranger_python(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has ``kafkalite[testing]`` from the built wheel, and not this checkout.

    Its dependencies are borrowed from this environment, or installed by the wheel's requirements.
    """
    return make_environment(tmp_path_factory.mktemp("stranger"), wheel, "testing", borrow=request.param == "borrowed")
