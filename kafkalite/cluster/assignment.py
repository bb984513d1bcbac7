"""The assignment of replicas to brokers for new partitions.

Answers to: ``org.apache.kafka.admin.AdminUtils``. Pure: random numbers come from the generator argument.

Without racks, the first replicas go round the brokers from a random start. The others follow at a shift that grows
by one with every full round, so that the followers of one broker's partitions are spread over all other brokers::

    broker-0  broker-1  broker-2  broker-3  broker-4
    p0        p1        p2        p3        p4       (first replicas)
    p5        p6        p7        p8        p9
    p4        p0        p1        p2        p3       (second replicas)
    p8        p9        p5        p6        p7
    p3        p4        p0        p1        p2       (third replicas)
    p7        p8        p9        p5        p6

With racks, the brokers are first put into an order that alternates the racks. A replica avoids racks and brokers
that have a replica of the same partition already, as long as there are others without one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import count

from kafkalite.cluster.model import Broker
from kafkalite.common.errors import ApiError, ErrorCode


def assign_replicas(
    brokers: Sequence[Broker],
    n_partitions: int,
    replication_factor: int,
    rng: random.Random,
    start_partition: int = 0,
    fixed_start: int | None = None,
) -> dict[int, tuple[int, ...]]:
    """Replicas, preferred leader first, of ``n_partitions`` partitions numbered from ``start_partition``.

    ``fixed_start`` is the index (into the brokers by id, or by alternating racks) of partition 0's first replica, and
    also the first shift; without it both are drawn from ``rng``.

    Raises :class:`ApiError` INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, and UNKNOWN_SERVER_ERROR (as Kafka does)
    if only some brokers have a rack.
    """
    if n_partitions <= 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}.",
        )
    racks = {broker.id: broker.rack for broker in brokers if broker.rack is not None}
    if racks and len(racks) < len(brokers):
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "Not all brokers have rack information for replica rack aware assignment."
        )
    order = alternate_racks(racks) if racks else sorted(broker.id for broker in brokers)
    start = rng.randrange(len(order)) if fixed_start is None else fixed_start
    shift = rng.randrange(len(order)) if fixed_start is None else fixed_start
    assignment = {}
    for partition in range(start_partition, start_partition + n_partitions):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        first = (partition + start) % len(order)
        if racks:
            assignment[partition] = _rack_aware(order, racks, first, shift, replication_factor)
        else:
            others = (order[_replica_index(first, shift, n, len(order))] for n in range(replication_factor - 1))
            assignment[partition] = (order[first], *others)
    return assignment


def assign_added_partitions(
    brokers: Sequence[Broker], existing: Mapping[int, Sequence[int]], n_partitions: int, rng: random.Random
) -> dict[int, tuple[int, ...]]:
    """Replicas of ``n_partitions`` more partitions of a topic, continuing after those of ``existing``.

    The replication factor and the start are those of partition 0, as in ``AdminZkClient``. Raises as
    :func:`assign_replicas` does.
    """
    first = existing[0]
    ids = sorted(broker.id for broker in brokers)
    start = next((index for index, broker_id in enumerate(ids) if broker_id >= first[0]), 0)
    return assign_replicas(brokers, n_partitions, len(first), rng, len(existing), start)


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """The brokers in an order that takes one of each rack in turn: racks by name, brokers of a rack by id."""
    waiting: dict[str, list[int]] = {}
    for broker_id in sorted(racks):
        waiting.setdefault(racks[broker_id], []).append(broker_id)
    names = sorted(waiting)
    order = []
    for depth in range(max(map(len, waiting.values()))):
        order += [waiting[name][depth] for name in names if depth < len(waiting[name])]
    return order


def _rack_aware(
    order: Sequence[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    n_racks = len(set(racks.values()))
    replicas = [order[first]]
    used_racks = {racks[order[first]]}
    attempts = count()
    while len(replicas) < replication_factor:
        broker_id = order[_replica_index(first, shift * n_racks, next(attempts), len(order))]
        rack = racks[broker_id]
        if broker_id in replicas or (rack in used_racks and len(used_racks) < n_racks):
            continue
        replicas.append(broker_id)
        used_racks.add(rack)
    return tuple(replicas)


def _replica_index(first: int, second_shift: int, index: int, n_brokers: int) -> int:
    shift = 1 + (second_shift + index) % (n_brokers - 1)
    return (first + shift) % n_brokers
