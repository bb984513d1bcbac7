"""Topics created, deleted and widened: checks, the replica assignment, the znodes, the wait for the outcome.

Answers to: ``kafka.server.ZkAdminManager`` (topics) and ``kafka.server.DelayedCreatePartitions``. Deterministic.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalite.admin.dynamic import DynamicConfig
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID

if TYPE_CHECKING:
    from kafkalite.cluster.metadata import MetadataCache


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 for a number means the broker's default; ``assignments`` (partition → replicas) excludes both."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What became of one topic. ``configs`` are the overrides it was made with."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: uuid.UUID = ZERO_UUID
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A topic to widen to ``count`` partitions. ``assignments``: replicas of each new partition, in order; None: chosen."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None
