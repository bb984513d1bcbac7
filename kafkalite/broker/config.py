"""A broker's configuration as it starts: server.properties, ``--override``, listeners, directories, dynamic values.

Answers to: ``kafka.server.KafkaConfig`` and ``kafka.cluster.EndPoint``'s parsing. Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.broker.config_keys import BROKER_CONFIGS, KNOWN_CONFIGS, is_known_elsewhere
from kafkalite.broker.listeners import Listening, check_listeners
from kafkalite.broker.properties import parse_properties
from kafkalite.broker.thread_counts import check_thread_counts
from kafkalite.common.errors import ConfigError

log = logging.getLogger(__name__)

__all__ = ["BROKER_CONFIGS", "BrokerConfig"]


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The values of server.properties, checked as a whole.

    ``values`` are those of the start; ``dynamic`` has those in force. ``listening`` are the listeners of the start.
    ``broker_id`` is -1 if ZooKeeper is to generate one.
    """

    texts: Mapping[str, str]
    values: Mapping[str, Any]
    dynamic: DynamicConfig
    broker_id: int
    rack: str | None
    log_dirs: tuple[str, ...]
    listening: Listening

    @classmethod
    def load(cls, path: str | Path | None, overrides: Mapping[str, str] | None = None) -> BrokerConfig:
        """Read the file at ``path`` (``None``: none), ``overrides`` on top. Raises :class:`ConfigError`."""
        texts: dict[str, str] = {}
        if path is not None:
            try:
                texts = parse_properties(_text(Path(path).read_bytes()))
            except OSError as error:
                raise ConfigError(f"Cannot read the configuration {path}: {error.strerror}") from None
        texts.update(overrides or {})
        return cls.parse(texts)

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> BrokerConfig:
        """Parse names and texts. Raises :class:`ConfigError` with the key, its value and the allowed values."""
        _report_unknown(texts)
        texts = _with_one_id(texts)
        dynamic = DynamicConfig(KNOWN_CONFIGS, texts, (check_thread_counts, check_listeners))
        values = dynamic.values
        if not values["zookeeper.connect"]:
            raise ConfigError(
                "Missing required configuration zookeeper.connect: allowed is host:port[,host:port…][/chroot]"
            )
        return cls(
            texts=dict(texts),
            values=values,
            dynamic=dynamic,
            broker_id=_broker_id(values),
            rack=values["broker.rack"] or None,
            log_dirs=_log_dirs(values),
            listening=Listening.parse(values),
        )

    @property
    def zookeeper_connection_timeout_ms(self) -> int:
        """Milliseconds for which a start waits for ZooKeeper."""
        timeout = self.values["zookeeper.connection.timeout.ms"]
        return int(self.values["zookeeper.session.timeout.ms"] if timeout is None else timeout)


def _text(data: bytes) -> str:
    """Decode UTF-8, or else Latin-1, because Java reads Latin-1 but editors write UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _with_one_id(texts: Mapping[str, str]) -> Mapping[str, str]:
    """``texts`` with ``broker.id`` and its newer name ``node.id``, where one of them is given."""
    broker_id, node_id = texts.get("broker.id"), texts.get("node.id")
    if broker_id is not None and node_id is not None and broker_id.strip() != node_id.strip():
        raise ConfigError(
            f"Invalid value {node_id} for configuration node.id: allowed is the value of broker.id ({broker_id})"
        )
    given = broker_id if broker_id is not None else node_id
    return texts if given is None else {**texts, "broker.id": given, "node.id": given}


def _broker_id(values: Mapping[str, Any]) -> int:
    broker_id, reserved = int(values["broker.id"]), int(values["reserved.broker.max.id"])
    if values["broker.id.generation.enable"]:
        if broker_id > reserved:
            raise ConfigError(
                f"Invalid value {broker_id} for configuration broker.id: allowed is at most {reserved} "
                "(reserved.broker.max.id), or any where broker.id.generation.enable=false"
            )
    elif broker_id < 0:
        raise ConfigError(
            f"Invalid value {broker_id} for configuration broker.id: allowed is at least 0 "
            "where broker.id.generation.enable=false"
        )
    return broker_id


def _log_dirs(values: Mapping[str, Any]) -> tuple[str, ...]:
    name = "log.dirs" if values["log.dirs"] is not None else "log.dir"
    text = values[name]
    dirs = tuple(part.strip() for part in text.split(",") if part.strip())
    if not dirs or len(set(dirs)) != len(dirs):
        raise ConfigError(
            f"Invalid value {text} for configuration {name}: allowed is at least one directory, each once"
        )
    return dirs


def _report_unknown(texts: Mapping[str, str]) -> None:
    unused = []
    for name in BROKER_CONFIGS.unknown(texts):
        if is_known_elsewhere(name):
            unused.append(name)
        else:
            log.warning("Unknown configuration %s; it has no effect", name)
    if unused:
        log.info("Kafka knows these configurations, kafkalite has no use for them: %s", ", ".join(sorted(unused)))
