"""Fenced writes: bounded, pipelined transactions that begin with the check of their fence.

Answers to: ``KafkaZkClient.retryRequestsUntilConnected`` with ``maxInFlightRequests`` and
``expectedControllerEpochZkVersion``. The bound is ZooKeeper's ``jute.maxbuffer``: a larger multi costs the connection
and all outstanding requests. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kafkalite.common.tasks import gather
from kafkalite.zk.zk_client import (
    Check,
    ConnectionLostError,
    Create,
    MultiError,
    Op,
    SessionExpiredError,
    SetData,
    ZkClient,
    ZkError,
    ZnodeStat,
)

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


OpResult = ZnodeStat | str | None


class FencedError(ZkError):
    """The fence of a write does not hold any more."""


@dataclass(frozen=True, slots=True)
class WriteFence:
    """The condition of a write: a znode's version (``None``: any), and the session in which it is sent."""

    check: Check | None
    session: int


@dataclass(frozen=True, slots=True)
class FencedWrite:
    """Operations that take effect together or not at all, while ``fence`` holds."""

    fence: WriteFence
    ops: Sequence[Op]


async def write_fenced(client: ZkClient, writes: Sequence[FencedWrite]) -> list[list[OpResult] | ZkError]:
    """Make ``writes`` in order, in bounded pipelined transactions; writes of different fences may share one.

    A write that fails is its error in its place, and spoils no other: :class:`FencedError`; ``SessionExpiredError``
    (not made); ``ConnectionLostError`` (the outcome is unknown); or what was wrong with the operation at fault.
    """
    outcome: dict[int, list[OpResult] | ZkError] = {}
    current: list[int] = []
    for index, write in enumerate(writes):
        if write.fence.session == client.session:
            current.append(index)
        else:
            outcome[index] = SessionExpiredError(write.ops[0].path if write.ops else "")
    packed = [[current[at] for at in bundle] for bundle in bundles(_sized([writes[index] for index in current]))]
    again: list[int] = []
    for bundle, result in zip(packed, await gather(_transaction(client, writes, each) for each in packed), strict=True):
        if not isinstance(result, ZkError):
            for index, part in zip(bundle, result, strict=True):
                outcome[index] = part
        elif len(bundle) == 1 or isinstance(result, ConnectionLostError | SessionExpiredError):
            for index in bundle:
                outcome[index] = result
        else:
            # One operation at fault fails the whole transaction, so each write is tried alone, in order.
            again.extend(bundle)
    alone = await gather(_transaction(client, writes, [index]) for index in again)
    for index, result in zip(again, alone, strict=True):
        outcome[index] = result if isinstance(result, ZkError) else result[0]
    return [outcome[index] for index in range(len(writes))]


def _sized(writes: Sequence[FencedWrite]) -> list[list[Op]]:
    """The operations of each write, with its fence's check unless the write before has the same fence."""
    sized: list[list[Op]] = []
    before: WriteFence | None = None
    for write in writes:
        check = [write.fence.check] if write.fence.check is not None and write.fence != before else []
        sized.append([*check, *write.ops])
        before = write.fence
    return sized


async def _transaction(
    client: ZkClient, writes: Sequence[FencedWrite], indexes: Sequence[int]
) -> list[list[OpResult]] | ZkError:
    """Make the writes at ``indexes``, all of one session, in one transaction; its error if it was refused."""
    ops: list[Op] = []
    spans: list[tuple[int, int]] = []
    checks: set[int] = set()
    for fence, run in groupby(indexes, lambda index: writes[index].fence):
        if fence.check is not None:
            checks.add(len(ops))
            ops.append(fence.check)
        for index in run:
            spans.append((len(ops), len(ops) + len(writes[index].ops)))
            ops.extend(writes[index].ops)
    try:
        results = await client.multi(ops, session=writes[indexes[0]].fence.session)
    except MultiError as error:
        if error.index in checks:
            return FencedError(error.cause.path, "not the holder any more:")
        return error.cause
    except ZkError as error:
        return error
    return [list(results[start:end]) for start, end in spans]
