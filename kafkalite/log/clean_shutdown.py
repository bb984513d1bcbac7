"""What a log directory says of the end of its logs, so that the next start of the broker knows whether they are whole.

Answers to: ``org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler``, and for :class:`BootMark` to
nothing in Kafka. Pure.

Both marks are plain files in the log directory. Kafka's ``LogManager.loadLogs`` opens the subdirectories of a log
directory and ignores every plain file that it does not know.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
BOOT_FILE = ".kafkalite_boot"


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """The mark of a clean shutdown: the broker epoch at the time, and what the next start needs to keep its logs' life.

    ``unclean_start_epoch`` is ``Broker.unclean_start_epoch``, -1 where the broker had none. ``directories`` is how many
    log directories the broker had: with fewer of them, the next start lacks logs. Kafka writes and reads the broker
    epoch alone, and its epoch after an unclean start is that broker epoch.
    """

    broker_epoch: int = -1
    unclean_start_epoch: int = -1
    directories: int = -1

    def encode(self) -> bytes:
        """As Kafka's JSON, with two keys more, which Kafka ignores."""
        value = {
            "version": 0,
            "brokerEpoch": self.broker_epoch,
            "uncleanStartEpoch": self.unclean_start_epoch,
            "directories": self.directories,
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> CleanShutdown:
        """The reverse; the epochs are unknown where the text is not that JSON (a mark of Kafka before 3.8 is empty)."""
        try:
            value = json.loads(data)
            broker_epoch = int(value["brokerEpoch"])
            return cls(
                broker_epoch, int(value.get("uncleanStartEpoch", broker_epoch)), int(value.get("directories", -1))
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls()


@dataclass(frozen=True, slots=True)
class BootMark:
    """The mark of a running broker: under which boot of the machine it writes, and with which unclean start epoch.

    A process that is killed leaves everything that it wrote in the page cache of that boot. ``boot_id`` is not empty;
    ``unclean_start_epoch`` and ``directories`` are as in :class:`CleanShutdown`.
    """

    boot_id: str
    unclean_start_epoch: int
    directories: int

    def encode(self) -> bytes:
        """As JSON."""
        value = {
            "version": 0,
            "bootId": self.boot_id,
            "uncleanStartEpoch": self.unclean_start_epoch,
            "directories": self.directories,
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> BootMark | None:
        """The reverse; ``None`` where the text is not that JSON."""
        try:
            value = json.loads(data)
            if value["version"] != 0:
                return None
            return cls(str(value["bootId"]), int(value["uncleanStartEpoch"]), int(value["directories"]))
        except (ValueError, TypeError, KeyError):
            return None


def kept_epoch(clean: CleanShutdown | None, boot: BootMark | None, boot_id: str, directories: int) -> int:
    """The unclean start epoch under which the logs of a directory are whole, -1 where they may lack records.

    ``boot_id`` is that of the present boot, empty where it is unknown; ``directories`` is how many log directories the
    broker has now.
    """
    if clean is not None:
        return clean.unclean_start_epoch if clean.directories in (-1, directories) else -1
    if boot is not None and boot_id and (boot.boot_id, boot.directories) == (boot_id, directories):
        return boot.unclean_start_epoch
    return -1
