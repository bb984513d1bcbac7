"""Regions of files: what is in memory, and bringing it there. (Writing is tested through the server.)"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kafkalite.common.types import Buffer, FileRegion
from kafkalite.network.output_queue import SMALL, WINDOW, OutputQueue, RegionError, WriteResult, is_resident, read_ahead
from tests.network.fakes import FakeSocket, memory_files


@pytest.mark.parametrize(
    ("missing", "resident"), [(None, True), (1000, False), (150_000, False), (290_999, False)], ids=str
)
def test_a_region_is_resident_when_all_of_it_is(
    missing: int | None, resident: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preadv(_: int, buffers: list[bytearray], position: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        assert [len(buffer) for buffer in buffers] == [1]
        if missing is not None and position <= missing < position + (1 << 17):
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", preadv)
    assert is_resident(FileRegion(9, 1000, 290_000, None, True)) is resident


def test_reading_past_the_end_is_not_endless(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"abc")
    with path.open("rb") as file:
        read_ahead(FileRegion(file.fileno(), 0, 1 << 20, file, True))


def test_reading_ahead_says_what_cannot_be_read() -> None:
    with pytest.raises(RegionError, match=r"a segment cannot be read at byte 7: .*Bad file descriptor"):
        read_ahead(FileRegion(1 << 20, 7, 10, None, True))


def test_a_long_cold_region_is_cut_into_windows() -> None:
    queue = OutputQueue()
    queue.extend([FileRegion(9, 100, 2 * WINDOW + 5, None, True)])
    seen = []
    with memory_files():
        while queue.size:
            assert queue.write(FakeSocket()) == WriteResult.COLD
            region = queue.cold_region()
            seen.append((region.position, region.count))
            queue._wrote(region.count)
    assert seen == [(100, WINDOW), (100 + WINDOW, WINDOW), (100 + 2 * WINDOW, 5)]
    assert queue.size == 0


def test_one_write_sends_a_bounded_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalite.network.output_queue.TURN", 1000)
    queue = OutputQueue()
    for _ in range(10):
        queue.extend([FileRegion(9, 0, 500, None)])
    monkeypatch.setattr("kafkalite.network.output_queue.send_file", lambda _sock, _fd, _position, count: count)
    sizes = []
    while queue.write(FakeSocket()) is WriteResult.BLOCKED:
        sizes.append(queue.size)
    assert sizes == [4000, 3000, 2000, 1000]


def test_a_queue_forgets_everything() -> None:
    queue = OutputQueue()
    queue.extend([b"abc", FileRegion(9, 0, 10, None)])
    queue.clear()
    assert (queue.size, queue.memory) == (0, 0)
    assert queue.write(FakeSocket()) is WriteResult.ALL


@pytest.mark.parametrize(("size", "sends"), [(SMALL - 20, 1), (SMALL + 1, 3)])
def test_small_regions_leave_with_what_surrounds_them(tmp_path: Path, size: int, sends: int) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(range(256)) * 100)
    queue, sock = OutputQueue(), Taker()
    with path.open("rb") as file:
        queue.extend([b"head", FileRegion(file.fileno(), 3, size, file), b"tail"])
        assert queue.write(sock) is WriteResult.ALL
    assert b"".join(sock.taken) == b"head" + path.read_bytes()[3 : 3 + size] + b"tail"
    assert len(sock.taken) == sends
    assert queue.memory == queue.size == 0


def test_the_rest_of_a_region_that_is_copied_is_all_that_counts_as_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a connection whose large answers end so would one day count as unread, and be read no more."""
    path = tmp_path / "segment"
    path.write_bytes(bytes(range(256)) * 400)
    monkeypatch.setattr(
        "kafkalite.network.output_queue.send_file", lambda _sock, _fd, _position, count: count - SMALL // 2
    )
    with path.open("rb") as file:
        queue = OutputQueue()
        queue.extend([b"head", FileRegion(file.fileno(), 0, 100_000, file)])
        monkeypatch.setattr("kafkalite.network.output_queue.TURN", 50_000)
        sock = FakeSocket()
        assert queue.write(sock) is WriteResult.BLOCKED
        assert (queue.size, queue.memory) == (SMALL // 2, 0)
        queue.extend([b"tail"])
        assert queue.write(sock) is WriteResult.ALL
    assert sock.sent == b"head" + (bytes(range(256)) * 400)[100_000 - SMALL // 2 : 100_000] + b"tail"
    assert (queue.size, queue.memory) == (0, 0)


def test_a_region_that_cannot_be_read_is_left_to_sendfile() -> None:
    queue = OutputQueue()
    queue.extend([FileRegion(-1, 0, 10, None)])
    with pytest.raises(OSError):
        queue.write(Taker())


@pytest.mark.parametrize(
    ("size", "why"), [(10, "it ends 20 bytes before what is to be sent"), (100, "Input/output error")]
)
def test_a_file_that_fails_is_told_from_a_socket_that_does(
    size: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_file(_sock: object, fd: int, position: int, count: int) -> int:
        if size == 100:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return len(os.pread(fd, count, position))

    monkeypatch.setattr("kafkalite.network.output_queue.send_file", send_file)
    monkeypatch.setattr("kafkalite.network.output_queue.SMALL", 0)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(size))
    with path.open("rb") as file:
        queue = OutputQueue()
        queue.extend([FileRegion(file.fileno(), 5, 25, file)])
        with pytest.raises(RegionError, match=rf"{path} cannot be read at byte 5: .*{why}"):
            queue.write(Taker())


class Taker:
    """Takes everything at once."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def fileno(self) -> int:
        return -1

    def send(self, data: Buffer, _flags: int = 0) -> int:
        self.taken.append(bytes(data))
        return len(data)

    def sendmsg(self, buffers: list[Buffer], _: object = (), __: int = 0) -> int:
        return self.send(b"".join(buffers))

    def send_file(self, fd: int, position: int, count: int) -> int:
        return self.send(os.pread(fd, count, position))
