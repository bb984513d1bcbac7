"""Seeded bad input for a broker's listeners, with the allowed answers.

A burst is a sequence of frames on one connection: wrong requests that the broker answers, and then, mostly, a frame
that ends the connection. Every request has the set of errors that are right for it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.protocol.api_keys import SUPPORTED
from kafkalite.protocol.fetch import FetchPartition, FetchRequest, encode_fetch_request
from kafkalite.protocol.frames import request_header
from kafkalite.protocol.produce import ProduceRequest, encode_produce
from kafkalite.record.batch import CRC_POSITION, CRC_START, crc32c
from kafkalite.record.compression import compress
from kafkalite.record.records import Record, encode_batch, varint

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 2, 3, 18, 22
REQUEST_MAX = 104857600
MAX_BATCH = 4096
"""``max.message.bytes`` of the topics that get the bad input."""
INT32_MAX = (1 << 31) - 1

OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC, NOT_LEADER, MESSAGE_TOO_LARGE = 1, 2, 3, 6, 10
INVALID_TOPIC, INVALID_REQUIRED_ACKS, UNSUPPORTED_VERSION, INVALID_REQUEST = 17, 21, 35, 42
UNSUPPORTED_FORMAT, OUT_OF_ORDER, INVALID_EPOCH, TRANSACTIONAL_ID_DENIED = 43, 45, 47, 53
SESSION_NOT_FOUND, INVALID_SESSION_EPOCH, UNKNOWN_EPOCH, UNSUPPORTED_CODEC, INVALID_RECORD = 70, 71, 75, 76, 87


class Target(NamedTuple):
    """Partitions that the broker leads and follows; bad input that reaches a log reaches the logs of these."""

    plain: str
    compacted: str
    led: tuple[int, ...]
    followed: tuple[int, ...]
    led_compacted: tuple[int, ...]


class Piece(NamedTuple):
    """One frame. ``errors`` are the right answers; ``None``: any well-formed answer, or the end of the connection."""

    kind: str
    data: bytes
    api_key: int = -1
    version: int = -1
    correlation: int = -1
    errors: frozenset[int] | None = None
    closes: bool = False
    """Whether the broker must close the connection."""
    ends: bool = False
    """Whether the sender closes its side afterwards."""


class Frames:
    """Bursts by a seed. ``target`` belongs to the broker that gets them."""

    def __init__(self, seed: int, target: Target) -> None:
        self.rng = random.Random(seed)
        self.target = target
        self._number = 0

    def bursts(self, count: int) -> Iterator[list[Piece]]:
        """Bursts of ``count`` pieces in all."""
        rng = self.rng
        while count > 0:
            answered = min(rng.randrange(0, 24), count)
            burst = [rng.choice(ANSWERED)(self) for _ in range(answered)]
            if answered < count and (not burst or rng.random() < 0.8):
                burst.append(rng.choice(BREAKING)(self))
            count -= len(burst)
            yield burst

    def request(self, kind: str, api_key: int, version: int, body: bytes, *errors: int, fatal: bool = False) -> Piece:
        """A whole frame."""
        self._number = (self._number + 1) & INT32_MAX
        head = request_header(api_key, version, self._number, "frames")
        data = struct.pack(">i", len(head) + len(body)) + head + body
        known = frozenset(errors) if errors else None
        return Piece(kind, data, api_key, version, self._number, known, fatal, known is None and not fatal)

    def produce(
        self,
        kind: str,
        records: bytes,
        *errors: int,
        topic: str | None = None,
        partition: int | None = None,
        acks: int = 1,
        versions: tuple[int, int] = (3, 11),
    ) -> Piece:
        """A Produce request with ``records`` for one partition that the broker leads."""
        rng = self.rng
        version = rng.randint(*versions)
        name = self.target.plain if topic is None else topic
        where = TopicPartition(name, rng.choice(self.led(name)) if partition is None else partition)
        body = ProduceRequest(None, acks, 1000, [(where, memoryview(records))])
        return self.request(kind, PRODUCE, version, b"".join(encode_produce(version, body)), *errors)

    def led(self, topic: str) -> tuple[int, ...]:
        """Partitions of ``topic`` that the broker leads."""
        return self.target.led_compacted if topic == self.target.compacted else self.target.led

    def batch(self, codec: int = 0, size: int = 40, count: int | None = None) -> bytearray:
        """A good batch."""
        rng = self.rng
        values = [rng.randbytes(rng.randrange(size)) for _ in range(count or rng.randrange(1, 4))]
        records = [Record(number, 1_700_000_000_000, b"k", value, (), -1) for number, value in enumerate(values)]
        return bytearray(encode_batch(records, codec=codec))


def seal(batch: bytearray) -> bytes:
    """The batch with the right CRC for its bytes."""
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


# Requests that the broker answers.


def _wrong_crc(make: Frames) -> Piece:
    batch = make.batch(make.rng.randrange(5))
    batch[make.rng.randrange(CRC_START, len(batch))] ^= 1 << make.rng.randrange(8)
    # Three errors are right. In versions without zstd the broker checks the codec before the CRC, and a flipped bit can
    # name another codec. Another flipped bit makes the batch transactional, which is verified before the CRC, too.
    return make.produce("wrong crc", bytes(batch), CORRUPT_MESSAGE, UNSUPPORTED_CODEC, TRANSACTIONAL_ID_DENIED)


def _flipped(make: Frames) -> Piece:
    batch = make.batch(make.rng.randrange(5))
    place = make.rng.randrange(CRC_START)
    batch[place] ^= 1 << make.rng.randrange(8)
    if 12 <= place < 16:
        return make.produce("flipped leader epoch", bytes(batch), 0, UNSUPPORTED_CODEC)
    return make.produce(
        "flipped",
        bytes(batch),
        CORRUPT_MESSAGE,
        INVALID_RECORD,
        MESSAGE_TOO_LARGE,
        UNSUPPORTED_CODEC,
        UNSUPPORTED_FORMAT,
    )


def _cut(make: Frames) -> Piece:
    batch = make.batch()
    return make.produce("cut", bytes(batch[: make.rng.randrange(len(batch))]), CORRUPT_MESSAGE, INVALID_RECORD)


def _several(make: Frames) -> Piece:
    return make.produce("several batches", bytes(make.batch() + make.batch()), INVALID_RECORD)


def _length(make: Frames) -> Piece:
    batch = make.batch()
    struct.pack_into(">i", batch, 8, make.rng.choice((-(1 << 31), -1, 0, 5, 48, 1 << 20, 1 << 30, INT32_MAX)))
    return make.produce("lying batch length", bytes(batch), CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE)


def _count(make: Frames) -> Piece:
    batch = make.batch(make.rng.randrange(4))
    good = struct.unpack_from(">i", batch, 57)[0]
    struct.pack_into(">i", batch, 57, make.rng.choice((-1, 0, good + 1, 1 << 20, INT32_MAX, -(1 << 31))))
    return make.produce("lying record count", seal(batch), INVALID_RECORD)


def _delta(make: Frames) -> Piece:
    batch = make.batch(make.rng.randrange(4))
    good = struct.unpack_from(">i", batch, 23)[0]
    struct.pack_into(">i", batch, 23, make.rng.choice((-1, good + 1, INT32_MAX, -(1 << 31))))
    return make.produce("lying offset delta", seal(batch), INVALID_RECORD)


def _count_and_delta(make: Frames) -> Piece:
    batch = make.batch()
    lie = make.rng.choice((100, 1 << 16, INT32_MAX))
    struct.pack_into(">i", batch, 23, lie - 1)
    struct.pack_into(">i", batch, 57, lie)
    return make.produce("more records than bytes", seal(batch), INVALID_RECORD)


def _attributes(make: Frames) -> Piece:
    batch = make.batch()
    attributes = make.rng.choice((5, 6, 7, 0x20, 0x30))
    struct.pack_into(">h", batch, 21, attributes)
    return make.produce("attributes", seal(batch), UNSUPPORTED_CODEC, INVALID_RECORD, TRANSACTIONAL_ID_DENIED)


def _payload(make: Frames) -> Piece:
    # A broker that reads the records refuses bytes that the codec cannot decompress; some random bytes decompress.
    codec = make.rng.randrange(1, 5)
    batch = make.batch(codec, count=3)
    del batch[make.rng.randrange(61, len(batch) - 20) :]
    batch += make.rng.randbytes(make.rng.randrange(1, 40))
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    return make.produce(
        "corrupt payload",
        seal(batch),
        *(INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, 0),
        topic=make.target.compacted,
        versions=(7, 11),
    )


def _bomb(make: Frames) -> Piece:
    # A kilobyte that decompresses to megabytes of zeros.
    batch = make.batch(0, count=1)
    codec = make.rng.choice((1, 3, 4))
    batch[61:] = _bombs(codec)
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    return make.produce(
        "bomb",
        seal(batch),
        INVALID_RECORD,
        MESSAGE_TOO_LARGE,
        CORRUPT_MESSAGE,
        topic=make.target.compacted,
        versions=(7, 11),
    )


_BOMBS: dict[int, bytes] = {}


def _bombs(codec: int) -> bytes:
    if codec not in _BOMBS:
        _BOMBS[codec] = compress(codec, bytes(1 << 21))
    return _BOMBS[codec]


def _records(make: Frames) -> Piece:
    # A valid batch header with bad records: lengths of records and fields beyond the batch, varints without an end.
    batch = make.batch(count=2)
    rng = make.rng
    lie = rng.choice(
        (
            varint(1 << 20),
            varint(-1),
            varint(-(1 << 31)),
            b"\xff" * 12,
            b"\x80" * 5,
            varint(INT32_MAX),
            b"\xfe" * 4 + b"\x0f",
        )
    )
    place = rng.choice((61, 62, 63, 64, 65))
    batch[place : place + 1] = lie
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    compacted = rng.random() < 0.7
    topic = make.target.compacted if compacted else make.target.plain
    # 0 is right, too, because the broker does not read records that it need not read; readers find the defect.
    errors = (INVALID_RECORD, CORRUPT_MESSAGE, 0)
    return make.produce("lying records", seal(batch), *errors, topic=topic)


def _keyless(make: Frames) -> Piece:
    batch = encode_batch([Record(0, 1_700_000_000_000, None, b"v", (), -1)], codec=make.rng.randrange(4))
    return make.produce("no key", batch, INVALID_RECORD, topic=make.target.compacted)


def _large(make: Frames) -> Piece:
    return make.produce("too large", bytes(make.batch(size=2 * MAX_BATCH, count=8)), MESSAGE_TOO_LARGE, 0)


def _old_magic(make: Frames) -> Piece:
    batch = make.batch()
    batch[16] = make.rng.choice((0, 1, 3, 127, 255))
    return make.produce("magic", bytes(batch), INVALID_RECORD)


def _message_set(make: Frames) -> Piece:
    # Message formats 0 and 1 with a wrong CRC, a wrong size, or a nested message set with wrong lengths.
    rng = make.rng
    magic, codec = rng.randrange(2), rng.choice((0, 0, 1, 2, 3))
    value = rng.randbytes(rng.randrange(60))
    body = struct.pack(">bb", magic, codec) + (struct.pack(">q", 1_700_000_000_000) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", rng.choice((len(value), len(value) + 9, -2, INT32_MAX))) + value
    crc = rng.getrandbits(32)
    if rng.random() < 0.7:
        import zlib

        crc = zlib.crc32(body)
    message = struct.pack(">qi", 0, len(body) + 4) + struct.pack(">I", crc) + body
    return make.produce(
        "message set",
        message,
        *(0, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_REQUEST, UNSUPPORTED_CODEC, MESSAGE_TOO_LARGE),
        versions=(0, 2),
    )


def _sequence(make: Frames) -> Piece:
    rng = make.rng
    batch = make.batch()
    producer, epoch, sequence = rng.randrange(16), rng.randrange(-1, 3), rng.choice((-1, 0, 7, INT32_MAX))
    struct.pack_into(">qhi", batch, 43, producer, epoch, sequence)
    return make.produce("sequence", seal(batch), 0, OUT_OF_ORDER, INVALID_EPOCH, INVALID_RECORD, 46, 59)


def _follower(make: Frames) -> Piece:
    if not make.target.followed:
        return _wrong_crc(make)
    return make.produce(
        "to a follower", bytes(make.batch()), NOT_LEADER, partition=make.rng.choice(make.target.followed)
    )


def _unknown_partition(make: Frames) -> Piece:
    partition = make.rng.choice((-1, -(1 << 31), 99, INT32_MAX))
    return make.produce("unknown partition", bytes(make.batch()), UNKNOWN_TOPIC, partition=partition)


def _unknown_topic(make: Frames) -> Piece:
    name = make.rng.choice(("", ".", "..", "a/b", "x" * 300, "no-such-topic", "\0", "ü"))
    return make.produce("unknown topic", bytes(make.batch()), UNKNOWN_TOPIC, INVALID_TOPIC, topic=name)


def _acks(make: Frames) -> Piece:
    acks = make.rng.choice((2, -2, 100, 32767, -32768))
    return make.produce("acks", bytes(make.batch()), INVALID_REQUIRED_ACKS, acks=acks)


def _transaction(make: Frames) -> Piece:
    """A transactional batch in a request without a transactional id."""
    batch = make.batch()
    struct.pack_into(">h", batch, 21, 0x10)
    return make.produce("transaction", seal(batch), TRANSACTIONAL_ID_DENIED)


def _fetch(
    make: Frames,
    kind: str,
    *errors: int,
    topic: str | None = None,
    partition: int | None = None,
    offset: int = 0,
    epoch: int = -1,
    replica: int = -1,
    session: tuple[int, int] = (0, -1),
    versions: tuple[int, int] = (4, 12),
) -> Piece:
    rng = make.rng
    version = rng.randint(*versions)
    name = make.target.plain if topic is None else topic
    index = rng.choice(make.led(name)) if partition is None else partition
    asked = FetchPartition(name, ZERO_UUID, index, epoch, offset, max_bytes=2000)
    least, most = rng.choice((1, 0, -1)), rng.choice((1000, 0, -1, INT32_MAX))
    body = FetchRequest(replica, -1, 0, least, most, rng.randrange(2), *session, [asked], [])
    return make.request(kind, FETCH, version, bytes(encode_fetch_request(version, body)), *errors)


def _fetch_range(make: Frames) -> Piece:
    offset = make.rng.choice((-1, -(1 << 63), (1 << 63) - 1, 1 << 40))
    return _fetch(make, "fetch out of range", OFFSET_OUT_OF_RANGE, offset=offset)


def _fetch_unknown(make: Frames) -> Piece:
    if make.rng.random() < 0.5:
        return _fetch(make, "fetch of unknown topic", UNKNOWN_TOPIC, INVALID_TOPIC, topic="no-such-topic")
    return _fetch(make, "fetch of unknown partition", UNKNOWN_TOPIC, partition=make.rng.choice((-1, 77, INT32_MAX)))


def _fetch_epoch(make: Frames) -> Piece:
    return _fetch(make, "fetch with an unknown leader epoch", UNKNOWN_EPOCH, epoch=1 << 30, versions=(9, 12))


def _fetch_follower(make: Frames) -> Piece:
    if not make.target.followed:
        return _fetch_range(make)
    followed = make.rng.choice(make.target.followed)
    return _fetch(make, "fetch from a follower", NOT_LEADER, partition=followed, versions=(4, 10))


def _fetch_stranger(make: Frames) -> Piece:
    # A follower whose broker id is not in the replica list.
    return _fetch(make, "fetch of no replica", NOT_LEADER, UNKNOWN_EPOCH, 9, 3, replica=make.rng.choice((77, 1 << 30)))


def _fetch_session(make: Frames) -> Piece:
    session = (make.rng.randrange(1, INT32_MAX), make.rng.choice((1, 2, INT32_MAX, -5)))
    errors = (SESSION_NOT_FOUND, INVALID_SESSION_EPOCH)
    return _fetch(make, "fetch in no session", *errors, session=session, versions=(7, 12))


def _fetch_opens(make: Frames) -> Piece:
    return _fetch(
        make, "fetch opens a session", 0, OFFSET_OUT_OF_RANGE, UNSUPPORTED_CODEC, session=(0, 0), versions=(7, 12)
    )


def _fetch_stored_records(make: Frames) -> Piece:
    # Old versions make the broker convert the stored records, among them the malformed records of other pieces.
    topic = make.rng.choice((make.target.plain, make.target.compacted))
    return _fetch(
        make, "fetch", 0, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNSUPPORTED_CODEC, topic=topic, versions=(0, 12)
    )


def _list_offsets(make: Frames) -> Piece:
    rng = make.rng
    topic = rng.choice((make.target.plain, "no-such-topic"))
    partition = rng.choice((*make.target.led, *make.target.followed, -1, 99))
    when = rng.choice((-1, -2, -3, -9, 0, 1_600_000_000_000, (1 << 63) - 1, -(1 << 63)))
    entry = struct.pack(">iq", partition, when)
    version = rng.randrange(1, 4)
    body = struct.pack(">i", -1) + (b"\0" if version >= 2 else b"") + struct.pack(">ih", 1, len(topic)) + topic.encode()
    entries = entry * rng.randrange(1, 3)
    body += struct.pack(">i", len(entries) // 12) + entries
    return make.request("list offsets", LIST_OFFSETS, version, body, 0)


def _metadata(make: Frames) -> Piece:
    names = [make.rng.choice(("", "no", "a/b", "x" * 260, make.target.plain)) for _ in range(make.rng.randrange(4))]
    body = struct.pack(">i", len(names)) + b"".join(struct.pack(">h", len(name)) + name.encode() for name in names)
    version = make.rng.randrange(1, 4)
    return make.request("metadata", METADATA, version, body, 0)


def _api_versions(make: Frames) -> Piece:
    # ApiVersions is the only request with an answer to unknown versions.
    return make.request("api versions", API_VERSIONS, make.rng.choice((5, 99, 32767)), b"", UNSUPPORTED_VERSION)


# Frames that end the connection.


def _random_frame(make: Frames) -> Piece:
    body = make.rng.randbytes(make.rng.randrange(1, 200))
    return Piece("random frame", struct.pack(">i", len(body)) + body)


def _random_bytes(make: Frames) -> Piece:
    return Piece("random bytes", make.rng.randbytes(make.rng.randrange(1, 300)), ends=True)


def _absurd(make: Frames) -> Piece:
    size = make.rng.choice((-1, -(1 << 31), INT32_MAX, REQUEST_MAX + 1, 0x16030100, 0x47455420))
    return Piece("absurd length", struct.pack(">i", size) + make.rng.randbytes(20), closes=True)


def _short(make: Frames) -> Piece:
    size = make.rng.randrange(8)
    return Piece("no header", struct.pack(">i", size) + make.rng.randbytes(size), closes=True)


def _promised(make: Frames) -> Piece:
    # The frame's length says up to a hundred megabytes; the sender sends a few bytes and closes its side.
    size = make.rng.choice((1 << 17, 1 << 20, REQUEST_MAX))
    return Piece("promised", struct.pack(">i", size) + make.rng.randbytes(make.rng.randrange(3000)), ends=True)


def _truncated(make: Frames) -> Piece:
    whole = make.rng.choice(ANSWERED)(make).data
    return Piece("truncated", whole[: make.rng.randrange(1, len(whole))], ends=True)


def _unknown_key(make: Frames) -> Piece:
    key = make.rng.choice((-1, 52, 54, 62, 63, 93, 9999, 32767, -32768))
    return make.request("unknown key", key, make.rng.randrange(4), make.rng.randbytes(30), fatal=True)


def _unknown_version(make: Frames) -> Piece:
    key = make.rng.choice([int(key) for key in SUPPORTED if key != API_VERSIONS])
    version = make.rng.choice((-1, 30, 99, 32767, -32768))
    return make.request("unknown version", key, version, make.rng.randbytes(30), fatal=True)


def _random_body(make: Frames) -> Piece:
    key = make.rng.choice(list(SUPPORTED))
    version = make.rng.randint(SUPPORTED[key].min, SUPPORTED[key].max)
    return make.request("random body", int(key), version, make.rng.randbytes(make.rng.randrange(150)))


def _lying_arrays(make: Frames) -> Piece:
    # Arrays, compact arrays and strings with a length of two billion elements.
    key = make.rng.choice(list(SUPPORTED))
    version = make.rng.randint(SUPPORTED[key].min, SUPPORTED[key].max)
    lie = make.rng.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff" * 10, b"\x7f\xff", b"\x80" * 6))
    body = make.rng.randbytes(make.rng.randrange(3)) + lie * make.rng.randrange(1, 8)
    return make.request("lying arrays", int(key), version, body)


def _mutated(make: Frames) -> Piece:
    whole = bytearray(make.rng.choice(ANSWERED)(make).data)
    for _ in range(make.rng.randrange(1, 5)):
        whole[make.rng.randrange(4, len(whole))] = make.rng.choice((0, 1, 127, 128, 255))
    return Piece("mutated", bytes(whole), ends=True)


Maker = Callable[[Frames], Piece]
ANSWERED: tuple[Maker, ...] = (
    _wrong_crc,
    _flipped,
    _cut,
    _several,
    _length,
    _count,
    _delta,
    _count_and_delta,
    _attributes,
    _payload,
    _bomb,
    _records,
    _keyless,
    _large,
    _old_magic,
    _message_set,
    _sequence,
    _follower,
    _unknown_partition,
    _unknown_topic,
    _acks,
    _transaction,
    _fetch_range,
    _fetch_unknown,
    _fetch_epoch,
    _fetch_follower,
    _fetch_stranger,
    _fetch_session,
    _fetch_opens,
    _fetch_stored_records,
    _list_offsets,
    _metadata,
    _api_versions,
)
BREAKING: tuple[Maker, ...] = (
    _random_frame,
    _random_bytes,
    _absurd,
    _short,
    _promised,
    _truncated,
    _unknown_key,
    _unknown_version,
    _random_body,
    _lying_arrays,
    _mutated,
)
