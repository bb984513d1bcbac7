"""``/cluster/id``, ``/latest_producer_id_block``, and the persistent paths that every broker creates.

Answers to: ``kafka.zk.{ClusterIdZNode,ProducerIdBlockZNode,ZkData.PersistentZkPaths}``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.zk.znodes import admin, brokers, config, topics
from kafkalite.zk.znodes.codec import MalformedZnodeError, from_json, integer, to_json

CLUSTER_ID = "/cluster/id"

PERSISTENT_PATHS = (
    "/consumers",
    brokers.IDS,
    topics.TOPICS,
    config.CHANGES,
    admin.DELETE_TOPICS,
    brokers.SEQID,
    admin.ISR_CHANGES,
    admin.LOG_DIR_EVENTS,
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


LATEST_BLOCK = "/latest_producer_id_block"
BLOCK_SIZE = 1000


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Ids ``start`` to ``end``, both included, belong to ``broker``."""

    broker: int
    start: int
    end: int


def encode_block(block: ProducerIdBlock) -> bytes:
    """The latest block (version 1); the ids are text."""
    value = {"version": 1, "broker": block.broker, "block_start": str(block.start), "block_end": str(block.end)}
    return to_json(value)


def decode_block(data: bytes) -> ProducerIdBlock:
    """The reverse. Raises ``MalformedZnodeError``."""
    value = from_json(data, LATEST_BLOCK)
    return ProducerIdBlock(
        integer(value.get("broker"), f"{LATEST_BLOCK} broker"),
        integer(value.get("block_start"), f"{LATEST_BLOCK} block_start"),
        integer(value.get("block_end"), f"{LATEST_BLOCK} block_end"),
    )
