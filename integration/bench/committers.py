"""The client that commits offsets: groups without members on plain sockets, with one outstanding request each.

Both sides get the same bytes. The requests are encoded once; only their offsets change.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from statistics import quantiles

from integration.bench.raw import CLIENT_ID, RawConnection
from integration.harness.wait import wait_for
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request
from kafkalite.protocol.frames import request_header

COMMIT_VERSION, ANY_BROKER_VERSION = 7, 0
WATCH_INTERVAL = 1.0
"""Seconds between two requests to each broker, which make it set its watches again."""
MARK = 0x5A5A5A5A00000000
WARM_SECONDS = 0.5


class Committer:
    """One group: the socket to its coordinator and its request."""

    def __init__(self, address: str, group: str, topic: str, partitions: list[int]) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kind = messages.OffsetCommitRequest.OffsetCommitRequestTopic
        asked = [
            kind.OffsetCommitRequestPartition(
                partition_index=p, committed_offset=MARK + p, committed_leader_epoch=-1, committed_metadata=""
            )
            for p in partitions
        ]
        request = messages.OffsetCommitRequest(
            version=COMMIT_VERSION,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[kind(name=topic, partitions=asked)],
        )
        body = encode_request(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, request)
        header = request_header(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, 1, CLIENT_ID)
        self._frame = bytearray(struct.pack(">i", len(header) + len(body)) + header + body)
        self._places = [self._frame.index(struct.pack(">q", MARK + p)) for p in partitions]
        self._offset = 0
        self._answer = bytearray()
        self.begun = 0.0

    @property
    def size(self) -> int:
        """Number of partitions in a request."""
        return len(self._places)

    def send(self) -> None:
        """Send the next commit, with every offset increased by one."""
        self._offset += 1
        for place in self._places:
            struct.pack_into(">q", self._frame, place, self._offset)
        self.begun = time.monotonic()
        self.socket.sendall(self._frame)

    def receive(self) -> bool:
        """Read from the socket; returns whether the answer is complete. Raises ``RuntimeError`` for an error in it."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise RuntimeError("the coordinator hung up")
        self._answer += data
        if len(self._answer) < 4 or len(self._answer) < 4 + struct.unpack_from(">i", self._answer)[0]:
            return False
        answer = decode_response(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, memoryview(bytes(self._answer[8:])))
        self._answer.clear()
        errors = {partition.error_code for topic in answer.topics for partition in topic.partitions}
        if errors != {0}:
            raise RuntimeError(f"a commit was answered with {errors}")
        return True


def coordinator(addresses: list[str], group: str) -> str:
    """Address of a group's coordinator."""
    request = messages.FindCoordinatorRequest(version=2, key=group, key_type=0)

    def found() -> str:
        host, _, port = addresses[0].rpartition(":")
        with RawConnection(host, int(port)) as connection:
            answer = connection.ask(ApiKey.FIND_COORDINATOR, 2, request)
        if answer.error_code:
            raise LookupError(f"{group} has no coordinator: error {answer.error_code}")
        return f"{answer.host}:{answer.port}"

    return wait_for(found, f"{group} has a coordinator", 60)


def coordinated(committer: Committer) -> bool:
    """Whether the coordinator has loaded the group, so that it accepts the first commit."""
    try:
        committer.send()
        while not committer.receive():
            pass
        return True
    except RuntimeError as error:
        raise LookupError(str(error)) from error


class Watchers:
    """Requests all offsets of all groups from every broker in a loop (OffsetFetch version 0)."""

    def __init__(self, addresses: list[str], topic: str, groups: dict[str, list[int]]) -> None:
        self.failure: BaseException | None = None
        self.looks = 0
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(address, topic, groups), daemon=True) for address in addresses
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all threads; raises the exception that ended one of them earlier."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self.failure is not None:
            raise self.failure

    def _guarded(self, address: str, topic: str, groups: dict[str, list[int]]) -> None:
        try:
            self._look(address, topic, groups)
        except BaseException as error:
            self.failure = error

    def _look(self, address: str, topic: str, groups: dict[str, list[int]]) -> None:
        wanted = messages.OffsetFetchRequest
        bodies = []
        for group, partitions in groups.items():
            topics = [wanted.OffsetFetchRequestTopic(name=topic, partition_indexes=partitions)]
            request = wanted(version=ANY_BROKER_VERSION, group_id=group, topics=topics)
            bodies.append(encode_request(ApiKey.OFFSET_FETCH, ANY_BROKER_VERSION, request))
        host, _, port = address.rpartition(":")
        with RawConnection(host, int(port)) as connection:
            while not self._stopping.is_set():
                for body in bodies:
                    connection.roundtrip(ApiKey.OFFSET_FETCH, ANY_BROKER_VERSION, body)
                    self.looks += 1
                self._stopping.wait(WATCH_INTERVAL)


def commits(
    addresses: list[str],
    topic: str,
    groups: list[str],
    size: int,
    partitions: int,
    seconds: float,
    wait_for_start: Callable[[], None],
    rate: float = 0.0,
    watched: bool = False,
) -> dict[str, float]:
    """Commit for ``seconds``: each group as fast as it is answered, or ``rate`` times a second.

    ``watched``: request all offsets from every broker meanwhile. Returns ``count``, the committed partitions, and
    ``p50`` and ``p99`` of the latency of a request in milliseconds.
    """
    whose = {group: [(number * size + i) % partitions for i in range(size)] for number, group in enumerate(groups)}
    committers = [Committer(coordinator(addresses, group), group, topic, mine) for group, mine in whose.items()]
    for committer in committers:
        wait_for(lambda committer=committer: coordinated(committer), "the group is coordinated", 60)  # type: ignore[misc]
    watchers = Watchers(addresses if watched else [], topic, whose)
    wanted = len(addresses) * len(groups) if watched else 0
    wait_for(lambda: watchers.failure or watchers.looks >= wanted, "every broker watches", 60)
    wait_for_start()
    pause = 1.0 / rate if rate else 0.0
    _drive(committers, WARM_SECONDS, pause)
    begun = time.monotonic()
    lags = _drive(committers, seconds, pause)
    elapsed = time.monotonic() - begun
    watchers.stop()
    steps = quantiles(lags, n=100, method="inclusive")
    return {"count": len(lags) * size, "seconds": elapsed, "p50": steps[49], "p99": steps[98]}


def _drive(committers: list[Committer], seconds: float, pause: float) -> list[float]:
    """Run every committer in a loop for ``seconds``, and until all have their answers; the milliseconds of each
    request."""
    lags: list[float] = []
    selector = selectors.DefaultSelector()
    for committer in committers:
        selector.register(committer.socket, selectors.EVENT_READ, committer)
        committer.send()
    end = time.monotonic() + seconds
    under_way = len(committers)
    while under_way:
        events = selector.select(30.0)
        if not events:
            raise RuntimeError("a commit was not answered within 30 s")
        for key, _ in events:
            committer = key.data
            if not committer.receive():
                continue
            now = time.monotonic()
            lags.append((now - committer.begun) * 1000)
            if now >= end:
                under_way -= 1
                continue
            if pause:
                time.sleep(max(0.0, committer.begun + pause - now))
            committer.send()
    selector.close()
    return lags
