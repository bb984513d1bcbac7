"""``kafkalite zk tree|verify``: print a live ZooKeeper tree, or check it against the schemas.

Answers to: ``bin/zookeeper-shell.sh``. Reactor shell without a reactor.
"""

from __future__ import annotations

import argparse
import json

from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.common.tasks import gather
from kafkalite.log.log_config import TOPIC_CONFIGS
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.verify import QUOTAS, verify
from kafkalite.zk.zk_client import NoNodeError, ZnodeStat
from kafkalite.zk.znodes import config

_CONNECT_TIMEOUT_MS = 10_000
_BATCH = 500


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``zk`` with its two commands."""
    parser = subparsers.add_parser("zk", help="show or verify the ZooKeeper tree")
    commands = parser.add_subparsers(dest="zk_command", metavar="COMMAND", required=True)
    for name, text in (
        ("tree", "print every znode with its data"),
        ("verify", "check every znode against its schema; exit code 1 where there are faults"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--zookeeper", required=True, metavar="CONNECT", help="host:port[,host:port…][/chroot]")
        command.add_argument("--digest", metavar="USER:PASSWORD", help="credentials for ZooKeeper's digest scheme")
        command.add_argument("--json", action="store_true", help="print JSON")
        if name == "tree":
            command.add_argument("--path", default="/", help="print only this znode and what is under it")


def run(args: argparse.Namespace) -> int:
    """Run the command of the arguments."""
    path = args.path.rstrip("/") or "/" if args.zk_command == "tree" else "/"
    loop = BlockingLoop()
    client = KazooZkClient(
        loop.call_from_thread, args.zookeeper, _CONNECT_TIMEOUT_MS, _CONNECT_TIMEOUT_MS, digest=args.digest
    )
    loop.run(client.start())
    try:
        tree = loop.run(read_tree(client, path), timeout=600)
    finally:
        loop.run(client.close())
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
    faults = verify(tree, {**QUOTAS, config.TOPICS: TOPIC_CONFIGS, config.BROKERS: BROKER_CONFIGS})
    if as_json:
        listed = [{"path": fault.path, "problem": fault.problem} for fault in faults]
        print(json.dumps({"znodes": len(tree), "faults": listed}, indent=2))
    else:
        for fault in faults:
            print(f"{fault.path}: {fault.problem}")
        print(f"{len(tree)} znodes, {len(faults)} faults")
    return 1 if faults else 0


def _ephemeral(stat: ZnodeStat) -> bool:
    return stat.ephemeral_owner != 0
