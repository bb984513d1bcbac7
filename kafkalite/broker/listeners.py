"""Listeners: where a broker binds, and where clients and other brokers reach it.

Answers to: ``kafka.cluster.EndPoint``'s parsing and the listener rules of ``kafka.server.KafkaConfig``. Pure.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.cluster.model import Endpoint
from kafkalite.common.config import ConfigValues
from kafkalite.common.errors import ConfigError

_LISTENER = re.compile(r"^([^:/]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)$")
LISTENER_KEYS: Final = ("listeners", "advertised.listeners", "listener.security.protocol.map")
"""The listeners' keys that may change while a broker runs."""


@dataclass(frozen=True, slots=True)
class Listening:
    """The listeners of a broker's configuration; ``Listening.parse`` checks them as a whole.

    ``bound`` are the addresses to bind (host "" is every address, port 0 any free one), ``advertised`` those that
    clients and brokers connect to. ``protocols`` are the security protocols by listener name, ``inter_broker`` is the
    listener on which brokers fetch from each other, and ``control_plane`` the one that takes the controller's requests,
    ``None`` where that is ``inter_broker``, too.
    """

    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    protocols: Mapping[str, str]
    inter_broker: str
    control_plane: str | None = None

    @classmethod
    def parse(cls, values: ConfigValues) -> Listening:
        """Parse a broker's values. Raises :class:`ConfigError` with the key, its value and the allowed values."""
        protocols = listener_protocols(values)
        bound = tuple(parse_listeners("listeners", values["listeners"], protocols))
        advertised = advertised_listeners(values, bound, protocols)
        inter_broker = inter_broker_listener(values, advertised)
        return cls(bound, advertised, protocols, inter_broker, control_plane_listener(values, advertised, inter_broker))

    @property
    def of_clients(self) -> dict[str, Endpoint]:
        """The addresses to bind by listener name, without the control plane."""
        return {each.listener: each for each in self.bound if each.listener != self.control_plane}

    @property
    def between_brokers(self) -> tuple[str, ...]:
        """The listeners on which brokers connect to each other."""
        return (self.inter_broker,) if self.control_plane is None else (self.inter_broker, self.control_plane)

    def endpoints_of_control_plane(self) -> set[Endpoint]:
        """The addresses of the control plane's own listener, bound and advertised; empty where it has none."""
        return {each for each in (*self.bound, *self.advertised) if each.listener == self.control_plane}

    def reachable(self, ports: Mapping[str, int]) -> tuple[Endpoint, ...]:
        """Endpoints for ``/brokers/ids``, once the listeners in ``ports`` are bound; port 0 becomes the real one."""
        return tuple(
            Endpoint(each.listener, each.security_protocol, each.host, each.port or ports[each.listener])
            for each in self.advertised
        )


def check_listeners(present: ConfigValues, changed: ConfigValues) -> None:
    """Check that a running broker may change its listeners so. Raises :class:`ConfigError`.

    Answers to: ``DynamicListenerConfig.validateReconfiguration``.
    """
    if all(present[name] == changed[name] for name in LISTENER_KEYS):
        return
    then = Listening.parse(changed)
    try:
        now = Listening.parse(present)
    except ConfigError:
        # The present value, written into ZooKeeper by hand, is wrong: any right one may follow it.
        return
    for name in now.of_clients.keys() & then.of_clients.keys():
        if now.protocols[name] != then.protocols[name]:
            raise ConfigError(f"Security protocol cannot be updated for existing listener {name}")
    if now.inter_broker != then.inter_broker:
        raise ConfigError(
            f"The listener on which brokers fetch from each other cannot be changed while they run: it is "
            f"{now.inter_broker}, and would be {then.inter_broker}"
        )
    if now.endpoints_of_control_plane() != then.endpoints_of_control_plane():
        raise ConfigError(f"The address of {now.control_plane} cannot be changed while the broker runs")


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


def advertised_listeners(
    values: ConfigValues, listeners: Sequence[Endpoint], listener_map: Mapping[str, str]
) -> tuple[Endpoint, ...]:
    """The advertised endpoint of each listener; port 0 is replaced after binding."""
    text = values["advertised.listeners"]
    chosen = list(listeners) if not text else parse_listeners("advertised.listeners", text, listener_map)
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
    return tuple(
        Endpoint(endpoint.listener, endpoint.security_protocol, _reachable(endpoint.host), endpoint.port)
        for endpoint in chosen
    )


def _reachable(host: str) -> str:
    # For a listener on every address Kafka advertises the full name of the machine.
    return socket.getfqdn() if host in ("", "0.0.0.0", "::") else host


def listener_protocols(values: ConfigValues) -> dict[str, str]:
    """``listener.security.protocol.map`` as a mapping."""
    name, text = "listener.security.protocol.map", values["listener.security.protocol.map"]
    known = BROKER_CONFIGS["security.inter.broker.protocol"].choices
    mapped = {}
    for part in (part.strip() for part in text.split(",") if part.strip()):
        listener, _, protocol = part.partition(":")
        if protocol.strip().upper() not in known or not listener.strip():
            raise ConfigError(f"Invalid value {part} for configuration {name}: allowed is NAME:{'|'.join(known)}")
        mapped[listener.strip().upper()] = protocol.strip().upper()
    return mapped


def inter_broker_listener(values: ConfigValues, advertised: Sequence[Endpoint]) -> str:
    """Name of the listener on which brokers fetch from each other."""
    named, protocol = values["inter.broker.listener.name"], values["security.inter.broker.protocol"]
    for endpoint in advertised:
        if endpoint.listener == (named.upper() if named else protocol):
            return endpoint.listener
    if named:
        raise ConfigError(
            f"Invalid value {named} for configuration inter.broker.listener.name: allowed are the advertised listeners "
            f"({', '.join(endpoint.listener for endpoint in advertised)})"
        )
    for endpoint in advertised:
        if endpoint.security_protocol == protocol:
            return endpoint.listener
    raise ConfigError(
        f"Invalid value {protocol} for configuration security.inter.broker.protocol: "
        "allowed is the protocol of one of the listeners"
    )


def control_plane_listener(values: ConfigValues, advertised: Sequence[Endpoint], inter_broker: str) -> str | None:
    """Name of the listener that takes the controller's requests, where it is one of its own (KIP-291)."""
    name, key = values["control.plane.listener.name"], "control.plane.listener.name"
    if name is None:
        return None
    listener: str = name.upper()
    if listener == inter_broker:
        raise ConfigError(
            f"Invalid value {name} for configuration {key}: allowed is another listener than that between brokers "
            f"({inter_broker}); without {key} that one takes the controller's requests"
        )
    names = [endpoint.listener for endpoint in advertised]
    if listener not in names:
        raise ConfigError(
            f"Invalid value {name} for configuration {key}: allowed are the advertised listeners ({', '.join(names)})"
        )
    return listener
