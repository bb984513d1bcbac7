"""Sequences, epochs, duplicates, transactions, snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.log.log import Log
from kafkalite.log.producer_entry import BatchMetadata, ProducerEntry, decode_snapshot, encode_snapshot
from kafkalite.log.values import AbortedTxn
from kafkalite.record.batch import CorruptRecordError, iter_headers

from .fixtures import NOW, LogFixture, batch, marker

LAST = (1 << 31) - 1
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def _refusal(log: Log, records: memoryview) -> ErrorCode:
    """With which error the leader refuses ``records``."""
    end = log.log_end_offset
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(records, 0, NOW)
    assert log.log_end_offset == end
    return refused.value.code


@pytest.fixture
def fixture(tmp_path: Path) -> LogFixture:
    return LogFixture(str(tmp_path))


@pytest.mark.parametrize(
    ("before", "sent", "outcome"),
    [
        ([], (0, 0, 1), "taken"),
        ([], (0, 77, 1), "taken"),  # A producer of which nothing is known any more may go on.
        ([(0, 0, 2)], (0, 2, 1), "taken"),
        ([(0, 0, 2)], (0, 3, 1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([(0, 0, 2)], (0, 1, 1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([(0, 0, 2)], (0, 0, 2), "duplicate"),
        ([(0, 0, 2)], (1, 0, 1), "taken"),
        ([(0, 0, 2)], (1, 2, 1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([(3, 0, 2)], (2, 2, 1), ErrorCode.INVALID_PRODUCER_EPOCH),
        ([(0, LAST - 1, 2)], (0, 0, 1), "taken"),
        ([(0, LAST - 1, 4)], (0, 2, 1), "taken"),
        ([(0, LAST - 1, 4)], (0, LAST - 1, 4), "duplicate"),
        ([(0, n, 1) for n in range(5)], (0, 0, 1), "duplicate"),
        ([(0, n, 1) for n in range(6)], (0, 0, 1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_sequences(
    fixture: LogFixture, before: list[tuple[int, int, int]], sent: tuple[int, int, int], outcome: str | ErrorCode
) -> None:
    log = fixture.create()
    log.append_as_leader(batch(10), 0, NOW)
    offsets = {}
    for epoch, sequence, count in before:
        info = log.append_as_leader(batch(count, pid=5, epoch=epoch, sequence=sequence), 0, NOW)
        offsets[epoch, sequence, count] = (info.first_offset, info.last_offset)
    end = log.log_end_offset
    epoch, sequence, count = sent
    again = batch(count, pid=5, epoch=epoch, sequence=sequence)
    if isinstance(outcome, ErrorCode):
        with pytest.raises(ApiError) as refused:
            log.append_as_leader(again, 0, NOW)
        assert refused.value.code is outcome
        assert log.log_end_offset == end
        return
    info = log.append_as_leader(again, 0, NOW)
    if outcome == "duplicate":
        assert (info.first_offset, info.last_offset) == offsets[sent]
        assert log.log_end_offset == end
    else:
        assert (info.first_offset, log.log_end_offset) == (end, end + count)


def test_first_batch_that_was_refused_is_taken_before_the_second(fixture: LogFixture) -> None:
    """The second of two in flight would take its place, because of an unknown producer any sequence is taken."""
    log = fixture.create()
    log.note_refusal(batch(2, pid=5, sequence=0), NOT_LEADER)
    assert _refusal(log, batch(1, pid=5, sequence=2)) is NOT_LEADER
    assert log.append_as_leader(batch(1, pid=6, sequence=2), 0, NOW).first_offset == 0, "another producer"
    assert log.append_as_leader(batch(2, pid=5, sequence=0), 0, NOW).last_offset == 2
    assert log.append_as_leader(batch(1, pid=5, sequence=2), 0, NOW).first_offset == 3


def test_producer_that_gave_its_refused_batch_up_goes_on_in_its_next_epoch(fixture: LogFixture) -> None:
    log = fixture.create()
    log.note_refusal(batch(2, pid=5, sequence=0), NOT_LEADER)
    assert log.append_as_leader(batch(1, pid=5, epoch=1, sequence=0), 0, NOW).first_offset == 0


@pytest.mark.parametrize(
    ("refused", "behind"),
    [
        pytest.param([(0, 2)], (0, 3), id="the next batch"),
        pytest.param([(0, 2), (0, 3)], (0, 4), id="two batches"),
        pytest.param([(0, 2), (0, 3), (0, 2)], (0, 3), id="refused again"),
        pytest.param([(0, 1), (0, 2)], (0, 3), id="after one that was written"),
        pytest.param([(1, 0)], (1, 1), id="the first batch of the next epoch"),
    ],
)
def test_batch_behind_a_refused_one_is_refused_alike(
    fixture: LogFixture, refused: list[tuple[int, int]], behind: tuple[int, int]
) -> None:
    """OUT_OF_ORDER_SEQUENCE_NUMBER makes librdkafka begin an epoch: records of other partitions may come twice."""

    def sent(epoch: int, sequence: int) -> memoryview:
        return batch(1, pid=5, epoch=epoch, sequence=sequence)

    log = fixture.create()
    log.append_as_leader(batch(2, pid=5, sequence=0), 0, NOW)
    for each in refused:
        log.note_refusal(sent(*each), NOT_LEADER)
    assert _refusal(log, sent(*behind)) is NOT_LEADER
    epoch, end = behind
    for sequence in range(0 if epoch else 2, end + 1):
        log.append_as_leader(sent(epoch, sequence), 0, NOW)
    assert _refusal(log, sent(epoch, end + 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "nothing refused is missing"


def test_refusal_counts_across_the_wrap_of_sequences(fixture: LogFixture) -> None:
    log = fixture.create()
    log.append_as_follower(batch(1, pid=5, sequence=LAST - 1))
    log.note_refusal(batch(1, pid=5, sequence=LAST), NOT_LEADER)
    assert _refusal(log, batch(1, pid=5, sequence=0)) is NOT_LEADER
    log.append_as_leader(batch(1, pid=5, sequence=LAST), 0, NOW)
    assert log.append_as_leader(batch(1, pid=5, sequence=0), 0, NOW).first_offset == 2


def test_follower_remembers_a_refusal_while_it_copies_what_comes_before(fixture: LogFixture) -> None:
    """Until it has copied the batch itself, which another leader may have taken."""
    log = fixture.create()
    log.append_as_follower(batch(1, pid=5, sequence=0))
    log.note_refusal(batch(1, pid=5, sequence=2), NOT_LEADER)
    log.append_as_follower(batch(1, base=1, pid=5, sequence=1))
    assert _refusal(log, batch(1, pid=5, sequence=3)) is NOT_LEADER
    log.append_as_follower(batch(1, base=2, pid=5, sequence=2))
    assert _refusal(log, batch(1, pid=5, sequence=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append_as_leader(batch(1, pid=5, sequence=3), 0, NOW).first_offset == 3


def test_refusal_is_forgotten_with_its_producer(fixture: LogFixture) -> None:
    """The first batch of an epoch was refused and then taken; of an expired producer any sequence is taken."""
    log = fixture.create()
    log.append_as_leader(batch(1, pid=5, sequence=LAST), 0, NOW)
    log.note_refusal(batch(1, pid=5, sequence=0), NOT_LEADER)
    log.append_as_leader(batch(1, pid=5, sequence=0), 0, NOW)
    assert log.producer_state.expire(NOW + 1000, 1000) == 1
    assert log.append_as_leader(batch(1, pid=5, sequence=7), 0, NOW).first_offset == 2


def test_refusal_of_a_batch_that_never_comes_again_is_forgotten_with_its_producer(fixture: LogFixture) -> None:
    log = fixture.create()
    log.append_as_leader(batch(1, pid=5, sequence=0), 0, NOW)
    log.note_refusal(batch(1, pid=5, sequence=1), NOT_LEADER)
    assert log.producer_state.expire(NOW + 1000, 1000) == 1
    assert log.append_as_leader(batch(1, pid=5, sequence=7), 0, NOW).first_offset == 1


def test_refusal_ends_when_its_batch_is_written(fixture: LogFixture) -> None:
    """It does not begin again when a new leader, elected uncleanly, makes this broker cut the batch."""
    log = fixture.create()
    log.append_as_leader(batch(1, pid=5, sequence=0), 0, NOW)
    log.note_refusal(batch(1, pid=5, sequence=1), NOT_LEADER)
    log.append_as_leader(batch(1, pid=5, sequence=1), 0, NOW)
    log.truncate_to(1)
    assert _refusal(log, batch(1, pid=5, sequence=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_refusal_of_no_batch_of_a_producer_or_of_a_written_one_holds_nothing_back(fixture: LogFixture) -> None:
    log = fixture.create()
    log.note_refusal(memoryview(b"not a batch"), NOT_LEADER)
    log.note_refusal(batch(1), NOT_LEADER)
    log.append_as_leader(batch(1, pid=6, sequence=0), 0, NOW)
    log.note_refusal(batch(1, pid=6, sequence=0), NOT_LEADER)
    assert log.append_as_leader(batch(1, pid=6, sequence=1), 0, NOW).first_offset == 1


def test_refused_batch_of_an_unknown_producer_comes_before_its_later_ones(fixture: LogFixture) -> None:
    log = fixture.create()
    log.note_refusal(batch(1, pid=5, sequence=3), NOT_LEADER)
    assert _refusal(log, batch(1, pid=5, sequence=4)) is NOT_LEADER
    assert log.append_as_leader(batch(1, pid=5, sequence=3), 0, NOW).first_offset == 0
    assert log.append_as_leader(batch(1, pid=5, sequence=4), 0, NOW).first_offset == 1


def test_refused_batch_that_another_leader_took_holds_nothing_back(fixture: LogFixture) -> None:
    """Of a producer that has expired since, any sequence is taken."""
    log = fixture.create()
    log.note_refusal(batch(2, pid=5, sequence=0), NOT_LEADER)
    log.append_as_follower(batch(2, pid=5, sequence=0))
    assert log.producer_state.expire(NOW + 1000, 1000) == 1
    assert log.append_as_leader(batch(1, pid=5, sequence=2), 0, NOW).first_offset == 2


def test_refusal_is_forgotten_with_the_log(fixture: LogFixture) -> None:
    """The leader has deleted its first records: the refused batch may be among them."""
    log = fixture.create()
    log.append_as_follower(batch(1))
    log.note_refusal(batch(2, pid=5, sequence=0), NOT_LEADER)
    log.truncate_fully_and_start_at(7)
    assert log.append_as_leader(batch(1, pid=5, sequence=2), 0, NOW).first_offset == 7


def test_follower_takes_any_sequence(fixture: LogFixture) -> None:
    log = fixture.create()
    log.append_as_follower(batch(1, pid=5, sequence=7))
    log.append_as_follower(batch(1, base=1, pid=5, sequence=90))
    assert log.producer_state.entries[5].last_sequence == 90


# trap: kafkalite/log/producer_state.py: A truncation or a restart loses the sequence numbers of a producer.
def test_survives_restart_and_truncation(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(segment_bytes=400)
    log = fixture.create()
    for n in range(20):
        log.append_as_leader(batch(1, size=50, pid=5, sequence=n), 0, NOW)
    for clean in (False, True):
        if clean:
            log.close()
        log = fixture.load(clean=clean, recovery_point=20 if clean else 0)
        assert log.producer_state.entries[5].last_sequence == 19
        assert log.append_as_leader(batch(1, size=50, pid=5, sequence=19), 0, NOW).first_offset == 19
        assert log.log_end_offset == 20, "a batch that was appended before is not written again"
    log.truncate_to(11)
    assert log.producer_state.entries[5].last_sequence == 10
    assert log.append_as_leader(batch(1, pid=5, sequence=11), 0, NOW).first_offset == 11
    assert log.log_end_offset == 12
    log.truncate_to(0)
    assert not log.producer_state.entries
    assert fixture.names(".snapshot") == []


def test_wrong_snapshot_is_passed_over(fixture: LogFixture) -> None:
    log = fixture.create()
    for n in range(3):
        log.append_as_leader(batch(1, pid=5, sequence=n), 0, NOW)
    log.close()
    Path(fixture.path, f"{3:020d}.snapshot").write_bytes(b"nonsense")
    Path(fixture.path, f"{1:020d}.snapshot").write_bytes(encode_snapshot([]))
    log = fixture.load(clean=True, recovery_point=3)
    assert log.producer_state.entries[5].last_sequence == 2


def test_expiry(fixture: LogFixture) -> None:
    log = fixture.create()
    log.append_as_leader(batch(1, pid=5, sequence=0), 0, NOW)
    log.append_as_leader(batch(1, pid=6, sequence=0, transactional=True), 0, NOW)
    assert log.producer_state.expire(NOW + 999, 1000) == 0
    assert log.producer_state.expire(NOW + 1000, 1000) == 1
    assert list(log.producer_state.entries) == [6]


def test_transactions(fixture: LogFixture) -> None:
    log = fixture.create()
    send = log.append_as_leader
    send(batch(1), 0, NOW)
    send(batch(2, pid=1, sequence=0, transactional=True), 0, NOW)
    send(batch(2, pid=2, sequence=0, transactional=True), 0, NOW)
    log.update_high_watermark(5)
    assert log.last_stable_offset == 1
    last = max(entry.last_timestamp for entry in log.producer_state.entries.values())
    assert [log.producer_state.has_late_transaction(before) for before in (0, last + 1)] == [False, True]
    with pytest.raises(ApiError) as mixed:
        send(batch(1, pid=1, sequence=2), 0, NOW)
    assert mixed.value.code is ErrorCode.INVALID_TXN_STATE
    send(marker(1, commit=False), 0, NOW, from_client=False)
    assert log.last_stable_offset == 1
    log.update_high_watermark(6)
    assert log.last_stable_offset == 3
    send(marker(2, commit=True), 0, NOW, from_client=False)
    log.update_high_watermark(7)
    assert log.last_stable_offset == 7
    assert not log.producer_state.has_late_transaction(last + 1)
    aborted = [AbortedTxn(1, 1, 5, 3)]
    assert log.aborted_transactions(0, 7) == aborted
    assert log.aborted_transactions(6, 7) == []
    assert log.aborted_transactions(0, 1) == []
    assert Path(fixture.path, f"{0:020d}.txnindex").stat().st_size == 34
    send(batch(2, pid=1, sequence=2, transactional=True), 0, NOW)
    again = fixture.load()
    again.update_high_watermark(9)
    assert again.last_stable_offset == 7 and again.aborted_transactions(0, 7) == aborted


def test_marker_of_an_old_coordinator(fixture: LogFixture) -> None:
    log = fixture.create()
    log.append_as_leader(batch(1, pid=1, sequence=0, transactional=True), 0, NOW)
    log.append_as_leader(marker(1, commit=True, coordinator_epoch=4), 0, NOW, from_client=False)
    with pytest.raises(ApiError) as fenced:
        log.append_as_leader(marker(1, commit=True, coordinator_epoch=3), 0, NOW, from_client=False)
    assert fenced.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_snapshot_bytes() -> None:
    entry = ProducerEntry(0x0102, 3)
    entry.batches = [BatchMetadata(9, 100, 4, 1000)]
    entry.last_timestamp = 1000
    data = encode_snapshot([entry])
    assert data.hex() == (
        "0001"
        + data[2:6].hex()
        + "00000001"
        + "0000000000000102"
        + "0003"
        + "00000009"
        + "0000000000000064"
        + "00000004"
        + "00000000000003e8"
        + "ffffffff"
        + "ffffffffffffffff"
    )
    (back,) = decode_snapshot(data)
    assert back.batches == entry.batches and back.producer_epoch == 3 and back.current_txn_first_offset == -1
    for cut in range(len(data)):
        with pytest.raises(CorruptRecordError):
            decode_snapshot(data[:cut])


def test_a_reader_is_told_only_of_aborts_in_what_it_is_given(tmp_path: Path) -> None:
    log = LogFixture(str(tmp_path), segment_bytes=2000, index_interval_bytes=150).create()
    for number in range(40):
        log.append_as_leader(batch(1, pid=1, sequence=number, transactional=True), 0, NOW)
        log.append_as_leader(marker(1, commit=False), 0, NOW, from_client=False)
    end = log.log_end_offset
    log.update_high_watermark(end)
    assert len(log.segments) > 3 and len(log.aborted_transactions(0, end)) == 40
    offset, told = 0, 0
    while offset < end:
        read = log.read(offset, 500, end, True)
        assert read.records is not None
        reached = offset
        for _, header in iter_headers(read.records.read(), allow_partial_tail=True):
            reached = header.next_offset
        bound = log.end_of_read(read, end)
        assert reached <= bound <= reached + 12
        aborted = {txn.first_offset for txn in log.aborted_transactions(offset, bound)}
        # Of everything that the reader has been given it knows the fate, and of not much more.
        assert aborted >= {first for first in range(0, end, 2) if offset <= first < reached}
        told += len(aborted)
        offset = reached
    assert told < 40 * 4
    assert log.end_of_read(log.read(end, 500, end, True), end) == end
