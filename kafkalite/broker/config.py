"""A broker's configuration as it starts: server.properties, ``--override``, listeners, directories, dynamic values.

Answers to: ``kafka.server.KafkaConfig`` and ``kafka.cluster.EndPoint``'s parsing. Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkalite.admin.dynamic import DynamicConfig
from kafkalite.broker.config_keys import BROKER_CONFIGS, is_known_elsewhere
from kafkalite.broker.listeners import (
    advertised_listeners,
    inter_broker_listener,
    listener_protocols,
    served_listeners,
    with_control_plane,
)
from kafkalite.broker.properties import parse_properties
from kafkalite.cluster.model import CONTROL_PLANE_LISTENER, Endpoint
from kafkalite.common.errors import ConfigError

log = logging.getLogger(__name__)

__all__ = ["BROKER_CONFIGS", "BrokerConfig"]


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """What server.properties says, checked as a whole.

    ``values`` are those of the start; ``dynamic`` has those in force. ``listeners`` say where to bind (host ""
    is every address, port 0 any free one) and include the control plane's. ``broker_id`` is -1 where one is to be
    generated.
    """

    texts: Mapping[str, str]
    values: Mapping[str, Any]
    dynamic: DynamicConfig
    broker_id: int
    rack: str | None
    log_dirs: tuple[str, ...]
    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    listener_map: Mapping[str, str]
    inter_broker_listener: str

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
        """From names and texts. Raises :class:`ConfigError` naming key, value and what is allowed."""
        _report_unknown(texts)
        dynamic = DynamicConfig(BROKER_CONFIGS, {name: text for name, text in texts.items() if name in BROKER_CONFIGS})
        values = dynamic.values
        if not values["zookeeper.connect"]:
            raise ConfigError(
                "Missing required configuration zookeeper.connect: allowed is host:port[,host:port…][/chroot]"
            )
        listener_map = listener_protocols(values)
        listeners = with_control_plane(
            served_listeners("listeners", values["listeners"], listener_map), values, listener_map
        )
        advertised = advertised_listeners(values, listeners, listener_map)
        return cls(
            texts=dict(texts),
            values=values,
            dynamic=dynamic,
            broker_id=_broker_id(values),
            rack=values["broker.rack"] or None,
            log_dirs=_log_dirs(values),
            listeners=listeners,
            advertised=advertised,
            listener_map=listener_map,
            inter_broker_listener=inter_broker_listener(values, advertised),
        )

    def advertised_endpoints(self, ports: Mapping[str, int]) -> tuple[Endpoint, ...]:
        """What ``/brokers/ids`` is to say, once the listeners in ``ports`` are bound: port 0 becomes the real one."""
        return tuple(
            Endpoint(
                endpoint.listener,
                endpoint.security_protocol,
                endpoint.host,
                endpoint.port or ports[endpoint.listener],
            )
            for endpoint in self.advertised
        )

    @property
    def zookeeper_connection_timeout_ms(self) -> int:
        """How long a start waits for ZooKeeper."""
        timeout = self.values["zookeeper.connection.timeout.ms"]
        return int(self.values["zookeeper.session.timeout.ms"] if timeout is None else timeout)

    @property
    def control_plane_endpoint(self) -> Endpoint:
        """Where the control plane listens."""
        return next(endpoint for endpoint in self.listeners if endpoint.listener == CONTROL_PLANE_LISTENER)


def _text(data: bytes) -> str:
    """Java reads Latin-1; people write UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


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
