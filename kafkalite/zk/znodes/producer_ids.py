"""``/latest_producer_id_block``: which producer ids are given away.

Answers to: ``kafka.zk.ProducerIdBlockZNode``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.zk.znodes.codec import from_json, integer, to_json

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
    value = {
        "version": 1,
        "broker": block.broker,
        "block_start": str(block.start),
        "block_end": str(block.end),
    }
    return to_json(value)


def decode_block(data: bytes) -> ProducerIdBlock:
    """The reverse. Raises ``MalformedZnodeError``."""
    value = from_json(data, LATEST_BLOCK)
    return ProducerIdBlock(
        integer(value.get("broker"), f"{LATEST_BLOCK} broker"),
        integer(value.get("block_start"), f"{LATEST_BLOCK} block_start"),
        integer(value.get("block_end"), f"{LATEST_BLOCK} block_end"),
    )
