"""Patterns of log lines: the configured patterns of log4j and Python's logging as regular expressions.

Answers to: nothing in Kafka; log4j's ``PatternLayout`` and Python's ``logging.Formatter``, read backwards. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo

LEVELS: Mapping[str, str] = {
    "TRACE": "TRACE",
    "DEBUG": "DEBUG",
    "INFO": "INFO",
    "NOTICE": "INFO",
    "WARN": "WARN",
    "WARNING": "WARN",
    "ERROR": "ERROR",
    "SEVERE": "ERROR",
    "FATAL": "FATAL",
    "CRITICAL": "FATAL",
}
"""Level names of programs → those of the standard format."""

ISO_TIME = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_LEVEL = f"(?P<level>{'|'.join(sorted(LEVELS, key=len, reverse=True))})"


class LogFormatError(ValueError):
    """An unknown format, or an invalid pattern; the text says which and why."""


@dataclass(frozen=True)
class TimeContext:
    """Context for incomplete times: the ``zone`` of the host, and when the line was read (``at``)."""

    zone: tzinfo
    at: datetime


TimeReader = Callable[[str, TimeContext], datetime]
"""The text of a time → an aware one. Raises ValueError."""


@dataclass(frozen=True)
class Format:
    """How to read the first line of a log record.

    ``pattern`` has groups named after the standard format's fields: ``time``, ``level``, ``message``, ``logger``,
    ``host``, ``process``; all may be missing. Without a group ``message`` the whole line is the message. ``time`` and
    ``level`` turn their groups into values.
    """

    pattern: re.Pattern[str]
    time: TimeReader
    level: Callable[[str], str]


def iso_time(text: str, reading: TimeContext) -> datetime:
    """A time as ISO 8601 has it, or with a blank and a comma as Python's logging and log4j write it."""
    found = datetime.fromisoformat(text.replace(",", "."))
    return in_zone(found, reading)


def in_zone(time: datetime, reading: TimeContext) -> datetime:
    """``time`` as it is meant by a host that names no zone."""
    return time if time.tzinfo else time.replace(tzinfo=reading.zone)


def named_level(text: str) -> str:
    """One of :data:`LEVELS`."""
    return LEVELS[text.upper()]


def log4j_format(layout: str) -> Format:
    """From a ``PatternLayout``'s conversion pattern: ``[%d] %p %m (%c)%n``. Raises :class:`LogFormatError`."""
    time: TimeReader = iso_time

    def convert(match: re.Match[str]) -> str:
        nonlocal time
        conversion, option = match["conversion"], match["option"] or ""
        if conversion in ("d", "date"):
            if option in ("", "ISO8601", "DEFAULT", "ISO8601_OFFSET_DATE_TIME_HH", "ISO8601_OFFSET_DATE_TIME_HHMM"):
                return f"(?P<time>{ISO_TIME})"
            expression, time = _java_date(option, layout)
            return f"(?P<time>{expression})"
        found = _LOG4J.get(conversion)
        if found is None:
            raise LogFormatError(f"log4j pattern '{layout}': %{conversion} is not known")
        return found

    return Format(_compile(_CONVERSION, convert, layout.removesuffix("%n")), time, named_level)


def python_format(style: str) -> Format:
    """From a ``logging.Formatter``'s format: ``%(asctime)s %(levelname)s %(message)s``. Raises
    :class:`LogFormatError`."""

    def convert(match: re.Match[str]) -> str:
        return _PYTHON.get(match["name"], ".+?")

    return Format(_compile(_ATTRIBUTE, convert, style), iso_time, named_level)


_CONVERSION = re.compile(r"%-?\d*(?:\.-?\d+)?(?P<conversion>[a-zA-Z]+|%)(?:\{(?P<option>[^}]*)\})?")
_ATTRIBUTE = re.compile(r"%\((?P<name>\w+)\)[-0-9.]*[a-z]")
_MESSAGE = "(?P<message>.*)"
_PADDED_LEVEL = rf" *{_LEVEL} *"
_LOG4J: Mapping[str, str] = {
    **dict.fromkeys(("p", "level"), _PADDED_LEVEL),
    **dict.fromkeys(("m", "msg", "message"), _MESSAGE),
    **dict.fromkeys(("c", "logger"), r"(?P<logger>\S*)"),
    **dict.fromkeys(("C", "class", "F", "file", "M", "method"), r"\S*"),
    **dict.fromkeys(("L", "line", "r", "relative", "pid", "processId"), r"\d*"),
    **dict.fromkeys(("t", "thread", "threadName", "l", "location"), ".*?"),
    **dict.fromkeys(("x", "NDC", "X", "MDC", "mdc"), ".*?"),
    "n": "",
    "%": "%",
}
_PYTHON: Mapping[str, str] = {
    "asctime": f"(?P<time>{ISO_TIME})",
    "levelname": _PADDED_LEVEL,
    "message": _MESSAGE,
    "process": r"\d+",
    "processName": "(?P<process>.+?)",
    "threadName": ".+?",
    "name": r"(?P<logger>\S+)",
}


def _compile(parts: re.Pattern[str], convert: Callable[[re.Match[str]], str], layout: str) -> re.Pattern[str]:
    """``layout`` with each of its ``parts`` converted and everything between them meant literally."""
    expression, end = "", 0
    for match in parts.finditer(layout):
        expression += re.escape(layout[end : match.start()]) + convert(match)
        end = match.end()
    expression += re.escape(layout[end:])
    if _MESSAGE not in expression:
        raise LogFormatError(f"'{layout}': a pattern must have a message")
    # A message of several lines has what follows it on its last one, which is not looked at.
    head, _, tail = expression.partition(_MESSAGE)
    try:
        return re.compile(f"{head}(?:(?P<message>.*){tail}|(?P<rest>.*))$" if tail else f"{head}{_MESSAGE}$")
    except re.error as error:
        raise LogFormatError(f"'{layout}': {error}") from None


_JAVA_DATE = re.compile(r"'(?P<quoted>[^']*)'|(?P<letters>yyyy|MMM|MM|dd|HH|mm|ss|SSS|SSSSSS|XXX|Z)|(?P<other>.)")
_STRPTIME: Mapping[str, tuple[str, str]] = {
    "yyyy": ("%Y", r"\d{4}"),
    "MMM": ("%b", "[A-Za-z]{3}"),
    "MM": ("%m", r"\d\d"),
    "dd": ("%d", r"\d\d"),
    "HH": ("%H", r"\d\d"),
    "mm": ("%M", r"\d\d"),
    "ss": ("%S", r"\d\d"),
    "SSS": ("%f", r"\d{3}"),
    "SSSSSS": ("%f", r"\d{6}"),
    "XXX": ("%z", r"(?:Z|[+-]\d\d:\d\d)"),
    "Z": ("%z", r"[+-]\d{4}"),
}


def _java_date(pattern: str, layout: str) -> tuple[str, TimeReader]:
    """A ``SimpleDateFormat``'s pattern as an expression, and what reads its times."""
    expression = strptime = ""
    for match in _JAVA_DATE.finditer(pattern):
        if match["letters"]:
            directive, digits = _STRPTIME[match["letters"]]
            strptime, expression = strptime + directive, expression + digits
            continue
        literal = match["quoted"] if match["quoted"] is not None else match["other"]
        if match["other"] and literal.isalpha():
            raise LogFormatError(f"log4j pattern '{layout}': '{literal}' of the date pattern '{pattern}' is not known")
        strptime, expression = strptime + literal.replace("%", "%%"), expression + re.escape(literal)
    if "%Y" not in strptime or "%d" not in strptime:
        raise LogFormatError(f"log4j pattern '{layout}': '{pattern}' has no date")

    def read(text: str, reading: TimeContext) -> datetime:
        return in_zone(datetime.strptime(text, strptime), reading)

    return expression, read
