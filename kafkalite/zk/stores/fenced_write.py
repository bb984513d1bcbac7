"""Writes that ZooKeeper takes only while their fence holds: bounded, pipelined transactions that begin with its check.

Answers to: ``KafkaZkClient.retryRequestsUntilConnected`` with ``expectedControllerEpochZkVersion``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from kafkalite.common.tasks import gather
from kafkalite.zk.stores.batches import bundles
from kafkalite.zk.zk_client import (
    Check,
    ConnectionLostError,
    MultiError,
    Op,
    SessionExpiredError,
    ZkClient,
    ZkError,
    ZnodeStat,
)

OpResult = ZnodeStat | str | None


class FencedError(ZkError):
    """The fence of a write does not hold any more."""


@dataclass(frozen=True, slots=True)
class WriteFence:
    """What must hold for a write to be taken: a znode's version (``None``: nothing), and the session."""

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
            # One operation at fault fails the whole transaction: each write is tried alone, in order.
            again.extend(bundle)
    alone = await gather(_transaction(client, writes, [index]) for index in again)
    for index, result in zip(again, alone, strict=True):
        outcome[index] = result if isinstance(result, ZkError) else result[0]
    return [outcome[index] for index in range(len(writes))]


def _sized(writes: Sequence[FencedWrite]) -> list[list[Op]]:
    """The operations as they count for the bounds of a transaction: each fence's check once in a row of its writes."""
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
    """The writes at ``indexes``, all of one session, in one transaction; the error at fault where it was refused."""
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
