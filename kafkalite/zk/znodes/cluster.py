"""``/cluster/id``, and the persistent paths that every broker makes sure of.

Answers to: ``kafka.zk.{ClusterIdZNode,ZkData.PersistentZkPaths}``. Pure.
"""

from __future__ import annotations

from kafkalite.zk.znodes import admin, brokers, config, notifications, topics
from kafkalite.zk.znodes.codec import MalformedZnodeError, from_json, to_json

CLUSTER_ID = "/cluster/id"

PERSISTENT_PATHS = (
    "/consumers",
    brokers.IDS,
    topics.TOPICS,
    config.CHANGES,
    admin.DELETE_TOPICS,
    brokers.SEQID,
    notifications.ISR_CHANGES,
    notifications.LOG_DIR_EVENTS,
    *(f"{config.CONFIG}/{kind}" for kind in (config.TOPICS, config.CLIENTS, config.USERS, config.BROKERS, config.IPS)),
)


def encode_cluster_id(cluster_id: str) -> bytes:
    """The cluster's id; its version is text, as Kafka writes it."""
    return to_json({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """The reverse. Raises :class:`MalformedZnodeError`."""
    value = from_json(data, CLUSTER_ID).get("id")
    if not isinstance(value, str):
        raise MalformedZnodeError(f"{CLUSTER_ID}: id: not text: {value!r}")
    return value
