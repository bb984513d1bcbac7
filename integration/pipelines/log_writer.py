"""A host that writes logs: ``python -m integration.pipelines.log_writer FOLDER``, with commands like ``write 100``.

In FOLDER: ``app.log`` by Python's RotatingFileHandler; ``orders.log`` in log4j's format and ``access.log`` in nginx's,
both rotated by copying and truncating; ``mail.log`` in syslog's format, rotated by renaming. Some records have stack
traces, and some lines have no format. ``ledger.jsonl`` has the expected record of the aggregation for each.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO, Any

BYTES = 20_000
"""Length at which a file is rotated."""
SPREAD = timedelta(seconds=12)
"""Time between two records, so that a few hundred records fill several hours."""
LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
PYTHON_LEVELS = {"DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING, "ERROR": logging.ERROR}
JAVA_TRACE = (
    "\njava.lang.IllegalStateException: no stock\n\tat shop.Orders.place(Orders.java:42)"
    "\nCaused by: java.io.IOException: disk\n\t... 1 more"
)
NOISE_EVERY, TRACE_EVERY = 17, 11


class CutFile:
    """A file that is copied and truncated when it is long."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] = path.open("a")
        self._copies = 0

    def write(self, text: str) -> None:
        self._file.write(text + "\n")
        self._file.flush()
        if self._file.tell() > BYTES:
            self._copies += 1
            shutil.copy(self._path, f"{self._path}.{self._copies}")
            self._file.truncate(0)


class RenamedFile:
    """A file that is renamed when it is long, and replaced by a new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] = path.open("a")
        self._renamed = 0

    def write(self, text: str) -> None:
        self._file.write(text + "\n")
        self._file.flush()
        if self._file.tell() > BYTES:
            self._renamed += 1
            self._file.close()
            self._path.rename(f"{self._path}.{self._renamed}")
            self._file = self._path.open("a")


class App:
    """A program that logs by Python's logging."""

    def __init__(self, path: Path) -> None:
        handler = RotatingFileHandler(path, maxBytes=BYTES, backupCount=1000)
        handler.setFormatter(AppFormatter("%(asctime)s - %(name)s - %(levelname)s - %(message)s"))
        self._log = logging.getLogger("shop.app")
        self._log.setLevel(logging.DEBUG)
        self._log.addHandler(handler)

    def noise(self, text: str) -> None:
        self._log.info(text, extra={"bare": True})

    def record(self, at: datetime, level: str, text: str) -> None:
        self._log.log(PYTHON_LEVELS[level], text, extra={"at": at})

    def trace(self, at: datetime, text: str) -> str:
        """Log an exception; returns its traceback."""
        try:
            raise LookupError(text)
        except LookupError:
            self._log.exception(text, extra={"at": at})
            return "\n" + logging.Formatter().formatException(sys.exc_info())


class AppFormatter(logging.Formatter):
    """Formats records with the test's times in UTC, and noise without a format."""

    converter = time.gmtime  # type: ignore[assignment]

    def format(self, record: logging.LogRecord) -> str:
        if hasattr(record, "bare"):
            return record.getMessage()
        at: datetime = record.__dict__["at"]
        record.created, record.msecs = at.timestamp(), at.microsecond // 1000
        return super().format(record)


class Host:
    """The logs of a host, and their ledger."""

    def __init__(self, folder: Path) -> None:
        self._name = folder.name
        self._app = App(folder / "app.log")
        self._orders = CutFile(folder / "orders.log")
        self._access = CutFile(folder / "access.log")
        self._mail = RenamedFile(folder / "mail.log")
        self._ledger = (folder / "ledger.jsonl").open("a")
        self._count = 0
        self._writers: tuple[Callable[[int, datetime, str], None], ...] = (
            self._write_app,
            self._write_orders,
            self._write_access,
            self._write_mail,
        )

    def write(self, count: int) -> None:
        """``count`` more records in each log."""
        for _ in range(count):
            self._count += 1
            at = datetime.now(UTC) - timedelta(hours=6) + self._count % 600 * SPREAD
            at = at.replace(microsecond=self._count % 1000 * 1000)
            for writer in self._writers:
                writer(self._count, at, LEVELS[self._count % len(LEVELS)])
        self._ledger.flush()

    def _write_app(self, number: int, at: datetime, level: str) -> None:
        text = f"basket {number} - priced"
        trace = ""
        if number % NOISE_EVERY == 0:
            self._app.noise(f"~~ {number}")
            self._note("app", None, "UNKNOWN", f"~~ {number}")
        if number % TRACE_EVERY == 0:
            level, trace = "ERROR", self._app.trace(at, text)
        else:
            self._app.record(at, level, text)
        self._note("app", at, level, text + trace, logger="shop.app")

    def _write_orders(self, number: int, at: datetime, level: str) -> None:
        if number % NOISE_EVERY == 0:
            self._orders.write("~~")
            self._note("orders", None, "UNKNOWN", "~~")
        trace = JAVA_TRACE if number % TRACE_EVERY == 0 else ""
        time = f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}"
        self._orders.write(f"{time} [worker {number % 3}] {level:<5} shop.Orders - order {number}: paid{trace}")
        self._note("orders", at, level, f"order {number}: paid{trace}", logger="shop.Orders")

    def _write_access(self, number: int, at: datetime, _level: str) -> None:
        status, level = ((200, "INFO"), (304, "INFO"), (404, "WARN"), (503, "ERROR"))[number % 4]
        at = at.replace(microsecond=0)
        line = f'10.0.0.{number % 256} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET /{number} HTTP/1.1" {status} 77 "-" "-"'
        self._access.write(line)
        self._note("access", at, level, line)

    def _write_mail(self, number: int, at: datetime, _level: str) -> None:
        severity, level = ((2, "FATAL"), (3, "ERROR"), (4, "WARN"), (6, "INFO"))[number % 4]
        text = f"message {number} sent"
        if number % 2:
            at = at.replace(microsecond=0)
            line = f"<{16 + severity}>{at:%b} {at.day:2} {at:%H:%M:%S} mx-{self._name} postfix[77]: {text}"
        else:
            time = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            line = f'<{16 + severity}>1 {time} mx-{self._name} postfix 77 - [q@1 id="a]"] {text}'
        self._mail.write(line)
        self._note("postfix", at, level, text, host=f"mx-{self._name}")

    def _note(self, process: str, at: datetime | None, level: str, message: str, **more: Any) -> None:
        time = at.isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else None
        record = {"timestamp": time, "host": self._name, "process": process, "level": level, "message": message}
        self._ledger.write(json.dumps({**record, "logger": None, **more}) + "\n")


def main() -> None:
    """Execute the commands on standard input, one a line, and answer each when it is done."""
    host = Host(Path(sys.argv[1]))
    for line in sys.stdin:
        _, _, count = line.partition(" ")
        host.write(int(count))
        print("written", flush=True)


if __name__ == "__main__":
    main()
