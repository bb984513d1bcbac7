"""``kafkalite configs``: describe or alter the configurations of topics and brokers.

Answers to: ``bin/kafka-configs.sh``, ``kafka.admin.ConfigCommand`` (3.9). Reactor shell (client library).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from kafkalite.cli.clients import add_bootstrap, add_json, admin_client, print_json, read_properties
from kafkalite.cli.main import UsageError
from kafkalite.common.errors import ApiError, ErrorCode

TYPES = {"topics": "TOPIC", "brokers": "BROKER", "broker-loggers": "BROKER_LOGGER"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``configs`` with ConfigCommand's flags."""
    parser = subparsers.add_parser("configs", help="describe or alter topic and broker configurations")
    add_bootstrap(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--describe", dest="action", action="store_const", const="describe", help="show configurations")
    action.add_argument(
        "--alter", dest="action", action="store_const", const="alter", help="add or delete configurations"
    )
    parser.add_argument("--entity-type", choices=sorted(TYPES), help="what is configured")
    parser.add_argument("--entity-name", help="its name")
    parser.add_argument("--entity-default", action="store_true", help="the default of all brokers")
    parser.add_argument("--topic", help="short for --entity-type topics --entity-name")
    parser.add_argument("--broker", help="short for --entity-type brokers --entity-name")
    parser.add_argument(
        "--broker-defaults", action="store_true", help="short for --entity-type brokers --entity-default"
    )
    parser.add_argument("--all", action="store_true", help="for --describe: also what is not overridden")
    parser.add_argument("--add-config", metavar="K=V,K=[V1,V2]", help="configurations to set")
    parser.add_argument("--add-config-file", metavar="FILE", help="a properties file of configurations to set")
    parser.add_argument("--delete-config", metavar="K,K", help="configurations to go back to their defaults")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run the action of the arguments."""
    kind, name = entity(args)
    with admin_client(args) as admin:
        if args.action == "alter":
            return alter(admin, args, kind, name)
        return describe(admin, args, kind, name)


def entity(args: argparse.Namespace) -> tuple[str, str | None]:
    """The resource type and name of the flags; "" is the default of all brokers, ``None`` means all entities."""
    if args.topic:
        return "TOPIC", args.topic
    if args.broker:
        return "BROKER", args.broker
    if args.broker_defaults:
        return "BROKER", ""
    if not args.entity_type:
        raise UsageError(
            "say what: --entity-type with --entity-name or --entity-default, or --topic, --broker, --broker-defaults"
        )
    kind = TYPES[args.entity_type]
    if args.entity_default:
        if kind != "BROKER":
            raise UsageError("only brokers have a default that can be configured")
        return kind, ""
    return kind, args.entity_name


def describe(admin: Any, args: argparse.Namespace, kind: str, name: str | None) -> int:
    """``--describe`` of one entity or, without a name, of all entities."""
    if name is not None:
        names = [name]
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
            for key, entry in sorted(fetch(admin, kind, each).items())
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


def fetch(admin: Any, kind: str, name: str) -> dict[str, Any]:
    """All configurations of one entity, with synonyms."""
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.protocol.admin import DescribeConfigsRequest

    resource_type = ConfigResourceType[kind]
    if name or kind == "TOPIC":
        described = admin.describe_configs(
            [ConfigResource(resource_type, name)], include_synonyms=True, config_filter="all"
        )
        entries: dict[str, Any] = described.get(kind.lower(), {}).get(name, {})
        if not entries and kind == "TOPIC":
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        return entries
    # The library reads every broker's name as a number; the default of all brokers has the empty name.
    request = DescribeConfigsRequest(resources=[(resource_type, "", None)], include_synonyms=True, min_version=1)
    response = admin._manager.run(admin._manager.send, request)
    return dict(admin._describe_configs_process_responses([response], "all").get("broker", {}).get("", {}))


def alter(admin: Any, args: argparse.Namespace, kind: str, name: str | None) -> int:
    """``--alter``: incremental, so that configurations that are not named stay."""
    if name is None:
        raise UsageError("--alter needs --entity-name or --entity-default")
    settings = parse_config_list(args.add_config) if args.add_config else {}
    if args.add_config_file:
        settings |= read_properties(args.add_config_file)
    deleted = [key.strip() for key in (args.delete_config or "").split(",") if key.strip()]
    if not settings and not deleted:
        raise UsageError("--alter needs --add-config, --add-config-file or --delete-config")
    changes = [(key, 0, value) for key, value in settings.items()] + [(key, 1, None) for key in deleted]
    change_configs(admin, kind, name, changes)
    label = f"{args_type(kind)} {name}" if name else f"default {args_type(kind)}s in the cluster"
    print(f"Completed updating config for {label}.")
    return 0


def change_configs(admin: Any, kind: str, name: str, changes: Sequence[tuple[str, int, str | None]]) -> None:
    """Set (0), delete (1) … single configurations of a TOPIC or BROKER. Raises :class:`ApiError`."""
    from kafka.admin import ConfigResourceType
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    resource = (ConfigResourceType[kind], name, list(changes))
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    # A broker's own configuration is set at that broker, all others at any broker.
    node = {"node_id": int(name)} if kind != "TOPIC" and name else {}
    response = admin._manager.run(send_to, admin, request, node)
    for result in response.responses:
        if result.error_code:
            raise ApiError(ErrorCode(result.error_code), result.error_message or "")


async def send_to(admin: Any, request: Any, node: dict[str, int]) -> Any:
    """Send ``request`` to the broker that ``node`` names, or to any."""
    return await admin._manager.send(request, **node)


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


def print_entries(kind: str, name: str, entries: dict[str, Any], everything: bool) -> None:
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
