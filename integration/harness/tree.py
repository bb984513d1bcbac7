"""Reads and writes of ZooKeeper's tree by a test, through kazoo's blocking client."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from integration.harness.wait import PATIENCE, wait_for
from kafkalite.broker.guardian_process import close_session
from kafkalite.testing.session_password import session_password


class Tree:
    """A separate session on ``connect`` (which may have a chroot). ``auth``: ``user:password`` (digest)."""

    def __init__(self, connect: str, auth: str | None = None) -> None:
        self.connect = connect
        self.zk = KazooClient(connect, timeout=10, auth_data=[("digest", auth)] if auth else None)
        self.zk.start(PATIENCE)

    def __enter__(self) -> Tree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.zk.stop()
        self.zk.close()

    def json(self, path: str) -> Any:
        """A znode's value; ``None`` if the znode does not exist."""
        try:
            data, _ = self.zk.get(path)
        except NoNodeError:
            return None
        return json.loads(data)

    def names(self, path: str) -> list[str]:
        """A znode's children, sorted; an empty list if the znode does not exist."""
        try:
            return sorted(self.zk.get_children(path))
        except NoNodeError:
            return []

    def write(self, path: str, value: Any) -> None:
        """Create a znode, with its parents, or set it."""
        data = json.dumps(value).encode()
        if self.zk.exists(path):
            self.zk.set(path, data)
        else:
            self.zk.create(path, data, makepath=True)

    def exists(self, path: str) -> bool:
        """Whether the znode exists."""
        return self.zk.exists(path) is not None

    def controller(self) -> int:
        """Broker id of the controller, -1 if there is none."""
        value = self.json("/controller")
        return -1 if value is None else int(value["brokerid"])

    def controller_epoch(self) -> int:
        """The value of ``/controller_epoch``."""
        return int(self.json("/controller_epoch"))

    def live(self) -> list[int]:
        """Ids of the registered brokers."""
        return [int(name) for name in self.names("/brokers/ids")]

    def state(self, topic: str, partition: int = 0) -> dict[str, Any]:
        """A partition's state. Raises ``LookupError`` if its znode does not exist."""
        value = self.json(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if value is None:
            raise LookupError(f"{topic}-{partition} has no state")
        found: dict[str, Any] = value
        return found

    def assignment(self, topic: str) -> dict[str, Any]:
        """The value of a topic's znode. Raises ``LookupError`` if the znode does not exist."""
        value = self.json(f"/brokers/topics/{topic}")
        if value is None:
            raise LookupError(f"no topic {topic}")
        found: dict[str, Any] = value
        return found

    def wait_state(
        self, topic: str, partition: int = 0, *, timeout: float = PATIENCE, **wanted: object
    ) -> dict[str, Any]:
        """Wait for a partition state with the ``wanted`` values and return it; an ISR is compared as a set."""

        def fits() -> dict[str, Any] | None:
            state = self.state(topic, partition)
            same = all(
                (set(state[name]) if name == "isr" else state[name]) == (value if name != "isr" else set(value))  # type: ignore[call-overload]
                for name, value in wanted.items()
            )
            return state if same else None

        found = wait_for(fits, f"{topic}-{partition} to be {wanted}", timeout)
        assert found is not None
        return found

    def owner(self, path: str) -> int:
        """The session that owns an ephemeral znode, 0 if the znode does not exist."""
        stat = self.zk.exists(path)
        return 0 if stat is None else int(stat.ephemeralOwner)

    def end_session(self, session: int, hosts: str | None = None) -> None:
        """End the session of another client, as an expiry would."""
        wait_for(
            lambda: close_session(hosts or self.connect, session, session_password(session), 6000), "its session ends"
        )
