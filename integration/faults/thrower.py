"""A separate process that sends bad input to one address over real sockets and checks the answers.

``python -m integration.faults.thrower '{"address": …, "seed": …, "count": …, "target": […]}'`` prints one line of JSON:
``{"sent": …, "answered": …, "closed": …, "wrong": […]}``.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from integration.faults.control_frames import CONTROL_KEYS, ControlFrames
from integration.faults.frames import API_VERSIONS, FETCH, PRODUCE, Frames, Piece, Target
from kafkalite.protocol.codec import decode_response
from kafkalite.protocol.fetch import decode_fetch_response
from kafkalite.protocol.frames import response_body_offset
from kafkalite.protocol.produce import decode_produce_response

TIMEOUT = 30.0
MAX_WRONG = 20


class Thrower:
    """Sends bursts, one connection at a time; ``wrong`` has the wrong answers."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._socket: socket.socket | None = None
        self._buffer = bytearray()
        self.sent: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.closed = 0
        self.wrong: list[str] = []

    def throw(self, bursts: Iterator[list[Piece]]) -> None:
        """Send all bursts; stops early after too many wrong answers."""
        for burst in bursts:
            self._burst(burst)
            if len(self.wrong) >= MAX_WRONG:
                break
        self._close()

    def _burst(self, burst: list[Piece]) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=TIMEOUT)
            self._buffer.clear()
        for piece in burst:
            self.sent[piece.kind] += 1
        last = burst[-1]
        try:
            self._socket.sendall(b"".join([piece.data for piece in burst]))
            if last.ends:
                self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the broker has closed the connection; its earlier answers can still be read
        try:
            self._read(burst, last)
        except TimeoutError:
            self.wrong.append(f"{last.kind}: neither an answer nor the connection's end: {last.data[:120]!r}")
            self._close()
        if last.ends or last.closes or last.errors is None:
            self._close()

    def _read(self, burst: list[Piece], last: Piece) -> None:
        for piece in burst:
            if piece.errors is None:
                break
            frame = self._frame()
            if frame is None:
                self.wrong.append(f"{piece.kind}: the connection ended: {piece.data[:200].hex()}")
                self._close()
                return
            self._judge(piece, frame)
        else:
            return
        frame = self._frame()
        if frame is not None and last.closes:
            self.wrong.append(f"{last.kind}: answered with {frame[:60]!r}: {last.data[:120]!r}")
        elif frame is None:
            self.closed += 1

    def _judge(self, piece: Piece, frame: bytes) -> None:
        try:
            correlation, errors = errors_of(piece.api_key, piece.version, memoryview(frame))
        except Exception as error:
            self.wrong.append(f"{piece.kind} v{piece.version}: unreadable answer ({error!r}): {frame[:200]!r}")
            return
        if correlation != piece.correlation:
            self.wrong.append(f"{piece.kind}: answer {correlation} to request {piece.correlation}")
        assert piece.errors is not None
        if not errors <= piece.errors:
            text = f"{piece.kind} v{piece.version}: errors {sorted(errors)}, right are {sorted(piece.errors)}"
            self.wrong.append(f"{text}: {piece.data[:300].hex()}")
        for code in errors:
            self.answers[f"{piece.kind} → {code}"] += 1

    def _frame(self) -> bytes | None:
        """The next answer; ``None`` at the connection's end."""
        assert self._socket is not None
        buffer = self._buffer
        while True:
            if len(buffer) >= 4:
                (size,) = struct.unpack_from(">i", buffer)
                if len(buffer) >= 4 + size:
                    frame = bytes(buffer[4 : 4 + size])
                    del buffer[: 4 + size]
                    return frame
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            buffer += data

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def errors_of(api_key: int, version: int, frame: memoryview) -> tuple[int, set[int]]:
    """Correlation id and all errors of an answer. Raises if the answer is malformed."""
    (correlation,) = struct.unpack_from(">i", frame)
    body = frame[response_body_offset(api_key, version, frame) :]
    if api_key == PRODUCE:
        return correlation, {int(entry.error) for entry in decode_produce_response(version, body)}
    if api_key == FETCH:
        answer = decode_fetch_response(version, body)
        return correlation, {int(entry.error) for entry in answer.partitions} | (
            {answer.error} if answer.error else set()
        )
    if api_key == API_VERSIONS:
        return correlation, {struct.unpack_from(">h", body)[0]}
    answer = decode_response(api_key, version, body)
    return correlation, {answer.error_code} if api_key in CONTROL_KEYS else set()


def start_thrower(address: str, seed: int, count: int, target: Target | str) -> subprocess.Popen[str]:
    """Start a process that sends; ``target`` is a topic's name for control requests."""
    task = json.dumps({"address": address, "seed": seed, "count": count, "target": target})
    command = [sys.executable, "-m", "integration.faults.thrower", task]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def main(text: str) -> None:
    """Do the task and print its result."""
    task: dict[str, Any] = json.loads(text)
    thrower = Thrower(task["address"])
    seed, target = task["seed"], task["target"]
    frames = ControlFrames(seed, target) if isinstance(target, str) else Frames(seed, Target(*target))
    thrower.throw(frames.bursts(task["count"]))
    print(
        json.dumps(
            {
                "sent": sum(thrower.sent.values()),
                "answered": sum(thrower.answers.values()),
                "closed": thrower.closed,
                "kinds": thrower.answers,
                "wrong": thrower.wrong,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
