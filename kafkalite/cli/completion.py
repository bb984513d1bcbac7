"""``kafkalite completion``: the script by which a shell completes the commands, flags and files of ``kafkalite``.

Answers to: nothing in Kafka. Pure, but for the output.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

from kafkalite.cli.main import COMMANDS, actions, build_parser

SHELLS = ("bash", "zsh", "fish")
DIRECTORIES = ("--dir", "--state")
EXAMPLES = (
    "kafkalite completion bash",
    "kafkalite completion zsh",
    "kafkalite completion fish",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``completion SHELL``."""
    parser = subparsers.add_parser(
        "completion",
        help="print the completion script of a shell",
        description='bash: eval "$(kafkalite completion bash)" in ~/.bashrc\n'
        'zsh:  eval "$(kafkalite completion zsh)" in ~/.zshrc, after compinit\n'
        "fish: kafkalite completion fish > ~/.config/fish/completions/kafkalite.fish",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    parser = build_parser(*COMMANDS)
    complete_files(parser)
    print(shtab.complete(parser, shell=args.shell))
    return 0


def complete_files(parser: argparse.ArgumentParser) -> None:
    """Have the shell complete the names of files and directories where ``parser`` takes a path."""
    for action in parser._actions:
        if action.type is Path or action.metavar == "FILE":
            is_directory = any(flag in DIRECTORIES for flag in action.option_strings)
            vars(action)["complete"] = shtab.DIRECTORY if is_directory else shtab.FILE
    for command in actions(parser).values():
        complete_files(command)
