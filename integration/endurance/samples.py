"""Samples of a cluster's processes, its ZooKeeper and its log directories."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from kafkalite.embedded.state import read_brokers
from kafkalite.embedded.zookeeper import four_letter_word

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class BrokerSample:
    """One broker process at one time. ``age`` in seconds; ``rss`` and ``pss`` in MiB, without its children's.

    ``others`` are the descriptors of all but files of the log directories: sockets, pipes and the like.
    """

    pid: int
    age: float
    rss: float
    pss: float
    descriptors: int
    others: int
    threads: int
    children: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The whole cluster, ``at`` seconds after the start, with the log directories of all brokers together."""

    at: float
    brokers: dict[int, BrokerSample]
    zookeeper: dict[str, int]
    log_mib: float
    log_files: int


def take(directory: Path, zookeeper: str, at: float) -> Sample:
    """Sample the cluster of ``directory``; dead brokers are left out, and a dead ZooKeeper gives an empty mapping."""
    brokers = {}
    size = files = 0
    for broker in read_brokers(directory):
        found = _process(broker.pid, broker.dir)
        if found is not None:
            brokers[broker.id] = found
        grown = _directory(Path(broker.dir) / "data")
        size, files = size + grown[0], files + grown[1]
    return Sample(at, brokers, _zookeeper(zookeeper), size / MIB, files)


def _process(pid: int, mark: str) -> BrokerSample | None:
    try:
        process = psutil.Process(pid)
        if not any(mark in word for word in process.cmdline()):
            return None  # another process has got the pid
        age = time.time() - process.create_time()
        rss = process.memory_info().rss / MIB
        opened = _descriptors(pid)
        return BrokerSample(
            pid,
            age,
            rss,
            _pss(pid),
            len(opened),
            sum(not target.startswith(f"{mark}/data/") for target in opened),
            process.num_threads(),
            len(process.children(recursive=True)),
        )
    except (psutil.Error, OSError):
        return None


def _descriptors(pid: int) -> list[str]:
    """The target of each descriptor of the process."""
    found = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(entry.path))
        except FileNotFoundError:
            pass  # closed meanwhile
    return found


def _pss(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"smaps_rollup of {pid} has no Pss")


def _zookeeper(connect: str) -> dict[str, int]:
    host, _, port = connect.rpartition(":")
    found = {}
    for line in four_letter_word(host, int(port), b"mntr").decode().splitlines():
        name, _, value = line.partition("\t")
        if name in _COUNTS:
            found[_COUNTS[name]] = int(float(value))
    return found


_COUNTS = {
    "zk_znode_count": "znodes",
    "zk_watch_count": "watches",
    "zk_ephemerals_count": "ephemerals",
    "zk_num_alive_connections": "connections",
    "zk_outstanding_requests": "outstanding",
    "zk_approximate_data_size": "data",
}


def _directory(path: Path) -> tuple[int, int]:
    size = files = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                size += os.stat(os.path.join(folder, name)).st_size
                files += 1
            except FileNotFoundError:
                pass  # deleted meanwhile
    return size, files
