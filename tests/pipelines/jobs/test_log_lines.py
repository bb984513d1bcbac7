"""Lines of every format in the standard one."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from kafkalite.pipelines.jobs.log_lines import CONTINUATION, UNKNOWN, LineParser, LogLine
from kafkalite.pipelines.jobs.log_patterns import LogFormatError

READ_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = datetime(2026, 2, 28, 9, 5, 7, 123_000, tzinfo=UTC)
SECOND = AT.replace(microsecond=0)
ALL = ("kafkalite", "log4j", "python", "combined", "nginx-error", "syslog")

LINES: list[tuple[str, LogLine]] = [
    (
        "[2026-02-28 09:05:07,123] INFO broker 1 serves (now) (kafkalite.broker.server)",
        LogLine(AT, "INFO", "broker 1 serves (now)", "kafkalite.broker.server"),
    ),
    ("[2026-02-28 09:05:07,123] WARN Session expired", LogLine(AT, "WARN", "Session expired")),
    (
        "2026-02-28 09:05:07,123 [myid:] - INFO  [main:QuorumPeerConfig@177] - Reading",
        LogLine(AT, "INFO", "Reading"),
    ),
    (
        "2026-02-28 09:05:07,123 [main] ERROR shop.Orders - lost - all",
        LogLine(AT, "ERROR", "lost - all", "shop.Orders"),
    ),
    ("2026-02-28 09:05:07,123 FATAL [worker 3] a.B: end: now", LogLine(AT, "FATAL", "end: now", "a.B")),
    ("2026-02-28 09:05:07,123 - shop - WARNING - low", LogLine(AT, "WARN", "low", "shop")),
    ("2026-02-28 09:05:07,123 [CRITICAL] gone", LogLine(AT, "FATAL", "gone")),
    ("2026-02-28 09:05:07,123 DEBUG 3 baskets", LogLine(AT, "DEBUG", "3 baskets")),
    ("WARNING:root:no time", LogLine(None, "WARN", "no time", "root")),
    (
        '::1 - bob [28/Feb/2026:10:05:07 +0100] "GET /a?b=\\"c\\" HTTP/1.1" 503 77 "-" "curl/8"',
        LogLine(
            SECOND, "ERROR", '::1 - bob [28/Feb/2026:10:05:07 +0100] "GET /a?b=\\"c\\" HTTP/1.1" 503 77 "-" "curl/8"'
        ),
    ),
    (
        '::1 - - [28/Feb/2026:09:05:07 +0000] "GET / HTTP/1.0" 404 -',
        LogLine(SECOND, "WARN", '::1 - - [28/Feb/2026:09:05:07 +0000] "GET / HTTP/1.0" 404 -'),
    ),
    ("2026/02/28 09:05:07 [crit] 12#3: *4 no space", LogLine(SECOND, "FATAL", "*4 no space")),
    (
        "<11>Feb 28 09:05:07 mx1 postfix[77]: lost: 3",
        LogLine(SECOND, "ERROR", "lost: 3", host="mx1", process="postfix"),
    ),
    ("Feb 28 09:05:07 mx1 cron: ran", LogLine(SECOND, "INFO", "ran", host="mx1", process="cron")),
    (
        '<12>1 2026-02-28T10:05:07.123+01:00 mx1 postfix 77 ID47 [a@1 b="\\"]"][c] \ufeffslow',
        LogLine(AT, "WARN", "slow", host="mx1", process="postfix"),
    ),
    ("<15>1 - - - - - -", LogLine(None, "DEBUG", "<15>1 - - - - - -")),
    (
        "2026-02-28T09:05:07.123000+00:00 mx1 sshd[4]: in",
        LogLine(AT, "INFO", "in", host="mx1", process="sshd"),
    ),
    (
        "2026-02-30 09:05:07,123 INFO a day that is none",
        LogLine(None, UNKNOWN, "2026-02-30 09:05:07,123 INFO a day that is none"),
    ),
    ("~~ noise", LogLine(None, UNKNOWN, "~~ noise")),
    ("", LogLine(None, UNKNOWN, "")),
]


@pytest.mark.parametrize(("text", "line"), LINES)
def test_a_line_of_any_format(text: str, line: LogLine) -> None:
    assert LineParser(ALL).parse(text, READ_AT) == line


@pytest.mark.parametrize(("text", "line"), LINES)
def test_more_lines_belong_to_the_message(text: str, line: LogLine) -> None:
    found = LineParser(ALL).parse(f"{text}\n  at a\n  at b", READ_AT)
    assert found.message.endswith("\n  at a\n  at b")
    assert (found.timestamp, found.level) == (line.timestamp, line.level)


@pytest.mark.parametrize(("text", "line"), LINES)
def test_no_line_that_is_parsed_goes_on_with_another(text: str, line: LogLine) -> None:
    assert line.level == UNKNOWN or not re.match(CONTINUATION, text)


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in <module>',
        "ValueError: bad",
        "asyncio.exceptions.CancelledError",
        "KeyboardInterrupt",
        "During handling of the above exception, another exception occurred:",
        "java.lang.IllegalStateException: bad",
        "\tat a.B.c(B.java:1)",
        "Caused by: java.io.IOException",
        "\t... 7 more",
        "",
    ],
)
def test_lines_of_stack_traces_continue_a_record(line: str) -> None:
    assert re.match(CONTINUATION, line)
    assert LineParser(ALL).parse(line, READ_AT).level == UNKNOWN


@pytest.mark.parametrize("line", ["Error: alone", "ERROR:root:x", "Exception", "plain words", "~~"])
def test_other_lines_do_not(line: str) -> None:
    assert not re.match(CONTINUATION, line)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (
            "log4j:%d{dd MMM yyyy HH:mm:ss,SSS} | %-5level | %X{user} | %c{1}:%L %msg%n",
            "28 Feb 2026 09:05:07,123 | WARN  | bob | B:7 low",
            LogLine(AT, "WARN", "low", "B"),
        ),
        (
            "log4j:%d{yyyy-MM-dd'T'HH:mm:ssXXX} [%t] 100%% %p - %m",
            "2026-02-28T10:05:07+01:00 [a b] 100% INFO - x",
            LogLine(SECOND, "INFO", "x"),
        ),
        ("log4j:%p %m [%d]", "INFO it [was] so [2026-02-28 09:05:07,123]", LogLine(AT, "INFO", "it [was] so")),
        (
            "python:%(levelname)-8s|%(asctime)s|%(processName)s|%(lineno)d|%(message)s",
            "ERROR   |2026-02-28 09:05:07,123|Process-3|12|a|b",
            LogLine(AT, "ERROR", "a|b", process="Process-3"),
        ),
    ],
)
def test_patterns_of_ones_own(name: str, text: str, line: LogLine) -> None:
    assert LineParser([name]).parse(text, READ_AT) == line


@pytest.mark.parametrize(
    ("read_at", "text", "year"),
    [
        (datetime(2026, 1, 1, 0, 5, tzinfo=UTC), "Dec 31 23:59:59 h p: x", 2025),
        (datetime(2025, 12, 31, 23, 59, tzinfo=UTC), "Jan  1 00:00:01 h p: x", 2026),
        (datetime(2026, 6, 1, tzinfo=UTC), "Jun  3 00:00:00 h p: x", 2025),
        (datetime(2027, 6, 1, tzinfo=UTC), "Feb 29 00:00:00 h p: x", 2024),
    ],
)
def test_a_missing_year_is_guessed(read_at: datetime, text: str, year: int) -> None:
    found = LineParser(["syslog"]).parse(text, read_at).timestamp
    assert found is not None
    assert found.year == year


def test_times_without_an_offset_are_in_the_zone() -> None:
    parser = LineParser(["python", "syslog"], "Europe/Berlin")
    for text in ("2026-02-28 10:05:07,000 INFO x", "Feb 28 10:05:07 h p: x", "2026-02-28T09:05:07Z h p: x"):
        assert parser.parse(text, READ_AT).timestamp == SECOND


@pytest.mark.parametrize(
    ("formats", "zone", "said"),
    [
        (["log4k"], "UTC", "there is no log format 'log4k': there are combined, kafkalite, log4j"),
        (["log4j:%d %q %m"], "UTC", "%q is not known"),
        (["log4j:%d{HH:mm:ss} %m"], "UTC", "'HH:mm:ss' has no date"),
        (["log4j:%d{yyyy-MM-dd w} %m"], "UTC", "'w' of the date pattern"),
        (["log4j:%d %p"], "UTC", "a pattern must have a message"),
        (["log4j:%d %d %m"], "UTC", "redefinition of group name 'time'"),
        (["python"], "Mars/Base", "there is no time zone 'Mars/Base'"),
    ],
)
def test_invalid_formats_and_zones_are_refused(formats: list[str], zone: str, said: str) -> None:
    with pytest.raises(LogFormatError, match=re.escape(said)):
        LineParser(formats, zone)
