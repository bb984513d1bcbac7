"""A broker's configuration as it starts: server.properties, ``--override``, listeners, directories, dynamic values.

Answers to: ``kafka.server.KafkaConfig`` and ``kafka.cluster.EndPoint``'s parsing. Pure.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkalite.admin.dynamic import DynamicConfig
from kafkalite.broker.config_keys import BROKER_CONFIGS, is_known_elsewhere
from kafkalite.broker.properties import parse_properties
from kafkalite.cluster.model import CONTROL_PLANE_LISTENER, Endpoint
from kafkalite.common.errors import ConfigError

log = logging.getLogger(__name__)

__all__ = ["BROKER_CONFIGS", "BrokerConfig", "parse_listeners", "parse_overrides"]

_LISTENER = re.compile(r"^([^:/]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)$")
_IMPLEMENTED_PROTOCOLS = ("PLAINTEXT",)


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
    def load(cls, path: str | Path | None, overrides: Sequence[str] = ()) -> BrokerConfig:
        """Read the file at ``path`` (``None``: none), ``name=value`` texts on top. Raises :class:`ConfigError`."""
        texts: dict[str, str] = {}
        if path is not None:
            try:
                texts = parse_properties(Path(path).read_text(encoding="utf-8"))
            except OSError as error:
                raise ConfigError(f"Cannot read the configuration {path}: {error.strerror}") from None
        texts.update(parse_overrides(overrides))
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
        listener_map = _listener_map(values)
        listeners = _with_control_plane(
            _listeners("listeners", values["listeners"], listener_map), values, listener_map
        )
        advertised = _advertised(values, listeners, listener_map)
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
            inter_broker_listener=_inter_broker_listener(values, advertised),
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


def parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """``name=value`` texts of the command line. Raises :class:`ConfigError` for anything else."""
    texts = {}
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"Invalid override {override}: allowed is name=value")
        texts[name.strip()] = value.strip()
    return texts


def parse_listeners(name: str, text: str, listener_map: Mapping[str, str]) -> list[Endpoint]:
    """``NAME://host:port[,…]`` as endpoints. Raises :class:`ConfigError` naming the key ``name``."""
    endpoints = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            continue
        match = _LISTENER.match(part)
        if match is None or int(match[3]) > 65535 or int(match[3]) < 0:
            raise ConfigError(
                f"Invalid value {part} for configuration {name}: allowed is NAME://host:port, port 0 to 65535"
            )
        listener = match[1].upper()
        protocol = listener_map.get(listener)
        if protocol is None:
            raise ConfigError(
                f"Invalid value {part} for configuration {name}: allowed are the listener names of "
                f"listener.security.protocol.map ({', '.join(sorted(listener_map))})"
            )
        endpoints.append(Endpoint(listener, protocol, match[2], int(match[3])))
    if not endpoints:
        raise ConfigError(f"Invalid value {text!r} for configuration {name}: allowed is at least one NAME://host:port")
    names = [endpoint.listener for endpoint in endpoints]
    ports = [endpoint.port for endpoint in endpoints if endpoint.port]
    if len(set(names)) != len(names):
        raise ConfigError(f"Invalid value {text} for configuration {name}: allowed is each listener name once")
    if name == "listeners" and len(set(ports)) != len(ports):
        raise ConfigError(f"Invalid value {text} for configuration {name}: allowed is each port once")
    return endpoints


def _listeners(name: str, text: str, listener_map: Mapping[str, str]) -> list[Endpoint]:
    endpoints = parse_listeners(name, text, listener_map)
    for endpoint in endpoints:
        if endpoint.security_protocol not in _IMPLEMENTED_PROTOCOLS:
            raise ConfigError(
                f"Invalid value {text} for configuration {name}: security protocol {endpoint.security_protocol} "
                f"is not served; allowed is {', '.join(_IMPLEMENTED_PROTOCOLS)}"
            )
    return endpoints


def _with_control_plane(
    listeners: list[Endpoint], values: Mapping[str, Any], listener_map: Mapping[str, str]
) -> tuple[Endpoint, ...]:
    named = values["control.plane.listener.name"]
    present = any(endpoint.listener == CONTROL_PLANE_LISTENER for endpoint in listeners)
    if named is not None and named.upper() != CONTROL_PLANE_LISTENER:
        raise ConfigError(
            f"Invalid value {named} for configuration control.plane.listener.name: allowed is {CONTROL_PLANE_LISTENER}"
        )
    if named is not None and not present:
        raise ConfigError(
            f"Invalid value {values['listeners']} for configuration listeners: allowed is a list that has "
            f"{CONTROL_PLANE_LISTENER}, which control.plane.listener.name asks for"
        )
    if present:
        if len(listeners) == 1:
            raise ConfigError(
                f"Invalid value {values['listeners']} for configuration listeners: allowed is at least one listener "
                f"besides {CONTROL_PLANE_LISTENER}"
            )
        return tuple(listeners)
    protocol = listener_map[CONTROL_PLANE_LISTENER]
    return (*listeners, Endpoint(CONTROL_PLANE_LISTENER, protocol, listeners[0].host, 0))


def _advertised(
    values: Mapping[str, Any], listeners: Sequence[Endpoint], listener_map: Mapping[str, str]
) -> tuple[Endpoint, ...]:
    text = values["advertised.listeners"]
    chosen = list(listeners) if not text else _listeners("advertised.listeners", text, listener_map)
    bound = {endpoint.listener: endpoint for endpoint in listeners}
    for endpoint in chosen:
        if endpoint.listener not in bound:
            raise ConfigError(
                f"Invalid value {text} for configuration advertised.listeners: allowed are the names in listeners "
                f"({', '.join(bound)})"
            )
        if text and endpoint.host in ("0.0.0.0", "::"):
            raise ConfigError(
                f"Invalid value {text} for configuration advertised.listeners: allowed is an address that clients can "
                f"reach, not {endpoint.host}"
            )
    if all(endpoint.listener != CONTROL_PLANE_LISTENER for endpoint in chosen):
        plane = bound[CONTROL_PLANE_LISTENER]
        host = plane.host or chosen[0].host
        chosen.append(Endpoint(plane.listener, plane.security_protocol, host, plane.port))
    return tuple(
        Endpoint(endpoint.listener, endpoint.security_protocol, _reachable(endpoint.host), endpoint.port)
        for endpoint in chosen
    )


def _reachable(host: str) -> str:
    # As Kafka does for a listener on every address: the machine's own full name.
    return socket.getfqdn() if host in ("", "0.0.0.0", "::") else host


def _listener_map(values: Mapping[str, Any]) -> dict[str, str]:
    name, text = "listener.security.protocol.map", values["listener.security.protocol.map"]
    known = BROKER_CONFIGS["security.inter.broker.protocol"].choices
    mapped = {}
    for part in (part.strip() for part in text.split(",") if part.strip()):
        listener, _, protocol = part.partition(":")
        if protocol.strip().upper() not in known or not listener.strip():
            raise ConfigError(f"Invalid value {part} for configuration {name}: allowed is NAME:{'|'.join(known)}")
        mapped[listener.strip().upper()] = protocol.strip().upper()
    mapped.setdefault(CONTROL_PLANE_LISTENER, "PLAINTEXT")
    return mapped


def _inter_broker_listener(values: Mapping[str, Any], advertised: Sequence[Endpoint]) -> str:
    named, protocol = values["inter.broker.listener.name"], values["security.inter.broker.protocol"]
    clients = [endpoint for endpoint in advertised if endpoint.listener != CONTROL_PLANE_LISTENER]
    for endpoint in clients:
        if endpoint.listener == (named.upper() if named else protocol):
            return endpoint.listener
    if named:
        raise ConfigError(
            f"Invalid value {named} for configuration inter.broker.listener.name: allowed are the advertised listeners "
            f"({', '.join(endpoint.listener for endpoint in clients)})"
        )
    for endpoint in clients:
        if endpoint.security_protocol == protocol:
            return endpoint.listener
    raise ConfigError(
        f"Invalid value {protocol} for configuration security.inter.broker.protocol: "
        "allowed is the protocol of one of the listeners"
    )


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
