"""The small files of a log directory: checkpoints, ``meta.properties``, and the marks of a clean shutdown and a boot.

Answers to: ``org.apache.kafka.server.common.CheckpointFile``, ``kafka.server.checkpoints.OffsetCheckpointFile``,
``org.apache.kafka.metadata.properties.{MetaProperties,MetaPropertiesEnsemble}``, version 0, and
``org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler``. Deterministic.

The boot mark has no counterpart in Kafka, whose ``LogManager.loadLogs`` opens the subdirectories of a log directory and
ignores every plain file that it does not know.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafkalite.common.errors import StartupError
from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import FileSystem

log = logging.getLogger(__name__)

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANER_OFFSET = "cleaner-offset-checkpoint"

META_PROPERTIES = "meta.properties"
VERSION = "version"
BROKER_ID = "broker.id"
CLUSTER_ID = "cluster.id"

_ESCAPED = re.compile(r"\\(.)")
_SEPARATOR = re.compile(r"(?<!\\)[=:]")
_SPECIAL = re.compile(r"([\\=:#!])")

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
BOOT_FILE = ".kafkalite_boot"

_CHECKPOINT_VERSION = 0


class CheckpointError(Exception):
    """A malformed checkpoint file."""


def encode_lines(lines: Iterable[str]) -> bytes:
    """Version, count and ``lines`` as a file's bytes."""
    entries = list(lines)
    return "\n".join([str(_CHECKPOINT_VERSION), str(len(entries)), *entries, ""]).encode()


def decode_lines(data: bytes) -> list[list[str]]:
    """The fields of each line of a file. Raises :class:`CheckpointError`."""
    if not data.endswith(b"\n"):
        # A number that was cut short would be taken for a smaller one.
        raise CheckpointError("the last line has no end")
    lines = data.decode("utf-8", "replace").splitlines()
    try:
        version, count = int(lines[0]), int(lines[1])
    except (IndexError, ValueError):
        raise CheckpointError("version or number of entries is missing") from None
    if version != _CHECKPOINT_VERSION:
        raise CheckpointError(f"version {version} is not known")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != count:
        raise CheckpointError(f"{len(entries)} entries follow, but the head counts {count}")
    return entries


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """One offset a partition."""
    return encode_lines(f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items())


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """The reverse of :func:`encode_offsets`. Raises :class:`CheckpointError`."""
    offsets = {}
    for fields in decode_lines(data):
        try:
            topic, partition, offset = fields
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CheckpointError(f"entry {' '.join(fields)!r} is not: topic partition offset") from None
    return offsets


def encode_meta_properties(values: Mapping[str, str], when: str) -> bytes:
    """The file's bytes; ``when`` is the date in its head."""
    lines = [name + "=" + _SPECIAL.sub(r"\\\1", value) for name, value in sorted(values.items())]
    return "\n".join(["#", f"#{when}", *lines, ""]).encode()


def decode_meta_properties(data: bytes) -> dict[str, str]:
    """All properties in a file's bytes."""
    values = {}
    for line in data.decode("utf-8", "replace").splitlines():
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, *rest = _SEPARATOR.split(text, maxsplit=1)
        values[name.strip()] = _ESCAPED.sub(r"\1", rest[0].strip()) if rest else ""
    return values


def read_meta_properties(fs: FileSystem, log_dir: str) -> dict[str, str] | None:
    """The properties of a directory; ``None`` where it has none yet. Raises :class:`StartupError`, ``OSError``."""
    path = f"{log_dir}/{META_PROPERTIES}"
    try:
        values = decode_meta_properties(fs.read_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not values:
        # The broker crashed while it wrote the file for the first time.
        return None
    version = values.get(VERSION)
    if version != "0":
        raise StartupError(
            f"{path} has version {version}: only version=0 (ZooKeeper) is known; use another log directory"
        )
    if not values.get(BROKER_ID, "0").isdigit():
        raise StartupError(f"{path}: broker.id={values[BROKER_ID]} is not a number; correct or remove the file")
    return values


def check_meta_properties(values: Mapping[str, str], log_dir: str, broker_id: int, cluster_id: str | None) -> None:
    """Raises :class:`StartupError` where the directory belongs to another broker or cluster."""
    path = f"{log_dir}/{META_PROPERTIES}"
    stored_id = values.get(BROKER_ID)
    if stored_id is not None and int(stored_id) != broker_id:
        raise StartupError(
            f"Configured broker.id {broker_id} does not match broker.id={stored_id} in {path}: "
            "correct broker.id or use the log directory of this broker"
        )
    stored_cluster = values.get(CLUSTER_ID)
    if stored_cluster and cluster_id and stored_cluster != cluster_id:
        raise StartupError(
            f"The cluster id {cluster_id} does not match cluster.id={stored_cluster} in {path}: "
            "the broker joins the wrong cluster; correct zookeeper.connect or use another log directory"
        )


def stored_broker_id(fs: FileSystem, log_dirs: Sequence[str]) -> int | None:
    """The broker id that the directories agree on, for a broker whose configuration names none; ``None`` without one.

    Raises :class:`StartupError` where they do not agree. A directory that cannot be read is passed over.
    """
    found: dict[int, str] = {}
    for log_dir in log_dirs:
        try:
            values = read_meta_properties(fs, log_dir)
        except OSError as error:
            log.warning("%s/%s cannot be read: %s", log_dir, META_PROPERTIES, error)
            continue
        if values and BROKER_ID in values:
            found.setdefault(int(values[BROKER_ID]), log_dir)
    if len(found) > 1:
        shown = ", ".join(f"{broker_id} in {log_dir}" for broker_id, log_dir in sorted(found.items()))
        raise StartupError(f"log.dirs belong to different brokers: {shown}; name only directories of one broker")
    return next(iter(found), None)


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """The mark of a clean shutdown: by it the next start knows that no log of this directory lacks records.

    ``broker_epoch`` is that of the broker that stopped; ``unclean_start_epoch`` is its ``Broker.unclean_start_epoch``,
    -1 if it had none. ``directories`` is how many log directories it had: a start with fewer of them lacks logs. Kafka
    writes and reads the broker epoch alone, and its epoch after an unclean start is that broker epoch.
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
