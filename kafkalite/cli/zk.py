"""``kafkalite zk tree|verify|secure|set|delete``: print a live ZooKeeper tree, check it, set its ACLs, mend znodes.

Answers to: ``bin/zookeeper-shell.sh`` and ``bin/zookeeper-security-migration.sh``. Reactor shell without a reactor.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.cli.main import UsageError
from kafkalite.cli.zookeeper_security import add_zookeeper_security, read_zookeeper_security
from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, ConfigValue
from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.common.tasks import gather
from kafkalite.log.log_config import TOPIC_CONFIGS
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS, ScramCredential
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.stores.tree_protection import AclChange, TreeProtection
from kafkalite.zk.verify import QUOTAS, verify
from kafkalite.zk.zk_client import (
    ConnectionLostError,
    NoIdentityError,
    NoNodeError,
    NotAuthorizedError,
    NotEmptyError,
    SessionExpiredError,
    ZkError,
    ZnodeStat,
)
from kafkalite.zk.znode_acls import Access
from kafkalite.zk.znodes import config

_CONNECT_TIMEOUT_MS = 10_000
_BATCH = 500
_EVERYONE = {
    Access.OPEN: "do everything",
    Access.SHARED: "read, write, create and delete",
    Access.READABLE: "read",
    Access.SENSITIVE: "do nothing",
}
_KEPT = {
    "/",
    "/admin",
    "/brokers",
    "/brokers/ids",
    "/brokers/topics",
    "/cluster",
    "/cluster/id",
    "/config",
    *(f"/config/{kind}" for kind in ("brokers", "changes", "clients", "topics", "users")),
    "/consumers",
    "/controller_epoch",
    "/kafka-acl",
    "/zookeeper",
}
"""Znodes that ``zk set`` and ``zk delete`` leave alone, because a slip of the keyboard would delete the cluster."""
_VERBS = {"set": "write", "delete": "delete"}
EXAMPLES = (
    "kafkalite zk tree --zookeeper localhost:2181 --path /brokers",
    "kafkalite zk verify --zookeeper localhost:2181/kafka",
    "kafkalite zk secure --zookeeper localhost:2181 --digest kafka:secret --acl secure --dry-run",
    "kafkalite zk set --zookeeper localhost:2181 --path /consumers/readers/offsets/flights/0 --data 1200",
    "kafkalite zk delete --zookeeper localhost:2181 --path /config/topics/flights",
)


def _scram(value: ConfigValue) -> str | None:
    try:
        ScramCredential.parse(str(value))
    except ValueError:
        return "salt=…,stored_key=…,server_key=… in base64, iterations=…"
    return None


_CREDENTIALS = tuple(
    ConfigKey(name, ConfigType.PASSWORD, None, "A credential.", check=_scram) for name in SCRAM_MECHANISMS
)
CONFIG_DEFINITIONS: Mapping[str, ConfigDef] = {
    **QUOTAS,
    config.TOPICS: TOPIC_CONFIGS,
    config.BROKERS: BROKER_CONFIGS,
    config.USERS: ConfigDef((*QUOTAS[config.USERS].keys.values(), *_CREDENTIALS)),
}
"""The keys of each type of entity under ``/config``."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``zk`` with its commands."""
    parser = subparsers.add_parser("zk", help="show, verify, secure or mend the ZooKeeper tree")
    commands = parser.add_subparsers(dest="zk_command", metavar="COMMAND", required=True)
    for name, text in (
        ("tree", "print every znode with its data"),
        ("verify", "check every znode against its schema; exit code 1 where there are faults"),
        ("secure", "set the ACL of every znode, while the brokers run; exit code 1 where another client owns some"),
        ("set", "write the data of a znode that exists, as zookeeper-shell's set: brokers act on it at once"),
        ("delete", "delete a znode and all below it, as zookeeper-shell's deleteall: brokers act on it at once"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--zookeeper", required=True, metavar="CONNECT", help="host:port[,host:port…][/chroot]")
        command.add_argument("--digest", metavar="USER:PASSWORD", help="credentials for ZooKeeper's digest scheme")
        add_zookeeper_security(command)
        command.add_argument("--json", action="store_true", help="print JSON")
        if name == "tree":
            command.add_argument("--path", default="/", help="print only this znode and what is under it")
        if name in ("set", "delete"):
            command.add_argument("--path", required=True, help="the znode")
        if name == "set":
            command.add_argument("--data", required=True, help="the new data, as text")
        if name == "secure":
            command.add_argument(
                "--acl",
                required=True,
                choices=("secure", "unsecure"),
                help="secure: only the client with these credentials writes, others read what is not secret; "
                "unsecure: everyone may do everything",
            )
            command.add_argument("--dry-run", action="store_true", help="list what would change, and change nothing")


def run(args: argparse.Namespace) -> int:
    """Run the command of the arguments."""
    security = read_zookeeper_security(args.zk_tls_config_file, args.digest)
    has_certificate = security.tls is not None and security.tls.key_store
    if args.zk_command == "secure" and not (security.digest or security.sasl or has_certificate):
        raise ConfigError(
            "zk secure needs the identity of the brokers: give --digest user:password, or --zk-tls-config-file with "
            "zookeeper.ssl.keystore.location or java.security.auth.login.config"
        )
    path = args.path.rstrip("/") or "/" if args.zk_command in ("tree", "set", "delete") else "/"
    if args.zk_command in ("set", "delete") and path in _KEPT:
        raise UsageError(f"--path {path}: the whole cluster needs it; name the znode below it that is wrong")
    loop = BlockingLoop()
    client = KazooZkClient(loop.call_from_thread, args.zookeeper, _CONNECT_TIMEOUT_MS, _CONNECT_TIMEOUT_MS, security)
    try:
        loop.run(client.start())
        try:
            return _perform(args, path, loop, client)
        finally:
            loop.run(client.close())
    except NotAuthorizedError as error:
        verb = _VERBS.get(args.zk_command, "read")
        raise StartupError(
            f"ZooKeeper does not let this client {verb} {error.path}: give the identity of the brokers by --digest or "
            "--zk-tls-config-file"
        ) from None
    except NoNodeError as error:
        raise StartupError(f"there is no znode {error.path}") from None
    except NotEmptyError as error:
        raise StartupError(
            f"{error.path} is not empty: another client creates znodes below it; stop that client and delete again"
        ) from None
    except NoIdentityError:
        raise StartupError(
            "ZooKeeper knows no identity of this client: does it ask for certificates or logins?"
        ) from None
    except (ConnectionLostError, SessionExpiredError) as error:
        raise StartupError(
            f"the connection to ZooKeeper was lost at {error.path}: the command stopped there; run it again"
        ) from None
    except ZkError as error:
        raise StartupError(f"ZooKeeper refuses the request: {error}") from None


def _perform(args: argparse.Namespace, path: str, loop: BlockingLoop, client: KazooZkClient) -> int:
    """Run the command with a connected client. Raises :class:`ZkError`."""
    if args.zk_command == "secure":
        acls, secure = TreeProtection(client, client), args.acl == "secure"
        work = acls.plan(secure=secure) if args.dry_run else acls.migrate(secure=secure)
        return _print_acls(loop.run(work, timeout=600), args.json, args.dry_run)
    if args.zk_command == "set":
        return _print_set(path, loop.run(client.set(path, args.data.encode())), args.json)
    tree = loop.run(read_tree(client, path), timeout=600)
    if args.zk_command == "delete":
        return _print_deleted(loop.run(_delete(client, sorted(tree, reverse=True)), timeout=600), args.json)
    return _print_tree(tree, args.json) if args.zk_command == "tree" else _print_faults(tree, args.json)


async def read_tree(client: KazooZkClient, root: str = "/") -> dict[str, tuple[bytes, ZnodeStat]]:
    """Every znode at and below ``root``, except ``/zookeeper``. Raises :class:`NoNodeError` if ``root`` is missing."""
    tree = {root: await client.get(root)}
    level = [root]
    while level:
        below = []
        for start in range(0, len(level), _BATCH):
            part = level[start : start + _BATCH]
            listed = await gather(_children(client, path) for path in part)
            below += [f"{path.rstrip('/')}/{name}" for path, names in zip(part, listed, strict=True) for name in names]
        level = sorted(path for path in below if path != "/zookeeper")
        for start in range(0, len(level), _BATCH):
            part = level[start : start + _BATCH]
            found = await gather(_get(client, path) for path in part)
            tree.update((path, entry) for path, entry in zip(part, found, strict=True) if entry is not None)
    return tree


def _print_set(path: str, stat: ZnodeStat, as_json: bool) -> int:
    print(json.dumps({"path": path, "version": stat.version}, indent=2) if as_json else f"set {path}: v{stat.version}")
    return 0


async def _delete(client: KazooZkClient, paths: Sequence[str]) -> Sequence[str]:
    """Delete ``paths``, children before their parents; those that have gone meanwhile, too, count as deleted."""
    for path in paths:
        try:
            await client.delete(path)
        except NoNodeError:
            continue
    return paths


def _print_deleted(paths: Sequence[str], as_json: bool) -> int:
    print(json.dumps({"deleted": list(paths)}, indent=2) if as_json else "\n".join(f"deleted {path}" for path in paths))
    return 0


async def _children(client: KazooZkClient, path: str) -> list[str]:
    try:
        return await client.get_children(path)
    except NoNodeError:
        return []


async def _get(client: KazooZkClient, path: str) -> tuple[bytes, ZnodeStat] | None:
    try:
        return await client.get(path)
    except NoNodeError:
        return None


def _print_tree(tree: dict[str, tuple[bytes, ZnodeStat]], as_json: bool) -> int:
    rows = [
        {"path": path, "data": data.decode("utf-8", "replace"), "version": stat.version, "ephemeral": _ephemeral(stat)}
        for path, (data, stat) in sorted(tree.items())
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        marks = f"{'EPH ' if row['ephemeral'] else ''}v{row['version']}"
        print(f"{row['path']}  [{marks}]  {row['data']}".rstrip())
    return 0


def _print_faults(tree: dict[str, tuple[bytes, ZnodeStat]], as_json: bool) -> int:
    faults = verify(tree, CONFIG_DEFINITIONS)
    if as_json:
        listed = [{"path": fault.path, "problem": fault.problem} for fault in faults]
        print(json.dumps({"znodes": len(tree), "faults": listed}, indent=2))
    else:
        for fault in faults:
            print(f"{fault.path}: {fault.problem}")
        print(f"{len(tree)} znodes, {len(faults)} faults")
    return 1 if faults else 0


def _print_acls(changes: Sequence[AclChange], as_json: bool, dry_run: bool) -> int:
    named = [change for change in changes if change.is_change or change.problem]
    faults = [change for change in named if change.problem]
    if as_json:
        listed = [
            {"path": change.path, "everyone": _EVERYONE[change.access], "problem": change.problem} for change in named
        ]
        print(json.dumps({"znodes": len(changes), "dry_run": dry_run, "changes": listed}, indent=2))
        return 1 if faults else 0
    for change in named if dry_run else faults:
        print(f"{change.path}: {change.problem or f'everyone may {_EVERYONE[change.access]}'}")
    verb = "would change" if dry_run else "changed"
    print(f"{len(changes)} znodes, {len(named) - len(faults)} {verb}, {len(faults)} of other owners")
    return 1 if faults else 0


def _ephemeral(stat: ZnodeStat) -> bool:
    return stat.ephemeral_owner != 0
