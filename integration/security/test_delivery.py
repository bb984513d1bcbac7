"""The guarantees of delivery over SASL_SSL with ACLs: the same tests as on an open cluster, the long ones in short.

All clients log in as an ordinary user, who may read and write topics, groups and transactions, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from integration import test_delivery as open_cluster
from integration.conftest import TEST_OVERRIDES, ClusterFactory, launcher
from integration.faults.plan import Fault
from integration.faults.stage import Stage
from integration.harness.logins import DIRECTORY, grant_reading_and_writing
from integration.test_delivery import (
    filled,
    stage,
    test_acks_all_outlives_the_leader,
    test_transactions_are_exactly_once,
    test_working_first_is_at_least_once,
)
from integration.test_exactly_once import run_kills
from integration.test_kill_rounds import run_rounds
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.security import ClusterSecurity

__all__ = [
    "filled",
    "stage",
    "test_acks_all_outlives_the_leader",
    "test_transactions_are_exactly_once",
    "test_working_first_is_at_least_once",
]
OTHERS = (
    open_cluster.test_acks_1_loses_what_only_the_dead_leader_had,
    open_cluster.test_too_few_replicas_are_refused,
    partial(open_cluster.test_a_record_that_is_sent_again, idempotent=True),
)
BROKERS = 3


def started(directory: Path, overrides: Mapping[str, str]) -> LocalCluster:
    """A secured cluster whose ordinary user may read and write."""
    security = ClusterSecurity.create(directory)
    cluster = LocalCluster(directory, BROKERS, overrides=overrides, launcher=launcher(), security=security)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DIRECTORY, str(directory))
        try:
            cluster.start()
            grant_reading_and_writing(cluster.bootstrap)
        except BaseException:
            cluster.close()
            raise
    return cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three secured brokers, which the tests stop and kill; a stopped follower stays in the ISR for a while."""
    overrides = {**TEST_OVERRIDES, "replica.lag.time.max.ms": "60000", "auto.leader.rebalance.enable": "false"}
    cluster = started(tmp_path_factory.mktemp("secured"), overrides)
    yield cluster
    cluster.close()


@pytest.fixture
def shared_cluster(cluster: LocalCluster) -> LocalCluster:
    """The same, also for the tests that share an open cluster."""
    return cluster


@pytest.fixture
def make_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterFactory]:
    """``make_cluster(3, {…})`` → a started secured cluster of the test's own."""
    clusters: list[LocalCluster] = []

    def make(brokers: int, overrides: Mapping[str, str]) -> LocalCluster:
        assert brokers == BROKERS
        clusters.append(started(tmp_path / "cluster", {**TEST_OVERRIDES, **overrides}))
        monkeypatch.setenv(DIRECTORY, str(tmp_path / "cluster"))
        return clusters[0]

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture(autouse=True)
def login_of_the_module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients of a test log in at the cluster that it uses."""
    if "cluster" in request.fixturenames:
        monkeypatch.setenv(DIRECTORY, str(request.getfixturevalue("cluster").directory))


@pytest.mark.full
@pytest.mark.parametrize("test", OTHERS, ids=["acks=1", "too few replicas", "sent again"])
def test_the_other_guarantees_of_producers(stage: Stage, test: Callable[[Stage], None]) -> None:
    test(stage)


@pytest.mark.full
def test_results_survive_few_kills(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """Four kills of the application, one of them with a broker."""
    run_kills(make_cluster, tmp_path, 4)


@pytest.mark.full
@pytest.mark.kafkalite_only
def test_rounds_of_kills_lose_no_record(make_cluster: ClusterFactory) -> None:
    """A controller is killed, a leader is silent for a while, all brokers are killed."""
    run_rounds(make_cluster, (Fault.KILL_CONTROLLER, Fault.PAUSE_LEADER, Fault.KILL_ALL), 1, 5000, 3000)
