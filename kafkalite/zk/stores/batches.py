"""Many small writes as few bounded transactions.

Answers to: ``KafkaZkClient.retryRequestsUntilConnected`` with ``maxInFlightRequests``, and ZooKeeper's
``jute.maxbuffer``: a multi past it costs the connection and all that is outstanding. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkalite.zk.zk_client import Create, Op, SetData

MAX_OPS = 200
MAX_BYTES = 500_000
_OVERHEAD = 64


def op_size(op: Op) -> int:
    """About how many bytes ``op`` takes in a request."""
    data = op.data if isinstance(op, Create | SetData) else b""
    return len(op.path) + len(data) + _OVERHEAD


def bundles(groups: Sequence[Sequence[Op]], max_ops: int = MAX_OPS, max_bytes: int = MAX_BYTES) -> Iterator[list[int]]:
    """Indexes of ``groups`` in order, packed so that each bundle is one bounded transaction.

    A group is never split; one that is too large by itself gets a bundle of its own.
    """
    bundle: list[int] = []
    ops = size = 0
    for index, group in enumerate(groups):
        group_size = sum(map(op_size, group))
        if bundle and (ops + len(group) > max_ops or size + group_size > max_bytes):
            yield bundle
            bundle, ops, size = [], 0, 0
        bundle.append(index)
        ops += len(group)
        size += group_size
    if bundle:
        yield bundle
