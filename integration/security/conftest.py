"""A secured cluster for the tests of a module, and what its tests need to look into it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from integration.conftest import TEST_OVERRIDES, launcher
from kafkalite.common.tasks import gather
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.security import ClusterSecurity
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.zk_client import NoNodeError, ZnodeStat

SESSION_TIMEOUT_MS, CONNECTION_TIMEOUT_MS = 15_000, 50_000


class SecuredCluster(LocalCluster):
    """A local cluster that is secured."""

    def __init__(self, directory: Path, brokers: int, **overrides: str) -> None:
        self.keys = ClusterSecurity.create(directory)
        super().__init__(
            directory,
            brokers,
            security=self.keys,
            launcher=launcher(),
            overrides={**TEST_OVERRIDES, **overrides},
        )

    def login(self, user: str) -> dict[str, str]:
        """Properties of a client of ``user``, for confluent-kafka."""
        return {"bootstrap.servers": self.bootstrap, **self.keys.login_properties(user)}

    def java_login(self, user: str) -> dict[str, str]:
        """The same for clients with Java's names of properties, as those of Spark."""
        properties = self.keys.login_properties(user)
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        password = properties["sasl.password"]
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": properties["security.protocol"],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": properties["ssl.ca.location"],
            "sasl.mechanism": properties["sasl.mechanism"],
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
        }

    def ports(self, broker_id: int) -> tuple[int, int]:
        """The ports of the listener for clients and of that for brokers."""
        properties = (self.broker_dir(broker_id) / "server.properties").read_text().splitlines()
        [listeners] = [line for line in properties if line.startswith("listeners=")]
        clients, brokers = (int(listener.rpartition(":")[2]) for listener in listeners.split(","))
        return clients, brokers

    def znodes(self, paths: Iterable[str]) -> dict[str, tuple[bytes, ZnodeStat]]:
        """Data and stat of those of ``paths`` that exist, read with the rights of a broker."""
        loop = BlockingLoop()
        client = KazooZkClient(
            loop.call_from_thread,
            self.zookeeper,
            SESSION_TIMEOUT_MS,
            CONNECTION_TIMEOUT_MS,
            self.keys.zookeeper_security(),
        )

        async def read(path: str) -> tuple[str, tuple[bytes, ZnodeStat] | None]:
            try:
                return path, await client.get(path)
            except NoNodeError:
                return path, None

        loop.run(client.start())
        try:
            found = loop.run(gather(read(path) for path in paths))
        finally:
            loop.run(client.close())
        return {path: entry for path, entry in found if entry is not None}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """Two secured brokers."""
    cluster = SecuredCluster(tmp_path_factory.mktemp("secured"), 2)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
