"""Where the leaders are that an answer points at, so that a client need not ask for metadata first (KIP-951).

Answers to: ``KafkaApis.getCurrentLeader`` and its ``LeaderNode``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.protocol.wire import NodeEndpoint


def leader_endpoints(
    metadata: MetadataCache, hints: Iterable[tuple[int, int] | None], listener: str
) -> list[NodeEndpoint] | None:
    """Id, host, port and rack of every leader in ``hints`` (``(id, epoch)``) on ``listener``; ``None`` for no hints."""
    leaders = {hint[0] for hint in hints if hint is not None}
    if not leaders:
        return None
    found: list[NodeEndpoint] = []
    for leader in sorted(leaders):
        broker = metadata.broker(leader)
        endpoint = broker.endpoint(listener) if broker is not None else None
        if broker is not None and endpoint is not None:
            found.append((leader, endpoint.host, endpoint.port, broker.rack))
    return found
