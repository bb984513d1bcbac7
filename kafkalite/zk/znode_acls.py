"""Who may do what with which znode, once brokers protect the tree (``zookeeper.set.acl``).

Answers to: ``kafka.zk.ZkData.{defaultAcls,SecureRootPaths,SensitiveRootPaths}`` and ``org.apache.zookeeper.data.ACL``.
Pure.

ZooKeeper keeps one list for each znode and inherits nothing. The list of a znode governs its data and the creation and
deletion of its *children*; so a znode is safe from deletion only if its parent's list is. Therefore clients other than
brokers may neither create nor delete below a group's own znode, and what they need there is created for them.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from kafkalite.zk.znodes import config
from kafkalite.zk.znodes.consumers import CONSUMERS
from kafkalite.zk.znodes.transactions import TRANSACTIONS

READ: Final = 1
WRITE: Final = 2
CREATE: Final = 4
DELETE: Final = 8
ADMIN: Final = 16
ALL: Final = READ | WRITE | CREATE | DELETE | ADMIN

OLD_CONSUMERS: Final = ("ids", "owners", "offsets")
"""What ZooKeeper consumers write below their group."""
_SENSITIVE: Final = (
    f"{config.CONFIG}/{config.USERS}",
    f"{config.CONFIG}/{config.BROKERS}",
    "/delegation_token/tokens",
)

ROOTS: Final = (
    "/admin",
    "/brokers",
    "/cluster",
    config.CONFIG,
    CONSUMERS,
    "/controller",
    "/controller_epoch",
    "/delegation_token",
    "/feature",
    "/isr_change_notification",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/migration",
    TRANSACTIONS,
)
"""The znodes at the tree's root that are Kafka's or ours, those that Kafka's tool leaves alone among them."""


class Access(Enum):
    """What every client of ZooKeeper may do with a znode. Beside that, its creator may do everything.

    The value has the permissions of ``world:anyone`` as bits.
    """

    OPEN = ALL
    """Everything: a tree without protection."""
    SHARED = READ | WRITE | CREATE | DELETE
    """Everything but to change the ACL, by which another client could lock the brokers out."""
    READABLE = READ
    SENSITIVE = 0
    """Nothing: passwords and keys stand there."""


def access_to(path: str) -> Access:
    """What others than brokers may do with ``path`` (without the chroot) in a protected tree."""
    if path.startswith(_SENSITIVE):
        return Access.SENSITIVE
    parts = path.split("/")
    if f"/{parts[1]}" == CONSUMERS and (len(parts) == 2 or (len(parts) > 3 and parts[3] in OLD_CONSUMERS)):
        return Access.SHARED
    return Access.READABLE


@dataclass(frozen=True, slots=True)
class Acl:
    """One entry of a znode's list: the bits of :data:`READ` and so on, for an identity of a scheme."""

    permissions: int
    scheme: str
    identity: str


class ZnodeAcls(Protocol):
    """Reading and writing the lists. Every method fails with a :class:`kafkalite.zk.zk_client.ZkError`."""

    def get_acl(self, path: str) -> Awaitable[tuple[Acl, ...]]:
        """The list of a znode, in which ZooKeeper has put the identities of its creator."""

    def set_acl(self, path: str, access: Access) -> Awaitable[object]:
        """Replace the list: ``access`` for everyone, and everything for the identities of this client.

        Changes neither version nor mzxid, and no watch fires. Raises ``NotAuthorizedError`` where the present list does
        not let this client.
        """
