"""Blocks of producer ids.

Answers to: ``kafka.coordinator.transaction.ZkProducerIdManager``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.zk.stores.paths import read
from kafkalite.zk.zk_client import BadVersionError, NodeExistsError, ZkClient
from kafkalite.zk.znodes import producer_ids
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.producer_ids import BLOCK_SIZE, LATEST_BLOCK, ProducerIdBlock

_LAST_ID = (1 << 63) - 1


class ProducerIdStore:
    """``/latest_producer_id_block``, advanced by each broker that needs a block."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client

    async def allocate(self, broker_id: int) -> range:
        """A block of ids that no other broker was given, written conditionally before it is used.

        A lost answer only wastes a block. Raises ``MalformedZnodeError``.
        """
        while True:
            found = await read(self._client, LATEST_BLOCK)
            start = producer_ids.decode_block(found[0]).end + 1 if found is not None and found[0] else 0
            if start > _LAST_ID - BLOCK_SIZE + 1:
                raise MalformedZnodeError(f"{LATEST_BLOCK}: all producer ids are given away")
            data = producer_ids.encode_block(ProducerIdBlock(broker_id, start, start + BLOCK_SIZE - 1))
            try:
                if found is None:
                    await self._client.create(LATEST_BLOCK, data)
                else:
                    await self._client.set(LATEST_BLOCK, data, found[1].version)
            except (BadVersionError, NodeExistsError):
                continue
            return range(start, start + BLOCK_SIZE)
