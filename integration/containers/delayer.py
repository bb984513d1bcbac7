"""Delays packets like ``tc netem delay``, for kernels without netem. A script that needs only the standard library.

``delayer.py QUEUE DELAY_MS JITTER_MS`` takes the packets that an iptables rule puts into a queue (NFQUEUE) of this
network namespace and lets each pass after the delay and a random part of the jitter, in their order.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator

READY = "ready\n"
NETLINK_NETFILTER = 12
SUBSYSTEM_QUEUE = 3 << 8
PACKET, VERDICT, CONFIG = 0, 1, 2
CONFIG_COMMAND, CONFIG_PARAMETERS, CONFIG_LENGTH = 1, 2, 3
BIND, COPY_META = 1, 1
PACKET_HEADER, VERDICT_HEADER = 1, 2
ACCEPT = 1
REQUEST = 1
LONGEST_QUEUE = 100_000
_MESSAGE = struct.Struct("=IHHII")
_FAMILY_QUEUE = struct.Struct("!BBH")
_ATTRIBUTE = struct.Struct("=HH")
_HEADERS = _MESSAGE.size + _FAMILY_QUEUE.size


class Queue:
    """A queue of packets in the kernel."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self._socket.bind((0, 0))
        self._send(CONFIG, CONFIG_COMMAND, struct.pack("!BBH", BIND, 0, socket.AF_INET))
        self._send(CONFIG, CONFIG_PARAMETERS, struct.pack("!IB", 0, COPY_META))
        self._send(CONFIG, CONFIG_LENGTH, struct.pack("!I", LONGEST_QUEUE))

    def packets(self, timeout: float) -> Iterator[int]:
        """The ids of the packets that came within ``timeout`` seconds."""
        if not select.select([self._socket], [], [], timeout)[0]:
            return
        data = self._socket.recv(1 << 16)
        position = 0
        while position + _HEADERS <= len(data):
            length, kind, *_ = _MESSAGE.unpack_from(data, position)
            if kind == SUBSYSTEM_QUEUE | PACKET:
                yield from _packet_ids(data[position + _HEADERS : position + length])
            position += length + 3 & ~3

    def accept(self, packet: int) -> None:
        """Let a packet pass."""
        self._send(VERDICT, VERDICT_HEADER, struct.pack("!II", ACCEPT, packet))

    def _send(self, kind: int, attribute: int, payload: bytes) -> None:
        body = _FAMILY_QUEUE.pack(socket.AF_UNSPEC, 0, self._number)
        body += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(payload), attribute) + payload
        body = body.ljust(len(body) + 3 & ~3, b"\0")
        self._socket.send(_MESSAGE.pack(_MESSAGE.size + len(body), SUBSYSTEM_QUEUE | kind, REQUEST, 0, 0) + body)


def _packet_ids(attributes: bytes) -> Iterator[int]:
    position = 0
    while position + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, position)
        if kind & 0x3FFF == PACKET_HEADER:
            (number,) = struct.unpack_from("!I", attributes, position + _ATTRIBUTE.size)
            yield int(number)
        position += max(length + 3 & ~3, _ATTRIBUTE.size)


def main(number: int, delay: float, jitter: float) -> None:
    """Delay packets until the process is ended."""
    queue = Queue(number)
    print(READY, end="", flush=True)
    waiting: deque[tuple[float, int]] = deque()
    while True:
        timeout = max(waiting[0][0] - time.monotonic(), 0.0) if waiting else 60.0
        for packet in queue.packets(timeout):
            due = time.monotonic() + delay + random.uniform(0.0, jitter)
            # Not before the packet in front, because TCP takes reordered packets for losses.
            waiting.append((max(due, waiting[-1][0]) if waiting else due, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            queue.accept(waiting.popleft()[1])


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]) / 1000, float(sys.argv[3]) / 1000)
