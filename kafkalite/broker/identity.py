"""Which id this broker has: configured, remembered by its log directories, or generated.

Answers to: ``kafka.server.KafkaServer.getOrGenerateBrokerId``. Reactor shell.
"""

from __future__ import annotations

import logging

from kafkalite.broker.config import BrokerConfig
from kafkalite.log.file_system import FileSystem
from kafkalite.log.log_dir_files import stored_broker_id
from kafkalite.zk.stores.brokers import BrokerStore

log = logging.getLogger(__name__)


async def choose_broker_id(config: BrokerConfig, fs: FileSystem, store: BrokerStore) -> int:
    """The id to start with. Raises :class:`StartupError` if the log directories belong to different brokers.

    The log manager checks that they belong to the broker of the configured id.
    """
    if config.broker_id >= 0:
        return config.broker_id
    stored = stored_broker_id(fs, config.log_dirs)
    if stored is not None:
        return stored
    generated = await store.generate_id(config.values["reserved.broker.max.id"])
    log.info("broker.id is not set; generated %d", generated)
    return generated
