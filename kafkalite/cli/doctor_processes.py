"""The processes of brokers on this machine, found in ``/proc`` by the configuration file in their command lines.

Answers to: nothing in Kafka. Blocking: files. A process of another user is found only by root.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from kafkalite.broker.guardian_process import addresses
from kafkalite.broker.properties import load_properties
from kafkalite.doctor.broker_process import BrokerProcess

PROC = Path("/proc")
_PROPERTIES = ".properties"
_MARKS = ({"broker", "start"}, {"kafka.Kafka"})
"""Words in the command lines of brokers of kafkalite and of Kafka."""


def broker_processes(connect: str, ports: Collection[int], proc: Path = PROC) -> dict[int, BrokerProcess]:
    """By broker id: the brokers of the cluster at ZooKeeper ``connect``, or that listen on one of ``ports``."""
    found: dict[int, BrokerProcess] = {}
    for pid in sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()):
        try:
            words = (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            if not any(mark <= set(words) for mark in _MARKS):
                continue
            folder = (proc / str(pid) / "cwd").resolve()
            # From any folder the command finds its file by the whole path.
            words = [str(folder / word) if word.endswith(_PROPERTIES) else word for word in words]
            for config in words:
                properties = load_properties(Path(config)) if config.endswith(_PROPERTIES) else {}
                number = properties.get("broker.id", "")
                if number.isdigit() and int(number) not in found and _is_of(properties, connect, ports):
                    found[int(number)] = _process(proc / str(pid), pid, words, config)
        except OSError:
            continue  # The process has ended, or is another user's.
    return found


def max_map_count(proc: Path = PROC) -> int:
    """``vm.max_map_count``; -1 if it cannot be read."""
    try:
        return int((proc / "sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return -1


def config_beside(broker_id: int, known: Mapping[int, str]) -> str:
    """The file of a broker whose process has ended, found beside those of the ``known`` ones; empty if there is none.

    The folders of the brokers of ``kafkalite cluster start`` are alike but for the number of the broker.
    """
    for other, config in known.items():
        file = Path(config)
        name = re.sub(rf"(?<!\d){other}(?!\d)", str(broker_id), file.parent.name)
        beside = file.parent.with_name(name) / file.name
        if name != file.parent.name and beside.is_file() and _number_in(beside) == broker_id:
            return str(beside)
    return ""


def _number_in(config: Path) -> int:
    try:
        number = load_properties(config).get("broker.id", "")
    except OSError:
        return -1
    return int(number) if number.isdigit() else -1


def _is_of(properties: dict[str, str], connect: str, ports: Collection[int]) -> bool:
    own = properties.get("zookeeper.connect", "")
    if set(addresses(own)) & set(addresses(connect)) and _chroot(own) == _chroot(connect):
        return True
    listeners = properties.get("listeners", "").split(",")
    return any(text.rpartition(":")[2].strip() in map(str, ports) for text in listeners)


def _chroot(connect: str) -> str:
    return connect.partition("/")[2].strip("/")


def _process(folder: Path, pid: int, words: list[str], config: str) -> BrokerProcess:
    output = (folder / "fd" / "2").resolve()
    state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
    limits = next(line for line in (folder / "limits").read_text().splitlines() if line.startswith("Max open files"))
    soft, hard = (int(word) if word.isdigit() else -1 for word in limits.split()[3:5])
    return BrokerProcess(
        pid,
        shlex.join(words),
        is_stopped=state in ("T", "t"),
        open_files=sum(1 for _ in (folder / "fd").iterdir()),
        max_open_files=soft,
        hard_open_files=hard,
        memory_maps=(folder / "maps").read_text().count("\n"),
        config=config,
        log=str(output) if output.is_file() else "",
    )
