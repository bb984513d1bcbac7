"""The lines of a broker's log: text, or one JSON object a line for programs that collect logs (``log.format``).

Answers to: the layouts of ``config/log4j.properties``. Reactor shell.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import MemoryHandler

from kafkalite.admin.broker_loggers import level_name

TEXT, JSON = "text", "json"
_TEXT_LINE = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
_MOST_HELD = 1_000
"""Lines that are held back; more are written as text."""


class JsonFormatter(logging.Formatter):
    """``time`` (UTC, to the millisecond), ``level`` (Kafka's name), ``logger``, ``message``; ``exception`` if any."""

    def format(self, record: logging.LogRecord) -> str:
        """One object, without a line break."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {
            "time": time,
            "level": level_name(record.levelno),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def hold_log_back() -> MemoryHandler:
    """Log from level INFO on, but keep the lines until :func:`use_format`, because the configuration is not known yet.

    A lower level that is set already stays. The lines are written as text at the end of a process that does not get so
    far.
    """
    target = logging.StreamHandler(sys.stderr)
    target.setFormatter(logging.Formatter(_TEXT_LINE))
    held = MemoryHandler(_MOST_HELD, flushLevel=sys.maxsize, target=target)
    logging.root.setLevel(min(logging.root.level, logging.INFO))
    logging.root.addHandler(held)
    return held


def use_format(held: MemoryHandler, name: str) -> None:
    """Write the lines that were ``held`` back, and all later ones, in the format ``name`` (of ``log.format``)."""
    target = held.target
    assert target is not None
    if name == JSON:
        target.setFormatter(JsonFormatter())
    held.close()
    logging.root.removeHandler(held)
    logging.root.addHandler(target)
