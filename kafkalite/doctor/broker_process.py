"""The process of a broker, where it runs on this machine. Pure.

Answers to: nothing in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    """The process of a broker on this machine. ``command``: its command line, quoted for a shell, which starts it from
    any folder. ``config``: its file of properties. ``log``: the file to which its output goes; empty for none.

    ``open_files`` and ``memory_maps``: in use now. ``max_open_files`` and ``hard_open_files``: the soft
    and the hard limit, -1 for none.
    """

    pid: int
    command: str
    is_stopped: bool = False
    open_files: int = 0
    max_open_files: int = -1
    hard_open_files: int = -1
    memory_maps: int = 0
    config: str = ""
    log: str = ""
