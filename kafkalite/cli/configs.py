"""``kafkalite configs``: describe or alter configurations of topics and brokers, levels of loggers, quotas of clients.

Answers to: ``bin/kafka-configs.sh``, ``kafka.admin.ConfigCommand`` (3.9). Reactor shell (client library).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from kafkalite.cli import configs_quotas, configs_scram
from kafkalite.cli.clients import (
    ConfigDescription,
    add_bootstrap,
    add_json,
    admin_client,
    check_error,
    described_configs,
    print_json,
    read_properties,
    send,
)
from kafkalite.cli.main import UsageError

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

TYPES = {"topics": "TOPIC", "brokers": "BROKER", "broker-loggers": "BROKER_LOGGER"}
SHORT = {"topic": "topics", "broker": "brokers", "user": "users", "client": "clients", "ip": "ips"}
"""Short flags, and the type of entity that each names."""
EXAMPLES = (
    "kafkalite configs --bootstrap-server localhost:9092 --alter --topic flights --add-config retention.ms=86400000",
    "kafkalite configs --bootstrap-server localhost:9092 --describe --broker 1 --all",
    "kafkalite configs --bootstrap-server localhost:9092 --alter --client c1 --add-config producer_byte_rate=1000000",
    "kafkalite configs --bootstrap-server localhost:9092 --alter --entity-type broker-loggers --entity-name 1 "
    "--add-config kafkalite.controller=DEBUG",
    "kafkalite configs --explain log.retention.ms",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``configs`` with ConfigCommand's flags."""
    parser = subparsers.add_parser(
        "configs", aliases=["config"], help="describe or alter topic and broker configurations"
    )
    add_bootstrap(parser, required=False)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--describe", dest="action", action="store_const", const="describe", help="show configurations")
    action.add_argument(
        "--alter", dest="action", action="store_const", const="alter", help="add or delete configurations"
    )
    action.add_argument(
        "--explain", metavar="NAME", help="say what a configuration means and allows; no broker is asked"
    )
    parser.add_argument(
        "--entity-type",
        dest="entity_types",
        action="append",
        choices=sorted((*TYPES, *configs_quotas.TYPES)),
        help="what is configured; users and clients may be given together",
    )
    parser.add_argument("--entity-name", dest="entity_names", action="append", help="its name")
    parser.add_argument(
        "--entity-default", dest="entity_names", action="append_const", const="", help="the default of its type"
    )
    for short, kind in SHORT.items():
        parser.add_argument(f"--{short}", metavar="NAME", help=f"short for --entity-type {kind} --entity-name")
    for short in ("broker", "user", "client", "ip"):
        parser.add_argument(
            f"--{short}-defaults",
            dest=short,
            action="store_const",
            const="",
            help=f"short for --entity-type {SHORT[short]} --entity-default",
        )
    parser.add_argument("--all", action="store_true", help="for --describe: also what is not overridden")
    parser.add_argument("--add-config", metavar="K=V,K=[V1,V2]", help="configurations to set")
    parser.add_argument("--add-config-file", metavar="FILE", help="a properties file of configurations to set")
    parser.add_argument("--delete-config", metavar="K,K", help="configurations to go back to their defaults")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run the action of the arguments."""
    if args.explain is not None:
        # Imported here, because the other actions need no tables.
        from kafkalite.cli.configs_explain import explain

        return explain(args.explain, as_json=args.json)
    if args.bootstrap_server is None:
        raise UsageError("the following arguments are required: --bootstrap-server")
    kinds = entities(args)
    parts = configs_quotas.parts_of(kinds)
    label = label_of(*kinds[0])
    with admin_client(args) as admin:
        if parts is not None:
            if args.action == "alter":
                settings, deleted = changes_of(args)
                user = parts[0].name if [part.entity_type for part in parts] == ["user"] else None
                if user and configs_scram.are_credentials([*settings, *deleted]):
                    return configs_scram.alter(admin, user, settings, deleted, label)
                return configs_quotas.alter(admin, parts, settings, deleted, label)
            return configs_quotas.describe(admin, args, parts)
        kind, name = entity(kinds)
        if args.action == "alter":
            return alter(admin, args, kind, name, label)
        return describe(admin, args, kind, name)


def entities(args: argparse.Namespace) -> list[tuple[str, str | None]]:
    """Types of the flags with their names; "" is the default of the type, ``None`` means all entities."""
    types, names = args.entity_types or [], args.entity_names or []
    if len(names) > len(types):
        raise UsageError("--entity-name and --entity-default belong to an --entity-type each")
    found = list(zip_longest(types, names))
    found += [(kind, getattr(args, short)) for short, kind in SHORT.items() if getattr(args, short) is not None]
    if not found:
        raise UsageError(
            "say what: --entity-type with --entity-name or --entity-default, or --topic, --broker, --user, --client, "
            "--ip, --broker-defaults …"
        )
    return found


def entity(kinds: Sequence[tuple[str, str | None]]) -> tuple[str, str | None]:
    """The resource type and name of a topic or broker. Raises :class:`UsageError`."""
    if len(kinds) > 1:
        raise UsageError("only users and clients can be given together")
    ((plural, name),) = kinds
    kind = TYPES[plural]
    if name == "" and kind != "BROKER":
        raise UsageError("topics and loggers have no default that can be configured")
    return kind, name


def label_of(plural: str, name: str | None) -> str:
    """An entity in the last line of ``--alter``."""
    return f"{plural[:-1]} {name}" if name else f"default {plural} in the cluster"


def describe(admin: KafkaAdminClient, args: argparse.Namespace, kind: str, name: str | None) -> int:
    """``--describe`` of one entity or, without a name, of all entities."""
    if name is not None:
        names = [name]
    elif kind == "BROKER_LOGGER":
        raise UsageError("--describe of broker-loggers needs --entity-name")
    elif kind == "TOPIC":
        names = sorted(admin.list_topics())
    else:
        names = [
            str(broker_id)
            for broker_id in sorted(broker["broker_id"] for broker in admin.describe_cluster()["brokers"])
        ] + [""]
    shown = {}
    for each in names:
        entries = {
            key: entry
            for key, entry in sorted(described_configs(admin, kind, each, synonyms=True).items())
            if args.all or entry["config_source"] in own_sources(kind, each)
        }
        shown[each] = entries
        if not args.json:
            print_entries(kind, each, entries, args.all)
    if args.json:
        print_json([{"type": kind.lower(), "name": each, "configs": entries} for each, entries in shown.items()])
    return 0


def own_sources(kind: str, name: str) -> tuple[str, ...]:
    """The sources of values that were set for this entity itself."""
    if kind == "TOPIC":
        return ("DYNAMIC_TOPIC_CONFIG",)
    return ("DYNAMIC_BROKER_CONFIG", "DYNAMIC_BROKER_LOGGER_CONFIG") if name else ("DYNAMIC_DEFAULT_BROKER_CONFIG",)


def alter(admin: KafkaAdminClient, args: argparse.Namespace, kind: str, name: str | None, label: str) -> int:
    """``--alter``: incremental, so that configurations that are not named stay."""
    if name is None:
        raise UsageError("--alter needs --entity-name or --entity-default")
    settings, deleted = changes_of(args)
    changes = [(key, 0, value) for key, value in settings.items()] + [(key, 1, None) for key in deleted]
    change_configs(admin, kind, name, changes)
    print(f"Completed updating config for {label}.")
    return 0


def changes_of(args: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """What the flags set, and what they delete. Raises :class:`UsageError`."""
    settings = parse_config_list(args.add_config) if args.add_config else {}
    if args.add_config_file:
        settings |= read_properties(args.add_config_file)
    deleted = [key.strip() for key in (args.delete_config or "").split(",") if key.strip()]
    if not settings and not deleted:
        raise UsageError("--alter needs --add-config, --add-config-file or --delete-config")
    return settings, deleted


def change_configs(
    admin: KafkaAdminClient, kind: str, name: str, changes: Sequence[tuple[str, int, str | None]]
) -> None:
    """Set (0), delete (1) … single configurations of a TOPIC, BROKER or BROKER_LOGGER. Raises :class:`ApiError`."""
    from kafka.admin import ConfigResourceType
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    resource = (ConfigResourceType[kind], name, list(changes))
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    # A broker's own configuration is set at that broker, all others at any broker.
    for result in send(admin, request, int(name) if kind != "TOPIC" and name else None).responses:
        check_error(result)


def args_type(kind: str) -> str:
    """``TOPIC`` → ``topic``."""
    return kind.lower().replace("_", "-")


def parse_config_list(text: str) -> dict[str, str]:
    """``k1=v1,k2=[v2,v3]`` as a mapping: a comma inside brackets belongs to the value."""
    settings: dict[str, str] = {}
    for part in re.findall(r"[^,=]+=(?:\[[^\]]*\]|[^,]*)|[^,]+", text):
        name, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"--add-config {part!r}: expected NAME=VALUE")
        settings[name.strip()] = (
            value.strip().removeprefix("[").removesuffix("]") if value.strip().startswith("[") else value.strip()
        )
    return settings


def print_entries(kind: str, name: str, entries: dict[str, ConfigDescription], everything: bool) -> None:
    """Print the configurations of one entity, in ConfigCommand's lines."""
    adjective = "All" if everything else "Dynamic"
    print(
        f"{adjective} configs for {args_type(kind)} {name} are:"
        if name
        else f"Default configs for {args_type(kind)}s in the cluster are:"
    )
    for key, entry in entries.items():
        value = "null" if entry["is_sensitive"] else java_text(entry["value"])
        synonyms = ", ".join(
            f"{each['source']}:{each['name']}={java_text(each['value'])}" for each in entry.get("synonyms") or []
        )
        print(f"  {key}={value} sensitive={str(entry['is_sensitive']).lower()} synonyms={{{synonyms}}}")


def java_text(value: str | None) -> str:
    """``value`` as Java prints it."""
    return "null" if value is None else value
