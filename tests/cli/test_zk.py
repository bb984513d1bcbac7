"""``kafkalite zk``: what it does to a tree, and its one line for each failure. ZooKeeper is in memory."""

from __future__ import annotations

import pytest

from kafkalite.cli.main import main
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.zk_client import ConnectionLostError, NotAuthorizedError, ZkError

GROUP = "/consumers/readers"


class CommandClient(MemoryZkClient):
    """The client of the command, which is connected from the beginning."""

    async def start(self) -> None:
        """It is connected."""

    async def close(self) -> None:  # type: ignore[override]
        super().close()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> CommandClient:
    client = CommandClient(MemoryZooKeeper())
    for path in ("/consumers", GROUP, f"{GROUP}/offsets"):
        client.create(path, b"data")
    monkeypatch.setattr("kafkalite.cli.zk.KazooZkClient", lambda *_: client)
    return client


def zk(*arguments: str) -> int:
    return main(["zk", arguments[0], "--zookeeper", "memory:2181", *arguments[1:]])


def test_delete_takes_a_znode_and_all_below_it(client: CommandClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert zk("delete", "--path", GROUP) == 0
    assert capsys.readouterr().out == f"deleted {GROUP}/offsets\ndeleted {GROUP}\n"
    assert client.server.tree.find(GROUP) is None


def test_delete_says_that_another_client_creates_znodes_there(
    client: CommandClient, capsys: pytest.CaptureFixture[str]
) -> None:
    member = MemoryZkClient(client.server)

    def before(name: str, path: str) -> None:
        if (name, path) == ("delete", GROUP):
            member.create(f"{GROUP}/ids", b"")

    client.before = before
    assert zk("delete", "--path", GROUP) == 1
    assert f"{GROUP} is not empty: another client creates znodes below it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConnectionLostError(GROUP), f"the connection to ZooKeeper was lost at {GROUP}: the command stopped there"),
        (ZkError(GROUP, "BadArgumentsError:"), f"ZooKeeper refuses the request: BadArgumentsError: {GROUP}"),
        (NotAuthorizedError(GROUP), f"ZooKeeper does not let this client read {GROUP}: give the identity"),
    ],
)
def test_a_failure_is_one_line(
    error: ZkError, line: str, client: CommandClient, capsys: pytest.CaptureFixture[str]
) -> None:
    def before(_name: str, path: str) -> None:
        if path == GROUP:
            raise error

    client.before = before
    assert zk("tree") == 1
    said = capsys.readouterr().err
    assert said.startswith(f"kafkalite zk: {line}")
    assert said.count("\n") == 1


def test_a_missing_znode_is_named(client: CommandClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert client.server.tree.find("/typo") is None
    assert zk("set", "--path", "/typo", "--data", "x") == 1
    assert "there is no znode /typo" in capsys.readouterr().err


def test_the_root_of_the_tree_is_not_deleted(client: CommandClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert zk("delete", "--path", "/consumers/") == 2
    assert "the whole cluster needs it" in capsys.readouterr().err
    assert client.server.tree.find(GROUP) is not None
