"""The compactor's own process.

Answers to: ``kafka.log.LogCleaner.CleanerThread``'s loop. Kind: plain blocking files and pipes, no reactor.

It reads orders from standard input, writes reports to standard output, and ends when standard input ends, even in the
middle of a round. It runs at a low priority, because compaction can wait and producers and consumers cannot.
"""

from __future__ import annotations

import os
import select
import time

from kafkalite.common.errors import ApiError
from kafkalite.log.cleaner.cleaner import Cleaner, RoundAborted, discard_cleaned
from kafkalite.log.cleaner.job import Abort, CleaningAborted, CleaningFailed, CleanJob, Order, Report, decode, encode
from kafkalite.log.file_system import FileSystem
from kafkalite.record.batch import CorruptRecordError

NICENESS = 15
"""Added to the broker's niceness: the process gets a thirtieth of a busy core, and all of an idle one."""
_READ = 1 << 16


class Orders:
    """Orders read from file descriptor ``fd``. ``SystemExit`` at its end, because then the broker has ended."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN | select.POLLHUP)
        self._lines: list[bytes] = []
        self._rest = b""
        self.current = 0

    def next(self) -> Order:
        """Wait for the next order."""
        while not self._lines:
            self._read()
        message = decode(self._lines.pop(0))
        assert isinstance(message, CleanJob | Abort)
        return message

    def check(self) -> None:
        """Raises :class:`RoundAborted` if the broker has aborted the running round."""
        self.rest(0)

    def rest(self, seconds: float) -> None:
        """Wait ``seconds``, and read orders meanwhile. Raises as :meth:`check`."""
        self._look_for_abort()
        deadline = time.monotonic() + seconds
        while self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            self._read()
            self._look_for_abort()

    def _look_for_abort(self) -> None:
        for line in self._lines:
            message = decode(line)
            if isinstance(message, Abort) and message.number == self.current:
                self._lines.remove(line)
                raise RoundAborted

    def _read(self) -> None:
        data = os.read(self._fd, _READ)
        if not data:
            raise SystemExit
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines += lines


def work(orders: Orders, out: int) -> None:
    """Carry out orders until they end; write reports to file descriptor ``out``."""
    fs = FileSystem()
    cleaner = Cleaner(fs, orders.check, time.monotonic, orders.rest)
    folder = ""

    def report(message: Report) -> None:
        data = encode(message)
        while data:
            data = data[os.write(out, data) :]

    while True:
        order = orders.next()
        if isinstance(order, Abort):
            # The abort came after the end of its round.
            discard_cleaned(fs, folder)
            report(CleaningAborted(order.number))
            continue
        orders.current, folder = order.number, order.folder
        try:
            report(cleaner.clean(order, report))
        except RoundAborted:
            discard_cleaned(fs, folder)
            report(CleaningAborted(order.number))
        except OSError as error:
            report(CleaningFailed(order.number, str(error), error.errno or 0))
        except (CorruptRecordError, ApiError) as error:
            report(CleaningFailed(order.number, str(error)))


def main() -> None:
    """Work until standard input ends."""
    import signal

    # Ignore the signals of a terminal, because the broker gets them, too, and ends its compactors itself.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    try:
        work(Orders(0), 1)
    except SystemExit:
        # Exit at once, because the next broker may already read the folders; nothing here needs closing.
        os._exit(0)


if __name__ == "__main__":
    main()
