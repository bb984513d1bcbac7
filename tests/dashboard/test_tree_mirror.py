"""The live copy of the tree: each change of a znode reaches it, also those made while the connection was lost."""

from __future__ import annotations

import pytest

from kafkalite.common.tasks import deferred
from kafkalite.dashboard.tree_mirror import MirroredZnode, Tree, TreeMirror
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.zk_client import NotAuthorizedError, ZnodeStat


class Mirror:
    """A mirror of a ZooKeeper in memory, which a second client writes."""

    def __init__(self) -> None:
        self.server = MemoryZooKeeper()
        self.writer = self.server.client()
        self.client = self.server.client()
        self.changed: list[str] = []
        self.mirror = TreeMirror(self.client, self.changed.append)

    def start(self) -> None:
        deferred(self.mirror.start())

    def data(self) -> dict[str, bytes | None]:
        return {path: znode.data for path, znode in self.mirror.tree.znodes.items()}


@pytest.fixture
def mirror() -> Mirror:
    return Mirror()


def create(client: MemoryZkClient, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
    deferred(client.create(path, data, ephemeral=ephemeral))


def test_the_mirror_reads_the_whole_tree(mirror: Mirror) -> None:
    create(mirror.writer, "/a", b"1")
    create(mirror.writer, "/a/b", b"2")
    create(mirror.writer, "/a/b/c", b"3", ephemeral=True)
    mirror.start()
    assert mirror.data() == {"/": b"", "/a": b"1", "/a/b": b"2", "/a/b/c": b"3"}
    assert mirror.mirror.tree.children("/a") == ["b"]


def test_each_change_is_seen_and_told_once(mirror: Mirror) -> None:
    create(mirror.writer, "/a")
    mirror.start()
    mirror.changed.clear()
    deferred(mirror.writer.set("/a", b"new"))
    create(mirror.writer, "/a/b", b"2")
    create(mirror.writer, "/a/b/c", b"3")
    assert mirror.data() == {"/": b"", "/a": b"new", "/a/b": b"2", "/a/b/c": b"3"}
    assert mirror.changed == ["/a", "/a/b", "/a/b/c"]
    mirror.changed.clear()
    deferred(mirror.writer.delete("/a/b/c"))
    deferred(mirror.writer.delete("/a/b"))
    assert mirror.data() == {"/": b"", "/a": b"new"}
    assert mirror.changed == ["/a/b/c", "/a/b"]


def test_a_znode_that_is_made_again_is_seen_again(mirror: Mirror) -> None:
    create(mirror.writer, "/a", b"1")
    mirror.start()
    for data in (b"2", b"3"):
        deferred(mirror.writer.delete("/a"))
        create(mirror.writer, "/a", data)
        assert mirror.data()["/a"] == data
        deferred(mirror.writer.set("/a", data * 2))
        assert mirror.data()["/a"] == data * 2


def test_the_end_of_a_session_removes_its_znodes(mirror: Mirror) -> None:
    broker = mirror.server.client()
    create(broker, "/id", b"1", ephemeral=True)
    mirror.start()
    mirror.server.expire(broker.session)
    assert mirror.data() == {"/": b""}


def test_changes_made_while_the_connection_was_lost_are_read_afterwards(mirror: Mirror) -> None:
    create(mirror.writer, "/kept", b"1")
    create(mirror.writer, "/changed", b"1")
    create(mirror.writer, "/gone", b"1")
    mirror.start()
    mirror.client.lose_connection()
    deferred(mirror.writer.set("/changed", b"2"))
    deferred(mirror.writer.delete("/gone"))
    create(mirror.writer, "/new", b"1")
    mirror.changed.clear()
    mirror.client.reconnect()
    assert mirror.data() == {"/": b"", "/kept": b"1", "/changed": b"2", "/new": b"1"}
    # The root's stat counts the changes of its children.
    assert sorted(mirror.changed) == ["/", "/changed", "/gone", "/new"]
    # The watches are set again, too.
    deferred(mirror.writer.set("/kept", b"2"))
    assert mirror.data()["/kept"] == b"2"


def test_a_znode_that_may_not_be_read_is_shown_without_its_data(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(mirror.writer, "/secret", b"1")
    read = mirror.client.get

    def get(path: str, watch: object = None) -> object:
        if path == "/secret":
            raise NotAuthorizedError(path)
        return read(path, watch)  # type: ignore[arg-type]

    monkeypatch.setattr(mirror.client, "get", get)
    mirror.start()
    assert mirror.data() == {"/": b"", "/secret": None}


def test_a_tree_forgets_what_stands_below_a_removed_znode() -> None:
    tree, znode = Tree(), MirroredZnode(b"", ZnodeStat(0, 0, 0))
    for path in ("/", "/a", "/a/b", "/a/b/c", "/ab"):
        assert tree.set(path, znode)
        assert not tree.set(path, znode)
    assert tree.remove("/a") == ["/a/b/c", "/a/b", "/a"]
    assert sorted(tree.znodes) == ["/", "/ab"]
    assert tree.children("/") == ["ab"]
    assert tree.remove("/a") == []
