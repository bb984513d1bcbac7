"""The table of commands, exit codes, and what goes wrong before anything is sent."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path

import pytest

from kafkalite.cli.main import ALIASES, COMMANDS, actions, build_parser, load, main, show_examples
from kafkalite.common.errors import ApiError, ConfigError, ErrorCode, StartupError

BOOTSTRAP = ["--bootstrap-server", "nowhere:1"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: kafkalite {command}" in capsys.readouterr().out


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert all(f"    {command} " in said or f"    {command}\n" in said for command in COMMANDS)


EXAMPLES = [(command, example) for command in COMMANDS for example in load(command).EXAMPLES]


@pytest.mark.parametrize(("command", "example"), EXAMPLES)
def test_an_example_is_accepted_by_the_parser_of_its_command(command: str, example: str) -> None:
    program, *arguments = shlex.split(example)
    assert program == "kafkalite"
    args = build_parser(command).parse_args(arguments)
    assert args.command == command


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_and_of_each_of_its_actions_shows_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = actions(build_parser(command))[command]
    for path in ([command], *([command, action] for action in actions(parser))):
        with pytest.raises(SystemExit):
            main([*path, "--help"])
        _, heading, shown = capsys.readouterr().out.rpartition("\nexample")
        assert heading, f"kafkalite {' '.join(path)} --help shows no example"
        examples = shown.splitlines()[1:]
        assert examples
        assert all(f"{example} ".startswith(f"  kafkalite {' '.join(path)} ") for example in examples), examples


def test_an_action_shows_no_example_of_another_whose_name_begins_alike() -> None:
    parser = argparse.ArgumentParser(prog="kafkalite x")
    describe = parser.add_subparsers().add_parser("describe")
    show_examples(parser, ["kafkalite x describe --a", "kafkalite x describe-all --b"])
    assert describe.epilog == "example:\n  kafkalite x describe --a"


@pytest.mark.parametrize(("alias", "command"), ALIASES.items())
def test_an_alias_is_its_command(alias: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for name in (alias, command):
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["consume", *BOOTSTRAP, "--topic", "t", "--offset", "3"], "--offset needs --partition"),
        (
            ["consume", *BOOTSTRAP, "--topic", "t", "--partition", "0", "--offset", "3", "--from-beginning"],
            "contradict each other",
        ),
        (["consume", *BOOTSTRAP, "--topic", "t", "--property", "x"], "--property 'x': expected NAME=VALUE"),
        (["configs", *BOOTSTRAP, "--describe"], "say what"),
        (["topics", *BOOTSTRAP, "--create"], "--create needs --topic"),
        (["topics", *BOOTSTRAP, "--alter", "--topic", "t"], "--alter needs --partitions"),
        (["topics", *BOOTSTRAP, "--create", "--topic", "t", "--partitions", "0"], "--partitions 0: at least 1"),
        (
            ["topics", *BOOTSTRAP, "--create", "--topic", "t", "--replication-factor", "0"],
            "--replication-factor 0: from 1 to 32767",
        ),
        (
            ["topics", *BOOTSTRAP, "--create", "--topic", "t", "--replica-assignment", "1:2", "--partitions", "1"],
            "stands instead of",
        ),
        (["reassign", *BOOTSTRAP, "--generate"], "--generate needs --topics-to-move-json-file"),
        (["reassign", *BOOTSTRAP, "--verify"], "--verify needs --reassignment-json-file"),
        (["elect", *BOOTSTRAP, "--election-type", "preferred", "--topic", "t"], "--topic needs --partition"),
        (["get-offsets", *BOOTSTRAP, "--time", "noon"], "--time 'noon'"),
        (["get-offsets", *BOOTSTRAP, "--topic-partitions", "t:0", "--topic", "t"], "stands instead of"),
        (["dump-log", "--files", "x.log", "--value-decoder-class", "Rot13Decoder"], "unknown decoder Rot13Decoder"),
    ],
)
def test_flags_that_make_no_sense_together(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"kafkalite {arguments[0]}: ") and complaint in said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ApiError(ErrorCode.INVALID_PARTITIONS, "too few"), "INVALID_PARTITIONS"),
        (ConfigError("broker.id: wrong"), "broker.id: wrong"),
        (StartupError("port 1 is in use"), "port 1 is in use"),
        (OSError("no\nroute"), "no route"),
        (ValueError(), "ValueError"),
        (re.error("missing )", "(", 0), "'(' is not a regular expression: missing )"),
    ],
)
def test_what_the_user_can_change_is_one_line(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr("kafkalite.cli.dump_log.run", fail)
    assert main(["dump-log", "--files", "x"]) == 1
    line = capsys.readouterr().err
    assert line.startswith("kafkalite dump-log: ") and said in line and line.count("\n") == 1


def test_what_the_user_cannot_change_is_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("kafkalite.cli.dump_log.run", fail)
    with pytest.raises(ZeroDivisionError):
        main(["dump-log", "--files", "x"])


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("kafkalite.cli.dump_log.run", interrupt)
    assert main(["dump-log", "--files", "x"]) == 130


def test_no_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("stop", "status"):
        assert main(["cluster", action, "--dir", str(tmp_path)]) == 1
        assert f"no cluster in {tmp_path}" in capsys.readouterr().err
    assert main(["cluster", "start", "--dir", str(tmp_path), "--brokers", "0"]) == 1
    assert "--brokers 0" in capsys.readouterr().err
    assert main(["cluster", "start", "--dir", str(tmp_path), "--override", "x"]) == 1
    assert "--override 'x'" in capsys.readouterr().err


def test_a_missing_file_is_dumped_as_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", "--files", str(tmp_path / "00000000000000000000.log")]) == 1
    assert "No such file" in capsys.readouterr().err
    assert "kafkalite.cli.dump_log" in sys.modules
