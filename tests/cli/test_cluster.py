"""``kafkalite cluster start``: what is refused before anything starts, and what a later start keeps."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from kafkalite.cli import cluster
from kafkalite.cli.cluster_faults import FAULTS
from kafkalite.cli.main import main
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.security import ClusterSecurity
from kafkalite.embedded.state import BrokerAddress, write_overrides, write_state


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[LocalCluster]:
    """The clusters that the command would have started."""
    found: list[LocalCluster] = []

    def begin(this: LocalCluster) -> None:
        found.append(this)

    monkeypatch.setattr(LocalCluster, "start", begin)
    monkeypatch.setattr(LocalCluster, "bootstrap", "localhost:1")
    monkeypatch.setattr(LocalCluster, "zookeeper", "localhost:2")
    return found


def start(directory: Path, *flags: str) -> int:
    return main(["cluster", "start", "--dir", str(directory), "--brokers", "1", "--detach", *flags])


def test_a_secured_cluster_stays_secured(
    tmp_path: Path, started: list[LocalCluster], capsys: pytest.CaptureFixture[str]
) -> None:
    for flags in (("--secure",), ()):
        assert start(tmp_path, *flags) == 0
        assert f"{tmp_path / 'security' / 'admin.properties'} and " in capsys.readouterr().out
    first, again = (each.security for each in started)
    assert first is not None
    assert again is not None
    assert first.logins() == again.logins()


def test_a_later_start_keeps_the_overrides(tmp_path: Path, started: list[LocalCluster]) -> None:
    """The last value of each key that was given."""
    for flags, expected in (
        (("--override", "a=1", "--override", "b=2"), {"a": "1", "b": "2"}),
        ((), {"a": "1", "b": "2"}),
        (("--override", "b=3", "--override", "c=4"), {"a": "1", "b": "3", "c": "4"}),
    ):
        assert start(tmp_path, *flags) == 0
        assert started[-1].overrides == expected
        write_state(tmp_path, "localhost:2", [])
        write_overrides(tmp_path, started[-1].overrides)
    assert LocalCluster.running(tmp_path).overrides == expected


def test_a_later_start_has_as_many_brokers(tmp_path: Path, started: list[LocalCluster]) -> None:
    for flags, expected in (((), [1, 2, 3]), (("--brokers", "2"), [1, 2]), ((), [1, 2])):
        assert main(["cluster", "start", "--dir", str(tmp_path), "--detach", *flags]) == 0
        assert started[-1].broker_ids == expected
        brokers = [BrokerAddress(each, "localhost", 1, 0, str(tmp_path / f"broker-{each}")) for each in expected]
        write_state(tmp_path, "localhost:2", brokers)


def test_an_open_cluster_stays_open(
    tmp_path: Path, started: list[LocalCluster], capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(tmp_path) == 0
    assert started[0].security is None
    assert "properties" not in capsys.readouterr().out
    write_state(tmp_path, "localhost:2", [])
    assert start(tmp_path, "--secure") == 1
    assert "was started without --secure: choose another --dir" in capsys.readouterr().err
    assert ClusterSecurity.find(tmp_path) is None


def test_a_secured_cluster_has_its_own_zookeeper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert start(tmp_path, "--secure", "--zookeeper", "localhost:2181") == 1
    assert "leave --zookeeper out" in capsys.readouterr().err
    assert ClusterSecurity.find(tmp_path) is None


def test_the_flag_is_off_by_default() -> None:
    parser = argparse.ArgumentParser()
    cluster.add_parser(parser.add_subparsers())
    assert parser.parse_args(["cluster", "start", "--dir", "d"]).secure is False


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_names_a_broker_that_runs(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["cluster", fault, "--dir", str(tmp_path), "--broker"]
    assert main([*arguments, "1"]) == 1
    assert f"no cluster in {tmp_path}" in capsys.readouterr().err
    write_state(tmp_path, "localhost:2", [BrokerAddress(1, "localhost", 1, 2**22 + 1, str(tmp_path / "broker-1"))])
    assert main([*arguments, "9"]) == 1
    assert "--broker 9: the cluster in" in capsys.readouterr().err
    assert main([*arguments, "1"]) == 1
    assert "broker 1 is not running" in capsys.readouterr().err


def test_changes_are_allowed_to_a_dashboard_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert start(tmp_path, "--allow-changes") == 1
    assert "--allow-changes is for the page: give --dashboard, too" in capsys.readouterr().err
