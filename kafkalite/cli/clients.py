"""Shared by the commands that talk to a cluster: the bootstrap flags, clients made from them, tables and JSON.

Answers to: ``org.apache.kafka.server.util.CommandLineUtils`` and ``--command-config``. Reactor shell.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafkalite.cli.main import UsageError

# Java's names of client properties → kafka-python's, if they differ by more than underscores.
ADMIN_PROPERTIES = {
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
INTEGER_SUFFIXES = (".ms", ".bytes", ".per.connection")


def add_bootstrap(
    parser: argparse.ArgumentParser, *, config_flag: str = "--command-config", aliases: tuple[str, ...] = ()
) -> None:
    """Add ``--bootstrap-server`` (and ``aliases`` of it) and the file of client properties."""
    parser.add_argument("--bootstrap-server", *aliases, dest="bootstrap_server", required=True, metavar="HOST:PORT,…")
    parser.add_argument(config_flag, dest="command_config", type=Path, metavar="FILE", help="client properties")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def read_properties(path: Path | None) -> dict[str, str]:
    """The ``name=value`` lines of a properties file; empty without a file."""
    if path is None:
        return {}
    properties: dict[str, str] = {}
    for line in path.read_text().splitlines():
        text = line.strip()
        if text and text[0] not in "#!":
            name, _, value = text.partition("=")
            properties[name.strip()] = value.strip()
    return properties


def parse_properties(pairs: list[str], flag: str) -> dict[str, str]:
    """``name=value`` arguments of ``flag`` as a mapping. Raises :class:`UsageError` for any other form."""
    properties: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{flag} {pair!r}: expected NAME=VALUE")
        properties[name] = value
    return properties


@contextmanager
def admin_client(args: argparse.Namespace) -> Iterator[Any]:
    """kafka-python's admin client for ``args``; closed at the end."""
    import logging

    from kafka.admin import KafkaAdminClient

    # The library warns of every reconnect; a command reports the error once, when it ends.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    settings: dict[str, Any] = {"bootstrap_timeout_ms": 15000}
    for name, value in read_properties(args.command_config).items():
        key = ADMIN_PROPERTIES.get(name, name.replace(".", "_"))
        settings[key] = int(value) if name.endswith(INTEGER_SUFFIXES) else value
    client = KafkaAdminClient(bootstrap_servers=args.bootstrap_server.split(","), client_id="kafkalite-cli", **settings)
    try:
        yield client
    finally:
        client.close()


def librdkafka_settings(args: argparse.Namespace, more: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Settings of a confluent-kafka client for ``args``: bootstrap, the property file, then ``more``."""
    return {"bootstrap.servers": args.bootstrap_server, **read_properties(args.command_config), **(more or {})}


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
    from kafkalite.common.errors import ErrorCode

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
