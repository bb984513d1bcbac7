"""A broker's configuration as it starts: server.properties, ``--override``, listeners, directories, dynamic values.

Answers to: ``kafka.server.KafkaConfig`` and ``kafka.cluster.EndPoint``'s parsing. Pure.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkalite.admin.dynamic_config import DynamicConfig, PasswordCodec
from kafkalite.broker.authorizer_keys import ACL_AUTHORIZER, AUTHORIZER_CONFIGS
from kafkalite.broker.broker_login_settings import BrokerLoginSettings
from kafkalite.broker.config_keys import BROKER_CONFIGS, KNOWN_CONFIGS, LIMITS_OF_LISTENERS, is_known_elsewhere
from kafkalite.broker.listeners import Listening, check_listeners
from kafkalite.broker.properties import load_properties
from kafkalite.broker.sasl_keys import SASL_CONFIGS
from kafkalite.broker.sasl_settings import SaslSettings, is_sasl
from kafkalite.broker.thread_counts import check_thread_counts
from kafkalite.broker.tls_keys import TLS_CONFIGS
from kafkalite.broker.unserved_security_keys import UNSERVED_SECURITY_CONFIGS
from kafkalite.common.config import ConfigKey, ConfigValues
from kafkalite.common.errors import ConfigError
from kafkalite.common.principals import ANONYMOUS, parse_super_users
from kafkalite.security.zookeeper_security import check_identity

log = logging.getLogger(__name__)

__all__ = ["BROKER_CONFIGS", "BrokerConfig"]


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The values of server.properties, checked as a whole.

    ``values`` are those of the start; ``dynamic`` has those in force. ``listening`` are the listeners of the start.
    ``broker_id`` is -1 if ZooKeeper is to generate one.
    """

    texts: Mapping[str, str]
    values: ConfigValues
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
                texts = load_properties(path)
            except OSError as error:
                raise ConfigError(f"Cannot read the configuration {path}: {error.strerror}") from None
        texts.update(overrides or {})
        return cls.parse(texts)

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> BrokerConfig:
        """Parse names and texts. Raises :class:`ConfigError` with the key, its value and the allowed values."""
        # Before the values are checked, because a misspelled name may be why a value is refused.
        _report_unknown(texts)
        given, texts = texts, _with_one_id(texts)
        dynamic = DynamicConfig(KNOWN_CONFIGS, texts, (check_thread_counts, check_listeners), AUTHORIZER_CONFIGS)
        dynamic.passwords = _password_encoder(dynamic.values, "password.encoder.secret")
        dynamic.old_passwords = _password_encoder(dynamic.values, "password.encoder.old.secret")
        if dynamic.old_passwords is not None and dynamic.passwords is None:
            raise ConfigError("password.encoder.old.secret: has no effect without password.encoder.secret")
        _report_without_effect(given, dynamic)
        values: ConfigValues = dynamic.values
        if not values["zookeeper.connect"]:
            raise ConfigError(
                "Missing required configuration zookeeper.connect: allowed is host:port[,host:port…][/chroot]"
            )
        check_identity(values)
        listening = Listening.parse(values)
        for endpoint in listening.bound:
            if is_sasl(endpoint.security_protocol):
                settings = SaslSettings.parse(dynamic, endpoint.listener)
                if endpoint.listener in (listening.inter_broker, listening.control_plane):
                    BrokerLoginSettings(dynamic, endpoint.listener, settings).parse()
        if values["sasl.jaas.config"]:
            log.warning(
                "sasl.jaas.config has no effect: write listener.name.NAME.MECHANISM.sasl.jaas.config, because each "
                "listener and mechanism has its own"
            )
        if values["authorizer.class.name"] == ACL_AUTHORIZER:
            _report_nameless_brokers(texts, listening, dynamic)
        else:
            _report_without_authorizer(texts)
        return cls(
            texts=dict(texts),
            values=values,
            dynamic=dynamic,
            broker_id=_broker_id(values),
            rack=values["broker.rack"] or None,
            log_dirs=_log_dirs(values),
            listening=listening,
        )

    @property
    def zookeeper_connection_timeout_ms(self) -> int:
        """Milliseconds for which a start waits for ZooKeeper."""
        timeout = self.values["zookeeper.connection.timeout.ms"]
        return int(self.values["zookeeper.session.timeout.ms"] if timeout is None else timeout)


def _password_encoder(values: ConfigValues, name: str) -> PasswordCodec | None:
    if not values[name]:
        return None
    try:
        # Here, because cryptography is an extra.
        from kafkalite.security.password_encoder import PasswordEncoder
    except ImportError:
        raise ConfigError(f"{name} needs the package cryptography: pip install 'kafkalite[security]'") from None
    factory = values["password.encoder.keyfactory.algorithm"] or "PBKDF2WithHmacSHA512"
    return PasswordEncoder(
        values[name],
        secrets.token_bytes,
        factory,
        values["password.encoder.key.length"],
        values["password.encoder.iterations"],
    )


def _with_one_id(texts: Mapping[str, str]) -> Mapping[str, str]:
    """``texts`` with ``broker.id`` and its newer name ``node.id``, where one of them is given."""
    broker_id, node_id = texts.get("broker.id"), texts.get("node.id")
    if broker_id is not None and node_id is not None and broker_id.strip() != node_id.strip():
        raise ConfigError(
            f"Invalid value {node_id} for configuration node.id: allowed is the value of broker.id ({broker_id})"
        )
    given = broker_id if broker_id is not None else node_id
    return texts if given is None else {**texts, "broker.id": given, "node.id": given}


def _broker_id(values: ConfigValues) -> int:
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


def _log_dirs(values: ConfigValues) -> tuple[str, ...]:
    name = "log.dirs" if values["log.dirs"] is not None else "log.dir"
    text = values[name]
    dirs = tuple(part.strip() for part in text.split(",") if part.strip())
    if not dirs or len(set(dirs)) != len(dirs):
        raise ConfigError(
            f"Invalid value {text} for configuration {name}: allowed is at least one directory, each once"
        )
    return dirs


def _report_unknown(texts: Mapping[str, str]) -> None:
    unknown = [name for name in BROKER_CONFIGS.unknown(texts) if not is_known_elsewhere(name)]
    authorizer = texts.get("authorizer.class.name", "").strip()
    if unknown and ":" in authorizer:
        # A class in Python gets all settings, and may have some of its own.
        log.info("No configurations of brokers, and given to the authorizer %s: %s", authorizer, ", ".join(unknown))
        return
    for name in unknown:
        log.warning("Unknown configuration %s; it has no effect", name)


def _report_without_effect(given: Mapping[str, str], dynamic: DynamicConfig) -> None:
    """Log the known names among ``given`` that have no effect: of security and quotas, of Kafka only."""
    without_effect, unused = [], []
    for name in BROKER_CONFIGS.unknown(given):
        key = dynamic.key(name)
        if key is not None and (key.name in SASL_CONFIGS or key.name in TLS_CONFIGS):
            continue
        if key is not None and _is_detail(name, key) and key.parse(given[name]) != key.default:
            without_effect.append(name)
        elif is_known_elsewhere(name) and name not in AUTHORIZER_CONFIGS:
            unused.append(name)
    if without_effect:
        log.warning(
            "These settings of security, quotas and single listeners have no effect, because kafkalite does not serve "
            "the features that they belong to: %s",
            ", ".join(sorted(without_effect)),
        )
    if unused:
        log.info("Kafka knows these configurations, kafkalite has no use for them: %s", ", ".join(sorted(unused)))


def _report_without_authorizer(texts: Mapping[str, str]) -> None:
    names = sorted(name for name in AUTHORIZER_CONFIGS.keys if texts.get(name))
    if names:
        log.warning("%s: no effect without authorizer.class.name=%s", ", ".join(names), ACL_AUTHORIZER)


def _report_nameless_brokers(texts: Mapping[str, str], listening: Listening, dynamic: DynamicConfig) -> None:
    """Warn where all brokers are anonymous to each other and lack ClusterAction."""
    listener = listening.inter_broker
    protocol = listening.protocols[listener]
    if protocol != "PLAINTEXT" and (is_sasl(protocol) or dynamic.of_listener(listener)["ssl.client.auth"] != "none"):
        return
    values = {**AUTHORIZER_CONFIGS.defaults(), **AUTHORIZER_CONFIGS.parse(texts)}
    if ANONYMOUS not in parse_super_users(str(values["super.users"])) and not values["allow.everyone.if.no.acl.found"]:
        log.warning(
            "Brokers connect to listener %s without a login, as %s, to whom no setting allows ClusterAction. Unless "
            "an ACL does, they replicate nothing. Give the listener SASL or ssl.client.auth=required, and make the "
            "brokers super.users",
            listener,
            ANONYMOUS,
        )


def _is_detail(name: str, key: ConfigKey) -> bool:
    """Whether ``name``, parsed by ``key``, is a detail of security or quotas, or a setting of a single listener.

    A key of security with a ``check`` is none, because a value that passes the check asks for nothing.
    """
    if key.check is not None or key.name in LIMITS_OF_LISTENERS:
        return False
    return key.name != name or name in UNSERVED_SECURITY_CONFIGS
