"""All planted bugs."""

from __future__ import annotations

from typing import Final

from integration.planted_bugs.bug import PlantedBug
from integration.planted_bugs.rooms import (
    compaction,
    controller,
    groups,
    log,
    replication,
    transactions,
    zookeeper,
)

TABLE: Final[tuple[PlantedBug, ...]] = (
    *replication.BUGS,
    *log.BUGS,
    *controller.BUGS,
    *zookeeper.BUGS,
    *groups.BUGS,
    *transactions.BUGS,
    *compaction.BUGS,
)
