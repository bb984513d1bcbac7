"""Log records of many formats converted to one: time, level, message, and other fields of the line.

Answers to: nothing in Kafka; the ``grok`` of Logstash. Pure.

The formats: ``python`` and ``log4j`` (their usual patterns; ``python:%(asctime)s …`` and ``log4j:%d …`` for others),
``kafkalite`` (the brokers' own, and Kafka's), ``combined`` (access logs of Apache and nginx, also without referrer and
agent), ``nginx-error``, ``syslog`` (RFC 3164, RFC 5424, and rsyslog's files).
"""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kafkalite.pipelines.jobs.log_patterns import (
    ISO_TIME,
    Format,
    LogFormatError,
    TimeContext,
    in_zone,
    iso_time,
    log4j_format,
    named_level,
    python_format,
)

UNKNOWN = "UNKNOWN"
"""The level of lines that cannot be parsed."""

CONTINUATION = (
    r"\s|$|Traceback \(most recent call last\):|During handling of the above exception"
    r"|The above exception was the direct cause|Caused by: |Suppressed: "
    r"|(?:[\w$]+\.)*[\w$]+(?:Error|Exception|Throwable|Interrupt|Exit|Warning|Failure)(?::|$)"
)
"""The beginning of a line that continues the record before it: stack traces of Python and Java, and indented lines."""


@dataclass(frozen=True)
class LogLine:
    """The fields of a record's text; None if the text has none. ``timestamp`` is aware, ``level`` one of TRACE,
    DEBUG, INFO, WARN, ERROR, FATAL, UNKNOWN."""

    timestamp: datetime | None
    level: str
    message: str
    logger: str | None = None
    host: str | None = None
    process: str | None = None


class LineParser:
    """Tries ``formats`` in their order. Times without an offset are in ``zone`` (``Europe/Berlin``).

    Raises :class:`LogFormatError` for an unknown format or zone.
    """

    def __init__(self, formats: Sequence[str], zone: str = "UTC") -> None:
        self._formats = [one for name in formats for one in formats_of(name)]
        try:
            self._zone: tzinfo = UTC if zone == "UTC" else ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError):
            raise LogFormatError(f"there is no time zone '{zone}'") from None

    def parse(self, text: str, read_at: datetime) -> LogLine:
        """Parse one record: its first line has the fields, more lines belong to its message. ``read_at`` is when it was
        read: its year is taken if the line has none."""
        reading = TimeContext(self._zone, read_at)
        first, newline, more = text.partition("\n")
        for form in self._formats:
            match = form.pattern.match(first)
            if match is None:
                continue
            try:
                return _line(form, match, newline + more, reading)
            except ValueError:  # The 30th of February: the shape of a time, but none.
                continue
        return LogLine(None, UNKNOWN, text)


def _line(form: Format, match: re.Match[str], more: str, reading: TimeContext) -> LogLine:
    found = match.groupdict()
    message = next((found[name] for name in ("message", "rest") if found.get(name) is not None), match.string)
    time = found.get("time")
    return LogLine(
        form.time(time, reading) if time else None,
        form.level(found.get("level") or ""),
        message + more,
        found.get("logger"),
        found.get("host"),
        found.get("process"),
    )


def formats_of(name: str) -> Sequence[Format]:
    """The formats of that name. Raises :class:`LogFormatError`."""
    kind, given, pattern = name.partition(":")
    if given and kind in _PATTERNS:
        return [_PATTERNS[kind](pattern)]
    if name not in _FORMATS:
        raise LogFormatError(
            f"there is no log format '{name}': there are {', '.join(sorted(_FORMATS))}, "
            "'log4j:<conversion pattern>' and 'python:<format>'"
        )
    return _FORMATS[name]


def _bsd_time(text: str, reading: TimeContext) -> datetime:
    """``Nov  3 09:05:00``: the last one before it was read (a day is allowed for clocks that differ)."""
    month, day, clock = text.split()
    hour, minute, second = map(int, clock.split(":"))
    latest = reading.at + timedelta(days=1)
    for year in range(latest.year, latest.year - _YEARS, -1):
        if (month, day) == ("Feb", "29") and not isleap(year):
            continue
        found = datetime(year, _MONTHS.index(month) + 1, int(day), hour, minute, second, tzinfo=reading.zone)
        if found <= latest:
            return found
    raise ValueError(f"no year has {text}")


def _clf_time(text: str, _reading: TimeContext) -> datetime:
    return datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z")


def _nginx_time(text: str, reading: TimeContext) -> datetime:
    return in_zone(datetime.strptime(text, "%Y/%m/%d %H:%M:%S"), reading)


def _status_level(status: str) -> str:
    return {"5": "ERROR", "4": "WARN"}.get(status[:1], "INFO")


def _severity_level(priority: str) -> str:
    """Level of a syslog priority (8 × facility + severity); INFO for files without priorities."""
    return _SEVERITIES[int(priority) % 8] if priority else "INFO"


def _nginx_level(level: str) -> str:
    return _NGINX_LEVELS.get(level) or named_level(level)


_YEARS = 9
"""Number of years to look back; up to eight years are between two 29ths of February."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SEVERITIES = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")
_NGINX_LEVELS = {"emerg": "FATAL", "alert": "FATAL", "crit": "FATAL"}
_TAG = r"(?P<process>[^\s:\[]+)(?:\[\d+\])?: ?(?P<message>.*)$"
_STRUCTURED = r'(?:-|(?:\[(?:[^\]"\\]|\\.|"(?:[^"\\]|\\.)*")*\])+)'
_KAFKA = log4j_format("[%d] %p %m (%c)%n")
_PATTERNS: Mapping[str, Callable[[str], Format]] = {"log4j": log4j_format, "python": python_format}
_FORMATS: Mapping[str, Sequence[Format]] = {
    "kafkalite": [_KAFKA],
    "python": [
        python_format("%(asctime)s - %(name)s - %(levelname)s - %(message)s"),
        python_format("%(asctime)s [%(levelname)s] %(message)s"),
        python_format("%(asctime)s %(levelname)s %(message)s"),
        python_format("%(asctime)s %(name)s %(levelname)s %(message)s"),
        python_format("%(levelname)s:%(name)s:%(message)s"),
    ],
    "log4j": [
        _KAFKA,
        log4j_format("%d [myid:%X{myid}] - %-5p [%t:%C{1}@%L] - %m%n"),
        log4j_format("%d [%t] %-5p %c - %m%n"),
        log4j_format("%d %-5p [%t] %c: %m%n"),
        log4j_format("%d %-5p %c - %m%n"),
    ],
    "combined": [
        Format(
            re.compile(r'\S+ \S+ \S+ \[(?P<time>[^\]]+)\] "(?:[^"\\]|\\.)*" (?P<level>\d{3}) (?:\d+|-)(?: .*)?$'),
            _clf_time,
            _status_level,
        )
    ],
    "nginx-error": [
        Format(
            re.compile(r"(?P<time>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d) \[(?P<level>[a-z]+)\] \d+#\d+: (?P<message>.*)$"),
            _nginx_time,
            _nginx_level,
        )
    ],
    "syslog": [
        Format(
            re.compile(
                rf"<(?P<level>\d{{1,3}})>1 (?:-|(?P<time>\S+)) (?:-|(?P<host>\S+)) (?:-|(?P<process>\S+)) \S+ \S+ "
                rf"{_STRUCTURED}(?: \ufeff?(?P<message>.*))?$"
            ),
            iso_time,
            _severity_level,
        ),
        Format(
            re.compile(
                rf"(?:<(?P<level>\d{{1,3}})>)?(?P<time>(?:{'|'.join(_MONTHS)}) [ \d]\d \d\d:\d\d:\d\d) "
                rf"(?P<host>\S+) {_TAG}"
            ),
            _bsd_time,
            _severity_level,
        ),
        Format(
            re.compile(rf"(?:<(?P<level>\d{{1,3}})>)?(?P<time>{ISO_TIME}) (?P<host>\S+) {_TAG}"),
            iso_time,
            _severity_level,
        ),
    ],
}
"""The formats; of two with the same beginning the narrower one comes first."""
