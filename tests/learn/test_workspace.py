"""What a lab's text may name, how its clients log in, and the cluster that it gets, open or secured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kafkalite.common.errors import StartupError
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.security import ClusterSecurity
from kafkalite.learn import course
from kafkalite.learn.catalog import Catalog
from kafkalite.learn.course import Course
from kafkalite.learn.workspace import Workspace
from tests.learn.test_catalog import CODE, lab_folder


@pytest.fixture
def security(tmp_path: Path) -> ClusterSecurity:
    return ClusterSecurity.create(tmp_path)


def workspace(directory: Path, security: ClusterSecurity | None = None) -> Workspace:
    cluster = LocalCluster(directory, 1, zookeeper="127.0.0.1:2181/kafka", security=security)
    return Workspace(cluster, directory)


def test_an_open_cluster_has_no_users(tmp_path: Path) -> None:
    lab = workspace(tmp_path)
    assert lab.login() == {"bootstrap.servers": lab.cluster.bootstrap}
    values = lab.values()
    assert values["python"] == sys.executable
    assert not {"admin", "client", "zookeeper_tls"} & values.keys()


def test_a_secured_cluster_has_two_users_with_a_file_each(tmp_path: Path, security: ClusterSecurity) -> None:
    lab = workspace(tmp_path, security)
    users = [lab.login(user)["sasl.username"] for user in ("admin", "client")]
    assert users == ["admin", "client"]
    assert lab.login() == lab.login("admin")
    files = [Path(lab.values()[name]) for name in ("admin", "client", "zookeeper_tls")]
    assert [file.name for file in files] == ["admin.properties", "client.properties", "zookeeper.properties"]
    assert all(file.exists() for file in files)


@pytest.mark.parametrize("secure", [False, True])
def test_a_lab_gets_the_cluster_that_it_needs(secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[LocalCluster] = []

    class Recorded(LocalCluster):
        def start(self, timeout: float = 0.0) -> None:  # noqa: ARG002 (the signature of the class)
            made.append(self)
            raise StartupError("recorded")

    monkeypatch.setattr(course, "LocalCluster", Recorded)
    (tmp_path / "labs").mkdir()
    labs = lab_folder(tmp_path / "labs", code=CODE.replace("LabNeeds(2)", f"LabNeeds(2, secure={secure})"))
    started = Course(Catalog([labs]), tmp_path / "state")
    with pytest.raises(StartupError, match="recorded"):
        started.start("my-lab")
    [cluster] = made
    assert cluster.broker_ids == [1, 2]
    assert (cluster.security is not None) == secure
    assert (ClusterSecurity.find(started.directory) is not None) == secure
