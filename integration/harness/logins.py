"""How the clients of a test log in, if its cluster is secured; those in child processes find it in the environment."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafkalite.embedded.security import ADMIN, CLIENT, ClusterSecurity
from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.protocol.codec import decode_response, encode_request, request_class
from kafkalite.protocol.errors import ProtocolError
from kafkalite.spark.client.errors import KafkaClientError
from kafkalite.spark.client.security import authenticate, wrap
from kafkalite.zk.session_security import ZkSecurity

DIRECTORY = "KAFKALITE_TEST_SECURED"
"""Environment variable with the directory of the secured cluster; unset, the clients of a test need no login."""


def security() -> ClusterSecurity | None:
    """The security of the cluster under test."""
    directory = os.environ.get(DIRECTORY)
    return _found(directory) if directory else None


def login(bootstrap: str, user: str = CLIENT) -> dict[str, str]:
    """Properties by which a client of librdkafka connects."""
    found = security()
    return {"bootstrap.servers": bootstrap, **({} if found is None else found.login_properties(user))}


def zookeeper_security() -> ZkSecurity | None:
    """How a test connects to the ZooKeeper of the cluster."""
    found = security()
    return None if found is None else found.zookeeper_security()


def open_socket(host: str, port: int, timeout: float) -> socket.socket:
    """A connected socket for Kafka's requests; the user ``client`` has logged in on it. Raises ``OSError``."""
    connected = socket.create_connection((host, port), timeout)
    found = security()
    if found is None:
        return connected
    config = found.client_config(CLIENT)
    assert config.sasl is not None
    try:
        encrypted = wrap(connected, host, config)
        connection = BlockingConnection(encrypted, "login")

        def ask(api_key: int, fields: Mapping[str, object], version: int) -> Any:
            request = request_class(api_key)(version=version, **fields)
            body = connection.call(api_key, version, encode_request(api_key, version, request))
            return decode_response(api_key, version, body)

        authenticate(f"{host}:{port}", ask, config.sasl)
    except (KafkaClientError, ProtocolError) as error:
        connected.close()
        raise OSError(str(error)) from None
    return encrypted


def grant(admin: Mapping[str, str], user: str, *resources: tuple[ResourceType, str, AclOperation]) -> None:
    """Allow ``user`` the operations on the resources, as ``admin`` (a super user's properties).

    ``x*``: all resources whose names begin so; ``*``: all.
    """
    client = AdminClient(dict(admin))
    prefixed, literal = ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL
    bindings = [
        AclBinding(
            kind,
            name.removesuffix("*") or "*",
            prefixed if name.endswith("*") and name != "*" else literal,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for kind, name, operation in resources
    ]
    for future in client.create_acls(bindings).values():
        future.result(30)


def grant_reading_and_writing(bootstrap: str) -> None:
    """Let the user ``client`` read and write all topics, also in groups and transactions, and no more."""
    grant(
        login(bootstrap, ADMIN),
        CLIENT,
        *((ResourceType.TOPIC, "*", operation) for operation in (AclOperation.READ, AclOperation.WRITE)),
        *((ResourceType.TRANSACTIONAL_ID, "*", operation) for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)),
        (ResourceType.GROUP, "*", AclOperation.READ),
    )


@cache
def _found(directory: str) -> ClusterSecurity | None:
    return ClusterSecurity.find(Path(directory))
