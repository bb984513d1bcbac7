"""All logs of a broker, over its log directories.

Answers to: ``kafka.log.LogManager``. Deterministic.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkalite.common.clock import Clock
from kafkalite.common.tasks import Executor
from kafkalite.common.types import TopicPartition
from kafkalite.log.config import LogConfig
from kafkalite.log.fs import FileSystem
from kafkalite.log.log import Log


class LogManager:
    """Creates, finds, recovers, checkpoints and deletes logs; outlives the failure of a directory."""

    def __init__(
        self,
        log_dirs: Sequence[str],
        broker_values: Mapping[str, Any],
        fs: FileSystem,
        clock: Clock,
        executor: Executor,
        broker_id: int,
        cluster_id: str | None,
    ) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.offline_dirs: set[str] = set()
        self.on_dir_failure: Callable[[str], None] = lambda log_dir: None

    async def start(self) -> None:
        raise NotImplementedError

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self.logs.get(topic_partition)

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID | None,
        is_new: bool = False,
        config: LogConfig | None = None,
    ) -> Log:
        raise NotImplementedError

    async def delete(self, topic_partition: TopicPartition) -> None:
        raise NotImplementedError

    def handle_failure(self, log_dir: str) -> None:
        raise NotImplementedError

    def checkpoint_high_watermarks(self) -> None:
        raise NotImplementedError

    def update_topic_config(self, topic: str, config: LogConfig) -> None:
        raise NotImplementedError

    def update_defaults(self, broker_values: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def dir_sizes(self) -> dict[str, int]:
        raise NotImplementedError

    async def shutdown(self) -> None:
        raise NotImplementedError
