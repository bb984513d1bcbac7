"""Writes the users of a secured cluster into its ZooKeeper, before the first broker starts or while brokers run.

Answers to: ``kafka-configs.sh --zookeeper … --entity-type users --add-config 'SCRAM-SHA-512=[password=…]'``. Blocking.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from kafkalite.security.sanitizer import sanitize
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.session_security import OPEN, ZkSecurity
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.stores.paths import ensure, read
from kafkalite.zk.zk_client import ZkClient
from kafkalite.zk.znodes.config import CHANGES, USERS, config_path

SESSION_TIMEOUT_MS = 30_000
CONNECTION_TIMEOUT_MS = 60_000


def register_users(connect: str, credentials: Mapping[str, Mapping[str, str]], security: ZkSecurity = OPEN) -> None:
    """Write the ``credentials`` of those users that ZooKeeper at ``connect`` does not have, and tell every broker.

    ``security``: how ZooKeeper is secured; then only clients with the same identity read them. The credentials that it
    has stay, because a password may have been changed since. Raises :class:`StartupError` if ZooKeeper does not answer.
    """
    loop = BlockingLoop()
    client = KazooZkClient(
        loop.call_from_thread,
        connect,
        SESSION_TIMEOUT_MS,
        CONNECTION_TIMEOUT_MS,
        security,
        set_acl=security != OPEN,
        create_chroot=True,
    )
    # Longer than the client's own limit, whose error names the address.
    loop.run(client.start(), 2 * CONNECTION_TIMEOUT_MS / 1000)
    try:
        loop.run(add_users(client, credentials))
    finally:
        loop.run(client.close())


async def add_users(client: ZkClient, credentials: Mapping[str, Mapping[str, str]]) -> None:
    """As :func:`register_users`, by a client that is connected."""
    store = ConfigStore(client, _now_ms)
    # The container of notifications may be missing, because no broker has started yet.
    await ensure(client, CHANGES)
    for user, credential in credentials.items():
        name = sanitize(user)
        if await read(client, config_path(USERS, name)) is None:
            await store.set_entity(USERS, name, credential)


def _now_ms() -> int:
    return int(time.time() * 1000)
