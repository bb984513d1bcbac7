"""Lines of the log as JSON objects."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from kafkalite.broker.log_format import JSON, JsonFormatter, hold_log_back, use_format


def line(message: str, *values: object, failed: bool = False) -> str:
    found = None
    if failed:
        try:
            raise ValueError("no\nluck")
        except ValueError:
            found = sys.exc_info()
    record = logging.LogRecord("kafkalite.x", logging.WARNING, "x.py", 1, message, values, found)
    record.created = 1700000000.1239
    return JsonFormatter().format(record)


def test_a_line_is_one_object_with_the_names_of_kafka() -> None:
    assert json.loads(line("topic %s\nis %d", "ü", 5)) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "WARN",
        "logger": "kafkalite.x",
        "message": "topic ü\nis 5",
    }


def test_an_exception_stands_in_the_same_line() -> None:
    written = line("it failed", failed=True)
    assert "\n" not in written
    assert json.loads(written)["exception"].endswith("ValueError: no\nluck")


def test_lines_before_the_configuration_is_known_have_its_format(capsys: pytest.CaptureFixture[str]) -> None:
    level = logging.root.level
    held = hold_log_back()
    try:
        logging.getLogger("kafkalite.x").info("early")
        assert capsys.readouterr().err == ""
        use_format(held, JSON)
        logging.getLogger("kafkalite.x").info("late")
        lines = capsys.readouterr().err.splitlines()
    finally:
        logging.root.setLevel(level)
        logging.root.handlers = [each for each in logging.root.handlers if not is_ours(each)]
    assert [json.loads(line)["message"] for line in lines] == ["early", "late"]


def is_ours(handler: logging.Handler) -> bool:
    return isinstance(handler.formatter, JsonFormatter)
