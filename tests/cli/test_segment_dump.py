"""``dump-log`` against what Kafka's own tool printed of the same files, made mostly of bytes that Kafka wrote."""

from __future__ import annotations

import argparse
import struct
from pathlib import Path

import pytest

from kafkalite.cli import dump_log
from kafkalite.cli.main import UsageError
from kafkalite.cli.segment_dump import decode_string
from kafkalite.record.batch import crc32c, iter_headers
from kafkalite.record.legacy import encode_message_set
from kafkalite.record.records import Record, encode_batch

RECORDS = Path(__file__).parent.parent / "record" / "kafka_records.txt"
TIME = 1700000000000


def kafka_batches(magic: int) -> list[bytes]:
    """Kafka's batches of one magic: every codec, both timestamp types; of magic 2 a commit marker as well."""
    found = []
    for line in RECORDS.read_text().splitlines():
        fields = line.split()
        if fields[0] == str(magic) or (fields[0] == "control" and magic == 2):
            found.append(bytes.fromhex(fields[-1]))
    return found


def write(path: Path, data: bytes) -> None:
    """Write a file and the folder that it belongs into."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def build(root: Path) -> None:
    """All the files, in folders below ``root``."""
    for magic in range(3):
        write(root / f"magic{magic}/00000000000000000042.log", b"".join(kafka_batches(magic)))
    controls = [Record(0, TIME, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 5)) for kind in (0, 1, 2, 99, 98)]
    odd = [
        encode_batch([record], base_offset=number, is_control=True, is_transactional=True, producer_id=8)
        for number, record in enumerate(controls)
    ]
    odd.append(encode_batch([Record(5, TIME, b"\xff\xfe", "ü€\U0001f600".encode())], delete_horizon_ms=TIME - 9))
    odd.append(encode_batch([Record(9, TIME, None, b"a"), Record(12, TIME, b"", b"")], last_offset_delta=7))
    damaged = bytearray(encode_batch([Record(17, TIME, b"k", b"v")]))
    damaged[40] ^= 1
    odd += [
        bytes(damaged),
        encode_message_set([Record(18, TIME, b"k", b"v")], 1)[:-1] + b"w",
        b"torn tail of a segment",
    ]
    write(root / "odd/00000000000000000000.log", b"".join(odd))

    batches = [
        encode_batch([Record(100 + 3 * n + i, TIME + 10 * n + i, None, b"v") for i in range(3)]) for n in range(6)
    ]
    data = b"".join(batches)
    places = [(position, header.last_offset - 100) for position, header in iter_headers(data)]
    good = root / "good/00000000000000000100.log"
    write(good, data)
    zeros = bytes(24)
    write(good.with_suffix(".index"), b"".join(struct.pack(">ii", last, at) for at, last in places[1:]) + zeros)
    times = b"".join(struct.pack(">qi", TIME + 10 * n + 2, last) for n, (_, last) in enumerate(places))
    write(good.with_suffix(".timeindex"), times)
    bad = root / "bad/00000000000000000100.log"
    write(bad, data)
    write(bad.with_suffix(".index"), b"".join(struct.pack(">ii", last - 1, at) for at, last in places[1:]) + b"odd")
    wrong = [(TIME + 2, 2), (TIME + 3, 5), (TIME + 1, 8), (TIME + 32, 10), (TIME + 99, 99)]
    write(bad.with_suffix(".timeindex"), b"".join(struct.pack(">qi", *entry) for entry in wrong))
    write(bad.with_suffix(".txnindex"), struct.pack(">hqqqq", 0, 7, 101, 105, 106) * 2)
    empty = root / "empty/00000000000000000007.log"
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        write(empty.with_suffix(suffix), b"")
    write(root / "snapshot/00000000000000000110.snapshot", snapshot())
    write(root / "snapshot/00000000000000000111.snapshot", snapshot()[:-1] + b"\xff")


def snapshot() -> bytes:
    """A producer snapshot: one producer with a batch, one in a transaction, one with nothing but an epoch."""
    entry = struct.Struct(">qhiqiqiq")
    body = struct.pack(">i", 3)
    body += entry.pack(1000, 1, 4, 104, 4, TIME, -1, -1)
    body += entry.pack(1001, 0, 2, 109, 4, TIME + 1, 3, 105)
    body += entry.pack(1002, 5, -1, -1, 0, TIME + 2, 3, -1)
    return struct.pack(">hI", 1, crc32c(body)) + body


class Case:
    """One run of Kafka's tool."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.out: list[str] = []
        self.errors: list[str] = []
        self.code = -1


def cases() -> list[Case]:
    found: list[Case] = []
    for line in Path(__file__).with_name("segment_dump_expected.txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith("== "):
            found.append(Case(line[3:]))
        elif line.startswith("-- exit "):
            found[-1].code = int(line[8:])
        elif line.startswith("!! "):
            found[-1].errors.append(line[3:])
        elif found and found[-1].code < 0:
            found[-1].out.append(line)
    return found


CASES = cases()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dump")
    build(root)
    return root


def run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    dump_log.add_parser(parser.add_subparsers())
    return dump_log.run(parser.parse_args(["dump-log", *arguments]))


@pytest.mark.parametrize("case", CASES, ids=[case.title[-60:] for case in CASES])
def test_prints_what_kafka_prints(
    case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    files, *flags = case.title.split(" ")
    code = run(["--files", files, *flags])
    printed = capsys.readouterr()
    assert printed.out.split("\n")[:-1] == case.out
    assert code == case.code
    errors = printed.err.replace(str(folder), "DIR").split("\n")[:-1]
    if code:
        assert len(errors) == 1  # Kafka prints a stack trace
    elif "snapshot" in case.title:
        assert len(errors) == len(case.errors)  # in other words
    else:
        # Kafka's order of files is that of a hash map.
        assert sorted(errors) == sorted(case.errors)


def test_the_cases_are_all_there() -> None:
    assert len(CASES) > 20 and {case.code for case in CASES} == {0, 1}


def test_classic_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Lines of Kafka 2.0.1's tool for the same records.
    path = tmp_path / "00000000000000000000.log"
    marker = [Record(3, 1700000000005, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x09")]
    write(
        path,
        encode_batch([Record(0, 1700000000000, b"k", b"value", [("a", b""), ("b", None)]), Record(1, 5, b"k", None)])
        + encode_batch(marker, is_control=True, is_transactional=True, producer_id=7, producer_epoch=0)
        + kafka_batches(1)[0],
    )
    assert run(["--files", str(path), "--format", "classic", "--print-data-log"]) == 0
    printed = capsys.readouterr()
    common = "isTransactional: false headerKeys:"
    assert printed.out.split("\n") == [
        f"Dumping {path}",
        "Starting offset: 0",
        "offset: 0 position: 0 CreateTime: 1700000000000 isvalid: true keysize: 1 valuesize: 5 magic: 2 "
        f"compresscodec: NONE producerId: -1 producerEpoch: -1 sequence: -1 {common} [a,b] key: k payload: value",
        "offset: 1 position: 0 CreateTime: 5 isvalid: true keysize: 1 valuesize: -1 magic: 2 "
        f"compresscodec: NONE producerId: -1 producerEpoch: -1 sequence: -1 {common} []",
        "offset: 3 position: 93 CreateTime: 1700000000005 isvalid: true keysize: 4 valuesize: 6 magic: 2 "
        "compresscodec: NONE producerId: 7 producerEpoch: 0 sequence: -1 isTransactional: true headerKeys: [] "
        "endTxnMarker: COMMIT coordinatorEpoch: 9",
        "offset: 100 position: 171 CreateTime: 1700000000000 isvalid: true keysize: 2 valuesize: 23 magic: 1 "
        "compresscodec: NONE crc: 2765522575 key: k0 payload: hello hello hello hello",
        "offset: 101 position: 230 CreateTime: 1700000000500 isvalid: true keysize: -1 valuesize: 2 magic: 1 "
        "compresscodec: NONE crc: 3370801274 payload: v1",
        "offset: 103 position: 266 CreateTime: 1699999999000 isvalid: true keysize: 2 valuesize: -1 magic: 1 "
        "compresscodec: NONE crc: 3168194796",
        "",
    ]
    assert printed.err.split("\n")[1:3] == ["  101 is followed by 103", "  3 is followed by 100"]


@pytest.mark.parametrize(
    ("name", "key", "printed"),
    [
        ("org.apache.kafka.tools.api.LongDecoder", b"\0\0\0\0\0\0\0\x07", "key: 7"),
        ("kafka.serializer.IntegerDecoder", b"\xff\xff\xff\xff", "key: -1"),
        ("DefaultDecoder", b"\x01\x02", "key: 0102"),
    ],
)
def test_decoders(name: str, key: bytes, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "00000000000000000000.log"
    write(path, encode_batch([Record(0, 0, key, b"v")]))
    assert run(["--files", str(path), "--key-decoder-class", name]) == 0
    assert printed + " payload: v\n" in capsys.readouterr().out


def test_unknown_decoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="LongDecoder"):
        run(["--files", str(tmp_path / "0.log"), "--value-decoder-class", "NoSuchDecoder"])


def test_values_that_do_not_fit_a_decoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "00000000000000000000.log"
    write(path, encode_batch([Record(0, 0, b"short", b"v")]))
    assert run(["--files", str(path), "--key-decoder-class", "LongDecoder"]) == 1
    assert capsys.readouterr().err.startswith("kafkalite dump-log: ")


@pytest.mark.parametrize("name", ["missing/00000000000000000000.log", "words.log", "00000000000000000001.index"])
def test_files_that_cannot_be_read(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "words.log").write_bytes(b"")
    (tmp_path / "00000000000000000001.index").write_bytes(bytes(8))
    assert run(["--files", str(tmp_path / name)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"a\xffb", "a\ufffdb"), (b"\xed\xa0\x80", "\ufffd"), (b"\xed\xa0A", "\ufffdA"), (b"\xe2\x82", "\ufffd")],
)
def test_what_is_no_text(data: bytes, text: str) -> None:
    assert decode_string(data) == text
