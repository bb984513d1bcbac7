"""The tree of znodes decides as ZooKeeper does, and another tree can repeat what it decided."""

from __future__ import annotations

import random

import pytest

from kafkalite.testing.znodes import ZnodeTree, is_valid_path
from kafkalite.zk.zk_client import (
    BadVersionError,
    Check,
    Create,
    Delete,
    MultiError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SetData,
    ZkError,
)


def tree() -> ZnodeTree:
    made = ZnodeTree(lambda: 0)
    made.multi([Create("/a"), Create("/a/b"), Create("/e", ephemeral=True), SetData("/a", b"1")], 7)
    return made


@pytest.mark.parametrize(
    ("op", "error", "says"),
    [
        (Create("/a"), NodeExistsError, ""),
        (Create("/"), NodeExistsError, ""),
        (Create("/x/y"), NoNodeError, ""),
        (Create("/e/child"), ZkError, "NoChildrenForEphemeralsError: /e/child"),
        (Create("relative"), ZkError, "BadArgumentsError: relative"),
        (Create("/a/"), ZkError, "BadArgumentsError: /a/"),
        (Create("/a/../x"), NoNodeError, ""),
        (Create("/a/.."), ZkError, "BadArgumentsError: /a/.."),
        (Create("/a/\x01"), ZkError, "BadArgumentsError"),
        (SetData("/a", b"", 0), BadVersionError, ""),
        (SetData("/x", b""), NoNodeError, ""),
        (SetData("/a/", b""), ZkError, "BadArgumentsError"),
        (Check("/a", 0), BadVersionError, ""),
        (Check("/x", -1), NoNodeError, ""),
        (Delete("/a"), NotEmptyError, ""),
        (Delete("/a", 0), BadVersionError, ""),
        (Delete("/x"), NoNodeError, ""),
        (Delete("/"), ZkError, "BadArgumentsError: /"),
    ],
)
def test_errors_are_those_of_the_server(op: Op, error: type[ZkError], says: str) -> None:
    with pytest.raises(MultiError) as caught:
        tree().multi([op], 7)
    assert type(caught.value.cause) is error and says in str(caught.value.cause)


@pytest.mark.parametrize("path", ["/", "/a", "/a/b", "/...", "/a b", "/é", "/\ud7ff", "/\uf900"])
def test_paths_that_the_server_takes(path: str) -> None:
    assert is_valid_path(path)


@pytest.mark.parametrize(
    "path", ["", "a", "a/b", "//", "/a/", "/a//b", "/.", "/..", "/a/./b", "/\x00", "/\x1f", "/\x7f", "/\x9f", "/\ue000"]
)
def test_paths_that_the_server_refuses(path: str) -> None:
    assert not is_valid_path(path)


def test_another_tree_repeats_what_the_first_decided() -> None:
    rng = random.Random(1)
    paths = ["/a", "/b", "/a/a", "/a/b", "/b/a"]

    def op() -> Op:
        path, version = rng.choice(paths), rng.choice((-1, -1, 0, 1))
        create = Create(path, b"%d" % rng.randrange(9), rng.random() < 0.2, rng.random() < 0.3)
        return rng.choice((create, create, SetData(path, b"x", version), Delete(path, version), Check(path, version)))

    first, second = ZnodeTree(lambda: rng.randrange(1000)), ZnodeTree(lambda: 0)
    refused = 0
    for _ in range(2000):
        session = rng.randrange(1, 4)
        ops = [op() for _ in range(rng.randint(1, 4))]
        transaction = first.close_session(session) if rng.random() < 0.05 else first.propose(ops, session)
        refused += transaction.error is not None
        second.apply(transaction)
        assert second.nodes == first.nodes and second.zxid == first.zxid
        assert [sorted(second.ephemerals(each)) for each in (1, 2, 3)] == [
            sorted(path for path, node in first.nodes.items() if node.owner == each) for each in (1, 2, 3)
        ]
    assert 200 < refused < 1800 and first.copy().nodes == first.nodes
