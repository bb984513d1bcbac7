"""What a log says of its aborted transactions is held against its batches."""

from __future__ import annotations

from pathlib import Path

from kafkalite.testing.simulation.loaded_log import check_loaded_log
from tests.log.support import LogHouse, batch, fill, marker


def test_aborted_transactions_are_those_of_the_batches(tmp_path: Path) -> None:
    log = LogHouse(str(tmp_path)).create()
    fill(log, [batch(2, pid=5, sequence=0, transactional=True), batch(1, pid=6, sequence=0, transactional=True)])
    for pid, commit in ((5, False), (6, True)):
        log.append_as_leader(marker(pid, commit=commit), 0, 0, from_client=False)
    assert check_loaded_log(log) == []
    index = log.segments.active.txn_index
    assert index is not None
    index.reset()
    assert check_loaded_log(log) == [
        f"{log.dir}: aborted transactions (producer, first, last) are [], the batches say [(5, 0, 3)]"
    ]
