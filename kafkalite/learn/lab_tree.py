"""Reads ZooKeeper's tree for a lab, and plants faults in it, one short session a call.

Answers to: ``zookeeper-shell.sh`` in purpose. Blocking shell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.session_security import OPEN, ZkSecurity
from kafkalite.zk.zk_client import NoNodeError, Op, ZnodeStat

T = TypeVar("T")


class LabTree:
    """The tree of the ZooKeeper at ``connect``. A session is short, because a student may pause between commands.

    ``security`` is how it connects.
    """

    def __init__(self, connect: str, security: ZkSecurity = OPEN) -> None:
        self._connect = connect
        self._security = security

    def get(self, path: str) -> bytes | None:
        """A znode's data; ``None`` if the znode does not exist."""
        try:
            return self._run(lambda client: client.get(path))[0]
        except NoNodeError:
            return None

    def stat(self, path: str) -> ZnodeStat | None:
        """A znode's stat; ``None`` if the znode does not exist."""
        return self._run(lambda client: client.exists(path))

    def children(self, path: str) -> list[str]:
        """Names of a znode's children, sorted; none if the znode does not exist."""
        try:
            return sorted(self._run(lambda client: client.get_children(path)))
        except NoNodeError:
            return []

    def change(self, operations: Sequence[Op]) -> None:
        """Carry out all operations in one transaction, or none. Raises :class:`MultiError`."""
        self._run(lambda client: client.multi(operations))

    def _run(self, work: Callable[[KazooZkClient], Awaitable[T]]) -> T:
        loop = BlockingLoop()
        client = KazooZkClient(loop.call_from_thread, self._connect, security=self._security)
        loop.run(client.start())
        try:
            return loop.run(work(client))
        finally:
            loop.run(client.close())
