"""Which id this broker has: configured, remembered by its log directories, or generated.

Answers to: ``kafka.server.KafkaServer.getOrGenerateBrokerId``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.properties import parse_properties
from kafkalite.common.errors import StartupError
from kafkalite.zk.stores.brokers import BrokerStore

log = logging.getLogger(__name__)


async def choose_broker_id(config: BrokerConfig, store: BrokerStore) -> int:
    """The id to start with. Raises :class:`StartupError` where the directories say otherwise than the configuration."""
    remembered = remembered_ids(config.log_dirs)
    if len(set(remembered.values())) > 1:
        raise StartupError(
            "The log directories belong to different brokers: "
            + ", ".join(f"{path} to broker {broker_id}" for path, broker_id in remembered.items())
            + "; start each broker with its own log.dirs"
        )
    known = next(iter(remembered.values()), -1)
    if config.broker_id >= 0:
        if known not in (-1, config.broker_id):
            raise StartupError(
                f"Configured broker.id {config.broker_id} does not match {known} in the meta.properties of "
                f"{next(iter(remembered))}; set broker.id={known}, or use another log directory"
            )
        return config.broker_id
    if known >= 0:
        return known
    generated = await store.generate_id(config.values["reserved.broker.max.id"])
    log.info("broker.id is not set; generated %d", generated)
    return generated


def remembered_ids(log_dirs: Iterable[str]) -> dict[str, int]:
    """The broker ids that stand in the directories' ``meta.properties``."""
    found = {}
    for log_dir in log_dirs:
        try:
            properties = parse_properties((Path(log_dir) / "meta.properties").read_text(encoding="utf-8"))
            found[log_dir] = int(properties["broker.id"])
        except (OSError, KeyError, ValueError):
            # A new, a failed or a damaged directory says nothing here; the log manager looks at each closely.
            continue
    return found
