"""``kafkalite broker start``: one broker in this process, until SIGTERM.

Answers to: ``bin/kafka-server-start.sh``, ``kafka.Kafka``. Reactor shell.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from kafkalite.common.errors import ConfigError

EXAMPLES = ("kafkalite broker start --config server.properties --override broker.id=1",)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``broker start --config FILE [--override name=value]…``."""
    parser = subparsers.add_parser("broker", help="start a broker")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    start = actions.add_parser("start", help="start a broker and serve until SIGTERM")
    start.add_argument("--config", type=Path, required=True, metavar="FILE", help="server.properties")
    start.add_argument(
        "--override", action="append", default=[], metavar="NAME=VALUE", help="a property that wins over the file"
    )


def parse_overrides(pairs: Iterable[str]) -> dict[str, str]:
    """``name=value`` texts as a mapping; later ones win. Raises :class:`ConfigError` for any other form."""
    overrides: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--override {pair!r}: expected NAME=VALUE")
        overrides[name.strip()] = value.strip()
    return overrides


def run(args: argparse.Namespace) -> int:
    """Serve; returns the exit code of the broker."""
    from kafkalite.broker.process import run as serve

    return serve(args.config, parse_overrides(args.override))
