"""Shared by the commands that talk to a cluster: the bootstrap flags, clients made from them, tables and JSON.

Answers to: ``org.apache.kafka.server.util.CommandLineUtils`` and ``--command-config``. Reactor shell.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from kafkalite.broker.kerberos_logins import take_ticket
from kafkalite.broker.kerberos_settings import KERBEROS_MODULE
from kafkalite.broker.properties import load_properties
from kafkalite.cli.login_refusals import raise_refusal, refusal_aware_client
from kafkalite.cli.main import UsageError
from kafkalite.common.errors import ApiError, ErrorCode, StartupError
from kafkalite.common.token_endpoint import ClientCredentials
from kafkalite.security.jaas import JaasConfig

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient
    from kafka.protocol.api_message import ApiMessage

    from kafkalite.cli.token_provider import TokenProvider

# Java's names of client properties → kafka-python's, if they differ by more than underscores.
ADMIN_PROPERTIES = {
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_CREDENTIALS = ("client.id", "client.secret", "scope")
INTEGER_SUFFIXES = (".ms", ".bytes", ".per.connection")


class PartitionDescription(TypedDict):
    """A partition as kafka-python's admin client describes it."""

    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: list[int]
    isr_nodes: list[int]
    offline_replicas: list[int]


class TopicDescription(TypedDict):
    """A topic as kafka-python's admin client describes it."""

    name: str
    topic_id: str | None
    error_code: int
    is_internal: bool
    partitions: list[PartitionDescription]


class ConfigSynonym(TypedDict):
    """One source of a configuration's value."""

    name: str
    value: str | None
    source: str


class ConfigDescription(TypedDict):
    """A configuration as kafka-python's admin client describes it."""

    value: str | None
    config_source: str
    is_sensitive: bool
    synonyms: list[ConfigSynonym] | None


def add_bootstrap(
    parser: argparse.ArgumentParser,
    *,
    config_flag: str = "--command-config",
    aliases: tuple[str, ...] = (),
    required: bool = True,
) -> None:
    """Add ``--bootstrap-server`` (and ``aliases`` of it) and the file of client properties."""
    parser.add_argument(
        "--bootstrap-server", *aliases, dest="bootstrap_server", required=required, metavar="HOST:PORT,…"
    )
    parser.add_argument(config_flag, dest="command_config", type=Path, metavar="FILE", help="client properties")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def read_properties(path: Path | None) -> dict[str, str]:
    """Names and values of a file of Java properties, without blanks at their ends; empty without a file."""
    if path is None:
        return {}
    return {name: value.rstrip() for name, value in load_properties(path).items()}


@contextmanager
def file_is(path: Path, what: str) -> Iterator[None]:
    """Raises :class:`UsageError` if the JSON that is read from ``path`` meanwhile is not ``what``."""
    try:
        yield
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: not {what} ({type(error).__name__}: {error})") from None


def with_login(properties: Mapping[str, str]) -> dict[str, str]:
    """``properties`` with user and password in librdkafka's names instead of Java's ``sasl.jaas.config``.

    Keys of Kerberos are used by this process from now on. Raises :class:`UsageError` for a login module that the Python
    clients have no counterpart of, and for keys that are of no use.
    """
    settings = dict(properties)
    text = settings.pop("sasl.jaas.config", "")
    if text:
        try:
            jaas = JaasConfig.parse(text)
        except ValueError as error:
            raise UsageError(f"sasl.jaas.config: {error}") from None
        options = jaas.options
        if jaas.module == KERBEROS_MODULE:
            _take_ticket(options)
            return settings
        if jaas.module == OAUTH_MODULE:
            return _with_tokens(settings, options)
        if not {"username", "password"} <= options.keys() or options.get("tokenauth", "").lower() == "true":
            raise UsageError(
                "sasl.jaas.config: expected the login module of PLAIN or SCRAM with username and password, or that of "
                "OAUTHBEARER or Kerberos, because the Python clients have no other; a delegation token needs a Java "
                "client"
            )
        settings.setdefault("sasl.username", options["username"])
        settings.setdefault("sasl.password", options["password"])
    return settings


def _with_tokens(settings: dict[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings for the tokens of a token endpoint."""
    settings.pop("sasl.login.callback.handler.class", None)
    if not settings.get(_TOKEN_URL) or not options.get("clientId") or not options.get("clientSecret"):
        raise UsageError(
            f"sasl.jaas.config: the login module of OAUTHBEARER needs clientId and clientSecret, beside {_TOKEN_URL}"
        )
    settings["sasl.oauthbearer.method"] = "oidc"
    settings["sasl.oauthbearer.client.id"] = options["clientId"]
    settings["sasl.oauthbearer.client.secret"] = options["clientSecret"]
    if options.get("scope"):
        settings["sasl.oauthbearer.scope"] = options["scope"]
    return settings


def _token_provider(settings: dict[str, str]) -> TokenProvider | None:
    """What gives kafka-python its tokens; takes librdkafka's names of that out of ``settings``."""
    names = [name for name in settings if name.startswith("sasl.oauthbearer.")]
    given = {name: settings.pop(name) for name in names}
    if settings.get("sasl.mechanism") != "OAUTHBEARER" or _TOKEN_URL not in given:
        return None
    from kafkalite.cli.token_provider import TokenProvider

    client_id, secret, scope = (given.get(f"sasl.oauthbearer.{each}", "") for each in _CREDENTIALS)
    return TokenProvider(ClientCredentials(given[_TOKEN_URL], client_id, secret, scope))


def _take_ticket(options: Mapping[str, str]) -> None:
    """Have libkrb5 find a ticket of the principal in ``options``; without a keytab it uses the user's own tickets."""
    keytab, principal = options.get("keyTab"), options.get("principal")
    if options.get("useKeyTab", "").lower() != "true" or not keytab or not principal:
        return
    try:
        os.environ["KRB5CCNAME"] = take_ticket(keytab, principal)
    except StartupError as error:
        raise UsageError(f"sasl.jaas.config: {error}") from None


def parse_pairs(pairs: list[str], flag: str) -> dict[str, str]:
    """``name=value`` arguments of ``flag`` as a mapping. Raises :class:`UsageError` for any other form."""
    properties: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{flag} {pair!r}: expected NAME=VALUE")
        properties[name] = value
    return properties


@contextmanager
def admin_client(args: argparse.Namespace) -> Iterator[KafkaAdminClient]:
    """kafka-python's admin client for ``args``; closed at the end. Raises :class:`BrokerRefusalError` at once.

    A request takes at most ``request_timeout_ms`` of ``args``, where a command has set it.
    """
    import logging

    from kafka.admin import KafkaAdminClient

    # The library warns of every reconnect; a command reports the error once, when it ends.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    settings: dict[str, object] = {"bootstrap_timeout_ms": 15000, "kafka_client": refusal_aware_client}
    properties = with_login(read_properties(args.command_config))
    provider = _token_provider(properties)
    if provider is not None:
        settings["sasl_oauth_token_provider"] = provider
    for name, value in properties.items():
        key = ADMIN_PROPERTIES.get(name, name.replace(".", "_"))
        settings[key] = int(value) if name.endswith(INTEGER_SUFFIXES) else value
    if "request_timeout_ms" in args:
        settings["request_timeout_ms"] = args.request_timeout_ms
    client = KafkaAdminClient(bootstrap_servers=args.bootstrap_server.split(","), client_id="kafkalite-cli", **settings)
    try:
        yield client
    finally:
        client.close()


def send(admin: KafkaAdminClient, request: ApiMessage, broker: int | None = None) -> ApiMessage:
    """The answer of the broker with the id ``broker`` to ``request``, or of any broker."""
    return admin._manager.run(_send_to, admin, request, {} if broker is None else {"node_id": broker})


async def _send_to(admin: KafkaAdminClient, request: ApiMessage, node: dict[str, int]) -> ApiMessage:
    return await admin._manager.send(request, **node)


def check_error(answer: ApiMessage) -> None:
    """Raise the error in the fields ``error_code`` and ``error_message`` as :class:`ApiError`, if there is one."""
    if answer.error_code:
        raise ApiError(ErrorCode(answer.error_code), answer.error_message or "")


def broker_configs(
    admin: KafkaAdminClient, broker_id: int, names: Sequence[str] | None = None
) -> dict[str, ConfigDescription]:
    """The configurations of a broker, all or ``names``. Raises :class:`ApiError` for a user that may not read them."""
    return described_configs(admin, "BROKER", str(broker_id), names)


def described_configs(
    admin: KafkaAdminClient, kind: str, name: str, keys: Sequence[str] | None = None, *, synonyms: bool = False
) -> dict[str, ConfigDescription]:
    """The configurations of a TOPIC, BROKER or BROKER_LOGGER, all or ``keys``; a BROKER "" is the default of all.

    Raises :class:`ApiError` with the broker's error: the library's own method ignores it and returns no configurations.
    """
    from kafka.admin import ConfigResourceType
    from kafka.protocol.admin import DescribeConfigsRequest

    asked = (ConfigResourceType[kind], name, None if keys is None else list(keys))
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=synonyms, min_version=1)
    # A broker describes itself and its loggers; any broker describes a topic, and the default of all brokers.
    response = send(admin, request, int(name) if kind != "TOPIC" and name else None)
    for result in response.results:
        check_error(result)
    found: dict[str, dict[str, dict[str, ConfigDescription]]]
    found = admin._describe_configs_process_responses([response], "all")
    return found.get(kind.lower(), {}).get(name, {})


def librdkafka_settings(args: argparse.Namespace, more: Mapping[str, str] | None = None) -> dict[str, object]:
    """Settings of a confluent-kafka client for ``args``: bootstrap, the property file, then ``more``.

    After a refused login the client's ``poll``, ``flush`` and ``consume`` raise :class:`BrokerRefusalError`.
    """
    properties = with_login(read_properties(args.command_config))
    return {
        "bootstrap.servers": args.bootstrap_server,
        "error_cb": raise_refusal,
        "log_level": 0,
        **properties,
        **(more or {}),
    }


def print_json(value: object) -> None:
    """Print one JSON document."""
    json.dump(value, sys.stdout, indent=2, default=str)
    print()


def print_table(headers: list[str], rows: list[list[object]]) -> None:
    """Print ``rows`` under ``headers``, each column as wide as its longest cell."""
    texts = [headers, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(headers))]
    for row in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def kafka_error(code: int, message: str | None) -> str:
    """An error code of the wire as text: its name, and the broker's message."""
    try:
        name = ErrorCode(code).name
    except ValueError:
        name = f"error {code}"
    return f"{name}: {message}" if message else name


def id_text(topic_id: object) -> str:
    """A topic id as Kafka prints it; empty if the topic has none."""
    import uuid

    from kafkalite.common.types import ZERO_UUID, uuid_to_text

    if not topic_id:
        return ""
    value = topic_id if isinstance(topic_id, uuid.UUID) else uuid.UUID(str(topic_id))
    return "" if value == ZERO_UUID else uuid_to_text(value)
