"""Seeded life of a log against a plain list: appends, cuts, rolls, crashes, clean restarts, reads everywhere."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkalite.log.log import Log
from kafkalite.log.log_config import LogConfig
from kafkalite.record.batch import iter_headers

from .fixtures import NOW, LogFixture, batch, read_all

Model = list[tuple[int, int, int]]
"""(base offset, last offset, sequence of the first record)."""


def check(log: Log, model: Model, start: int, rng: random.Random) -> None:
    end = model[-1][1] + 1 if model else start
    assert log.log_end_offset == end
    kept = [one for one in model if one[1] >= log.log_start_offset]
    headers = [header for _, header in iter_headers(read_all(log))]
    assert [(h.base_offset, h.last_offset, h.base_sequence) for h in headers] == kept
    for _ in range(10):
        offset = rng.randint(log.log_start_offset, end)
        upper = rng.randint(offset, end)
        info = log.read(offset, rng.choice([100, 1000, 1 << 20]), upper, True)
        chunk = info.records.read() if info.records else b""
        got = [(h.base_offset, h.last_offset) for _, h in iter_headers(chunk, allow_partial_tail=True)]
        assert all(last < upper for _, last in got)
        first = next((one for one in kept if one[1] >= offset), None)
        if first is not None and first[1] < upper:
            assert got and got[0] == first[:2]


@pytest.mark.parametrize("seed", range(12))
def test_life_of_a_log(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    fixture = LogFixture(str(tmp_path))
    fixture.config = LogConfig(
        segment_bytes=rng.choice([700, 3000]),
        index_interval_bytes=rng.choice([0, 200]),
        segment_index_bytes=rng.choice([64, 4096]),
        file_delete_delay_ms=0,
    )
    fixture.pool_limit = rng.choice([1, 3, 50])
    log = fixture.create()
    model: Model = []
    sequence = start = 0
    for _ in range(120):
        action = rng.choice(["append"] * 8 + ["cut", "crash", "clean", "flush", "start"])
        if action == "append":
            for _ in range(rng.randint(1, 8)):
                count, base = rng.randint(1, 5), log.log_end_offset
                data = batch(count, size=rng.randint(0, 100), timestamp=NOW + base, pid=3, sequence=sequence)
                log.append_as_leader(data, base // 50, NOW)
                model.append((base, base + count - 1, sequence))
                sequence += count
        elif action == "cut" and model:
            at = rng.randrange(len(model))
            if model[at][0] >= log.log_start_offset:
                log.truncate_to(model[at][0])
                start, sequence = model[at][0], model[at][2]
                del model[at:]
        elif action == "crash":
            log = fixture.load(clean=False, recovery_point=log.recovery_point, start=log.log_start_offset)
        elif action == "clean":
            log.close()
            log = fixture.load(clean=True, recovery_point=log.log_end_offset, start=log.log_start_offset)
        elif action == "flush":
            log.flush()
        elif action == "start" and model:
            log.update_high_watermark(log.log_end_offset)
            log.increment_log_start_offset(rng.choice(model)[0])
            log.delete_old_segments(NOW)
        check(log, model, start, rng)
        if log.producer_state.entries and model and model[-1][0] >= log.log_start_offset:
            assert log.producer_state.entries[3].last_sequence == sequence - 1
    log.close()
