"""The group of the demo's readers, as ``kafkalite groups`` describes it over time.

Answers to: ``kafka-consumer-groups.sh --describe``, called repeatedly. Reactor shell (client library).
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalite.cli.clients import print_table
from kafkalite.cli.flights import GROUP, PARTITIONS
from kafkalite.cli.groups_source import GroupSource
from kafkalite.cli.groups_view import STABLE, GroupView, rows_of
from kafkalite.common.errors import ApiError, StartupError

if TYPE_CHECKING:
    from kafkalite.embedded.cluster import LocalCluster


def look(cluster: LocalCluster) -> GroupView | None:
    """The group now; ``None`` if no coordinator answers at the moment."""
    from kafka.errors import KafkaError

    alive = ",".join(cluster.address(broker_id) for broker_id in cluster.broker_ids if cluster.is_alive(broker_id))
    args = argparse.Namespace(
        bootstrap_server=alive, zookeeper=cluster.zookeeper, command_config=None, zk_tls_config_file=None, timeout=1000
    )
    try:
        source = GroupSource(args)
        try:
            return source.describe([GROUP])[0]
        finally:
            source.close()
    except (KafkaError, ApiError, OSError) as error:
        logging.getLogger(__name__).debug("no coordinator describes the group: %s", error)
        return None


def wait_until(
    cluster: LocalCluster,
    what: str,
    fits: Callable[[GroupView], bool],
    meanwhile: Callable[[], None],
    timeout: float = 60.0,
) -> GroupView:
    """The group once ``fits`` is true of it. Raises :class:`StartupError` naming ``what``, if that does not happen."""
    deadline = time.monotonic() + timeout
    while True:
        group = look(cluster)
        if group is not None and fits(group):
            return group
        if time.monotonic() > deadline:
            raise StartupError(f"not within {timeout:g} s: {what}; last seen: {group}")
        for _ in range(10):  # describing takes time, too
            meanwhile()


def shared_by(names: list[str]) -> Callable[[GroupView], bool]:
    """Whether exactly these members share all partitions."""

    def fits(group: GroupView) -> bool:
        members = sorted(member.client_id for member in group.members)
        count = sum(len(member.partitions) for member in group.members)
        return group.state == STABLE and members == sorted(names) and count == PARTITIONS

    return fits


def all_read(group: GroupView) -> bool:
    """Whether there is no lag."""
    return len(group.committed) == PARTITIONS and all(row.lag == 0 for row in rows_of(group) if row.tp is not None)


def show(group: GroupView) -> None:
    """Print the reader and the lag of each partition."""
    rows: list[list[object]] = [
        [f"   {row.tp}", dash(row.offset), dash(row.end), dash(row.lag), row.member.client_id if row.member else "-"]
        for row in rows_of(group)
        if row.tp is not None
    ]
    print_table(["   partition", "current offset", "log end offset", "lag", "read by"], rows)


def dash(value: int | None) -> object:
    """A number, or a dash if there is none."""
    return "-" if value is None else value
