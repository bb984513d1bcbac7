"""The ``meta.properties`` file of a log directory: to which broker and cluster it belongs.

Answers to: ``org.apache.kafka.metadata.properties.{MetaProperties,MetaPropertiesEnsemble}``, version 0. Deterministic.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence

from kafkalite.common.errors import StartupError
from kafkalite.log.file_system import FileSystem

log = logging.getLogger(__name__)

META_PROPERTIES = "meta.properties"
VERSION = "version"
BROKER_ID = "broker.id"
CLUSTER_ID = "cluster.id"

_ESCAPED = re.compile(r"\\(.)")
_SEPARATOR = re.compile(r"(?<!\\)[=:]")
_SPECIAL = re.compile(r"([\\=:#!])")


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
        # A crash while it was first written: as good as none.
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
        told = ", ".join(f"{broker_id} in {log_dir}" for broker_id, log_dir in sorted(found.items()))
        raise StartupError(f"log.dirs belong to different brokers: {told}; name only directories of one broker")
    return next(iter(found), None)
