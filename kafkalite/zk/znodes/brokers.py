"""``/brokers/ids/N`` and ``/brokers/seqid``: the live brokers.

Answers to: ``kafka.zk.{BrokerIdsZNode,BrokerIdZNode,BrokerSequenceIdZNode}``. Pure.
"""

from __future__ import annotations

from kafkalite.cluster.model import Broker, Endpoint
from kafkalite.zk.znodes.codec import JsonObject, MalformedZnodeError, from_json, integer, json_object, to_json

IDS = "/brokers/ids"
SEQID = "/brokers/seqid"
_UNCLEAN_START_EPOCH = "unclean_start_epoch"
_EVENTS = "events"


def broker_path(broker_id: int) -> str:
    """The znode of broker ``broker_id``."""
    return f"{IDS}/{broker_id}"


def encode_broker(broker: Broker, timestamp_ms: int, jmx_port: int = -1) -> bytes:
    """The registration of ``broker`` (version 5).

    ``host`` and ``port``, for old readers, are those of the first PLAINTEXT endpoint. Kafka's readers ignore ``events``
    and ``unclean_start_epoch``. The latter is missing after an unclean start, because the znode cannot contain its own
    czxid.
    """
    plaintext = next((e for e in broker.endpoints if e.security_protocol == "PLAINTEXT"), None)
    value: JsonObject = {
        "features": {},
        "listener_security_protocol_map": {e.listener: e.security_protocol for e in broker.endpoints},
        "endpoints": [f"{e.listener}://{_bracketed(e.host)}:{e.port}" for e in broker.endpoints],
        "jmx_port": jmx_port,
        "port": plaintext.port if plaintext else -1,
        "host": plaintext.host if plaintext else None,
        "version": 5,
        "timestamp": str(timestamp_ms),
    }
    if broker.rack is not None:
        value["rack"] = broker.rack
    if broker.unclean_start_epoch >= 0:
        value[_UNCLEAN_START_EPOCH] = broker.unclean_start_epoch
    if broker.events:
        value[_EVENTS] = broker.events
    return to_json(value)


def decode_broker(broker_id: int, data: bytes, epoch: int = -1) -> Broker:
    """The broker of a znode of any version; ``epoch`` is the znode's czxid. Raises :class:`MalformedZnodeError`.

    A znode without ``unclean_start_epoch`` (Kafka's are) counts as one made after an unclean start.
    """
    what = broker_path(broker_id)
    value = from_json(data, what)
    version = integer(value.get("version", 1), f"{what} version")
    if version < 1:
        raise MalformedZnodeError(f"{what}: unsupported version {version}")
    if version == 1:
        port = integer(value.get("port"), f"{what} port")
        only = Endpoint("PLAINTEXT", "PLAINTEXT", str(value.get("host", "")), port)
        return Broker(broker_id, (only,), None, epoch, epoch)
    key = "listener_security_protocol_map"
    protocols = json_object(value.get(key) or {}, f"{what}: {key}")
    listed = value.get("endpoints")
    if not isinstance(listed, list):
        raise MalformedZnodeError(f"{what}: endpoints: not a list: {listed!r}")
    endpoints = tuple(_endpoint(text, protocols, what) for text in listed)
    rack = value.get("rack")
    unclean_start_epoch = integer(value.get(_UNCLEAN_START_EPOCH, epoch), f"{what} {_UNCLEAN_START_EPOCH}")
    events = str(value.get(_EVENTS) or "")
    return Broker(broker_id, endpoints, None if rack is None else str(rack), epoch, unclean_start_epoch, events)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _endpoint(text: object, protocols: JsonObject, what: str) -> Endpoint:
    listener, scheme, rest = str(text).partition("://")
    host, colon, port = rest.rpartition(":")
    if not scheme or not colon:
        raise MalformedZnodeError(f"{what}: not an endpoint: {text!r}")
    protocol = str(protocols.get(listener, listener))
    return Endpoint(listener, protocol, host.strip("[]"), integer(port, f"{what} endpoint"))
