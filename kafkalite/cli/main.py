"""The ``kafkalite`` command: a table of subcommands, each in a module that is imported only when it is run.

Answers to: the ``bin/kafka-*.sh`` scripts. Reactor shell (it starts everything else).

A command module has ``EXAMPLES``, which ``--help`` shows, ``add_parser(subparsers)``, which adds its parser, and
``run(args) -> int``, which does the work and returns the exit code. An error whose cause the user can change is raised
and becomes one line on standard error.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from kafkalite import __version__
from kafkalite.common.errors import ApiError, ConfigError, StartupError


class Command(Protocol):
    """What a command module has."""

    EXAMPLES: tuple[str, ...]
    """Command lines, of which each action of the command has at least one."""

    def add_parser(self, subparsers: argparse._SubParsersAction[argparse.ArgumentParser], /) -> None:
        """Add the command's parser, with its flags, to ``subparsers``."""

    def run(self, args: argparse.Namespace, /) -> int:
        """Run the command with ``args`` and return the exit code."""


COMMANDS: dict[str, tuple[str, str]] = {
    "broker": ("broker", "start a broker"),
    "zookeeper": ("zookeeper", "start a real ZooKeeper from its jars"),
    "cluster": ("cluster", "start, stop or show a local cluster, or have a broker fail"),
    "topics": ("topics", "create, list, describe, alter or delete topics"),
    "configs": ("configs", "describe or alter topic and broker configurations"),
    "acls": ("acls", "add, remove or list ACLs"),
    "reassign": ("reassign", "move partitions between brokers"),
    "events": ("events", "show what brokers decided, as one timeline"),
    "trace": ("trace", "send one record and show its way through the cluster"),
    "elect": ("elect", "elect preferred or unclean leaders"),
    "doctor": ("doctor", "find what is wrong with a cluster, and the commands that mend it"),
    "log-dirs": ("log_dirs", "show the log directories of brokers"),
    "get-offsets": ("get_offsets", "show the offsets of partitions"),
    "delete-records": ("delete_records", "delete records below given offsets"),
    "transactions": ("transactions", "list, describe, end and find transactions"),
    "produce": ("produce", "produce lines from standard input"),
    "consume": ("consume", "print the records of a topic"),
    "groups": ("groups", "list, describe, reset or delete consumer groups"),
    "pipeline": ("pipeline", "run, list, show or stop data pipelines on Spark"),
    "dump-log": ("dump_log", "print the contents of segment and index files"),
    "zk": ("zk", "show, verify, secure or mend the ZooKeeper tree"),
    "dashboard": ("dashboard", "serve a live page of a cluster"),
    "perf": ("perf", "measure a producer, a consumer or the latency between them"),
    "demo": ("demo", "a cluster, real data, a group; readers and brokers die, nothing is lost"),
    "learn": ("learn", "the labs of the course, on a cluster of this machine"),
    "completion": ("completion", "print the completion script of a shell"),
}
"""Command → (module in this package, one line of help)."""
ALIASES = {"config": "configs"}
"""Another name → command."""


class UsageError(Exception):
    """A combination of flags that is not allowed; the text says which flags and why."""


def build_parser(*commands: str) -> argparse.ArgumentParser:
    """The parser of ``kafkalite`` with the flags of ``commands`` only, so that no other command is imported."""
    parser = argparse.ArgumentParser(
        prog="kafkalite", description="The classic, ZooKeeper-coordinated Kafka, in Python."
    )
    parser.add_argument("--version", action="version", version=f"kafkalite {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (_, help_text) in COMMANDS.items():
        if name in commands:
            command = load(name)
            command.add_parser(subparsers)
            show_examples(subparsers.choices[name], command.EXAMPLES)
        else:
            subparsers.add_parser(name, help=help_text, add_help=False)
    return parser


def show_examples(parser: argparse.ArgumentParser, examples: Sequence[str]) -> None:
    """Have the help of ``parser``, and of each action that it has, show its own of ``examples``."""
    own = [example for example in examples if f"{example} ".startswith(f"{parser.prog} ")]
    parser.epilog = "\n  ".join(["example:" if len(own) == 1 else "examples:", *own])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    for action in actions(parser).values():
        show_examples(action, own)


def actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the actions of a command (``cluster start``), by name; empty for a command without actions."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(action.choices)
    return found


def load(command: str) -> Command:
    """Import the module of ``command``."""
    return cast(Command, import_module(f"kafkalite.cli.{COMMANDS[ALIASES.get(command, command)][0]}"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = next((argument for argument in arguments if not argument.startswith("-")), "")
    args = build_parser(ALIASES.get(command, command)).parse_args(arguments)
    try:
        return load(args.command).run(args)
    except UsageError as error:
        print(f"kafkalite {args.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of a pipe (``| head``) has closed it. Python flushes again at exit: send that to /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ApiError, ConfigError, StartupError, OSError, ValueError) as error:
        return fail(args.command, error)
    except re.error as error:
        return fail(args.command, ValueError(f"{error.pattern!r} is not a regular expression: {error}"))
    except Exception as error:
        # The client libraries have their own exception classes; importing them here would slow every broker start.
        if type(error).__module__.split(".")[0] in ("kafka", "confluent_kafka", "cimpl", "kazoo"):
            return fail(args.command, error)
        raise


def fail(command: str, error: Exception) -> int:
    """Print in one line what went wrong; returns exit code 1."""
    text = " ".join(str(error).split()) or type(error).__name__
    print(f"kafkalite {command}: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    # Import by name, because commands raise the UsageError of ``kafkalite.cli.main``, not that of ``__main__``.
    sys.exit(import_module("kafkalite.cli.main").main())
