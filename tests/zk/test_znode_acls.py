"""Which znodes strangers may write in a protected tree, and how the coordinator takes a group over."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from kafkalite.common.tasks import Future
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.group_protection import GroupProtection
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.stores.paths import ensure, ensure_paths
from kafkalite.zk.stores.tree_protection import TreeProtection, warn_of_open_root
from kafkalite.zk.zk_client import NoNodeError, NotAuthorizedError
from kafkalite.zk.znode_acls import ALL, Access, Acl, access_to
from tests.support import run

OPEN = (Acl(ALL, "world", "anyone"),)
BROKER = Acl(ALL, "digest", "broker:x")


@pytest.mark.parametrize(
    ("path", "access"),
    [
        ("/", Access.READABLE),
        ("/controller_epoch", Access.READABLE),
        ("/brokers/topics/t/partitions/0/state", Access.READABLE),
        ("/transactions/0/coordinator_epoch", Access.READABLE),
        ("/consumers", Access.SHARED),
        ("/consumers/ids", Access.READABLE),
        ("/consumers/g", Access.READABLE),
        ("/consumers/g/ids", Access.SHARED),
        ("/consumers/g/ids/g_host-1", Access.SHARED),
        ("/consumers/g/owners/t/0", Access.SHARED),
        ("/consumers/g/offsets/t/0", Access.SHARED),
        ("/consumers/g/coordinator", Access.READABLE),
        ("/consumers/g/coordinator_epoch", Access.READABLE),
        ("/consumers/g/generation/3/ids", Access.READABLE),
        ("/consumers/g/commits/t/0", Access.READABLE),
        ("/consumers/g/staged/4000-3", Access.READABLE),
        ("/consumers_of_mine", Access.READABLE),
        ("/config/users", Access.SENSITIVE),
        ("/config/users/alice", Access.SENSITIVE),
        ("/config/brokers/<default>", Access.SENSITIVE),
        ("/config/topics/t", Access.READABLE),
        ("/delegation_token", Access.READABLE),
        ("/delegation_token/tokens/a", Access.SENSITIVE),
        ("/kafka-acl/Topic/t", Access.READABLE),
    ],
)
def test_access_of_strangers(path: str, access: Access) -> None:
    assert access_to(path) is access


class Lists:
    """The lists of a twin's znodes, kept beside it; ``foreign`` are those that the broker may not change."""

    def __init__(self, server: MemoryZooKeeper) -> None:
        self._server = server
        self.lists: dict[str, tuple[Acl, ...]] = {}
        self.foreign: set[str] = set()
        self.written: list[str] = []

    def get_acl(self, path: str) -> Awaitable[tuple[Acl, ...]]:
        future: Future[tuple[Acl, ...]] = Future()
        if self._server.tree.find(path) is None:
            future.errback(NoNodeError(path))
        else:
            future.callback(self.lists.get(path, OPEN))
        return future

    def set_acl(self, path: str, access: Access) -> Awaitable[None]:
        future: Future[None] = Future()
        if path in self.foreign:
            future.errback(NotAuthorizedError(path))
        elif self._server.tree.find(path) is None:
            future.errback(NoNodeError(path))
        else:
            self.written.append(path)
            self.lists[path] = OPEN if access is Access.OPEN else (BROKER, Acl(access.value, "world", "anyone"))
            future.callback(None)
        return future


@pytest.fixture
def server() -> MemoryZooKeeper:
    return MemoryZooKeeper()


@pytest.fixture
def client(server: MemoryZooKeeper) -> MemoryZkClient:
    client = server.client()
    run(ensure_paths(client))
    return client


def test_a_new_group_has_what_old_consumers_write(server: MemoryZooKeeper, client: MemoryZkClient) -> None:
    run(GroupStore(client, Lists(server)).prepare("g"))
    assert server.paths("/consumers/") == [
        "/consumers/g",
        "/consumers/g/ids",
        "/consumers/g/offsets",
        "/consumers/g/owners",
    ]


def test_without_protection_no_znode_is_made(server: MemoryZooKeeper, client: MemoryZkClient) -> None:
    run(GroupStore(client).prepare("g"))
    assert server.paths("/consumers/") == []


def test_a_group_of_old_consumers_is_taken_over(server: MemoryZooKeeper, client: MemoryZkClient) -> None:
    for path in ("ids/m", "offsets/t/0", "generation/1/m", "coordinator_epoch"):
        run(ensure(client, f"/consumers/g/{path}"))
    lists = Lists(server)
    acls = GroupProtection(client, lists)
    run(acls.prepare("/consumers/g"))
    assert lists.written[0] == "/consumers/g"
    assert sorted(lists.written) == [
        "/consumers/g",
        "/consumers/g/coordinator_epoch",
        "/consumers/g/generation",
        "/consumers/g/generation/1",
        "/consumers/g/generation/1/m",
        "/consumers/g/ids",
        "/consumers/g/offsets",
    ]
    assert server.tree.find("/consumers/g/owners") is not None
    lists.written.clear()
    run(acls.prepare("/consumers/g"))
    assert lists.written == []


def test_another_owners_list_is_taken_over_although_strangers_only_read(
    server: MemoryZooKeeper, client: MemoryZkClient
) -> None:
    lists = Lists(server)
    acls = GroupProtection(client, lists)
    run(ensure(client, "/consumers/known"))
    run(acls.prepare("/consumers/known"))
    run(ensure(client, "/consumers/g"))
    lists.lists["/consumers/g"] = (BROKER, Acl(ALL, "digest", "stranger:x"), Acl(1, "world", "anyone"))
    run(acls.prepare("/consumers/g"))
    assert lists.lists["/consumers/g"] == lists.lists["/consumers/known"]


@pytest.mark.parametrize("foreign", ["/consumers/g", "/consumers/g/generation"])
def test_a_group_of_a_stranger_is_not_served(
    server: MemoryZooKeeper, client: MemoryZkClient, foreign: str, caplog: pytest.LogCaptureFixture
) -> None:
    run(ensure(client, "/consumers/g/generation"))
    lists = Lists(server)
    lists.foreign.add(foreign)
    acls = GroupProtection(client, lists)
    for _ in range(2):
        with pytest.raises(NotAuthorizedError):
            run(acls.prepare("/consumers/g"))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [foreign]


def test_a_tree_is_secured_and_opened_again(server: MemoryZooKeeper, client: MemoryZkClient) -> None:
    for path in (
        "/controller_epoch",
        "/transactions/0/ids",
        "/consumers/g/offsets/t/0",
        "/zookeeper/quota",
        "/other/x",
    ):
        run(ensure(client, path))
    lists = Lists(server)
    tree = TreeProtection(client, lists)
    planned = run(tree.plan(secure=True))
    assert lists.written == [] and all(change.is_change for change in planned)
    done = run(tree.migrate(secure=True))
    assert {change.path for change in done} - {change.path for change in planned} == {
        "/consumers/g/ids",
        "/consumers/g/owners",
    }
    for path in server.paths():
        theirs = path.startswith(("/zookeeper", "/x/", "/other"))
        assert lists.lists.get(path, OPEN)[-1].permissions == (ALL if theirs else access_to(path).value), path
    assert lists.lists["/"][-1].permissions == Access.READABLE.value
    assert not any(change.is_change for change in run(tree.plan(secure=True)))
    assert not any(change.is_change for change in run(tree.migrate(secure=True)))
    assert any(change.is_change for change in run(tree.migrate(secure=False)))
    assert set(lists.lists.values()) == {OPEN}


def test_znodes_of_other_owners_are_named_and_the_others_secured(
    server: MemoryZooKeeper, client: MemoryZkClient
) -> None:
    run(ensure(client, "/consumers/g"))
    lists = Lists(server)
    lists.foreign |= {"/consumers/g", "/admin"}
    done = run(TreeProtection(client, lists).migrate(secure=True))
    assert {change.path for change in done if change.problem} == {"/consumers/g", "/admin"}
    assert lists.lists["/admin/delete_topics"][-1].permissions == Access.READABLE.value


def test_an_open_root_is_warned_of(server: MemoryZooKeeper, caplog: pytest.LogCaptureFixture) -> None:
    lists = Lists(server)
    run(warn_of_open_root(lists))
    assert "kafkalite zk secure" in caplog.text
    caplog.clear()
    run(TreeProtection(server.client(), lists).migrate(secure=True))
    run(warn_of_open_root(lists))
    assert caplog.text == ""
