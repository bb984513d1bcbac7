"""``kafkalite acls``: add, remove and list ACLs.

Answers to: ``bin/kafka-acls.sh``, ``kafka.admin.AclCommand`` (3.9) with ``--bootstrap-server``. Reactor shell (client
library).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from kafkalite.cli.clients import add_bootstrap, add_json, admin_client, check_error, kafka_error, print_json, send
from kafkalite.cli.main import UsageError
from kafkalite.common.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kafkalite.common.principals import KafkaPrincipal

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

EXAMPLES = (
    "kafkalite acls --bootstrap-server localhost:9092 --list --topic orders",
    "kafkalite acls --bootstrap-server localhost:9092 --add --allow-principal User:alice --producer --topic orders",
    "kafkalite acls --bootstrap-server localhost:9092 --add --allow-principal User:bob --consumer --topic t --group g",
    "kafkalite acls --bootstrap-server localhost:9092 --remove --force --topic orders",
)

_FLAGS: Final = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional_id": AclResourceType.TRANSACTIONAL_ID,
    "delegation_token": AclResourceType.DELEGATION_TOKEN,
    "user_principal": AclResourceType.USER,
}
"""Flag of a resource → its type."""
_O: Final = AclOperation
_PRODUCE: Final = frozenset({_O.WRITE, _O.DESCRIBE, _O.CREATE})
_PRODUCE_IN_TRANSACTIONS: Final = frozenset({_O.WRITE, _O.DESCRIBE})
_CONSUME: Final = frozenset({_O.READ, _O.DESCRIBE})

Resources = dict[ResourcePattern, set[AclOperation]]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``acls`` with AclCommand's flags."""
    parser = subparsers.add_parser("acls", help="add, remove or list ACLs")
    add_bootstrap(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--add", action="store_true", help="add ACLs")
    action.add_argument("--remove", action="store_true", help="remove ACLs")
    action.add_argument("--list", action="store_true", help="list ACLs, of all resources where none is named")
    for flag, what in (
        ("--topic", "topic, or '*' for all"),
        ("--group", "consumer group, or '*' for all"),
        ("--transactional-id", "transactional id, or '*' for all"),
        ("--delegation-token", "delegation token, or '*' for all"),
        ("--user-principal", "user whose tokens others may create or describe, or '*' for all"),
    ):
        parser.add_argument(flag, action="append", default=[], metavar="NAME", help=what)
    parser.add_argument("--cluster", action="store_true", help="the cluster")
    parser.add_argument("--idempotent", action="store_true", help="add IdempotentWrite on the cluster for producers")
    parser.add_argument(
        "--resource-pattern-type",
        type=str.lower,
        choices=["literal", "prefixed", "any", "match"],
        default="literal",
        help="how names are meant; any and match only to list or remove",
    )
    parser.add_argument("--operation", action="append", default=[], metavar="NAME", help="default: All")
    for flag, what in (
        ("--allow-principal", "who may: User:NAME"),
        ("--deny-principal", "who may not, also if another ACL allows it: User:NAME"),
        ("--allow-host", "address from which --allow-principal may; default: all"),
        ("--deny-host", "address from which --deny-principal may not; default: all"),
        ("--principal", "whose ACLs to list"),
    ):
        parser.add_argument(flag, action="append", default=[], metavar="TEXT", help=what)
    parser.add_argument("--producer", action="store_true", help="what a producer needs")
    parser.add_argument("--consumer", action="store_true", help="what a consumer needs")
    parser.add_argument("--force", action="store_true", help="remove without asking")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Change or show; exit code 1 if an ACL could not be changed."""
    check(args)
    with admin_client(args) as admin:
        failures: list[str] = []
        if args.add:
            failures = add(admin, bindings(args), quiet=args.json)
        elif args.remove:
            wanted = removed(args)
            if not (args.force or confirm(wanted)):
                return 0
            failures = remove(admin, wanted)
        shown = list(dict.fromkeys(found for each in listed(args) for found in describe(admin, each)))
    if args.json:
        print_json([as_json(binding) for binding in shown])
    else:
        show("Current ACLs for resource", shown)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def check(args: argparse.Namespace) -> None:
    """Raises :class:`UsageError` for flags that make no sense together."""
    if args.add and args.resource_pattern_type in ("any", "match"):
        raise UsageError(f"--resource-pattern-type {args.resource_pattern_type} is for --list and --remove")
    if args.principal and not args.list:
        raise UsageError("--principal is for --list; use --allow-principal or --deny-principal")
    if args.allow_host and not args.allow_principal:
        raise UsageError("--allow-host needs --allow-principal")
    if args.deny_host and not args.deny_principal:
        raise UsageError("--deny-host needs --deny-principal")
    if (args.producer or args.consumer) and (args.operation or args.deny_principal or args.deny_host):
        raise UsageError("--producer and --consumer stand instead of --operation, and allow only")
    if args.producer and not args.topic:
        raise UsageError("--producer needs --topic")
    if args.idempotent and not args.producer:
        raise UsageError("--idempotent needs --producer")
    if args.consumer and not (args.topic and args.group):
        raise UsageError("--consumer needs --topic and --group")
    if args.consumer and not args.producer and (args.cluster or args.transactional_id):
        raise UsageError("--consumer is about --topic and --group only")
    if not args.list and not resources(args):
        raise UsageError("say of which resource: --topic, --group, --cluster, --transactional-id …")
    if args.add and not (args.allow_principal or args.deny_principal):
        raise UsageError("--add needs --allow-principal or --deny-principal")
    for principal in (*args.allow_principal, *args.deny_principal, *args.principal):
        try:
            KafkaPrincipal.parse(principal)
        except ValueError as error:
            raise UsageError(f"principal {principal!r}: {error}") from None
    for pattern, operations in resources(args).items():
        unknown = operations - SUPPORTED_OPERATIONS[pattern.type] - {_O.ALL}
        if args.add and unknown:
            named = ", ".join(sorted(operation.camel_name for operation in unknown))
            raise UsageError(f"a resource of type {pattern.type.name} has no operation {named}")


def resources(args: argparse.Namespace) -> Resources:
    """The resources that the flags name, with the operations."""
    kind = PatternType[args.resource_pattern_type.upper()]
    named: Resources = {}

    def name(type_: AclResourceType, text: str, operations: Iterable[AclOperation]) -> None:
        named.setdefault(ResourcePattern(type_, text.strip(), kind), set()).update(operations)

    if not (args.producer or args.consumer):
        operations = [operation(text) for text in args.operation] or [_O.ALL]
        for flag, type_ in _FLAGS.items():
            for text in getattr(args, flag):
                name(type_, text, operations)
        if args.cluster:
            # The cluster has one name; a prefix of it would be another resource.
            named[ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)] = set(operations)
        return named
    for topic in args.topic:
        name(AclResourceType.TOPIC, topic, _PRODUCE if args.producer else ())
        name(AclResourceType.TOPIC, topic, _CONSUME if args.consumer else ())
    for group in args.group if args.consumer else ():
        name(AclResourceType.GROUP, group, {_O.READ})
    for transactional_id in args.transactional_id if args.producer else ():
        name(AclResourceType.TRANSACTIONAL_ID, transactional_id, _PRODUCE_IN_TRANSACTIONS)
    if args.idempotent:
        named[ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)] = {_O.IDEMPOTENT_WRITE}
    return named


def operation(text: str) -> AclOperation:
    """``DescribeConfigs``, in upper or lower case, with or without underscores. Raises :class:`UsageError`."""
    plain = text.replace("_", "").lower()
    for each in AclOperation:
        if each > AclOperation.ANY and each.name.replace("_", "").lower() == plain:
            return each
    known = ", ".join(each.camel_name for each in AclOperation if each > AclOperation.ANY)
    raise UsageError(f"--operation {text!r}: expected one of {known}")


def entries(args: argparse.Namespace, operations: Iterable[AclOperation]) -> list[AccessControlEntry]:
    """The entries of one resource."""
    found = []
    for principals, hosts, kind in (
        (args.allow_principal, args.allow_host, AclPermissionType.ALLOW),
        (args.deny_principal, args.deny_host, AclPermissionType.DENY),
    ):
        for principal in principals:
            for host in hosts or [WILDCARD]:
                found += [AccessControlEntry(principal, host, each, kind) for each in sorted(operations)]
    return found


def bindings(args: argparse.Namespace) -> list[AclBinding]:
    """The ACLs that the flags name."""
    return [
        AclBinding(pattern, entry)
        for pattern, operations in resources(args).items()
        for entry in entries(args, operations)
    ]


def listed(args: argparse.Namespace) -> list[AclBindingFilter]:
    """The filters of the ACLs to show."""
    patterns: list[ResourcePattern | None] = [*resources(args)] or [None]
    return [everything(pattern, principal) for pattern in patterns for principal in args.principal or [None]]


def everything(pattern: ResourcePattern | None, principal: str | None = None) -> AclBindingFilter:
    """The filter of all ACLs of ``pattern``; ``None``: of all resources."""
    type_, name, kind = pattern or (AclResourceType.ANY, None, PatternType.ANY)
    return AclBindingFilter(type_, name, kind, principal, None, AclOperation.ANY, AclPermissionType.ANY)


def removed(args: argparse.Namespace) -> list[AclBindingFilter]:
    """The filters of the ACLs to remove: all of a resource where no principal is named."""
    found = []
    for pattern, operations in resources(args).items():
        named = entries(args, operations)
        type_, name, kind = pattern
        found += [
            AclBindingFilter(type_, name, kind, entry.principal, entry.host, entry.operation, entry.permission_type)
            for entry in named
        ] or [everything(pattern)]
    return found


def add(admin: KafkaAdminClient, wanted: Sequence[AclBinding], *, quiet: bool) -> list[str]:
    """Add ``wanted``; what failed, in words."""
    from kafka.protocol.admin import CreateAclsRequest

    if not quiet:
        show("Adding ACLs for resource", wanted)
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=pattern.type,
            resource_name=pattern.name,
            resource_pattern_type=pattern.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission_type,
        )
        for pattern, entry in wanted
    ]
    response = send(admin, CreateAclsRequest(creations=creations, max_version=3))
    return [
        f"{text(binding)} could not be added: {kafka_error(result.error_code, result.error_message)}"
        for binding, result in zip(wanted, response.results, strict=True)
        if result.error_code
    ]


def confirm(wanted: Sequence[AclBindingFilter]) -> bool:
    """Ask on the terminal whether to remove what ``wanted`` match."""
    print(f"Are you sure you want to remove these ACLs: {'; '.join(map(str, wanted))}? (y/n)", file=sys.stderr)
    return sys.stdin.readline().strip().lower() == "y"


def remove(admin: KafkaAdminClient, wanted: Sequence[AclBindingFilter]) -> list[str]:
    """Remove what ``wanted`` match; what failed, in words."""
    from kafka.protocol.admin import DeleteAclsRequest

    filters = [DeleteAclsRequest.DeleteAclsFilter(**_fields(each)) for each in wanted]
    response = send(admin, DeleteAclsRequest(filters=filters, max_version=3))
    return [
        f"not removed: {kafka_error(error.error_code, error.error_message)}"
        for result in response.filter_results
        for error in (result, *result.matching_acls)
        if error.error_code
    ]


def describe(admin: KafkaAdminClient, wanted: AclBindingFilter) -> list[AclBinding]:
    """The ACLs that ``wanted`` matches. Raises :class:`ApiError`."""
    from kafka.protocol.admin import DescribeAclsRequest

    response = send(admin, DescribeAclsRequest(**_fields(wanted), max_version=3))
    check_error(response)
    return [
        AclBinding(
            ResourcePattern(
                AclResourceType.of_code(resource.resource_type),
                resource.resource_name,
                PatternType.of_code(resource.pattern_type),
            ),
            AccessControlEntry(
                acl.principal,
                acl.host,
                AclOperation.of_code(acl.operation),
                AclPermissionType.of_code(acl.permission_type),
            ),
        )
        for resource in response.resources
        for acl in resource.acls
    ]


def _fields(wanted: AclBindingFilter) -> dict[str, object]:
    """The fields of a filter, which have the same names in DescribeAcls and DeleteAcls."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission_type,
    }


def show(title: str, found: Sequence[AclBinding]) -> None:
    """Print ACLs as Kafka's tool does."""
    for pattern, group in groupby(sorted(found), lambda binding: binding.pattern):
        print(
            f"{title} `ResourcePattern(resourceType={pattern.type.name}, name={pattern.name}, "
            f"patternType={pattern.pattern_type.name})`: "
        )
        for _, entry in group:
            print(
                f" \t(principal={entry.principal}, host={entry.host}, operation={entry.operation.name}, "
                f"permissionType={entry.permission_type.name})"
            )
        print()


def text(binding: AclBinding) -> str:
    """An ACL in words."""
    pattern, entry = binding
    return (
        f"{entry.permission_type.name} {entry.operation.camel_name} of {entry.principal} from {entry.host} "
        f"on {pattern.pattern_type.name} {pattern.type.name} {pattern.name}"
    )


def as_json(binding: AclBinding) -> dict[str, str]:
    """An ACL as a row for scripts."""
    pattern, entry = binding
    return {
        "resource_type": pattern.type.name,
        "name": pattern.name,
        "pattern_type": pattern.pattern_type.name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name,
        "permission_type": entry.permission_type.name,
    }
