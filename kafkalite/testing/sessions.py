"""Expires a broker's ZooKeeper session from outside.

Answers to: ``kafka.zk.ZkClientTestUtils`` and the session tricks of Kafka's own tests. Blocking.
"""

from __future__ import annotations

import time

from kafkalite.broker.guardian_process import close_session
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.testing.session_password import session_password
from kafkalite.zk.session_security import ZkSecurity

POLL_INTERVAL = 0.02


def expire_session(
    zookeeper: str, broker_id: int, timeout: float, session_timeout_ms: int, security: ZkSecurity | None = None
) -> None:
    """Expire the session of broker ``broker_id``, as if it had been silent for too long; returns when it has ended.

    ``zookeeper`` is a connection string with the cluster's chroot, ``security`` TLS to it. Raises ``TimeoutError`` if
    that fails for ``timeout`` seconds, for example because the broker has no session.
    """
    deadline = time.monotonic() + timeout
    with ZnodeReader(zookeeper, security) as znodes:
        session = 0
        while (owner := znodes.owner(f"/brokers/ids/{broker_id}")) == session or session == 0:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the session of broker {broker_id} could not be ended within {timeout:g} s")
            session = session or owner
            if not session or not close_session(
                zookeeper, session, session_password(session), session_timeout_ms, security
            ):
                time.sleep(POLL_INTERVAL)
